// Package i18n says in the reader's language what the program says in English. The
// English text is the key: code reads as what people see, and a text that has no
// translation is shown as it is. A test at the root of the module finds those.
package i18n

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"golang.org/x/text/language"
)

// Language is one that the program speaks, by its BCP 47 tag.
type Language string

// The languages. The zero value is English.
const (
	English Language = "en"
	Chinese Language = "zh-CN"
)

var (
	spoken  = []Language{English, Chinese}
	matcher = language.NewMatcher([]language.Tag{language.English, language.SimplifiedChinese})
)

// longest is how much of a header is looked at; browsers send far less.
const longest = 200

// Accepted returns the language that serves an Accept-Language header best: English where
// it is empty, malformed or asks for none of them.
func Accepted(header string) Language { return cmp.Or(named(header), English) }

// named is Accepted where a header that asks for none of the languages has none.
func named(header string) Language {
	if header == "" || len(header) > longest {
		return ""
	}
	tags, _, err := language.ParseAcceptLanguage(header)
	if err != nil || len(tags) == 0 {
		return ""
	}
	_, i, sure := matcher.Match(tags...)
	if sure == language.No {
		return ""
	}
	return spoken[i]
}

// Key is the context's key of a function that returns the caller's Accept-Language header; the
// transport provides it.
type Key struct{}

// From returns the language of the caller on whose behalf ctx runs; English in a job.
func From(ctx context.Context) Language { return cmp.Or(Named(ctx), English) }

// Named is From where a caller who asks for none of the languages, and a job, have none.
func Named(ctx context.Context) Language {
	if header, ok := ctx.Value(Key{}).(func() string); ok {
		return named(header())
	}
	return ""
}

// Say returns an English text in the language. The text may have been made of a format:
// what stands in the places of its verbs stands in the translation, too.
func (l Language) Say(text string) string {
	if l != Chinese || text == "" {
		return text
	}
	if said, ok := chinese[text]; ok {
		return said
	}
	for _, p := range patterns() {
		if m := p.english.FindStringSubmatch(text); m != nil {
			args := make([]any, len(m)-1)
			for i, arg := range m[1:] {
				args[i] = arg
			}
			return fmt.Sprintf(p.said, args...)
		}
	}
	return text
}

// Sprintf is fmt.Sprintf with the format in the language.
func (l Language) Sprintf(format string, args ...any) string {
	return fmt.Sprintf(l.Say(format), args...)
}

// Has reports whether an English text, or a format, has its translation.
func (l Language) Has(text string) bool {
	_, ok := chinese[text]
	return ok || l != Chinese
}

// verb is what stands for an argument in a format.
var verb = regexp.MustCompile(`%[.0-9]*[dsvq]`)

// pattern finds a text that was made of a format.
type pattern struct {
	english *regexp.Regexp
	said    string // with %s for each argument, in the same order
}

var patterns = sync.OnceValue(func() (all []pattern) {
	formats := slices.Collect(maps.Keys(chinese))
	formats = slices.DeleteFunc(formats, func(f string) bool { return !verb.MatchString(f) })
	// What has more places comes first: one place of another could take in several.
	slices.SortFunc(formats, func(a, b string) int {
		return cmp.Or(strings.Count(b, "%")-strings.Count(a, "%"), strings.Compare(a, b))
	})
	for _, format := range formats {
		var re strings.Builder
		re.WriteString("(?s)^")
		last := 0
		for _, at := range verb.FindAllStringIndex(format, -1) {
			re.WriteString(regexp.QuoteMeta(format[last:at[0]]) + "(.+?)")
			last = at[1]
		}
		re.WriteString(regexp.QuoteMeta(format[last:]) + "$")
		all = append(all, pattern{regexp.MustCompile(re.String()), verb.ReplaceAllString(chinese[format], "%s")})
	}
	return all
})

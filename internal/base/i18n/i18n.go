// Package i18n translates the program's English texts. The English text is the key, so that code shows the text that
// people see. A text without a translation is shown in English; a test in the root of the module finds those.
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

// Language is a supported language, by its BCP 47 tag.
type Language string

// The languages. The zero value is English.
const (
	English Language = "en"
	Chinese Language = "zh-CN"
)

var (
	supported = []Language{English, Chinese}
	matcher   = language.NewMatcher([]language.Tag{language.English, language.SimplifiedChinese})
)

// maxHeader is the largest header that is parsed, in bytes; browsers send far less.
const maxHeader = 200

// Accepted returns the language that fits an Accept-Language header best. It returns English if the header is empty,
// malformed or contains no supported language.
func Accepted(header string) Language { return cmp.Or(named(header), English) }

// named is Accepted, but returns "" for a header without a supported language.
func named(header string) Language {
	if header == "" || len(header) > maxHeader {
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
	return supported[i]
}

// Key is the context key of a function that returns the caller's Accept-Language header; the transport provides it.
type Key struct{}

// From returns the language of the caller of ctx; English in a job.
func From(ctx context.Context) Language { return cmp.Or(Named(ctx), English) }

// Named is From, but returns "" for a caller without a supported language, and in a job.
func Named(ctx context.Context) Language {
	if header, ok := ctx.Value(Key{}).(func() string); ok {
		return named(header())
	}
	return ""
}

// Translate translates an English text. The text may be the result of a format; the translation has the same arguments.
func (l Language) Translate(text string) string {
	if l != Chinese || text == "" {
		return text
	}
	if translated, ok := chinese[text]; ok {
		return translated
	}
	for _, p := range patterns() {
		if m := p.english.FindStringSubmatch(text); m != nil {
			args := make([]any, len(m)-1)
			for i, arg := range m[1:] {
				args[i] = arg
			}
			return fmt.Sprintf(p.translated, args...)
		}
	}
	return text
}

// Sprintf is fmt.Sprintf with a translated format.
func (l Language) Sprintf(format string, args ...any) string {
	return fmt.Sprintf(l.Translate(format), args...)
}

// Has reports whether an English text or format has a translation.
func (l Language) Has(text string) bool {
	_, ok := chinese[text]
	return ok || l != Chinese
}

// verb matches an argument in a format.
var verb = regexp.MustCompile(`%[.0-9]*[dsvq]`)

// pattern matches texts that were made of a format.
type pattern struct {
	english    *regexp.Regexp
	translated string // with %s for each argument, in the same order
}

var patterns = sync.OnceValue(func() (all []pattern) {
	formats := slices.Collect(maps.Keys(chinese))
	formats = slices.DeleteFunc(formats, func(f string) bool { return !verb.MatchString(f) })
	// Formats with more arguments come first, because one argument of another format could match several.
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

package redistest

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

// KeysDeclared fails the test unless every key in db belongs to exactly one family of the schemas, has its type, and
// lives at most as long as declared. Call it at the end of a suite, to check the keys that the suite left.
func KeysDeclared(t testing.TB, db *redis.DB, schemas ...*keyspace.Schema) {
	t.Helper()
	type shape struct {
		*keyspace.Family
		re *regexp.Regexp
	}
	var shapes []shape
	for _, s := range schemas {
		for _, f := range s.Families() {
			if f.Type != "channel" {
				shapes = append(shapes, shape{f, regexp.MustCompile("^" + expression(f) + "$")})
			}
		}
	}
	prefix := db.Physical(keyspace.Key{})
	err := db.Scan(t.Context(), func(physical string) error {
		logical := strings.TrimPrefix(physical, prefix)
		var of []*keyspace.Family
		for _, s := range shapes {
			if s.re.MatchString(logical) {
				of = append(of, s.Family)
			}
		}
		if len(of) != 1 {
			t.Errorf("the key %s belongs to %d families, want 1", logical, len(of))
			return nil
		}
		typ, ttl, err := db.TypeAndTTL(t.Context(), physical)
		if err != nil || typ == "none" { // expired since
			return err
		}
		f := of[0]
		if typ != f.Type {
			t.Errorf("the key %s is a %s, but %s declares a %s", logical, typ, f.Pattern, f.Type)
		}
		longest := f.TTL.Longest()
		if f.TTL.Base == 0 && ttl != 0 {
			t.Errorf("the key %s expires in %s, but %s declares no expiry", logical, ttl, f.Pattern)
		} else if f.TTL.Base != 0 && (ttl == 0 || ttl > longest) {
			t.Errorf("the key %s lives %s (0: no expiry), but %s declares at most %s", logical, ttl, f.Pattern, longest)
		}
		return nil
	})
	if err != nil {
		t.Errorf("Scan: %v", err)
	}
}

// expression turns a pattern into a regular expression.
func expression(f *keyspace.Family) string {
	var b strings.Builder
	rest := f.Pattern
	for _, form := range f.Args {
		before, after, _ := strings.Cut(rest, "{")
		b.WriteString(regexp.QuoteMeta(before))
		arg := argument(form)
		if strings.HasPrefix(after, "{") {
			_, rest, _ = strings.Cut(after, "}}")
			arg = `\{` + arg + `\}`
		} else {
			_, rest, _ = strings.Cut(after, "}")
		}
		b.WriteString(arg)
	}
	return b.String() + regexp.QuoteMeta(rest)
}

func argument(f keyspace.Form) string {
	if len(f.Words) > 0 {
		words := make([]string, len(f.Words))
		for i, w := range f.Words {
			words[i] = regexp.QuoteMeta(w)
		}
		return "(?:" + strings.Join(words, "|") + ")"
	}
	class := map[keyspace.Alphabet]string{
		keyspace.AnyText: `[^:{}]`, keyspace.Digits: `[-0-9]`, keyspace.Hex: `[0-9a-f]`, keyspace.Base64URL: `[A-Za-z0-9_-]`,
	}[f.Alphabet]
	if f.Max == 0 {
		return fmt.Sprintf("%s{%d,}", class, max(f.Min, 1))
	}
	return fmt.Sprintf("%s{%d,%d}", class, max(f.Min, 1), f.Max)
}

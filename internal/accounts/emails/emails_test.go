package emails

import (
	"errors"
	"strings"
	"testing"
	"unicode"
)

func TestKey_EqualForSpellingsOfOneAccount(t *testing.T) {
	for _, in := range []string{"Ann@Example.org", " ann@example.org ", "ANN@EXAMPLE.ORG"} {
		e, err := Parse(in)
		if err != nil || e.Key != "ann@example.org" || e.Given != strings.TrimSpace(in) {
			t.Errorf("Parse(%q): got %+v, %v", in, e, err)
		}
	}
}

func TestKey_EqualForBothSpellingsOfADomain(t *testing.T) {
	for _, in := range []string{"Ann@müller.example", "ann@MÜLLER.example", "ann@xn--mller-kva.example", "ann@XN--MLLER-KVA.example",
		"ann@mu\u0308ller.example"} {
		e, err := Parse(in)
		if err != nil || e.Key != "ann@xn--mller-kva.example" || e.Given != in {
			t.Errorf("Parse(%q): got %+v, %v", in, e, err)
		}
	}
}

func TestParse_RefusesInvalidAddresses(t *testing.T) {
	for _, in := range []string{
		"", "ann", "ann@", "@example.org", "ann@example.org, bob@example.org", "Ann <ann@example.org>",
		"ann@exa\nmple.org", "ann\u202e@example.org", "ann@example.org\r\nBcc: all@example.org",
		strings.Repeat("a", 250) + "@example.org",
		"root@localhost", "ann@mail", "ann@[192.0.2.1]", "ann@[IPv6:2001:db8::1]", "ann@192.0.2.1", "ann@example.org.", "ann@printer.local",
		"ann@host.INTERNAL", "ann@printer.\uff4cocal", "ann@example\u3002.org",
	} {
		if e, err := Parse(in); !errors.Is(err, ErrInvalid) {
			t.Errorf("Parse(%q): got %+v, %v, want ErrInvalid", in, e, err)
		}
	}
}

func TestKey_DiffersForSimilarLetters(t *testing.T) {
	// Unicode's lower case of the first three is mike@…, mike@… and link@….
	for _, in := range []string{"mi\u212ae@example.org", "m\u0130ke@example.org", "lin\u212a@example.org", "Änn@example.org"} {
		e, err := Parse(in)
		if err != nil || e.Key != in {
			t.Errorf("Parse(%q): got %+v, %v, want it to stay as it is", in, e, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"Ann@example.org", " ann@example.org", "mi\u212ae@example.org", "m\u0130ke@example.org", `"a b"@example.org`,
		"ann@[192.0.2.1]",
		"Ann <ann@example.org>", "ann@example.org\r\nBcc: all@example.org", "ann@müller.example", "ann@xn--mller-kva.example", "a@b", "@",
		"\xff@b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e, err := Parse(s)
		if err != nil {
			return
		}
		local := strings.LastIndexByte(e.Given, '@') + 1
		if e.Given != strings.TrimSpace(s) || Lower(e.Given[:local]) != e.Key[:local] || len(e.Given) > 254 || len(e.Key) > 254 {
			t.Errorf("%q was read as %+v", s, e)
		}
		if strings.ContainsFunc(e.Given, func(r rune) bool { return !unicode.IsPrint(r) }) || strings.ContainsAny(e.Given, "\r\n<>") {
			t.Errorf("%q would be more than one address in a mail", e.Given)
		}
		// The stored address is parsed again when a code is mailed, and must not name another account then.
		for _, again := range []string{e.Given, e.Key} {
			if a, err := Parse(again); err != nil || a.Key != e.Key {
				t.Errorf("%q was read as %+v, and %q of it as %+v, %v", s, e, again, a, err)
			}
		}
	})
}

package audit

import (
	"path"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestShape_FoldsVariableParts(t *testing.T) {
	for key, want := range map[string]string{
		"wishlist:42":              "wishlist:{n}",
		"cart:{V1StGXR8_Z5j}:2026": "cart:{{id}}:{n}",
		"cart:{ann}":               "cart:{ann}",
		"session:6ba7b810-9dad-11d1-80b4-00c04fd430c8": "session:{id}",
		"day:2026-11-22":                  "day:{n}-{n}-{n}",
		"ip:10.0.0.1":                     "ip:{n}.{n}.{n}.{n}",
		"report_2026:q3":                  "report_{n}:q{n}",
		"mail:ann@example.com":            "mail:{text}",
		"name:J%c3%b6rg":                  "name:{text}",
		"page:<b>":                        "page:{text}",
		"some_longer_word:of_the_program": "some_longer_word:of_the_program",
		"":                                "",
		":":                               ":",
		"a:{}":                            "a:{text}",
		"blob:" + strings.Repeat("f", 41): "blob:{text}",
		strings.Repeat("a:", 80):          strings.Repeat("a:", 60) + "…",
	} {
		if got := string(appendShape(nil, key)); got != want {
			t.Errorf("the shape of %q: got %q, want %q", key, got, want)
		}
	}
}

func TestShape_NumberIsBounded(t *testing.T) {
	opt := Options{}
	if err := opt.settle(); err != nil {
		t.Fatal(err)
	}
	tally := newTally(modeNames, "stoa", nil, &opt)
	tally.addOwner("here")
	letters := "abcdefghijklmnopqrstuvwxyz"
	const n = 26 * 26 * 26
	for i := range n { // first levels of three letters, followed by two levels
		key := "stoa:" + string([]byte{letters[i/676], letters[i/26%26], letters[i%26]}) + ":" + string(letters[i%26]) + ":x"
		if _, err := tally.countName(key, 0); err != nil {
			t.Fatal(err)
		}
	}
	r := tally.report(Ping{})
	sum := int64(0)
	for _, g := range r.Unknown {
		sum += g.Keys
	}
	if len(r.Unknown) > 2*maxShapes+1 || sum != n || r.Faults != n {
		t.Errorf("%d shapes of %d keys with %d faults, want at most %d of %d", len(r.Unknown), sum, r.Faults, 2*maxShapes+1, n)
	}
}

func TestMatch_LikeGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{
		{"*", "", true}, {"", "", true}, {"?", "", false}, {"a*", "ab:c", true}, {"*:c", "ab:c:c", true},
		{"*a*b", "xxaxxbxb", true}, {"*a*b", "xxbxa", false}, {"a[b]", "a[b]", true}, {"a[b]", "ab", false}, {"a**", "a", true},
	} {
		if got := match(c.pattern, c.s); got != c.want {
			t.Errorf("match(%q, %q): got %t, want %t", c.pattern, c.s, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) { // on patterns that both support, they agree
		pattern := rapid.StringMatching(`[ab*?]{0,8}`).Draw(t, "pattern")
		s := rapid.StringMatching(`[ab]{0,12}`).Draw(t, "s")
		want, err := path.Match(pattern, s)
		if got := match(pattern, s); err != nil || got != want {
			t.Fatalf("match(%q, %q): got %t, want %t (%v)", pattern, s, got, want, err)
		}
	})
}

func TestPacer_SlowsDownAndRecovers(t *testing.T) {
	p := newPacer(&Options{MaxPing: 2 * time.Millisecond})
	for range 20 {
		p.recordPing(3 * time.Millisecond)
	}
	if p.pause != maxPause {
		t.Errorf("after late answers: a pause of %s, want %s", p.pause, maxPause)
	}
	for range 10 {
		p.recordPing(time.Millisecond)
	}
	if p.pause != 0 {
		t.Errorf("after answers in time: a pause of %s, want none", p.pause)
	}
	if r := p.report(); r.Count != 30 || r.P50 != 3000 || r.Max != 3000 {
		t.Errorf("got %+v", r)
	}
}

func TestPrintable_EscapesControlCharacters(t *testing.T) {
	for key, want := range map[string]string{
		"stoa:a": "stoa:a", "a\x1b[2Jb": `a\x1b[2Jb`, "ü": `\u00fc`, "a\xff": `a\xff`,
		strings.Repeat("k", 201): strings.Repeat("k", 200) + "…",
	} {
		if got := printable(key); got != want {
			t.Errorf("printable(%q): got %q, want %q", key, got, want)
		}
	}
}

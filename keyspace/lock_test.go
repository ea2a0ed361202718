package keyspace

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestALockIsReadBackAsItWasWritten(t *testing.T) {
	one, two := sample()
	want := NewLock(one, two, origin)
	got, err := ParseLock(want.String())
	for i := range want.Families { // a family without arguments has none, not an empty list
		want.Families[i].Args = slices.Clip(append([]Argument(nil), want.Families[i].Args...))
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\ngot  %+v\nwant %+v", err, got, want)
	}
	if changes := want.Diff(got); len(changes) > 0 {
		t.Errorf("differs from itself: %v", changes)
	}
	const block = "\nuser:sign:{{uid}}:{year}\n\ttype     string\n\tform     bytes\n\t{uid}    base64url, 12 bytes\n" +
		"\t{year}   digits, 1 to 20 bytes\n\tlife     1 h\n\towner    origin\n\tversion  1\n"
	if !strings.Contains(want.String(), block) {
		t.Errorf("got\n%s\nwhich lacks\n%s", want, block)
	}
	if again := NewLock(origin, two, one).String(); again != want.String() {
		t.Error("the order of schemas shows in the lock")
	}
}

func TestABrokenLockFileNamesItsLine(t *testing.T) {
	for text, want := range map[string]string{
		"\ttype string\n":                     "line 1 ",
		"# x\nuser:x\n\ttype string\n\tx y\n": `line 4 of the lock file: there is no field "x"`,
		"user:x\n\tversion one\n":             "line 2 ",
		"user:x\n\ttype\n":                    "line 2 ",
		"user:{a}\n\t{a one\n":                `there is no field "{a"`,
	} {
		if _, err := ParseLock(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

func TestDiffTellsWhatChangedAndWhatMustNot(t *testing.T) {
	type decl struct {
		pattern string
		kind    Kind[Bytes]
		ttl     TTL
		doc     Doc
		args    []Form
	}
	number, word := Form{Alphabet: Digits, Min: 1, Max: 8}, Form{Words: []string{"a", "b"}}
	text := BytesOf("text")
	hour := Expire(time.Hour)
	base := decl{"user:x:{n}", text, hour, Doc{}, []Form{number}}
	with := func(change func(*decl)) []decl { d := base; change(&d); return []decl{d} }
	for _, c := range []struct {
		name    string
		was, is []decl
		want    []string // kind and pattern, with "!" when it must not be
	}{
		{"nothing", []decl{base}, []decl{base}, nil},
		{"added", nil, []decl{base}, []string{"added user:x:{n}"}},
		{"removed", []decl{base}, nil, []string{"removed user:x:{n}"}},
		{"values written otherwise", []decl{base}, with(func(d *decl) { d.kind = BytesOf("numbers") }), []string{"layout! user:x:{n}"}},
		{"the same with a version", []decl{base}, with(func(d *decl) { d.kind, d.doc.Version = BytesOf("numbers"), 2 }), []string{"layout user:x:{n}"}},
		{"version 1 is what 0 is", []decl{base}, with(func(d *decl) { d.kind, d.doc.Version = BytesOf("numbers"), 1 }), []string{"layout! user:x:{n}"}},
		{"another type", []decl{base}, with(func(d *decl) { d.kind.typ = "hash" }), []string{"layout! user:x:{n}"}},
		{"another argument", []decl{base}, with(func(d *decl) { d.args = []Form{word} }), []string{"layout! user:x:{n}"}},
		{"a shorter argument", []decl{base}, with(func(d *decl) { d.args = []Form{{Alphabet: Digits, Min: 1, Max: 7}} }), []string{"layout! user:x:{n}"}},
		{"a longer argument", []decl{base}, with(func(d *decl) { d.args = []Form{{Alphabet: Digits, Min: 1}} }), []string{"widened user:x:{n}"}},
		{"a word more", with(func(d *decl) { d.args = []Form{word} }), with(func(d *decl) { d.args = []Form{{Words: []string{"b", "a", "c"}}} }), []string{"widened user:x:{n}"}},
		{"a word less", with(func(d *decl) { d.args = []Form{word} }), with(func(d *decl) { d.args = []Form{{Words: []string{"a", "c"}}} }), []string{"layout! user:x:{n}"}},
		{"a hash tag", []decl{base}, with(func(d *decl) { d.pattern = "user:x:{{n}}" }), []string{"layout! user:x:{{n}}"}},
		{"an argument moved", []decl{base}, with(func(d *decl) { d.pattern = "user:{n}:x" }), []string{"layout! user:{n}:x"}},
		{"one argument more", []decl{base}, with(func(d *decl) { d.pattern, d.args = "user:x:{n}:{w}", []Form{number, word} }), []string{"layout! user:x:{n}:{w}"}},
		{"the same with a version", []decl{base}, with(func(d *decl) { d.pattern, d.args, d.doc.Version = "user:x:{n}:{w}", []Form{number, word}, 2 }), []string{"layout user:x:{n}:{w}"}},
		{"a new word", []decl{base}, with(func(d *decl) { d.pattern, d.kind = "user:x2:{n}", BytesOf("numbers") }), []string{"added user:x2:{n}", "removed user:x:{n}"}},
		{"a placeholder's name", []decl{base}, with(func(d *decl) { d.pattern = "user:x:{number}" }), []string{"renamed user:x:{number}"}},
		{"life", []decl{base}, with(func(d *decl) { d.ttl = Expire(2 * time.Hour) }), []string{"life user:x:{n}"}},
		{"a reason", with(func(d *decl) { d.ttl = Forever("one") }), with(func(d *decl) { d.ttl = Forever("two") }), nil},
		{"owner", []decl{base}, with(func(d *decl) { d.doc.Owner = "somebody" }), []string{"owner user:x:{n}"}},
		{"version alone", []decl{base}, with(func(d *decl) { d.doc.Version = 3 }), []string{"version user:x:{n}"}},
		{"version lowered", with(func(d *decl) { d.doc.Version = 3 }), with(func(d *decl) { d.doc.Version = 2 }), []string{"version! user:x:{n}"}},
		{"version lowered beside another change", with(func(d *decl) { d.doc.Version = 3 }), with(func(d *decl) { d.ttl = Forever("x") }), []string{"life! user:x:{n}"}},
		{"purpose and size", []decl{base}, with(func(d *decl) { d.doc.Purpose, d.doc.MaxBytes = "another", 9 }), nil},
		{"a key and a channel of one name", []decl{base}, with(func(d *decl) { d.kind.typ = "channel"; d.ttl = channelTTL }), []string{"removed user:x:{n}", "added user:x:{n}"}},
	} {
		locks := [2]Lock{}
		for i, decls := range [][]decl{c.was, c.is} {
			s := New("test")
			for _, d := range decls {
				s.add(literal(d.pattern), d.kind.typ, d.kind.form, d.ttl, d.doc, d.args...)
			}
			locks[i] = NewLock(s)
		}
		var got []string
		for _, change := range locks[0].Diff(locks[1]) {
			mark := " "
			if change.Fault != "" {
				mark = "! "
			}
			got = append(got, string(change.Kind)+mark+change.Pattern)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestARemovedFamilyThatLivesForEverSaysSo(t *testing.T) {
	s := New("test")
	Def0(s, "user:all", BytesOf("x"), Forever("truth"), Doc{})
	got := NewLock(s).Diff(Lock{})
	if len(got) != 1 || !strings.Contains(got[0].String(), "live for ever") || len(Faults(got)) != 0 {
		t.Errorf("got %v", got)
	}
}

// The lock has forms as text alone; their order must survive that.
func TestFormsAreReadBackFromTheirText(t *testing.T) {
	forms := rapid.Custom(func(t *rapid.T) Form {
		if rapid.Bool().Draw(t, "words") {
			return Form{Words: rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z0-9_]{1,4}`), 1, 4, rapid.ID[string]).Draw(t, "words")}
		}
		f := Form{Alphabet: rapid.SampledFrom([]Alphabet{AnyText, Digits, Hex, Base64URL}).Draw(t, "alphabet"), Min: rapid.IntRange(1, 9).Draw(t, "min")}
		if rapid.Bool().Draw(t, "bounded") {
			f.Max = f.Min + rapid.IntRange(0, 9).Draw(t, "more")
		}
		return f
	})
	rapid.Check(t, func(t *rapid.T) {
		f := forms.Draw(t, "form")
		got, ok := parseForm(f.String())
		if got.Words == nil {
			got.Min = max(got.Min, 1)
		}
		if !ok || !reflect.DeepEqual(got, f) {
			t.Fatalf("%q read as %+v, want %+v", f, got, f)
		}
		g := forms.Draw(t, "another")
		if wider(f.String(), g.String()) {
			if s := ofForm(f).Draw(t, "text"); !g.Match(s) {
				t.Fatalf("%q is called wider than %q and lacks %q", g, f, s)
			}
		}
	})
}

package keyspace

import (
	"errors"
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
		"user:x\n\ttype string\nend\n":        "line 1 of the lock file: user:x lacks a line",
		"user:{a}\n\ttype string\n\tform x\n\tlife none\n\towner a\n\tversion 1\nend\n": "more placeholders",
		"end\nuser:x\n":        "line 2 of the lock file: there is something after the end",
		"user:{a}\n\t{a one\n": `there is no field "{a"`,
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
		{"another type with a version", []decl{base}, with(func(d *decl) { d.kind.typ, d.doc.Version = "hash", 2 }), []string{"layout! user:x:{n}"}},
		{"another type with a version and a migration", []decl{base},
			with(func(d *decl) { d.kind.typ, d.doc = "hash", Doc{Version: 2, Migration: "the move x"} }), []string{"layout user:x:{n}"}},
		{"another type with a migration and no version", []decl{base},
			with(func(d *decl) { d.kind.typ, d.doc = "hash", Doc{Migration: "the move x"} }), []string{"layout! user:x:{n}"}},
		{"another type with the migration of the change before", with(func(d *decl) { d.doc.Migration = "the move x" }),
			with(func(d *decl) { d.kind.typ, d.doc = "hash", Doc{Version: 2, Migration: "the move x"} }), []string{"layout! user:x:{n}"}},
		{"a migration alone", []decl{base}, with(func(d *decl) { d.doc.Migration = "the move x" }), []string{"migration user:x:{n}"}},
		{"an argument of what lives for ever moved, with a version", with(func(d *decl) { d.ttl = Forever("truth") }),
			with(func(d *decl) { d.pattern, d.ttl, d.doc.Version = "user:{n}:x", Forever("truth"), 2 }), []string{"layout! user:{n}:x"}},
		{"values of what lives for ever written otherwise, with a version", with(func(d *decl) { d.ttl = Forever("truth") }),
			with(func(d *decl) { d.kind, d.ttl, d.doc.Version = BytesOf("numbers"), Forever("truth"), 2 }), []string{"layout user:x:{n}"}},
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
		{"a longer life", []decl{base}, with(func(d *decl) { d.ttl = Expire(2 * time.Hour) }), []string{"life user:x:{n}"}},
		{"a life no longer", []decl{base}, with(func(d *decl) { d.ttl = Forever("x") }), []string{"life user:x:{n}"}},
		{"a shorter life", []decl{base}, with(func(d *decl) { d.ttl = Expire(50 * time.Minute) }), []string{"life! user:x:{n}"}},
		{"a shorter life with a migration", []decl{base}, with(func(d *decl) { d.ttl, d.doc.Migration = Expire(time.Minute), "they end within the hour" }), []string{"life user:x:{n}"}},
		{"a shorter jitter", with(func(d *decl) { d.ttl = hour.Jitter(5 * time.Minute) }), with(func(d *decl) { d.ttl = hour.Jitter(time.Minute) }), []string{"life! user:x:{n}"}},
		{"a shorter life of stale values", with(func(d *decl) { d.ttl = hour.StaleIfError(5 * time.Minute) }), []decl{base}, []string{"life! user:x:{n}"}},
		{"a shorter life of empty values", with(func(d *decl) { d.ttl = hour.Negative(5 * time.Minute) }), []decl{base}, []string{"life user:x:{n}"}},
		{"a first life", with(func(d *decl) { d.ttl = Forever("x") }), []decl{base}, []string{"life! user:x:{n}"}},
		{"a first life with a version", with(func(d *decl) { d.ttl = Forever("x") }), with(func(d *decl) { d.doc.Version = 2 }), []string{"life! user:x:{n}"}},
		{"removed, and lived for ever", with(func(d *decl) { d.ttl = Forever("truth") }), nil, []string{"removed! user:x:{n}"}},
		{"renamed, and lived for ever", with(func(d *decl) { d.ttl = Forever("truth") }),
			with(func(d *decl) { d.pattern, d.ttl = "user:y:{n}", Forever("truth") }), []string{"removed! user:x:{n}", "added user:y:{n}"}},
		{"a new pattern with keys of a removed one", []decl{base}, with(func(d *decl) { d.pattern, d.args = "user:{a}:{b}", []Form{{Max: 9}, number} }),
			[]string{"removed user:x:{n}", "added user:{a}:{b}", "overlaps! user:{a}:{b}"}},
		{"the same with a migration", []decl{base},
			with(func(d *decl) {
				d.pattern, d.args, d.doc.Migration = "user:{a}:{b}", []Form{{Max: 9}, number}, "read as before"
			}),
			[]string{"removed user:x:{n}", "added user:{a}:{b}"}},
		{"a new pattern beside a removed one", []decl{base}, with(func(d *decl) { d.pattern, d.args = "user:{a}:{b}", []Form{word, number} }),
			[]string{"removed user:x:{n}", "added user:{a}:{b}"}},
		{"a wider argument that takes in a removed one", []decl{{"user:y:abc", text, hour, Doc{}, nil}, {"user:y:{n}", text, hour, Doc{}, []Form{word}}},
			[]decl{{"user:y:{n}", text, hour, Doc{}, []Form{{Words: []string{"a", "b", "abc"}}}}},
			[]string{"removed user:y:abc", "widened user:y:{n}", "overlaps! user:y:{n}"}},
		{"a new pattern with keys of one that moved its argument", []decl{base},
			[]decl{{"user:{n}:x", text, hour, Doc{Version: 2}, []Form{number}}, {"user:{a}:{b}", text, hour, Doc{}, []Form{{Max: 9}, number}}},
			[]string{"added user:{a}:{b}", "overlaps! user:{a}:{b}", "layout user:{n}:x"}},
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

func TestWhatLivesForEverIsRemovedByRetiringIt(t *testing.T) {
	one := New("test")
	Def1[id](one, "user:all:{uid}", BytesOf("x"), Forever("truth"), Doc{Purpose: "a test's"})
	was := NewLock(one)
	if got := was.Diff(Lock{}); len(Faults(got)) != 1 || !strings.Contains(got[0].String(), "keyspace.Retire") {
		t.Errorf("removed: got %v, want a fault that names Retire", got)
	}

	two := New("test")
	Retire(two, "user:all:{uid}", "swept by hand")
	gone := NewLock(two)
	if got := was.Diff(gone); len(got) != 1 || got[0].Kind != Retired || got[0].Is != "swept by hand" || len(Faults(got)) != 0 {
		t.Errorf("retired: got %v", got)
	}
	if read, err := ParseLock(gone.String()); err != nil || len(gone.Diff(read)) != 0 || len(read.Families) != 1 {
		t.Errorf("the lock is read back as %v, %v", read, err)
	}
	if got := gone.Diff(Lock{}); len(Faults(got)) != 0 {
		t.Errorf("taken out again: got %v", got)
	}
	if got := gone.Diff(was); len(Faults(got)) != 1 || got[2].Kind != Overlaps {
		t.Errorf("declared again: got %v", got)
	}

	Def1[id](two, "user:all:{who}", BytesOf("x"), Forever("truth"), Doc{Purpose: "a test's"})
	if err := Lint(two); err == nil || !strings.Contains(err.Error(), `which test has retired`) {
		t.Errorf("declared and retired: Lint says %v", err)
	}
	mustPanic(t, "what becomes of its keys", func() { Retire(two, "user:x", " ") })
	mustPanic(t, "neither a word", func() { Retire(two, "user::x", "swept") })
}

func TestAFileThatWasCutOffIsNoLock(t *testing.T) {
	one, two := sample()
	Retire(one, "user:old:{n}", "swept")
	text := NewLock(one, two, origin).String()
	whole, err := ParseLock(text)
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(text) - 1 { // without the line break at the end it is whole
		if cut, err := ParseLock(text[:n]); err == nil {
			t.Fatalf("%d of %d bytes: read as %d families of %d", n, len(text), len(cut.Families), len(whole.Families))
		}
	}
	// At the end of a line it is as sound as a shorter file would be, but for the last line.
	at := strings.LastIndex(text, "\n\n") + 1
	if _, err := ParseLock(text[:at]); !errors.Is(err, ErrTruncated) {
		t.Errorf("without its last line: %v, want ErrTruncated", err)
	}
	if _, err := ParseLock(""); !errors.Is(err, ErrTruncated) {
		t.Errorf("an empty file: %v, want ErrTruncated", err)
	}
}

func TestTheLongestLifeIsReadBackFromItsText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		span := func(name string) time.Duration {
			return time.Duration(rapid.Int64Range(1, 100).Draw(t, name)) * rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, time.Minute, time.Hour, 24 * time.Hour}).Draw(t, name+" unit")
		}
		ttl := Expire(span("base"))
		if rapid.Bool().Draw(t, "variable") {
			ttl = UpTo(span("base"))
		}
		for name, with := range map[string]func(TTL, time.Duration) TTL{"jitter": TTL.Jitter, "empty": TTL.Negative, "stale": TTL.StaleIfError} {
			if rapid.Bool().Draw(t, "has "+name) {
				ttl = with(ttl, span(name))
			}
		}
		s := New("test")
		f := &Family{Pattern: "user:x", TTL: ttl, Doc: Doc{Owner: "test"}}
		s.families = append(s.families, f)
		text := NewCatalogue(s).Families[0].Lives()
		if got, want := longestLife(text), ttl.Longest().Milliseconds(); got != want {
			t.Fatalf("%q: got %d ms, want %d", text, got, want)
		}
	})
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

package lock

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/keyspace/catalogue"
)

// id is a segment of twelve base64url bytes.
type id struct{ s string }

func (i id) AppendSegment(b []byte) []byte { return append(b, i.s...) }
func (id) SegmentForm() keyspace.Form {
	return keyspace.Form{Alphabet: keyspace.Base64URL, Min: 12, Max: 12}
}

type regions struct{}

func (regions) Words() []string { return []string{"EU", "us-east"} }

// sample has families and a channel of two owners.
func sample() (one, two *keyspace.Schema) {
	one, two = keyspace.New("rooms"), keyspace.New("accounts")
	keyspace.Def1[id](one, "room:{{room}}:state", keyspace.HashOf("a|b"), keyspace.Forever("the janitor"),
		keyspace.Doc{Purpose: "what runs", Together: "room"})
	keyspace.Def2[id, keyspace.Int](one, "user:sign:{{uid}}:{year}", keyspace.BytesOf("bytes"), keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "days", Owner: "origin"})
	keyspace.Def0(two, "user:all", keyspace.BytesOf("x"), keyspace.Expire(45*24*time.Hour),
		keyspace.Doc{Purpose: "everybody", Owner: "rooms", MaxBytes: 1 << 30})
	keyspace.Def1[keyspace.Text](two, "user:info:{name}", keyspace.JSONOf[int](),
		keyspace.Expire(time.Hour).Jitter(5*time.Minute).Negative(1500*time.Millisecond),
		keyspace.Doc{Purpose: "profile", Version: 3, Migration: "read\n as before"})
	keyspace.Def1[keyspace.Word[regions]](two, "leaderboard:{{region}}", keyspace.ZSetOf("user → days"), keyspace.UpTo(time.Hour),
		keyspace.Doc{Purpose: "a board"})
	keyspace.DefChannel0(two, "channel:user_status", keyspace.RawMessages("text"), keyspace.Doc{Purpose: "changes", MaxBytes: 1000})
	return one, two
}

// legacy is the layout of a shop with hand-written keys.
func legacy() *keyspace.Schema {
	s, d := keyspace.New("legacy").Brownfield(), keyspace.Doc{Purpose: "a test's"}
	keyspace.Def1[keyspace.Int](s, "app.user-{id}", keyspace.HashOf("name, mail"), keyspace.Forever("accounts are kept"), d)
	keyspace.Def1[keyspace.Int](s, "user_{id}_profile", keyspace.BytesOf("JSON"), keyspace.Expire(time.Hour), d)
	keyspace.Def1[keyspace.Int](s, "user_{id}_friends", keyspace.SetOf("user"), keyspace.Expire(time.Hour), d)
	keyspace.Def2[keyspace.Word[regions], keyspace.Int](s, "{region}/cart/{{user}}", keyspace.HashOf("product → count"),
		keyspace.Expire(time.Hour), d)
	keyspace.Def1[keyspace.Raw](s, "page:{url}", keyspace.BytesOf("HTML"), keyspace.Expire(time.Hour), d)
	keyspace.Def1[keyspace.Raw](s, "Sess::{token}", keyspace.BytesOf("PHP session"), keyspace.UpTo(time.Hour), d)
	keyspace.Def0(s, "end", keyspace.CounterKind(), keyspace.Forever("a total"), d)
	keyspace.Def0(s, "#jobs waiting", keyspace.ListOf("job"), keyspace.Forever("taken off by workers"), d)
	keyspace.Def1[keyspace.Text](s, "{name}", keyspace.BytesOf("anything"), keyspace.Expire(time.Hour), d)
	return s
}

func TestParse_RoundTrip(t *testing.T) {
	one, two := sample()
	want := New(one, two, legacy())
	got, err := Parse(want.String())
	for i := range want.Families { // a family without arguments has nil instead of an empty list
		want.Families[i].Args = slices.Clip(append([]catalogue.Argument(nil), want.Families[i].Args...))
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
	if again := New(legacy(), two, one).String(); again != want.String() {
		t.Error("the order of schemas shows in the lock")
	}
}

func TestParse_ErrorNamesLine(t *testing.T) {
	for text, want := range map[string]string{
		"\ttype string\n":                     "line 1 ",
		"# x\nuser:x\n\ttype string\n\tx y\n": `line 4 of the lock file: there is no field "x"`,
		"user:x\n\tversion one\n":             "line 2 ",
		"user:x\n\ttype\n":                    "line 2 ",
		"user:x\n\ttype string\nend\n":        "line 1 of the lock file: user:x lacks a line",
		"user:{a}\n\ttype string\n\tform x\n\tlife none\n\towner a\n\tversion 1\nend\n": "more placeholders",
		"end\nuser:x\n":        "line 2 of the lock file: text after the end",
		"user:{a}\n\t{a one\n": `there is no field "{a"`,
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

func TestDiff_ChangesAndFaults(t *testing.T) {
	type kind struct{ typ, form string }
	type decl struct {
		pattern string
		kind    kind
		ttl     keyspace.TTL
		doc     keyspace.Doc
		args    []keyspace.Form
	}
	number, word := keyspace.Form{Alphabet: keyspace.Digits, Min: 1, Max: 8}, keyspace.Form{Words: []string{"a", "b"}}
	text := kind{"string", "text"}
	hour := keyspace.Expire(time.Hour)
	base := decl{"user:x:{n}", text, hour, keyspace.Doc{}, []keyspace.Form{number}}
	with := func(change func(*decl)) []decl { d := base; change(&d); return []decl{d} }
	for _, c := range []struct {
		name    string
		was, is []decl
		want    []string // kind and pattern, with "!" if it is not allowed
	}{
		{"nothing", []decl{base}, []decl{base}, nil},
		{"added", nil, []decl{base}, []string{"added user:x:{n}"}},
		{"removed", []decl{base}, nil, []string{"removed user:x:{n}"}},
		{"values written otherwise", []decl{base}, with(func(d *decl) { d.kind = kind{"string", "numbers"} }), []string{"layout! user:x:{n}"}},
		{"the same with a version", []decl{base}, with(func(d *decl) {
			d.kind, d.doc.Version = kind{"string", "numbers"}, 2
		}), []string{"layout user:x:{n}"}},
		{"version 1 is what 0 is", []decl{base}, with(func(d *decl) {
			d.kind, d.doc.Version = kind{"string", "numbers"}, 1
		}), []string{"layout! user:x:{n}"}},
		{"another type", []decl{base}, with(func(d *decl) { d.kind.typ = "hash" }), []string{"layout! user:x:{n}"}},
		{"another type with a version", []decl{base}, with(func(d *decl) {
			d.kind.typ, d.doc.Version = "hash", 2
		}), []string{"layout! user:x:{n}"}},
		{"another type with a version and a migration", []decl{base},
			with(func(d *decl) { d.kind.typ, d.doc = "hash", keyspace.Doc{Version: 2, Migration: "the move x"} }), []string{"layout user:x:{n}"}},
		{"another type with a migration and no version", []decl{base},
			with(func(d *decl) { d.kind.typ, d.doc = "hash", keyspace.Doc{Migration: "the move x"} }), []string{"layout! user:x:{n}"}},
		{"another type with the migration of the change before", with(func(d *decl) { d.doc.Migration = "the move x" }),
			with(func(d *decl) { d.kind.typ, d.doc = "hash", keyspace.Doc{Version: 2, Migration: "the move x"} }), []string{"layout! user:x:{n}"}},
		{"a migration alone", []decl{base}, with(func(d *decl) { d.doc.Migration = "the move x" }), []string{"migration user:x:{n}"}},
		{"an argument of what lives for ever moved, with a version", with(func(d *decl) { d.ttl = keyspace.Forever("truth") }),
			with(func(d *decl) { d.pattern, d.ttl, d.doc.Version = "user:{n}:x", keyspace.Forever("truth"), 2 }), []string{"layout! user:{n}:x"}},
		{"values of what lives for ever written otherwise, with a version", with(func(d *decl) { d.ttl = keyspace.Forever("truth") }),
			with(func(d *decl) {
				d.kind, d.ttl, d.doc.Version = kind{"string", "numbers"}, keyspace.Forever("truth"), 2
			}), []string{"layout user:x:{n}"}},
		{"another argument", []decl{base}, with(func(d *decl) { d.args = []keyspace.Form{word} }), []string{"layout! user:x:{n}"}},
		{"a shorter argument", []decl{base}, with(func(d *decl) {
			d.args = []keyspace.Form{{Alphabet: keyspace.Digits, Min: 1, Max: 7}}
		}), []string{"layout! user:x:{n}"}},
		{"a longer argument", []decl{base}, with(func(d *decl) {
			d.args = []keyspace.Form{{Alphabet: keyspace.Digits, Min: 1}}
		}), []string{"widened user:x:{n}"}},
		{"a word more", with(func(d *decl) {
			d.args = []keyspace.Form{word}
		}), with(func(d *decl) { d.args = []keyspace.Form{{Words: []string{"b", "a", "c"}}} }), []string{"widened user:x:{n}"}},
		{"a word less", with(func(d *decl) {
			d.args = []keyspace.Form{word}
		}), with(func(d *decl) { d.args = []keyspace.Form{{Words: []string{"a", "c"}}} }), []string{"layout! user:x:{n}"}},
		{"a hash tag", []decl{base}, with(func(d *decl) { d.pattern = "user:x:{{n}}" }), []string{"layout! user:x:{{n}}"}},
		{"an argument moved", []decl{base}, with(func(d *decl) { d.pattern = "user:{n}:x" }), []string{"layout! user:{n}:x"}},
		{"one argument more", []decl{base}, with(func(d *decl) {
			d.pattern, d.args = "user:x:{n}:{w}", []keyspace.Form{number, word}
		}), []string{"layout! user:x:{n}:{w}"}},
		{"the same with a version", []decl{base}, with(func(d *decl) {
			d.pattern, d.args, d.doc.Version = "user:x:{n}:{w}", []keyspace.Form{number, word}, 2
		}), []string{"layout user:x:{n}:{w}"}},
		{"a new word", []decl{base}, with(func(d *decl) {
			d.pattern, d.kind = "user:x2:{n}", kind{"string", "numbers"}
		}), []string{"added user:x2:{n}", "removed user:x:{n}"}},
		{"a placeholder's name", []decl{base}, with(func(d *decl) { d.pattern = "user:x:{number}" }), []string{"renamed user:x:{number}"}},
		{"a longer life", []decl{base}, with(func(d *decl) { d.ttl = keyspace.Expire(2 * time.Hour) }), []string{"life user:x:{n}"}},
		{"a life no longer", []decl{base}, with(func(d *decl) { d.ttl = keyspace.Forever("x") }), []string{"life user:x:{n}"}},
		{"a shorter life", []decl{base}, with(func(d *decl) { d.ttl = keyspace.Expire(50 * time.Minute) }), []string{"life! user:x:{n}"}},
		{"a shorter life with a migration", []decl{base}, with(func(d *decl) {
			d.ttl, d.doc.Migration = keyspace.Expire(time.Minute), "they end within the hour"
		}), []string{"life user:x:{n}"}},
		{"a shorter jitter", with(func(d *decl) {
			d.ttl = hour.Jitter(5 * time.Minute)
		}), with(func(d *decl) { d.ttl = hour.Jitter(time.Minute) }), []string{"life! user:x:{n}"}},
		{"a shorter life of stale values", with(func(d *decl) {
			d.ttl = hour.StaleIfError(5 * time.Minute)
		}), []decl{base}, []string{"life! user:x:{n}"}},
		{"a shorter life of empty values", with(func(d *decl) {
			d.ttl = hour.Negative(5 * time.Minute)
		}), []decl{base}, []string{"life user:x:{n}"}},
		{"a first life", with(func(d *decl) { d.ttl = keyspace.Forever("x") }), []decl{base}, []string{"life! user:x:{n}"}},
		{"a first life with a version", with(func(d *decl) {
			d.ttl = keyspace.Forever("x")
		}), with(func(d *decl) { d.doc.Version = 2 }), []string{"life! user:x:{n}"}},
		{"removed, and lived for ever", with(func(d *decl) { d.ttl = keyspace.Forever("truth") }), nil, []string{"removed! user:x:{n}"}},
		{"renamed, and lived for ever", with(func(d *decl) { d.ttl = keyspace.Forever("truth") }),
			with(func(d *decl) { d.pattern, d.ttl = "user:y:{n}", keyspace.Forever("truth") }), []string{"removed! user:x:{n}", "added user:y:{n}"}},
		{"a new pattern with keys of a removed one", []decl{base}, with(func(d *decl) {
			d.pattern, d.args = "user:{a}:{b}", []keyspace.Form{{Max: 9}, number}
		}),
			[]string{"removed user:x:{n}", "added user:{a}:{b}", "overlaps! user:{a}:{b}"}},
		{"the same with a migration", []decl{base},
			with(func(d *decl) {
				d.pattern, d.args, d.doc.Migration = "user:{a}:{b}", []keyspace.Form{{Max: 9}, number}, "read as before"
			}),
			[]string{"removed user:x:{n}", "added user:{a}:{b}"}},
		{"a new pattern beside a removed one", []decl{base}, with(func(d *decl) {
			d.pattern, d.args = "user:{a}:{b}", []keyspace.Form{word, number}
		}),
			[]string{"removed user:x:{n}", "added user:{a}:{b}"}},
		{"a wider argument that takes in a removed one",
			[]decl{{"user:y:abc", text, hour, keyspace.Doc{}, nil}, {"user:y:{n}", text, hour, keyspace.Doc{}, []keyspace.Form{word}}},
			[]decl{{"user:y:{n}", text, hour, keyspace.Doc{}, []keyspace.Form{{Words: []string{"a", "b", "abc"}}}}},
			[]string{"removed user:y:abc", "widened user:y:{n}", "overlaps! user:y:{n}"}},
		{"a new pattern with keys of one that moved its argument", []decl{base},
			[]decl{{"user:{n}:x", text, hour, keyspace.Doc{Version: 2}, []keyspace.Form{number}},
				{"user:{a}:{b}", text, hour, keyspace.Doc{}, []keyspace.Form{{Max: 9}, number}}},
			[]string{"added user:{a}:{b}", "overlaps! user:{a}:{b}", "layout user:{n}:x"}},
		{"a reason", with(func(d *decl) { d.ttl = keyspace.Forever("one") }), with(func(d *decl) { d.ttl = keyspace.Forever("two") }), nil},
		{"owner", []decl{base}, with(func(d *decl) { d.doc.Owner = "somebody" }), []string{"owner user:x:{n}"}},
		{"version alone", []decl{base}, with(func(d *decl) { d.doc.Version = 3 }), []string{"version user:x:{n}"}},
		{"version lowered", with(func(d *decl) {
			d.doc.Version = 3
		}), with(func(d *decl) { d.doc.Version = 2 }), []string{"version! user:x:{n}"}},
		{"version lowered beside another change", with(func(d *decl) {
			d.doc.Version = 3
		}), with(func(d *decl) { d.ttl = keyspace.Forever("x") }), []string{"life! user:x:{n}"}},
		{"purpose and size", []decl{base}, with(func(d *decl) { d.doc.Purpose, d.doc.MaxBytes = "another", 9 }), nil},
		{"a key and a channel of one name", []decl{base}, with(func(d *decl) {
			d.kind.typ = "channel"
			d.ttl = keyspace.Forever("a channel keeps nothing")
		}), []string{"removed user:x:{n}", "added user:x:{n}"}},
	} {
		locks := [2]File{}
		for i, decls := range [][]decl{c.was, c.is} {
			var families []*keyspace.Family
			for _, d := range decls {
				f, err := keyspace.FamilyOf(d.pattern, d.args...)
				if err != nil {
					t.Fatalf("%s: %s %v", c.name, d.pattern, err)
				}
				f.Type, f.Form, f.TTL, f.Doc = d.kind.typ, d.kind.form, d.ttl, d.doc
				f.Doc.Owner = cmp.Or(f.Doc.Owner, "test")
				families = append(families, f)
			}
			locks[i] = lockOf(families, nil)
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

func TestDiff_ForeverFamilyNeedsRetire(t *testing.T) {
	one := keyspace.New("test")
	keyspace.Def1[id](one, "user:all:{uid}", keyspace.BytesOf("x"), keyspace.Forever("truth"), keyspace.Doc{Purpose: "a test's"})
	was := New(one)
	if got := was.Diff(File{}); len(Faults(got)) != 1 || !strings.Contains(got[0].String(), "keyspace.Retire") {
		t.Errorf("removed: got %v, want a fault that names Retire", got)
	}

	two := keyspace.New("test")
	keyspace.Retire(two, "user:all:{uid}", "swept by hand")
	gone := New(two)
	if got := was.Diff(gone); len(got) != 1 || got[0].Kind != Retired || got[0].Is != "swept by hand" || len(Faults(got)) != 0 {
		t.Errorf("retired: got %v", got)
	}
	if read, err := Parse(gone.String()); err != nil || len(gone.Diff(read)) != 0 || len(read.Families) != 1 {
		t.Errorf("the lock is read back as %v, %v", read, err)
	}
	if got := gone.Diff(File{}); len(Faults(got)) != 0 {
		t.Errorf("taken out again: got %v", got)
	}
	if got := gone.Diff(was); len(Faults(got)) != 1 || got[2].Kind != Overlaps {
		t.Errorf("declared again: got %v", got)
	}
}

func TestParse_TruncatedFile(t *testing.T) {
	one, two := sample()
	keyspace.Retire(one, "user:old:{n}", "swept")
	text := New(one, two, legacy()).String()
	whole, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(text) - 1 { // without the last line break, the file is complete
		if cut, err := Parse(text[:n]); err == nil {
			t.Fatalf("%d of %d bytes: read as %d families of %d", n, len(text), len(cut.Families), len(whole.Families))
		}
	}
	// At the end of a line, only the missing last line shows that the file is truncated.
	at := strings.LastIndex(text, "\n\n") + 1
	if _, err := Parse(text[:at]); !errors.Is(err, ErrTruncated) {
		t.Errorf("without its last line: %v, want ErrTruncated", err)
	}
	if _, err := Parse(""); !errors.Is(err, ErrTruncated) {
		t.Errorf("an empty file: %v, want ErrTruncated", err)
	}
}

func TestLongestLife_RoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		span := func(name string) time.Duration {
			return time.Duration(rapid.Int64Range(1, 100).Draw(t, name)) * rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second,
				time.Minute, time.Hour, 24 * time.Hour}).Draw(t, name+" unit")
		}
		ttl := keyspace.Expire(span("base"))
		if rapid.Bool().Draw(t, "variable") {
			ttl = keyspace.UpTo(span("base"))
		}
		for name, with := range map[string]func(keyspace.TTL, time.Duration) keyspace.TTL{"jitter": keyspace.TTL.Jitter,
			"empty": keyspace.TTL.Negative, "stale": keyspace.TTL.StaleIfError} {
			if rapid.Bool().Draw(t, "has "+name) {
				ttl = with(ttl, span(name))
			}
		}
		text := catalogue.Describe(&keyspace.Family{Pattern: "user:x", TTL: ttl}).Lives()
		if got, want := longestLife(text), ttl.Longest().Milliseconds(); got != want {
			t.Fatalf("%q: got %d ms, want %d", text, got, want)
		}
	})
}

// The lock stores forms as text; their order must be preserved.
func TestParseForm_RoundTrip(t *testing.T) {
	forms := rapid.Custom(func(t *rapid.T) keyspace.Form {
		if rapid.Bool().Draw(t, "words") {
			return keyspace.Form{Words: rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z0-9_]{1,4}`), 1, 4, rapid.ID[string]).Draw(t, "words")}
		}
		f := keyspace.Form{Alphabet: rapid.SampledFrom([]keyspace.Alphabet{keyspace.AnyText, keyspace.Digits, keyspace.Hex, keyspace.Base64URL,
			keyspace.RawText}).Draw(t, "alphabet"), Min: rapid.IntRange(1, 9).Draw(t, "min")}
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

// ofForm draws strings of f.
func ofForm(f keyspace.Form) *rapid.Generator[string] {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	chars := map[keyspace.Alphabet]string{keyspace.Digits: "0123456789", keyspace.Hex: "0123456789abcdef",
		keyspace.Base64URL: letters + "0123456789_-", keyspace.RawText: letters + ":. *"}[f.Alphabet]
	switch {
	case f.Words != nil:
		return rapid.SampledFrom(f.Words)
	case f.Alphabet == keyspace.AnyText:
		return rapid.Custom(func(t *rapid.T) string {
			return string(keyspace.Text{S: string(rapid.SliceOfN(rapid.Byte(), 0, 24).Draw(t, "text"))}.AppendSegment(nil))
		}).Filter(f.Match)
	}
	most := f.Max
	if most == 0 {
		most = f.Min + 8
	}
	return rapid.Custom(func(t *rapid.T) string {
		return string(rapid.SliceOfN(rapid.SampledFrom([]byte(chars)), max(f.Min, 1), most).Draw(t, "chars"))
	})
}

func TestLock_Brownfield(t *testing.T) {
	was := New(legacy())
	again, err := Parse(was.String())
	if err != nil {
		t.Fatalf("%v\n%s", err, was)
	}
	if changes := was.Diff(again); len(changes) > 0 {
		t.Errorf("the lock differs from itself: %v", changes)
	}
	s := keyspace.New("legacy").Brownfield()
	keyspace.Def1[keyspace.Int](s, "user_{user}_profile", keyspace.BytesOf("JSON"), keyspace.Expire(time.Hour), keyspace.Doc{})
	keyspace.Def1[keyspace.Text](s, "user_{name}", keyspace.BytesOf("JSON"), keyspace.Expire(time.Hour), keyspace.Doc{Migration: ""})
	was.Families = slices.DeleteFunc(was.Families, func(f Family) bool { return !strings.HasPrefix(f.Pattern, "user_") })
	got := fmt.Sprint(was.Diff(New(s)))
	for _, want := range []string{"renamed  user_{user}_profile", "removed  user_{id}_friends", `"user_0_friends" may exist already`} {
		if !strings.Contains(got, want) {
			t.Errorf("got %s\nwant %q in it", got, want)
		}
	}
}

package keyspace

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

type regions struct{}

func (regions) Words() []string { return []string{"EU", "us-east"} }

// uuid is a segment in the format of another program.
type uuid struct{ s string }

func (u uuid) AppendSegment(b []byte) []byte { return append(b, u.s...) }
func (uuid) SegmentForm() Form               { return Form{Alphabet: Base64URL, Min: 36, Max: 36} }

const someUUID = "6F9619FF-8B86-D011-B42D-00CF4FC964FF"

// legacy is the layout of a shop with hand-written keys.
func legacy() *Schema {
	s, d := New("legacy").Brownfield(), Doc{Purpose: "a test's"}
	Def1[Int](s, "app.user-{id}", HashOf("name, mail"), Forever("accounts are kept"), d)
	Def1[Int](s, "user_{id}_profile", BytesOf("JSON"), Expire(time.Hour), d)
	Def1[Int](s, "user_{id}_friends", SetOf("user"), Expire(time.Hour), d)
	Def2[uuid, Int](s, "Order-{uuid}-{line}", BytesOf("JSON"), Expire(time.Hour), d)
	Def2[Word[regions], Int](s, "{region}/cart/{{user}}", HashOf("product → count"), Expire(time.Hour), d)
	Def1[Raw](s, "page:{url}", BytesOf("HTML"), Expire(time.Hour), d)
	Def1[Raw](s, "Sess::{token}", BytesOf("PHP session"), UpTo(time.Hour), d)
	Def0(s, "end", CounterKind(), Forever("a total"), d)
	Def0(s, "#jobs waiting", ListOf("job"), Forever("taken off by workers"), d)
	Def1[Int](s, "tmp:{id}", CounterKind(), Expire(time.Hour), d)
	Def1[Text](s, "{name}", BytesOf("anything"), Expire(time.Hour), d)
	return s
}

func TestBrownfield_DeclaresExistingKeys(t *testing.T) {
	s := legacy()
	if s.families = s.families[:len(s.families)-1]; Lint(s) != nil { // without {name}, which meets others
		t.Error(Lint(s))
	}
	p := NewParser(s)
	for key, want := range map[string]string{
		"app.user-42":                         "app.user-{id} 42",
		"app.user-":                           "",
		"app.user-x":                          "",
		"user_42_profile":                     "user_{id}_profile 42",
		"user_42_friends":                     "user_{id}_friends 42",
		"user__profile":                       "",
		"user_42_profiles":                    "",
		"Order-" + someUUID + "-7":            "Order-{uuid}-{line} " + someUUID + " 7",
		"Order-" + someUUID + "--7":           "Order-{uuid}-{line} " + someUUID + " -7",
		"EU/cart/{42}":                        "{region}/cart/{{user}} EU 42",
		"us-east/cart/{42}":                   "{region}/cart/{{user}} us-east 42",
		"US/cart/{42}":                        "",
		"EU/cart/42":                          "",
		"page:https://shop.example/a?b=[1] *": "page:{url} https://shop.example/a?b=[1] *",
		"page:{x}":                            "",
		"page:":                               "",
		"Sess::a:b":                           "Sess::{token} a:b",
		"end":                                 "end",
		"#jobs waiting":                       "#jobs waiting",
		"tmp:7":                               "tmp:{id} 7",
		"":                                    "",
	} {
		got, found := "", Parsed{}
		if f, ok := p.Key(key); ok {
			found, got = f, strings.TrimSpace(f.Family.Pattern+" "+strings.Join(f.Args[:], " "))
		}
		if got != want {
			t.Errorf("%q parsed as %q, want %q", key, got, want)
		}
		if again := found.Key().String(); want != "" && again != key {
			t.Errorf("%q is rebuilt as %q", key, again)
		}
	}
	for _, f := range s.Families() {
		if found, ok := p.Key(f.Example()); !ok || found.Family != f {
			t.Errorf("the example of %s is %q, parsed as %v", f.Pattern, f.Example(), found.Family)
		}
	}
	if n := testing.AllocsPerRun(100, func() { p.Key("Order-" + someUUID + "-7"); p.Key("us-east/cart/{42}") }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func TestSchema_RefusesBrownfieldPatterns(t *testing.T) {
	for pattern, want := range map[string]string{
		"app.user-{id}": "Schema.Brownfield", "user::{id}": "Schema.Brownfield", "user:{id}:x{": "Schema.Brownfield",
	} {
		mustPanic(t, want, func() { declare(New("test"), pattern, Int{}.SegmentForm()) })
	}
	mustPanic(t, "raw text", func() { declare(New("test"), "user:{id}", Raw{}.SegmentForm()) })
	mustPanic(t, "that a key cannot contain", func() { declare(New("test"), "user:{id}", Form{Words: []string{"a:b"}}) })
	for pattern, want := range map[string]string{
		"user-{id": "braces", "user-}": "braces", "user-{}": "braces", "{{a}}-{{b}}": "two hash tags", "a-{a}-{a}": "two placeholders",
		"a-{a}-{b}-{c}": "more placeholders", "a-{a}": "was declared with 2 arguments",
	} {
		mustPanic(t, want, func() { declare(New("test").Brownfield(), pattern, text, text) })
	}
}

func TestBrownfield_LintShowsAmbiguousKey(t *testing.T) {
	twelve, raw, number := id{}.SegmentForm(), Raw{}.SegmentForm(), Int{}.SegmentForm()
	for _, c := range []struct {
		one   string
		a     []Form
		other string
		b     []Form
		want  string // the key; empty: disjoint
	}{
		{"user_{a}", []Form{text}, "user_{b}_profile", []Form{number}, "user_0_profile"},
		{"user_{a}", []Form{number}, "user_{b}_profile", []Form{number}, ""},
		{"user_{a}_x", []Form{text}, "user_{b}_y", []Form{text}, ""},
		{"page:{url}", []Form{raw}, "page:{n}:views", []Form{number}, "page:0:views"},
		{"page:{url}", []Form{raw}, "page:{{n}}", []Form{number}, ""},
		{"{a}-{b}_x", []Form{text, text}, "{c}-{d}_y", []Form{text, text}, ""},
		{"{a}-x", []Form{{Max: 4}}, "{b}-yy-x", []Form{{Max: 4}}, "a-yy-x"},
		{"{a}-x", []Form{{Max: 3}}, "{b}-yy-x", []Form{{Max: 4}}, ""},
		{"{a}-x", []Form{{Max: 3, Alphabet: Digits}}, "12{b}-x", []Form{{Min: 2, Alphabet: Digits}}, ""},
		{"a-{a}", []Form{{Words: []string{"b:c", "d"}}}, "a-b:{x}", []Form{twelve}, ""},
		{"a-{a}", []Form{{Words: []string{"b:c", "d"}}}, "a-b:{x}", []Form{text}, "a-b:c"},
		{"{a}{b}", []Form{number, {Alphabet: Hex}}, "{c}x", []Form{text}, ""},
		{"{a}{b}", []Form{number, {Alphabet: Base64URL}}, "{c}x", []Form{text}, "0x"},
	} {
		a, b := New("one").Brownfield(), New("two").Brownfield()
		declare(a, c.one, c.a...)
		declare(b, c.other, c.b...)
		for _, order := range [][]*Schema{{a, b}, {b, a}} {
			switch err := Disjoint(order...); {
			case c.want == "" && err != nil:
				t.Errorf("%q and %q are disjoint, got %v", c.one, c.other, err)
			case c.want != "" && (err == nil || !strings.HasSuffix(err.Error(), "both can be \""+c.want+"\"")):
				t.Errorf("%q and %q: got %v, want the key %q", c.one, c.other, err, c.want)
			}
		}
	}
	for _, c := range []struct {
		pattern string
		args    []Form
		want    string
	}{
		{"x-{a}-{b}", []Form{{Max: 9}, {Max: 9}}, `"x-a--a" can be read in two ways`},
		{"x-{a}-{b}", []Form{number, {Max: 9}}, ""},
		{"x-{a}-{b}", []Form{twelve, {Max: 9}}, ""},
		{"x-{a}{b}", []Form{{Alphabet: Digits, Max: 9}, {Alphabet: Hex, Max: 9}}, "can be read in two ways"},
		{"x-{a}{b}", []Form{{Alphabet: Digits, Min: 4, Max: 4}, {Alphabet: Digits, Max: 9}}, ""},
		{"x-{a}{b}", []Form{{Alphabet: Hex, Min: 4, Max: 4}, {Alphabet: Hex, Max: 9}}, ""},
		{"x-{a}:{b}", []Form{raw, number}, ""},
		{"x-{a}:{b}", []Form{number, raw}, ""},
		{"x-{a}:{b}", []Form{{Alphabet: RawText, Max: 9}, {Alphabet: RawText, Max: 9}}, "can be read in two ways"},
	} {
		s := New("test").Brownfield()
		declare(s, c.pattern, c.args...)
		err := Lint(s)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q of %v: got %v, want %q", c.pattern, c.args, err, c.want)
		}
	}
}

func TestBadWords_ApplyToTheirSchema(t *testing.T) {
	for _, c := range []struct {
		s       *Schema
		pattern string
		want    string
	}{
		{New("test").BadWords("cache"), "cache:x", `begins with "cache"`},
		{New("test").BadWords("cache"), "data:x", ""},
		{New("test").BadWords(), "tmp:x", ""},
		{New("test"), "tmp:x", `begins with "tmp"`},
		{New("test").Brownfield(), "tmp:x", ""},
		{New("test").Brownfield(), "TMP-x", ""},
		{New("test").Brownfield().BadWords("tmp"), "TMP-x", `begins with "TMP", which is one of the schema's bad words`},
		{New("test").Brownfield().BadWords("tmp"), "TMPs-x", ""},
	} {
		declare(c.s, c.pattern)
		err := Lint(c.s)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q: got %v, want %q", c.pattern, err, c.want)
		}
	}
	s := New("test").Brownfield()
	declare(s, "user-{userId}", Int{}.SegmentForm())
	if err := Lint(s); err == nil || !strings.Contains(err.Error(), "{userId}") {
		t.Errorf("got %v, want the placeholder's name", err)
	}
}

// The search over whole names must agree with the search level by level.
func TestMeets_BothSearchesAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := randomSchema.Draw(t, "schema")
		for i, f := range s.families {
			if name, twice := sharedName(f, f, true); twice {
				t.Fatalf("%q of %q is reported with two readings", name, f.Pattern)
			}
			for _, g := range s.families[:i] {
				one, meet := f.Meets(g)
				other, also := sharedName(f, g, false)
				if meet != also || also && readings(f, other)*readings(g, other) != 1 {
					t.Fatalf("%q and %q: %q, %v by levels and %q, %v as a whole", f.Pattern, g.Pattern, one, meet, other, also)
				}
			}
		}
	})
}

// randomBrownfield draws families whose arguments share levels.
var randomBrownfield = rapid.Custom(func(t *rapid.T) *Schema {
	s := New("random").Brownfield()
	for range rapid.IntRange(1, 3).Draw(t, "families") {
		pattern, args := "", []Form(nil)
		for range rapid.IntRange(1, 5).Draw(t, "pieces") {
			if len(args) == MaxArgs || rapid.Bool().Draw(t, "text") {
				pattern += rapid.SampledFrom([]string{"a", "b", "-", ":", "7"}).Draw(t, "text")
				continue
			}
			pattern += "{" + string('p'+rune(len(args))) + "}"
			if rapid.IntRange(0, 3).Draw(t, "kind") == 0 {
				args = append(args, Form{Words: rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "a-b", ":", "7"}), 1, 3,
					rapid.ID[string]).Draw(t, "words")})
				continue
			}
			n := rapid.IntRange(1, 2).Draw(t, "min")
			args = append(args, Form{Alphabet: Alphabet(rapid.IntRange(0, int(RawText)).Draw(t, "alphabet")), Min: n,
				Max: n + rapid.IntRange(0, 1).Draw(t, "more")})
		}
		declare(s, pattern, args...)
	}
	return s
})

// readings counts the ways to read a name as one of f's, by trying all.
func readings(f *Family, name string) int {
	var count func(rest string, i int) int
	count = func(rest string, i int) (n int) {
		rest, ok := strings.CutPrefix(rest, f.parts[i])
		if !ok {
			return 0
		}
		if i == len(f.Args) {
			if rest == "" {
				return 1
			}
			return 0
		}
		for end := 1; end <= len(rest); end++ {
			if f.Args[i].Match(rest[:end]) {
				n += count(rest[end:], i+1)
			}
		}
		return n
	}
	return count(name, 0)
}

func TestBrownfield_AcceptedKeysAreUnambiguous(t *testing.T) {
	accepted, met, misread := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		s := randomBrownfield.Draw(t, "schema")
		fine := true
		for i, f := range s.families {
			if name, twice := sharedName(f, f, true); twice {
				misread, fine = misread+1, false
				if readings(f, name) < 2 {
					t.Fatalf("%q of %q is reported with two readings", name, f.Pattern)
				}
			}
			for _, g := range s.families[:i] {
				if name, meet := f.Meets(g); meet {
					met, fine = met+1, false
					if readings(f, name) == 0 || readings(g, name) == 0 {
						t.Fatalf("%q is reported as a name of %q and %q", name, f.Pattern, g.Pattern)
					}
				}
			}
		}
		p := NewParser(s)
		for _, f := range s.families {
			var args []string
			for i := range f.Args {
				form := f.Args[i]
				if form.Words == nil && form.Alphabet == RawText {
					form = Form{Words: []string{"a-b", "::", "-", "x7", "a", "7"}}
				}
				args = append(args, ofForm(form).Filter(f.Args[i].Match).Draw(t, "argument"))
			}
			key := build(f, args)
			found, ok := p.Key(key)
			if !ok || found.Key().String() != key {
				t.Fatalf("%q of %q is parsed as %v", key, f.Pattern, found)
			}
			if fine && (found.Family != f || !slices.Equal(found.Args[:len(args)], args) || readings(f, key) != 1) {
				t.Fatalf("%q of %q with %q is parsed as %q of %q", key, f.Pattern, args, found.Args, found.Family.Pattern)
			}
		}
		if fine {
			accepted++
		}
	})
	if accepted == 0 || met == 0 || misread == 0 {
		t.Errorf("%d accepted, %d met, %d misread: the draw proves little", accepted, met, misread)
	}
}

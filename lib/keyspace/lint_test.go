package keyspace

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestLint_FindsEachFault(t *testing.T) {
	short := Form{Max: 64}
	ok := Doc{Purpose: "a test's"}
	for _, c := range []struct {
		pattern string
		form    string
		doc     Doc
		args    []Form
		want    string
	}{
		{"User:info", "json", ok, nil, `has the level "User"`},
		{"user:InFo", "json", ok, nil, `has the level "InFo"`},
		{"user:sign-in", "json", ok, nil, `has the level "sign-in"`},
		{"user:_info", "json", ok, nil, `has the level "_info"`},
		{"user:info_", "json", ok, nil, `has the level "info_"`},
		{"user:in__fo", "json", ok, nil, `has the level "in__fo"`},
		{"user:{userId}", "json", ok, []Form{short}, `has the placeholder {userId}`},
		{"{uid}:info", "json", ok, []Form{short}, `begins with "uid"`},
		{"u:{uid}", "json", ok, []Form{short}, `begins with "u"`},
		{"123:{uid}", "json", ok, []Form{short}, `begins with "123"`},
		{"data:{uid}", "json", ok, []Form{short}, `begins with "data"`},
		{"user:{uid}", "json", ok, []Form{{}}, "without a maximum length"},
		{"user:{uid}", "json", ok, []Form{{Max: 475}}, "can be 513 bytes long"},
		{"user:{kind}", "json", ok, []Form{{Words: []string{"Good"}}}, `can have the word "Good" for {kind}`},
		{"user:info", " ", ok, nil, "how its values are written"},
		{"user:info", "json", Doc{}, nil, "does not state its purpose"},
		{"user:info", "json", Doc{Purpose: "one\ntwo"}, nil, "does not state its purpose in one line"},
		{"user:info", "json", Doc{Purpose: "x", Owner: "The Boss"}, nil, `has the owner "The Boss"`},
		{"user:info", "json", Doc{Purpose: "x", MaxBytes: -1}, nil, "negative MaxBytes"},
		{"user:info", "json", Doc{Purpose: "x", Version: -1}, nil, "negative MaxBytes or Version"},
		{"user:{uid}", "json", Doc{Purpose: "x", Together: "board"}, []Form{short}, "(board) and has no hash tag"},
	} {
		s := New("test")
		s.add(literal(c.pattern), "string", c.form, Expire(time.Hour), c.doc, c.args...)
		err := Lint(s)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), `"`+c.pattern+`"`) {
			t.Errorf("%q: got %v, want a fault with %q", c.pattern, err, c.want)
		} else if strings.Count(err.Error(), "\n") != 0 {
			t.Errorf("%q: got more than one fault:\n%v", c.pattern, err)
		}
	}
}

func TestLint_AcceptsGoodFamilies(t *testing.T) {
	s := New("test")
	together := Doc{Purpose: "x", Together: "board"}
	Def1[board](s, "leaderboard:{{board}}", ZSetOf("user"), Forever("rebuilt"), together)
	Def1[board](s, "leaderboard:{{board}}:deaths", ZSetOf("user"), Forever("swept"), together)
	declare(s, "user:verify_code:{email}:{type}", Hashed{}.SegmentForm(), Form{Words: []string{"1", "2"}})
	declare(s, "user:verify_code:1m:{email}", Hashed{}.SegmentForm())
	declare(s, "person:{name}", Form{Max: 472}) // 512 bytes with the longest prefix
	DefChannel0(s, "user:verify_code", RawMessages("json"), Doc{Purpose: "x"})
	declare(s, "user:verify_code")
	if err := Lint(s); err != nil {
		t.Error(err)
	}
}

func TestLint_ReturnsEveryFault(t *testing.T) {
	a, b := New("one"), New("two")
	declare(a, "User:info")
	declare(b, "user:{uid}", Form{})
	declare(b, "user:{id}", Form{})
	got := Lint(a, b).Error()
	for _, want := range []string{`one: "User:info"`, `two: "user:{uid}"`, `two: "user:{id}"`} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in:\n%s", want, got)
		}
	}
	if n := strings.Count(got, "\n") + 1; n != 4 {
		t.Errorf("%d faults, want a level, two lengths and a meeting:\n%s", n, got)
	}
}

func TestLint_TogetherNeedsSameTagForm(t *testing.T) {
	s := New("test")
	doc := Doc{Purpose: "x", Together: "room"}
	Def1[id](s, "room:{{room}}:state", HashOf("x"), Expire(time.Hour), doc)
	Def1[Int](s, "room:{{room}}:online", HashOf("x"), Expire(time.Hour), doc)
	if err := Lint(s); err == nil || !strings.Contains(err.Error(), "a hash tag of another form") {
		t.Errorf("got %v, want a hash tag of another form", err)
	}
}

func TestDisjoint_ShowsCommonKey(t *testing.T) {
	twelve, words := id{}.SegmentForm(), board{}.SegmentForm()
	for _, c := range []struct {
		one   string
		a     []Form
		other string
		b     []Form
		want  string // the key; empty if disjoint
	}{
		{"cluster:nodes:{node}", []Form{text}, "cluster:nodes:active", nil, "cluster:nodes:active"},
		{"cluster:nodes:{node}", []Form{twelve}, "cluster:nodes:active", nil, ""},
		{"cluster:nodes:{node}", []Form{{Alphabet: Hex}}, "cluster:nodes:active", nil, ""},
		{"cluster:nodes:{node}", []Form{{Alphabet: Hex}}, "cluster:nodes:dead", nil, "cluster:nodes:dead"},
		{"user:info:{uid}", []Form{text}, "user:info:{id}", []Form{text}, "user:info:a"},
		{"user:info:{uid}", []Form{text}, "user:info:{{uid}}", []Form{text}, ""},
		{"user:info:{{uid}}", []Form{text}, "user:info:{{id}}", []Form{twelve}, "user:info:{aaaaaaaaaaaa}"},
		{"user:info:{uid}", []Form{text}, "user:info:{uid}:{day}", []Form{text, text}, ""},
		{"user:code:{email}:{type}", []Form{text, words}, "user:code:1m:{email}", []Form{text}, "user:code:1m:streak"},
		{"user:code:{email}:{type}", []Form{{Alphabet: Base64URL, Min: 22, Max: 22}, words}, "user:code:1m:{email}",
			[]Form{{Alphabet: Base64URL, Min: 22, Max: 22}}, ""},
		{"user:code:{email}:{type}", []Form{{Alphabet: Base64URL, Max: 22}, words}, "user:code:1m:{email}",
			[]Form{{Alphabet: Base64URL, Max: 22}}, "user:code:1m:streak"},
		{"user:{a}", []Form{{Min: 3, Max: 3}}, "user:{b}", []Form{{Alphabet: Digits, Min: 2, Max: 8}}, "user:000"},
		{"user:{a}", []Form{{Min: 3, Max: 3}}, "user:{b}", []Form{{Alphabet: Digits, Min: 4}}, ""},
		{"user:{a}", []Form{{Alphabet: Digits}}, "user:{b}", []Form{{Alphabet: Base64URL, Min: 4}}, "user:0000"},
		{"user:{a}", []Form{words}, "user:{b}", []Form{{Words: []string{"week", "streak"}}}, "user:streak"},
		{"user:{a}", []Form{words}, "user:{b}", []Form{{Words: []string{"week"}}}, ""},
		{"user:info", nil, "user:info", nil, "user:info"},
	} {
		a, b := New("one"), New("two")
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
}

// The product is compared with trials: two forms without a common text have none among many random texts, and a common
// text matches both forms.
func TestIntersect_AgreesWithRandomTexts(t *testing.T) {
	forms := rapid.Custom(func(t *rapid.T) Form {
		f := Form{
			Alphabet: rapid.SampledFrom([]Alphabet{AnyText, Digits, Hex, Base64URL}).Draw(t, "alphabet"),
			Min:      rapid.IntRange(0, 5).Draw(t, "min"),
		}
		if rapid.Bool().Draw(t, "bounded") {
			f.Max = max(f.Min, 1) + rapid.IntRange(0, 4).Draw(t, "more")
		}
		return f
	})
	rapid.Check(t, func(t *rapid.T) {
		f, g := forms.Draw(t, "one"), forms.Draw(t, "other")
		s, meet := intersect(&f, &g)
		if meet && (!f.Match(s) || !g.Match(s)) {
			t.Fatalf("%q is shown for %v and %v and is not of both", s, f, g)
		}
		for range 20 {
			if s := ofForm(f).Draw(t, "text"); !meet && g.Match(s) {
				t.Fatalf("%q is of both %v and %v, which are called disjoint", s, f, g)
			}
		}
	})
}

func TestValidPrefix_IsOneLowerCaseLevel(t *testing.T) {
	for prefix, want := range map[string]bool{
		"stoa": true, "stoa-staging": true, "shop_2": true, strings.Repeat("s", MaxPrefix): true,
		"": false, "Stoa": false, "stoa:eu": false, "{stoa}": false, "2stoa": false, "stoa-": false,
		"sto*": false, "sto a": false, "stoä": false, strings.Repeat("s", MaxPrefix+1): false,
	} {
		if err := ValidPrefix(prefix); (err == nil) != want {
			t.Errorf("ValidPrefix(%q) = %v, want valid: %v", prefix, err, want)
		}
	}
}

func TestLogical_RemovesPrefix(t *testing.T) {
	for physical, want := range map[string]string{
		"stoa:user:info:x": "user:info:x", "stoa:": "", "stoa": "-", "sto": "-", "stoat:user": "-", "other:user": "-", "": "-",
	} {
		got, ok := Logical("stoa", physical)
		if !ok {
			got = "-"
		}
		if got != want {
			t.Errorf("Logical(%q) = %q, want %q", physical, got, want)
		}
	}
}

func TestLint_RefusesRetiredPattern(t *testing.T) {
	s := New("test")
	Retire(s, "user:all:{uid}", "swept by hand")
	if got := s.Retired(); len(got) != 1 || got[0].Pattern != "user:all:{uid}" || got[0].Doc.Owner != "test" ||
		got[0].Doc.Migration != "swept by hand" {
		t.Errorf("retired is %+v", got)
	}
	if err := Lint(s); err != nil {
		t.Errorf("only retired: Lint returns %v", err)
	}
	Def1[id](s, "user:all:{who}", BytesOf("x"), Forever("truth"), Doc{Purpose: "a test's"})
	if err := Lint(s); err == nil || !strings.Contains(err.Error(), `which test has retired`) {
		t.Errorf("declared and retired: Lint returns %v", err)
	}
	mustPanic(t, "without a migration", func() { Retire(s, "user:x", " ") })
	mustPanic(t, "neither a word", func() { Retire(s, "user::x", "swept") })
}

func TestFamilyOf_HasNamesAndLimits(t *testing.T) {
	old, err := FamilyOf("app.user-{{id}}:{day}", Form{Alphabet: Digits, Min: 1, Max: 8}, Form{Words: []string{"mon", "sunday"}})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"id true", "day false", " false"} {
		if name, tag := old.Placeholder(i); fmt.Sprint(name, " ", tag) != want {
			t.Errorf("placeholder %d is %s %v, want %s", i, name, tag, want)
		}
	}
	if got, want := old.MaxKeyBytes(), len("app.user-{12345678}:sunday"); got != want {
		t.Errorf("its keys are %d bytes long, want %d", got, want)
	}
	if other, _ := FamilyOf("app.{user}", Form{}); other.MaxKeyBytes() != 0 || other.MaxValueBytes() != 64<<10 {
		t.Errorf("without bounds: %d and %d bytes", other.MaxKeyBytes(), other.MaxValueBytes())
	}
	s := New("test").Brownfield()
	key, channel := Def1[Raw](s, "app.{rest}", BytesOf("x"), Expire(time.Hour), Doc{}),
		DefChannel1[Raw](s, "app.{what}", RawMessages("x"), Doc{})
	if name, ok := old.Meets(key.Family); ok {
		t.Errorf("raw text has no braces, and both can be %q", name)
	}
	if name, ok := key.Meets(channel.Family); ok {
		t.Errorf("a key and a channel are both %q", name)
	}
	plain, err := FamilyOf("app.user-{n}", Form{Alphabet: Digits})
	if err != nil {
		t.Fatal(err)
	}
	if name, ok := plain.Meets(key.Family); !ok || name != "app.user-0" {
		t.Errorf("a name of both is %q, %v", name, ok)
	}
	if _, err := FamilyOf("user:{a}:{b}", Form{}); err == nil || !strings.Contains(err.Error(), "more placeholders") {
		t.Errorf("too few forms: %v", err)
	}
}

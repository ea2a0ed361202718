package keyspace

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The families of the documents that preceded Stoa, in one schema.
var (
	origin   = New("origin")
	_        = declare(origin, "user:status:{uid}", id{}.SegmentForm())
	_        = declare(origin, "user:info:{uid}", id{}.SegmentForm())
	_        = declare(origin, "user:sign:{{uid}}:{year}", id{}.SegmentForm(), Int{}.SegmentForm())
	_        = declare(origin, "user:verify_code:{email}:{type}", Hashed{}.SegmentForm(), Form{Words: []string{"1", "2", "3", "4"}})
	_        = declare(origin, "user:verify_code:1m:{email}", Hashed{}.SegmentForm())
	_        = declare(origin, "user:verify_code:24h:{email}", Hashed{}.SegmentForm())
	_        = declare(origin, "user:verify_code:1h:{ip}", Hashed{}.SegmentForm())
	_        = declare(origin, "user:relation:friend:{uid}", id{}.SegmentForm())
	_        = declare(origin, "auth:at:{{uid}}:{device}", id{}.SegmentForm(), id{}.SegmentForm())
	_        = declare(origin, "limit:login_fail:{email}", Hashed{}.SegmentForm())
	_        = declare(origin, "leaderboard:{{board}}", board{}.SegmentForm())
	_        = declare(origin, "leaderboard:{{board}}:deaths", board{}.SegmentForm())
	_        = declare(origin, "room:{room}:state", id{}.SegmentForm())
	_        = declare(origin, "user:{user}:order:{order}", id{}.SegmentForm(), Int{}.SegmentForm())
	_        = declare(origin, "order:{order}:status:pending", Int{}.SegmentForm())
	_        = declare(origin, "token:app:user:{uid}", id{}.SegmentForm())
	_        = declare(origin, "log:{operation}:{time}", Form{Max: 48}, Int{}.SegmentForm())
	_        = declare(origin, "cache:{name}:{key}", Form{Max: 192}, Form{Max: 192})
	_        = declare(origin, "playback:{title}", Form{Max: 192})
	pair     = Def2[Text, Text](origin, "pair:{one}:{other}", BytesOf("x"), Expire(time.Hour), Doc{})
	tagged   = Def2[Text, Text](origin, "pair:{{one}}:{other}", BytesOf("x"), Expire(time.Hour), Doc{})
	triple   = Def3[Text, Text, Text](origin, "triple:{one}:{{other}}:{third}", BytesOf("x"), Expire(time.Hour), Doc{})
	events   = DefChannel0(origin, "cluster:events", RawMessages("json"), Doc{})
	messages = DefChannel1[id](origin, "channel:message:{uid}", RawMessages("json"), Doc{})
	parser   = NewParser(origin)
)

func TestParser_FindsFamilyOfKey(t *testing.T) {
	for key, want := range map[string]string{
		"user:sign:{V1StGXR8_Z5j}:2026":              "user:sign:{{uid}}:{year} V1StGXR8_Z5j 2026",
		"user:verify_code:1m:AAAAAAAAAAAAAAAAAAAAAA": "user:verify_code:1m:{email} AAAAAAAAAAAAAAAAAAAAAA",
		"user:verify_code:AAAAAAAAAAAAAAAAAAAAAA:4":  "user:verify_code:{email}:{type} AAAAAAAAAAAAAAAAAAAAAA 4",
		"user:V1StGXR8_Z5j:order:7":                  "user:{user}:order:{order} V1StGXR8_Z5j 7",
		"leaderboard:{streak}":                       "leaderboard:{{board}} streak",
		"leaderboard:{streak}:deaths":                "leaderboard:{{board}}:deaths streak",
		"order:10001:status:pending":                 "order:{order}:status:pending 10001",
		"playback:%":                                 "playback:{title} %",
		"pair:a:{b}":                                 "",
		"":                                           "",
		":":                                          "",
		"user":                                       "",
		"user:info":                                  "",
		"user:info:":                                 "",
		"user:info:V1StGXR8_Z5j:":                    "",
		"user:info:V1StGXR8_Z5":                      "",
		"user:info:{V1StGXR8_Z5j}":                   "",
		"user:sign:V1StGXR8_Z5j:2026":                "",
		"user:sign:{V1StGXR8_Z5j}:twenty":            "",
		"user:sign:{V1StGXR8_Z5j":                    "",
		"leaderboard:{weekly}":                       "",
		"leaderboard:{}":                             "",
		"leaderboard:{":                              "",
		"stoa:user:info:V1StGXR8_Z5j":                "",
		"playback:%3A":                               "",
		"cluster:events":                             "",
		"user:verify_code:1m:1":                      "",
		"user:verify_code:24h:" + strings.Repeat("A", 21) + "*": "",
		"user:relation:friend:V1StGXR8_Z5j":                     "user:relation:friend:{uid} V1StGXR8_Z5j",
		"log:" + "login" + ":1760000000000":                     "log:{operation}:{time} login 1760000000000",
		"auth:at:{V1StGXR8_Z5j}:V1StGXR8_Z5k":                   "auth:at:{{uid}}:{device} V1StGXR8_Z5j V1StGXR8_Z5k",
		"pair:{x}:y":                                            "pair:{{one}}:{other} x y",
		"pair:x:y":                                              "pair:{one}:{other} x y",
		"pair:" + strings.Repeat("long", 49) + ":y":             "",
		"playback:%%":                                           "",
		"playback:%%" + strings.Repeat("A", 22):                 "playback:{title} %%" + strings.Repeat("A", 22),
		"playback:%%" + strings.Repeat("A", 23):                 "",
		"playback:a%%" + strings.Repeat("A", 22):                "",
	} {
		got := ""
		if p, ok := parser.Key(key); ok {
			got = strings.TrimSpace(p.Family.Pattern + " " + strings.Join(p.Args[:], " "))
		}
		if got != want {
			t.Errorf("%q parsed as %q, want %q", key, got, want)
		}
	}
}

func TestParser_SeparatesChannelsAndKeys(t *testing.T) {
	if p, ok := parser.Channel("cluster:events"); !ok || p.Family != events.Family {
		t.Errorf("channel cluster:events: %v, %v", p, ok)
	}
	if p, ok := parser.Channel(messages.At(someone).String()); !ok || p.Family != messages.Family || p.Args[0] != someone.s {
		t.Errorf("channel of %v: %v, %v", someone, p, ok)
	}
	if p, ok := parser.Channel("playback:x"); ok {
		t.Errorf("a key parsed as the channel %v", p)
	}
}

func TestParser_LaterLevelDecidesFamily(t *testing.T) {
	s := New("test")
	active := declare(s, "node:active:since")
	other := declare(s, "node:{node}:load", Form{Max: 12})
	number := declare(s, "node:{number}:size", Form{Alphabet: Digits, Min: 1, Max: 12})
	p := NewParser(s)
	for key, want := range map[string]*Family{
		"node:active:since": active, "node:active:load": other, "node:7:load": other, "node:7:size": number,
	} {
		if got, ok := p.Key(key); !ok || got.Family != want {
			t.Errorf("%q: got %v, want %q", key, got.Family, want.Pattern)
		}
	}
	if got, _ := p.Key("node:7:load"); got.Args != [MaxArgs]string{"7"} {
		t.Errorf("arguments %q, want 7 alone", got.Args)
	}
}

func TestParser_AllocatesNothing(t *testing.T) {
	got := testing.AllocsPerRun(100, func() {
		for _, key := range []string{"user:sign:{V1StGXR8_Z5j}:2026", "user:verify_code:1m:x", "leaderboard:{streak}:deaths", "playback:a%20b"} {
			parser.Key(key)
		}
	})
	if got != 0 {
		t.Errorf("%v allocations, want none", got)
	}
}

// build fills the pattern of a family with arguments.
func build(f *Family, args []string) string {
	b := f.begin()
	for i, a := range args {
		b = f.next(append(b, a...), len(b), i)
	}
	return string(b)
}

func TestParser_RoundTripForEveryFamily(t *testing.T) {
	families := slices.DeleteFunc(origin.Families(), (*Family).IsChannel)
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.SampledFrom(families).Draw(t, "family")
		var args []string
		for i := range f.Args {
			args = append(args, ofForm(f.Args[i]).Draw(t, "argument"))
		}
		key := build(f, args)
		got, ok := parser.Key(key)
		if !ok || got.Family != f || !slices.Equal(got.Args[:len(args)], args) {
			t.Fatalf("%q of %s parsed as %v %q", key, f.Pattern, got.Family, got.Args)
		}
	})
}

// randomSchema draws a few families with few words and short arguments, so that they often meet.
var randomSchema = rapid.Custom(func(t *rapid.T) *Schema {
	s := New("random")
	forms := rapid.Custom(func(t *rapid.T) Form {
		switch kind := rapid.IntRange(0, 4).Draw(t, "kind"); kind {
		case 0:
			return Form{Words: rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "ab", "7", "%"}), 1, 3, rapid.ID[string]).Draw(t,
				"words")}
		default:
			n := rapid.IntRange(1, 2).Draw(t, "min")
			return Form{Alphabet: Alphabet(kind - 1), Min: n, Max: n + rapid.IntRange(0, 1).Draw(t, "more")}
		}
	})
	for range rapid.IntRange(2, 6).Draw(t, "families") {
		var levels []string
		var args []Form
		tag := rapid.IntRange(0, 4).Draw(t, "tag") // the index of the tag, if there are enough arguments
		for range rapid.IntRange(1, 4).Draw(t, "levels") {
			if len(args) == MaxArgs || rapid.Bool().Draw(t, "word") {
				levels = append(levels, rapid.SampledFrom([]string{"a", "b", "ab", "7"}).Draw(t, "word"))
				continue
			}
			level := "{" + string('p'+rune(len(args))) + "}"
			if tag == len(args) {
				level = "{" + level + "}"
			}
			args, levels = append(args, forms.Draw(t, "form")), append(levels, level)
		}
		declare(s, strings.Join(levels, ":"), args...)
	}
	return s
})

func TestDisjoint_AcceptedFamiliesNeverCollide(t *testing.T) {
	accepted, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		s := randomSchema.Draw(t, "schema")
		if err := Disjoint(s); err != nil {
			refused++
			for i, f := range s.families {
				for _, g := range s.families[:i] {
					name, meet := f.Meets(g)
					if !meet {
						continue
					}
					for _, one := range []*Family{f, g} { // the result must be a name of both
						if found, ok := NewParser(&Schema{families: []*Family{one}}).Key(name); !ok || found.Key().String() != name {
							t.Fatalf("%q, reported as a key of both %q and %q, is none of %q", name, f.Pattern, g.Pattern, one.Pattern)
						}
					}
				}
			}
			return
		}
		accepted++
		p := NewParser(s)
		for _, f := range s.families {
			for range 8 {
				var args []string
				for i := range f.Args {
					args = append(args, ofForm(f.Args[i]).Draw(t, "argument"))
				}
				key := build(f, args)
				if found, ok := p.Key(key); !ok || found.Family != f || !slices.Equal(found.Args[:len(args)], args) {
					t.Fatalf("%q of %q was parsed as %v %q", key, f.Pattern, found.Family, found.Args)
				}
				for _, g := range s.families {
					if _, ok := NewParser(&Schema{families: []*Family{g}}).Key(key); ok != (g == f) {
						t.Fatalf("%q of %q: that %q has it is %v", key, f.Pattern, g.Pattern, ok)
					}
				}
			}
		}
	})
	if accepted < 10 || refused < 10 {
		t.Errorf("%d schemas were accepted and %d refused: the draw proves little", accepted, refused)
	}
}

// ofForm draws strings of f.
func ofForm(f Form) *rapid.Generator[string] {
	if f.Words != nil {
		return rapid.SampledFrom(f.Words)
	}
	if f.Alphabet == AnyText {
		return rapid.Custom(func(t *rapid.T) string {
			return string(appendEscaped(nil, string(rapid.SliceOfN(rapid.Byte(), 0, 24).Draw(t, "text"))))
		}).Filter(f.Match)
	}
	chars := [...]string{Digits: decimal, Hex: hexits, Base64URL: base64url}[f.Alphabet]
	most := f.Max
	if most == 0 {
		most = f.Min + 8
	}
	return rapid.Custom(func(t *rapid.T) string {
		return string(rapid.SliceOfN(rapid.SampledFrom([]byte(chars)), max(f.Min, 1), most).Draw(t, "chars"))
	})
}

func FuzzTextRoundTrip(f *testing.F) {
	f.Add("", "")
	f.Add("::1", "a@b.c")
	f.Add("}{", "%41%")
	f.Add("user:info:x", "\x00\xff é")
	f.Add("*?[a]^", `\"'`)
	f.Add(strings.Repeat("long", 16), strings.Repeat("long", 16)+"!")
	f.Fuzz(func(t *testing.T, one, other string) {
		for f, key := range map[*Family]string{
			pair.Family:   pair.At(Text{one}, Text{other}).String(),
			tagged.Family: tagged.At(Text{one}, Text{other}).String(),
			triple.Family: triple.At(Text{one}, Text{other}, Text{one + other}).String(),
		} {
			for i := range len(key) {
				if c := key[i]; c <= ' ' || c > '~' || strings.IndexByte(`*?[]^\"'`, c) >= 0 {
					t.Fatalf("%q has the byte %q", key, c)
				}
			}
			got, ok := parser.Key(key)
			if !ok || got.Family != f || got.Key().String() != key {
				t.Fatalf("%q parsed as %v, want %s", key, got.Family, f.Pattern)
			}
			for i, want := range []string{one, other, one + other}[:len(f.Args)] {
				text, ok := unescape(got.Args[i])
				if len(want) > MaxText {
					want = ""
				} else if !ok {
					t.Fatalf("argument %d of %q is no escaped text", i, key)
				}
				if text != want {
					t.Fatalf("argument %d of %q: got %q, want %q", i, key, text, want)
				}
			}
			if f.tag >= 0 && hashed("stoa:"+key) != got.Args[f.tag] {
				t.Fatalf("%q has the hash tag %q, want %q", key, hashed("stoa:"+key), got.Args[f.tag])
			}
		}
	})
}

func FuzzParsedKeyRoundTrip(f *testing.F) {
	for _, key := range []string{"pair:a:%", "pair:{a}:b", "user:sign:{V1StGXR8_Z5j}:-1", "cache:a%3a:b", "%", "playback:%zz"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		text, ok := unescape(key)
		if again := string(appendEscaped(nil, text)); ok && again != key {
			t.Fatalf("%q unescapes to %q, which escapes to %q", key, text, again)
		}
		p, ok := parser.Key(key)
		if !ok {
			return
		}
		if again := build(p.Family, p.Args[:len(p.Family.Args)]); again != key {
			t.Fatalf("%q is built again as %q", key, again)
		}
	})
}

func TestExample_EveryFamilyHasOne(t *testing.T) {
	for _, f := range origin.Families() {
		name := f.Example()
		find := parser.Key
		if f.IsChannel() {
			find = parser.Channel
		}
		found, ok := find(name)
		if !ok || found.Family != f {
			t.Errorf("%q, of %s, parsed as %v", name, f.Pattern, found.Family)
			continue
		}
		want := name
		if f.IsChannel() {
			want = ""
		}
		if key := found.Key(); key.String() != want || key.IsZero() != f.IsChannel() {
			t.Errorf("the key parsed out of %q is %q", name, key)
		}
	}
	if key := (Parsed{}).Key(); !key.IsZero() {
		t.Errorf("nothing parsed is the key %q", key)
	}
}

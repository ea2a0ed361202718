package keyspace

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

var text = Form{}

func TestFamily_BuildsKeys(t *testing.T) {
	s := New("test")
	doc := Doc{Purpose: "a test's"}
	sign := Def2[id, Int](s, "user:sign:{{uid}}:{year}", BitmapOf("days"), Expire(time.Hour), doc)
	info := Def1[id](s, "user:info:{uid}", JSONOf[int](), Expire(time.Hour), doc)
	play := Def1[name](s, "playback:{title}:state", HashOf("state"), Expire(time.Hour), doc)
	limit := Def1[Hashed](s, "limit:login_fail:{email}", CounterKind(), Expire(time.Hour), doc)
	scores := Def1[board](s, "leaderboard:{{board}}:deaths", ZSetOf("user"), Expire(time.Hour), doc)
	applied := Def0(s, "checkin:applied", BytesOf("ms"), Expire(time.Hour), doc)
	message := DefChannel1[id](s, "channel:message:{uid}", RawMessages("json"), doc)
	bus := DefChannel0(s, "cluster:events", RawMessages("json"), doc)
	for _, c := range []struct {
		got  fmt.Stringer
		fam  *Family
		want string
	}{
		{sign.At(someone, Int{2026}), sign.Family, "user:sign:{V1StGXR8_Z5j}:2026"},
		{sign.At(someone, Int{-1}), sign.Family, "user:sign:{V1StGXR8_Z5j}:-1"},
		{info.At(someone), info.Family, "user:info:V1StGXR8_Z5j"},
		{play.At(name{"a:{b}*é"}), play.Family, "playback:a%3a%7bb%7d%2a%c3%a9:state"},
		{play.At(name{}), play.Family, "playback:%:state"},
		{limit.At(Hashed{"fe80::1%{eth0}"}), limit.Family, "limit:login_fail:lUAm7QK8jsq6nK1fHB7yLw"},
		{scores.At(WordOf[boards]("total_days")), scores.Family, "leaderboard:{total_days}:deaths"},
		{applied.At(), applied.Family, "checkin:applied"},
		{message.At(someone), message.Family, "channel:message:V1StGXR8_Z5j"},
		{bus.At(), bus.Family, "cluster:events"},
	} {
		if got := c.got.String(); got != c.want {
			t.Errorf("%s: got %q, want %q", c.fam.Pattern, got, c.want)
		}
		if got := c.got.(interface{ Family() *Family }).Family(); got != c.fam {
			t.Errorf("%s: the key names another family", c.want)
		}
	}
	if info.At(someone).IsZero() || bus.At().IsZero() || !(Key{}).IsZero() || !(Channel{}).IsZero() {
		t.Error("IsZero does not identify the zero values")
	}
	if got := len(s.Families()); got != 8 {
		t.Errorf("%d families, want 8", got)
	}
}

func TestDeclaration_MalformedPanics(t *testing.T) {
	type args = []Form
	for _, c := range []struct {
		pattern string
		args    args
		want    string
	}{
		{"user:{uid", args{text}, "neither a word nor"},
		{"user:uid}", args{text}, "neither a word nor"},
		{"user:{}", args{text}, "neither a word nor"},
		{"user:{{}}", args{text}, "neither a word nor"},
		{"user:{{uid}", args{text}, "neither a word nor"},
		{"user:{uid}}", args{text}, "neither a word nor"},
		{"user:{{{uid}}}", args{text}, "neither a word nor"},
		{"user:u_{uid}", args{text}, "neither a word nor"},
		{"user:{uid}{day}", args{text, text}, "neither a word nor"},
		{"user::{uid}", args{text}, "neither a word nor"},
		{":user", nil, "neither a word nor"},
		{"", nil, "neither a word nor"},
		{"user:{uid}", nil, "more placeholders than its 0 arguments"},
		{"user:info", args{text}, "0 placeholders and was declared with 1 arguments"},
		{"user:{uid}:{uid}", args{text, text}, "two placeholders {uid}"},
		{"user:{{uid}}:{{day}}", args{text, text}, "two hash tags"},
		{"user:{uid}", args{{Alphabet: 9}}, "unknown alphabet"},
		{"user:{uid}", args{{Min: 3, Max: 2}}, "form that matches no string"},
		{"user:{uid}", args{{Max: -1}}, "form that matches no string"},
		{"user:{uid}", args{{Words: []string{}}}, "form that matches no string"},
		{"user:{uid}", args{{Words: []string{"a", "b:c"}}}, "that a key cannot contain"},
		{"user:{uid}", args{{Words: []string{""}}}, "that a key cannot contain"},
	} {
		t.Run(c.pattern, func(t *testing.T) {
			mustPanic(t, c.want, func() { declare(New("test"), c.pattern, c.args...) })
		})
	}
}

func TestDeclaration_InvalidTTLPanics(t *testing.T) {
	for want, ttl := range map[string]TTL{
		"neither a TTL nor a reason":            {},
		"neither a TTL nor a reason ":           Forever("  "),
		"jitter, an empty or a stale TTL":       Forever("swept").Jitter(time.Second),
		"jitter, an empty or a stale TTL ":      Forever("swept").Negative(time.Second),
		"may be under a millisecond":            Expire(time.Microsecond),
		"may be under a millisecond ":           Expire(-time.Second),
		"may be under a millisecond  ":          Expire(time.Second).Jitter(time.Second),
		"negative jitter, empty or stale TTL":   Expire(time.Second).Jitter(-time.Second),
		"negative jitter, empty or stale TTL  ": Expire(time.Second).Negative(-time.Second),
	} {
		mustPanic(t, strings.TrimSpace(want), func() {
			Def0(New("test"), "user:info", CounterKind(), ttl, Doc{})
		})
	}
}

func TestDeclaration_UnknownTypePanics(t *testing.T) {
	mustPanic(t, `unknown type ""`, func() { Def0(New("test"), "user:info", Kind[Bytes]{}, Expire(time.Hour), Doc{}) })
}

// lying is a segment that does not match its form.
type lying struct{ s string }

func (l lying) AppendSegment(b []byte) []byte { return append(b, l.s...) }

func TestAt_ArgumentOfWrongFormPanics(t *testing.T) {
	s := New("test")
	doc := Doc{Purpose: "a test's"}
	two := Def2[id, board](s, "user:{{uid}}:{board}", CounterKind(), Expire(time.Hour), doc)
	raw := Def1[lying](s, "raw:{text}", CounterKind(), Expire(time.Hour), doc)
	bounded := Def1[name](s, "named:{name}", CounterKind(), Expire(time.Hour), doc)
	channel := DefChannel1[id](s, "channel:{uid}", RawMessages("json"), doc)
	streak := WordOf[boards]("streak")
	for name, f := range map[string]func(){
		"zero identifier":            func() { two.At(id{}, streak) },
		"zero word":                  func() { two.At(someone, board{}) },
		"identifier with a brace":    func() { two.At(id{"V1StGXR8_Z5}"}, streak) },
		"longer identifier":          func() { two.At(id{"V1StGXR8_Z5jj"}, streak) },
		"nothing at all":             func() { raw.At(lying{""}) },
		"bare colon":                 func() { raw.At(lying{"a:b"}) },
		"needless escape":            func() { raw.At(lying{"%41"}) },
		"upper-case escape":          func() { raw.At(lying{"%3A"}) },
		"unfinished escape":          func() { raw.At(lying{"a%3"}) },
		"text beyond its bound":      func() { bounded.At(name{strings.Repeat(" ", 65)}) },
		"zero identifier, a channel": func() { channel.At(id{}) },
	} {
		t.Run(name, func(t *testing.T) { mustPanic(t, "does not match the form of its type", f) })
	}
}

func TestText_LongTextBecomesHash(t *testing.T) {
	whole, long := strings.Repeat("é", MaxText/2), strings.Repeat("é", MaxText/2)+"!"
	if got, want := string(Text{whole}.AppendSegment(nil)), strings.Repeat("%c3%a9", MaxText/2); got != want {
		t.Errorf("%d bytes became %q, want %q", MaxText, got, want)
	}
	got := string(Text{long}.AppendSegment(nil))
	if want := "%%" + string(Hashed{long}.AppendSegment(nil)); got != want {
		t.Errorf("%d bytes became %q, want %q", MaxText+1, got, want)
	}
	if text, ok := unescape(got); ok {
		t.Errorf("%q unescapes to %q", got, text)
	}
	if again := string(Text{got}.AppendSegment(nil)); again == got {
		t.Error("a text that looks like the hash of another meets it")
	}
}

func TestJitter_StaysWithinSpread(t *testing.T) {
	ttl := Expire(time.Hour).Jitter(5 * time.Minute)
	low, high := ttl.Longest(), time.Duration(0)
	for range 2000 {
		d := ttl.Draw()
		low, high = min(low, d), max(high, d)
	}
	if low < 55*time.Minute || high > 65*time.Minute {
		t.Errorf("lives from %v to %v, want them within 1h ± 5m", low, high)
	}
	if low > 56*time.Minute || high < 64*time.Minute {
		t.Errorf("2000 lives from %v to %v, want them spread over 1h ± 5m", low, high)
	}
}

func TestWord_ListIsClosed(t *testing.T) {
	if w, ok := ParseWord[boards]("streak"); !ok || w != WordOf[boards]("streak") || w.String() != "streak" {
		t.Errorf("ParseWord(streak) = %v, %v", w, ok)
	}
	for _, s := range []string{"", "Streak", "streak:x"} {
		if w, ok := ParseWord[boards](s); ok || w != (board{}) {
			t.Errorf("ParseWord(%q) = %v, %v, want none", s, w, ok)
		}
	}
	mustPanic(t, "is not one of keyspace.boards", func() { WordOf[boards]("weekly") })
}

func TestTry_ReturnsErrorWhereAtPanics(t *testing.T) {
	s := New("test")
	one := Def1[Hashed](s, "try:{a}", BytesOf("x"), hour, Doc{})
	two := Def2[Hashed, Word[noWords]](s, "try:{a}:{b}", BytesOf("x"), hour, Doc{})
	three := Def3[Hashed, Int, Word[noWords]](s, "try:{a}:{b}:{c}", BytesOf("x"), hour, Doc{})
	if h, err := one.Try(Hashed{"x"}); err != nil || h.Key != one.At(Hashed{"x"}).Key {
		t.Errorf("%v, %v", h, err)
	}
	if _, err := two.Try(Hashed{"x"}, Word[noWords]{}); !errors.Is(err, ErrArgument) {
		t.Errorf("got %v, want %v", err, ErrArgument)
	}
	if _, err := three.Try(Hashed{"x"}, Int{1}, Word[noWords]{}); !errors.Is(err, ErrArgument) {
		t.Errorf("got %v, want %v", err, ErrArgument)
	}
}

type noWords struct{}

func (noWords) Words() []string { return []string{"none"} }

func TestSegment_RoundTrip(t *testing.T) {
	w, _ := ParseWord[boards]("streak")
	back := []struct {
		write interface{ AppendSegment([]byte) []byte }
		read  interface{ ReadSegment(string) error }
		wrong string // what it cannot read
	}{
		{Int{-7}, new(Int), "seven"}, {Text{"a:b c"}, new(Text), "%%"}, {Raw{"a:b c"}, new(Raw), ""}, {w, new(board), "weekly"},
	}
	for _, c := range back {
		if c.wrong != "" {
			if err := c.read.ReadSegment(c.wrong); err == nil {
				t.Errorf("%T read %q", c.write, c.wrong)
			}
		}
		if err := c.read.ReadSegment(string(c.write.AppendSegment(nil))); err != nil ||
			reflect.ValueOf(c.read).Elem().Interface() != any(c.write) {
			t.Errorf("%T: %+v, %v; want %+v", c.write, c.read, err, c.write)
		}
	}
}

func TestTry_DoesNotRecoverOtherPanics(t *testing.T) {
	s := New("test")
	f := Def1[panicking](s, "panicking:{x}", BytesOf("x"), Expire(time.Hour), Doc{})
	mustPanic(t, "a segment's own", func() { f.Try(panicking{}) })
}

type panicking struct{ Int }

func (panicking) AppendSegment([]byte) []byte { panic("a segment's own") }

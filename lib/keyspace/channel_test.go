package keyspace

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// sent is a Publisher that records its messages.
type sent []string

func (s *sent) Publish(ctx context.Context, ch Channel, payload string) error {
	*s = append(*s, s.PublishCmd(ch, payload).Args...)
	return ctx.Err()
}

func (s *sent) PublishCmd(ch Channel, payload string) Cmd {
	return Cmd{Name: "PUBLISH", Args: []string{ch.String(), payload}}
}

type greeting struct {
	From string `json:"from"`
	N    int    `json:"n,omitempty"`
}

func TestChannel_PublishesAndDecodesItsType(t *testing.T) {
	s := New("test")
	greetings := DefChannel1[id](s, "channel:greeting:{uid}", MessagesOf[greeting](), Doc{})
	ch, want := greetings.At(someone), greeting{"ann", 3}
	var out sent
	if err := ch.Publish(t.Context(), &out, want); err != nil {
		t.Fatal(err)
	}
	cmd, err := ch.PublishCmd(&out, want)
	if err != nil || !slices.Equal(cmd.Args, out) {
		t.Errorf("got %q, %v, want %q", cmd.Args, err, out)
	}
	if out[0] != "channel:greeting:V1StGXR8_Z5j" || out[1] != `{"from":"ann","n":3}` {
		t.Errorf("sent %q", out)
	}
	if got, err := ch.Decode(out[1]); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if got, err := ch.Decode(`{"from":"ann","n":`); err == nil || got != (greeting{}) ||
		!strings.Contains(err.Error(), "channel:greeting:{uid}") {
		t.Errorf("broken message: %+v, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := ch.Publish(ctx, &out, want); !errors.Is(err, context.Canceled) {
		t.Errorf("the publisher's error came back as %v", err)
	}
}

func TestChannel_ValueWithoutJSONNotPublished(t *testing.T) {
	ch := DefChannel0(New("test"), "channel:odd", MessagesOf[any](), Doc{}).At()
	var out sent
	if err := ch.Publish(t.Context(), &out, func() {}); err == nil || len(out) > 0 {
		t.Errorf("got %v, sent %q", err, out)
	}
	if _, err := ch.PublishCmd(&out, func() {}); err == nil {
		t.Error("a function was encoded")
	}
}

func TestChannel_LogMustBeStream(t *testing.T) {
	s := New("test")
	mustPanic(t, "which is not a stream", func() {
		list := Def0(s, "bus:list", ListOf("event"), Forever("trimmed"), Doc{})
		DefChannel0(s, "bus:other", RawMessages("empty").LoggedIn(list.Family), Doc{})
	})
}

func TestCarrying_ChangesForm(t *testing.T) {
	channel := func(v any) *Family {
		types := map[string]any{"told": v, "gone": 0}
		return DefChannel0(New("test"), "channel:told", MessagesOf[json.RawMessage]().Carrying(types), Doc{}).Family
	}
	was := func() *Family {
		type news struct {
			N int `json:"n"`
		}
		return channel(news{})
	}()
	is := func() *Family {
		type news struct {
			N int `json:"number"`
		}
		return channel(news{})
	}()
	if was.Form == is.Form {
		t.Errorf("%s is also the form with another field", is.Form)
	}
	if !strings.HasPrefix(is.Form, "json json.RawMessage with gone int#") || !strings.Contains(is.Form, ", told keyspace.news#") ||
		len(is.Carries) != 2 {
		t.Errorf("got %s, and %v", is.Form, is.Carries)
	}
}

func TestJSONForm_NamesFields(t *testing.T) {
	type inner struct {
		greeting
		At    time.Time
		Raw   []byte           `json:"raw"`
		Skip  int              `json:"-"`
		Big   int64            `json:"big,string"`
		Many  []*greeting      `json:"many"`
		By    map[string]uint8 `json:"by"`
		Again *inner           `json:"again"`
		Any   any
		F     float32
		ok    bool
	}
	for want, got := range map[string]string{
		"json string": jsonForm[string](), "json int": jsonForm[uint16](), "json [bool]": jsonForm[[3]bool](), "json any": jsonForm[any](),
		"json {from string, n int}": jsonForm[*greeting](), "json base64": jsonForm[[]byte](),
		"json {from string, n int, At time.Time, raw base64, big string of int, many [{from string, n int}], " +
			"by {string: int}, again keyspace.inner, Any any, F float}": jsonForm[inner](),
	} {
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	_ = inner{}.ok
}

func TestFamily_ThreeArguments(t *testing.T) {
	s := New("test")
	day := Def3[id, board, Int](s, "user:daily:{{uid}}:{board}:{day}", CounterKind(), Expire(time.Hour), Doc{Purpose: "x"})
	key := day.At(someone, WordOf[boards]("streak"), Int{7}).Key
	if key.String() != "user:daily:{V1StGXR8_Z5j}:streak:7" || key.Family() != day.Family {
		t.Errorf("got %s", key)
	}
	if again := day.In(Atomic(someone), WordOf[boards]("streak"), Int{7}); again.Key != key {
		t.Errorf("got %s", again)
	}
	if p, ok := NewParser(s).Key(key.String()); !ok || p.Args != [MaxArgs]string{"V1StGXR8_Z5j", "streak", "7"} {
		t.Errorf("parsed as %q, %v", p.Args, ok)
	}
	mustPanic(t, "argument 2 of user:daily", func() { day.At(someone, board{}, Int{7}) })
	elsewhere := Def3[Int, id, Int](s, "user:other:{day}:{{uid}}:{n}", CounterKind(), Expire(time.Hour), Doc{Purpose: "x"})
	mustPanic(t, "is not its hash tag", func() { elsewhere.In(Atomic(Int{1}), someone, Int{2}) })
	if err := Lint(s); err != nil {
		t.Error(err)
	}
}

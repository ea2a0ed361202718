package keyspace

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// script is an Executor that returns prepared replies and records the commands.
type script struct {
	replies []Reply
	sent    []string
}

func (s *script) Do(_ context.Context, c Cmd) Reply {
	if c.Err != nil {
		return Fail(c.Err)
	}
	s.sent = append(s.sent, strings.Join(append([]string{c.Name, c.Key.String()}, c.Args...), " "))
	if len(s.replies) == 0 {
		return Reply{}
	}
	r := s.replies[0]
	s.replies = s.replies[1:]
	return r
}

func (s *script) DoMulti(ctx context.Context, cmds []Cmd) []Reply {
	var replies []Reply
	for _, c := range cmds {
		replies = append(replies, s.Do(ctx, c))
	}
	return replies
}

type point struct{ X, Y int }

type both struct {
	A string `redis:"a"`
	B string `redis:"b"`
}

var (
	handles = New("test")
	hour    = Expire(time.Hour)
	asBytes = Def0(handles, "test:bytes", BytesOf("x"), hour, Doc{})
	upTo    = Def0(handles, "test:up_to", BytesOf("x"), UpTo(time.Hour), Doc{})
	asJSON  = Def0(handles, "test:json", JSONOf[point](), hour, Doc{})
	noJSON  = Def0(handles, "test:no_json", JSONOf[func()](), hour, Doc{})
	counter = Def0(handles, "test:counter", CounterKind(), hour, Doc{})
	bits    = Def0(handles, "test:bits", BitmapOf("x"), hour, Doc{})
	kept    = Def0(handles, "test:kept", BitmapOf("x"), Forever("swept"), Doc{})
	hash    = Def0(handles, "test:hash", HashOf("x"), hour, Doc{})
	places  = Def0(handles, "test:places", GeoOf("x"), hour, Doc{})
	journal = Def0(handles, "test:journal", StreamOf("x"), hour, Doc{})
	record  = Def0(handles, "test:record", RecordOf[both](), hour, Doc{})
)

func TestHandles_SendTheirCommands(t *testing.T) {
	ctx, db := t.Context(), new(script)
	db.replies = []Reply{
		{Kind: TextReply, Str: "v"}, {}, {}, {}, {},
		{Kind: TextReply, Str: `{"X":1,"Y":2}`}, {}, {}, {},
		{Kind: TextReply, Str: "42"}, {},
		{Kind: ListReply, List: []Reply{{Kind: TextReply, Str: "a"}, {Kind: TextReply, Str: "1"}}},
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	if v, ok, err := asBytes.At().Get(ctx, db); v != "v" || !ok || err != nil {
		t.Errorf("Bytes.Get = %q, %v, %v", v, ok, err)
	}
	if v, ok, err := asBytes.At().Get(ctx, db); v != "" || ok || err != nil {
		t.Errorf("Bytes.Get of nothing = %q, %v, %v", v, ok, err)
	}
	must(asBytes.At().Set(ctx, db, "w"))
	must(upTo.At().SetFor(ctx, db, "w", time.Minute))
	must(asBytes.At().Delete(ctx, db))
	if v, ok, err := asJSON.At().Get(ctx, db); v != (point{1, 2}) || !ok || err != nil {
		t.Errorf("JSON.Get = %v, %v, %v", v, ok, err)
	}
	if v, ok, err := asJSON.At().Get(ctx, db); v != (point{}) || ok || err != nil {
		t.Errorf("JSON.Get of nothing = %v, %v, %v", v, ok, err)
	}
	must(asJSON.At().Set(ctx, db, point{3, 4}))
	must(asJSON.At().Delete(ctx, db))
	if n, err := counter.At().Get(ctx, db); n != 42 || err != nil {
		t.Errorf("Counter.Get = %d, %v", n, err)
	}
	if n, err := counter.At().Get(ctx, db); n != 0 || err != nil {
		t.Errorf("Counter.Get of nothing = %d, %v", n, err)
	}
	if m, err := hash.At().All(ctx, db); len(m) != 1 || m["a"] != "1" || err != nil {
		t.Errorf("Hash.All = %v, %v", m, err)
	}
	db.DoMulti(ctx, []Cmd{bits.At().SetBitBareCmd(9), bits.At().GetCmd(), bits.At().RenewCmd(), kept.At().RenewCmd(), bits.At().GetRenewCmd(),
		kept.At().GetRenewCmd(), asBytes.At().SetCmd("z", 0),
		places.At().LenCmd(), places.At().RemoveCmd("m", "n")})
	want := []string{
		"GET test:bytes", "GET test:bytes", "SET test:bytes w PX 3600000", "SET test:up_to w PX 60000", "UNLINK test:bytes",
		"GET test:json", "GET test:json", `SET test:json {"X":3,"Y":4} PX 3600000`, "UNLINK test:json",
		"GET test:counter", "GET test:counter", "HGETALL test:hash",
		"SETBIT test:bits 9 1", "GET test:bits", "PEXPIRE test:bits 3600000", "PERSIST test:kept", "GETEX test:bits PX 3600000",
		"GETEX test:kept PERSIST", "SET test:bytes z",
		"ZCARD test:places", "ZREM test:places m n",
	}
	if !slices.Equal(db.sent, want) {
		t.Errorf("sent %q\nwant %q", db.sent, want)
	}
}

func TestSetFor_NeedsUpToFamily(t *testing.T) {
	db := new(script)
	for _, c := range []struct {
		h Bytes
		d time.Duration
	}{{asBytes.At(), time.Minute}, {upTo.At(), 0}, {upTo.At(), time.Microsecond}, {upTo.At(), time.Hour + 1}} {
		if err := c.h.SetFor(t.Context(), db, "v", c.d); err == nil || len(db.sent) != 0 {
			t.Errorf("%s for %v: %v, sent %q; want an error and nothing sent", c.h, c.d, err, db.sent)
		}
	}
}

func TestHandles_ReturnErrors(t *testing.T) {
	ctx, broken := t.Context(), errors.New("broken")
	failing := func() *script { return &script{replies: []Reply{Fail(broken)}} }
	_, _, getBytes := asBytes.At().Get(ctx, failing())
	_, _, getJSON := asJSON.At().Get(ctx, failing())
	_, getCounter := counter.At().Get(ctx, failing())
	_, getHash := hash.At().All(ctx, failing())
	for name, err := range map[string]error{
		"Bytes.Get": getBytes, "JSON.Get": getJSON, "Counter.Get": getCounter, "Hash.All": getHash,
		"Bytes.Set":    asBytes.At().Set(ctx, failing(), "v"),
		"Bytes.SetFor": upTo.At().SetFor(ctx, failing(), "v", time.Second),
		"Bytes.Delete": asBytes.At().Delete(ctx, failing()),
		"JSON.Set":     asJSON.At().Set(ctx, failing(), point{}),
	} {
		if !errors.Is(err, broken) {
			t.Errorf("%s: got %v, want the executor's error", name, err)
		}
	}
	v, ok, err := asJSON.At().Get(ctx, &script{replies: []Reply{{Kind: TextReply, Str: `{"X":1,"Y":"no"}`}}})
	if syntax := new(json.UnmarshalTypeError); !errors.As(err, &syntax) || ok || v != (point{}) {
		t.Errorf("JSON.Get of another value: %v, %v, %v", v, ok, err)
	}
}

func TestJSON_ValueWithoutJSONNotSent(t *testing.T) {
	ctx, db, f := t.Context(), new(script), func() {}
	var b Batch
	noJSON.At().SetIn(&b, f)
	added, err := noJSON.At().Add(ctx, db, f)
	for name, err := range map[string]error{"Set": noJSON.At().Set(ctx, db, f), "Add": err, "a batch": b.Run(ctx, db)} {
		if what := new(json.UnsupportedTypeError); !errors.As(err, &what) {
			t.Errorf("%s: %v, want %T", name, err, what)
		}
	}
	if added || len(db.sent) != 0 {
		t.Errorf("added %v, sent %q", added, db.sent)
	}
}

// If a server or proxy replies in another form, every method that reads the reply returns an error.
func TestHandles_ReplyOfOtherKindIsError(t *testing.T) {
	ctx := t.Context()
	text, number := Reply{Kind: TextReply, Str: "x"}, Reply{Kind: IntReply, N: 1}
	list := func(items ...Reply) Reply { return Reply{Kind: ListReply, List: items} }
	ask := map[string]struct {
		ask     func(Executor) error
		replies []Reply
	}{
		"Geo.At": {func(db Executor) error { _, _, err := places.At().At(ctx, db, "m"); return err },
			[]Reply{number, list(number), list(list(text)), list(list(list(), text)), list(list(text, text))}},
		"Hash.GetSome": {func(db Executor) error { _, err := hash.At().GetSome(ctx, db, "f"); return err }, []Reply{number, list(list())}},
		"Hash.All": {func(db Executor) error {
			_, err := hash.At().All(ctx, db)
			return err
		}, []Reply{number, list(text), list(text, list())}},
		"Record.GetSome": {func(db Executor) error { _, err := record.At().GetSome(ctx, db, "a"); return err }, []Reply{number, list(list())}},
		"Stream.Read": {func(db Executor) error {
			_, err := journal.At().Read(ctx, db, "g", "c", 1)
			return err
		}, []Reply{number, list(text), list(list(text, number))}},
		"Stream.Claim": {func(db Executor) error {
			_, err := journal.At().Claim(ctx, db, "g", "c", 0, 1)
			return err
		}, []Reply{number, list(text, number)}},
		"Stream.Range": {func(db Executor) error { _, err := journal.At().Range(ctx, db, "-", "+", 1); return err },
			[]Reply{number, list(text), list(list(text)), list(list(list(), list())), list(list(text, number)), list(list(text, list(text)))}},
		"Geo.Near": {func(db Executor) error {
			_, err := places.At().Near(ctx, db, Point{}, 1, 1)
			return err
		}, []Reply{number, list(text), list(text, text), list(list(list(), number))}},
		"Set.HasEach": {func(db Executor) error {
			_, err := Def0(New("test"), "test:set", SetOf("x"), hour, Doc{}).At().HasEach(ctx, db, "m")
			return err
		}, []Reply{number, list(list())}},
		"Batch.RunAtomic": {func(db Executor) error {
			var b Batch
			n := b.Int(counter.At().GetCmd())
			err := b.RunAtomic(ctx, db)
			if _, ok, filled := n.Get(); ok || !errors.Is(err, filled) {
				t.Errorf("Batch.RunAtomic fills in %v, %v; returns %v", ok, filled, err)
			}
			return err
		}, []Reply{number, list(), list(number, number)}},
	}
	for name, c := range ask {
		for _, r := range c.replies {
			if err := c.ask(&script{replies: []Reply{r}}); !errors.Is(err, ErrReply) && !errors.Is(err, strconv.ErrSyntax) {
				t.Errorf("%s: %+v gives %v, want %v", name, r, err, ErrReply)
			}
		}
	}
	// Entries that were deleted while a consumer had them.
	removed := list(text, list(list(), list(text, Reply{}), list(text, list(text, text))))
	if got, err := journal.At().Claim(ctx, &script{replies: []Reply{removed}}, "g", "c", 0, 1); len(got) != 1 || err != nil {
		t.Errorf("Stream.Claim with removed entries: %v, %v; want the one that is left", got, err)
	}
}

func TestReply_ShapeIsChecked(t *testing.T) {
	broken := errors.New("broken")
	text, number, list := Reply{Kind: TextReply, Str: "2.5"}, Reply{Kind: IntReply, N: 7}, Reply{Kind: ListReply, List: []Reply{{}}}
	for _, c := range []struct {
		reply Reply
		ask   func(Reply) (any, error)
		want  any
		err   error
	}{
		{number, func(r Reply) (any, error) { s, _, err := r.Text(); return s, err }, "7", nil},
		{list, func(r Reply) (any, error) { s, _, err := r.Text(); return s, err }, "", ErrReply},
		{number, func(r Reply) (any, error) { return r.Int() }, int64(7), nil},
		{list, func(r Reply) (any, error) { return r.Int() }, int64(0), ErrReply},
		{Fail(broken), func(r Reply) (any, error) { return r.Int() }, int64(0), broken},
		{text, func(r Reply) (any, error) { f, _, err := r.Float(); return f, err }, 2.5, nil},
		{Fail(broken), func(r Reply) (any, error) { f, _, err := r.Float(); return f, err }, 0.0, broken},
		{list, func(r Reply) (any, error) { l, err := r.Items(); return len(l), err }, 1, nil},
		{Reply{}, func(r Reply) (any, error) { l, err := r.Items(); return len(l), err }, 0, nil},
		{text, func(r Reply) (any, error) { l, err := r.Items(); return len(l), err }, 0, ErrReply},
		{Fail(broken), func(r Reply) (any, error) { l, err := r.Items(); return len(l), err }, 0, broken},
		{text, func(r Reply) (any, error) { return nil, FirstErr([]Reply{r, {}}) }, nil, nil},
		{text, func(r Reply) (any, error) { return nil, FirstErr([]Reply{r, Fail(broken)}) }, nil, broken},
	} {
		if got, err := c.ask(c.reply); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%+v: got %v, %v, want %v, %v", c.reply, got, err, c.want, c.err)
		}
	}
}

func TestKind_HasItsType(t *testing.T) {
	s := New("test")
	for pattern, f := range map[string]*Family{
		"set":    Def0(s, "test:set", SetOf("x"), hour, Doc{}).Family,
		"list":   Def0(s, "test:list", ListOf("x"), hour, Doc{}).Family,
		"stream": Def0(s, "test:stream", StreamOf("x"), hour, Doc{}).Family,
		"zset":   Def0(s, "test:zset", ZSetOf("x"), hour, Doc{}).Family,
		"hash":   hash.Family, "string": counter.Family,
	} {
		if f.Type != pattern || f.IsChannel() {
			t.Errorf("%s has the type %s", f.Pattern, f.Type)
		}
	}
}

func TestCheck_AcceptsValidValuesOnly(t *testing.T) {
	s := New("test")
	odd := errors.New("odd length")
	cached := func(none, payload string) string { return "V" + none + strings.Repeat("0", 44) + "\x00" + payload }
	lease := "L" + strings.Repeat("0", 21)
	for _, c := range []struct {
		family *Family
		fine   []string
		faulty []string
	}{
		{Def0(s, "point", JSONOf[point](), Expire(time.Hour), Doc{}).Family, []string{`{"X":1}`, `null`},
			[]string{"", "{", `{"X":"1"}`, `{} {}`}},
		{Def0(s, "cached", CachedOf[point](), Expire(time.Hour), Doc{}).Family,
			[]string{cached("0", `{"X":1}`), cached("1", ""), lease, lease + cached("0", `{"X":1}`), "F" + strings.Repeat("0", 9),
				cached("0", "\x01\x03gob"), cached("0", "\x02\x00")},
			[]string{"", "L", cached("0", `{"X":"1"}`), lease + "V", "F", "X" + strings.Repeat("0", 60), cached("0", "")[:46] + "\x01"}},
		{Def0(s, "count", CounterKind(), Expire(time.Hour), Doc{}).Family, []string{"0", "-9223372036854775808"},
			[]string{"", "1.5", "9223372036854775808", " 1"}},
		{Def1[Int](s, "pairs:{n}", BytesOf("pairs").Checked(func(v []byte) error {
			if len(v)%2 != 0 {
				return odd
			}
			return nil
		}), Expire(time.Hour), Doc{}).Family, []string{"", "ab"}, []string{"a"}},
	} {
		for _, v := range c.fine {
			if err := c.family.Check([]byte(v)); err != nil {
				t.Errorf("%s: Check(%q): got %v, want nil", c.family.Pattern, v, err)
			}
		}
		for _, v := range c.faulty {
			if err := c.family.Check([]byte(v)); err == nil {
				t.Errorf("%s: Check(%q): got nil, want an error", c.family.Pattern, v)
			}
		}
	}
	if f := Def0(s, "free", BytesOf("whatever"), Expire(time.Hour), Doc{}).Family; f.Check != nil {
		t.Errorf("a family of any bytes has a check")
	}
}

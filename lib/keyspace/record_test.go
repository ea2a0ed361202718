package keyspace_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

type grade int

// MarshalText writes A, B, C …
func (g grade) MarshalText() ([]byte, error) {
	if g < 0 {
		return nil, errors.New("below all grades")
	}
	return []byte{'A' + byte(g)}, nil
}

func (g *grade) UnmarshalText(b []byte) error {
	if len(b) != 1 {
		return errors.New("no grade")
	}
	*g = grade(b[0] - 'A')
	return nil
}

type common struct {
	Changed time.Time `redis:"changed"`
}

type pupil struct {
	common
	Name   string  `redis:"name"`
	Age    int8    `redis:"age"`
	Points uint16  `redis:"points"`
	Height float32 `redis:"height"`
	Away   bool    `redis:"away"`
	Photo  []byte  `redis:"photo"`
	Grade  grade   `redis:"grade"`
	Town   string
	Secret func() `redis:"-"`
	local  int
}

var (
	pupils = keyspace.New("pupils")
	pupilK = keyspace.Def1[keyspace.Int](pupils, "pupil:{{id}}", keyspace.RecordOf[pupil](), keyspace.Expire(time.Hour), doc)
)

func TestRecord_StoresStruct(t *testing.T) {
	db, ctx := redistest.OpenConfig(t, redistest.Shared(t)), t.Context()
	h := pupilK.At(keyspace.Int{N: 1})
	if v, ok, err := h.Get(ctx, db); ok || err != nil || v.Name != "" {
		t.Errorf("nothing is read as %v, %v, %v", v, ok, err)
	}
	want := pupil{common{time.Date(2026, 11, 25, 9, 0, 0, 5, time.UTC)}, "Ann", -5, 65535, 1.61, true, []byte{0, 255}, 2, "Rome", nil, 0}
	text := func(p pupil) string { return fmt.Sprintf("%+v", p) }
	if err := h.Set(ctx, db, want); err != nil {
		t.Fatal(err)
	}
	if v, ok, err := h.Get(ctx, db); text(v) != text(want) || !ok || err != nil {
		t.Errorf("got  %s, %v, %v\nwant %s", text(v), ok, err, text(want))
	}
	raw := keyspace.Cmd{Name: "HGETALL", Key: h.Key}
	if m, err := db.Do(ctx, raw).Map(); m["away"] != "1" || m["grade"] != "C" || m["Town"] != "Rome" || m["height"] != "1.61" || len(m) != 9 ||
		err != nil {
		t.Errorf("the hash is %v, %v", m, err)
	}
	if left, _, err := h.Left(ctx, db); left <= 0 || left > time.Hour || err != nil {
		t.Errorf("%v, %v left, want an hour", left, err)
	}

	// Another program writes while this one changes the struct that it has read.
	db.Do(ctx, keyspace.Cmd{Name: "HSET", Key: h.Key, Args: []string{"name", "Bea", "hobby", "chess"}})
	db.Do(ctx, keyspace.Cmd{Name: "PERSIST", Key: h.Key})
	next := want
	next.Age, next.Away = 6, false
	if err := h.Change(ctx, db, want, next); err != nil {
		t.Fatal(err)
	}
	next.Name = "Bea"
	if v, _, err := h.Get(ctx, db); text(v) != text(next) || err != nil {
		t.Errorf("changed: got %s, %v\nwant %s", text(v), err, text(next))
	}
	if left, _, err := h.Left(ctx, db); left <= 0 || err != nil {
		t.Errorf("a change leaves %v, %v, want an hour", left, err)
	}
	if _, some := h.ChangeCmd(next, next); some || h.Change(ctx, db, next, next) != nil {
		t.Error("there is a command without a difference")
	}
	if v, err := h.GetSome(ctx, db, "age", "name"); text(v) != text(pupil{Name: "Bea", Age: 6}) || err != nil {
		t.Errorf("some fields: got %s, %v", text(v), err)
	}
	if n, err := h.Add(ctx, db, "age", 2); n != 8 || err != nil {
		t.Errorf("Add: %d, %v", n, err)
	}
	if n, err := h.Add(ctx, db, "points", -1); n != 65534 || err != nil {
		t.Errorf("Add: %d, %v", n, err)
	}
	if n, err := h.Remove(ctx, db, "photo", "Town"); n != 2 || err != nil {
		t.Errorf("Remove: %d, %v", n, err)
	}
	if v, _, err := h.Get(ctx, db); v.Town != "" || v.Photo != nil || err != nil {
		t.Errorf("removed: %v, %v", text(v), err)
	}
	if got := pupilK.Family.Form; got != "fields {changed time.Time, name string, age int8, points uint16, height float32, away bool, "+
		"photo bytes, grade keyspace_test.grade, Town string}" {
		t.Errorf("form %q", got)
	}
	redistest.KeysDeclared(t, db, pupils)
}

func TestRecord_ErrorNamesField(t *testing.T) {
	db, ctx := redistest.OpenConfig(t, redistest.Shared(t)), t.Context()
	h := pupilK.At(keyspace.Int{N: 2})
	for field, text := range map[string]string{"age": "128", "points": "-1", "height": "tall", "away": "perhaps", "grade": "AA",
		"changed": "now"} {
		db.Do(ctx, h.DeleteCmd())
		db.Do(ctx, keyspace.Cmd{Name: "HSET", Key: h.Key, Args: []string{field, text}})
		_, ok, one := h.Get(ctx, db)
		v, two := h.GetSome(ctx, db, "name", field)
		for _, err := range []error{one, two} {
			if ok || v.Age != 0 || !errors.Is(err, keyspace.ErrReply) ||
				!strings.Contains(err.Error(), "pupil:{{id}}: field "+strconv.Quote(field)) {
				t.Errorf("%s of %q: got %v, want an error that names the field", field, text, err)
			}
		}
	}
	var syntax *strconv.NumError
	db.Do(ctx, h.DeleteCmd())
	db.Do(ctx, keyspace.Cmd{Name: "HSET", Key: h.Key, Args: []string{"age", "old"}})
	if _, _, err := h.Get(ctx, db); !errors.As(err, &syntax) {
		t.Errorf("the cause is lost: %v", err)
	}
	_, none := h.GetSome(ctx, db, "shoe")
	_, sum := h.Add(ctx, db, "shoe", 1)
	_, gone := h.Remove(ctx, db, "shoe")
	for _, err := range []error{none, sum, gone} {
		if err == nil || !strings.Contains(err.Error(), `field "shoe" is not a field of keyspace_test.pupil`) {
			t.Errorf("a field that is not there: %v", err)
		}
	}
	for _, field := range []string{"name", "height", "grade", "away"} {
		if cmd := h.AddCmd(field, 1); cmd.Err == nil || !strings.Contains(cmd.Err.Error(), "not a whole number") {
			t.Errorf("adding to %s: %v", field, cmd.Err)
		}
	}
	if err := h.Set(ctx, db, pupil{Grade: -1}); err == nil || !strings.Contains(err.Error(), `field "grade" has no text: below all grades`) {
		t.Errorf("a field without a text: %v", err)
	}
	if err := h.Change(ctx, db, pupil{}, pupil{Grade: -1}); err == nil || !strings.Contains(err.Error(), `field "grade"`) {
		t.Errorf("a changed field without a text: %v", err)
	}
}

func TestRecordOf_UnsupportedStructPanics(t *testing.T) {
	for want, make := range map[string]func(){
		"is not a struct":   func() { keyspace.RecordOf[int]() },
		"no field to store": func() { keyspace.RecordOf[struct{ a int }]() },
		`two fields "a"`: func() {
			keyspace.RecordOf[struct {
				A, B int `redis:"a"`
			}]()
		},
		"Of of struct":     func() { keyspace.RecordOf[struct{ Of []string }]() },
		"no text encoding": func() { keyspace.RecordOf[struct{ Of *int }]() },
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, want) {
					t.Errorf("got the panic %q, want %q", got, want)
				}
			}()
			make()
		}()
	}
}

type visit struct {
	Name  string    `redis:"name"`
	Count int       `redis:"count"`
	Since time.Time `redis:"since"`
}

var visitKey = keyspace.Def1[GameID](games, "game:visit:{{game}}", keyspace.RecordOf[visit](), keyspace.Expire(time.Hour),
	keyspace.Doc{Purpose: "who looks on"})

func ExampleRecord() {
	ctx, db := context.Background(), embedded()
	defer db.Close()
	h := visitKey.At(chess)
	ann := visit{Name: "Ann", Count: 1, Since: time.Date(2026, 11, 25, 9, 0, 0, 0, time.UTC)}
	h.Set(ctx, db, ann)
	show(h.Add(ctx, db, "count", 4))

	next := ann
	next.Name = "Anna"
	h.Change(ctx, db, ann, next) // only the name is written: the count is 5 in Redis
	v, ok, err := h.Get(ctx, db)
	show(v.Name, v.Count, v.Since.Year(), ok, err)

	db.Do(ctx, keyspace.Cmd{Name: "HSET", Key: h.Key, Args: []string{"count", "many"}})
	_, _, err = h.Get(ctx, db)
	_, reason, _ := strings.Cut(err.Error(), "{{game}}: ")
	show(reason)
	// Output:
	// 5 <nil>
	// Anna 5 2026 true <nil>
	// field "count" has a text that is not a valid int: strconv.ParseInt: parsing "many": invalid syntax
}

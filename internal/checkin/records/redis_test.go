package records

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

// everyEngine runs a test on each kind of Redis.
func everyEngine(t *testing.T, test func(t *testing.T, s *Store)) {
	for _, e := range redistest.SharedEngines(t) {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			s := New(Config{Redis: e.Open(t), Budget: 20 * time.Second, ScanPage: 50})
			test(t, s)
			redistest.KeysDeclared(t, s.db, Keys)
		})
	}
}

// plant runs any command, even one that a typed key would refuse.
var plant = redis.NewScript("return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))")

func (s *Store) do(t *testing.T, name string, k Key, args ...string) {
	t.Helper()
	if err := plant.Run(t.Context(), s.db, []keyspace.Key{k.bitmap().Key}, append([]string{name}, args...)...).Err; err != nil {
		t.Fatal(err)
	}
}

func newKey() Key { return Key{ids.New[accounts.User](), 2026} }

func randomRecord() *streak.Record {
	r := &streak.Record{streak.RecordOf(2026, streak.History{})[0], byte(rand.IntN(4))}
	for i := 2; i < len(streak.Record{}); i++ {
		if rand.IntN(3) > 0 {
			r[i] = byte(rand.Uint32())
		}
	}
	return r
}

func TestMark_ReturnsDaysAlreadySet(t *testing.T) {
	t.Parallel()
	everyEngine(t, func(t *testing.T, s *Store) {
		loaded, lost, day := newKey(), newKey(), civil.DayOf(2026, 3, 1)
		if err := s.Load(t.Context(), []Key{loaded}, []*streak.Record{streak.RecordOf(2026, streak.History{})}); err != nil {
			t.Fatal(err)
		}
		boards := []keyspace.Cmd{newKey().bitmap().GetCmd()} // any command in place of one for the boards
		days := []Day{{loaded.User, day, streak.Tapped}, {lost.User, day, streak.Frozen}}
		for _, there := range []bool{false, true} {
			recs, had, err := s.Mark(t.Context(), days, boards)
			if err != nil || !slices.Equal(had, []bool{there, there}) {
				t.Fatalf("got %v, %v, want %v of both", had, err, there)
			}
			if !recs[0].Loaded() || !recs[0].Has(day, streak.Tapped) || recs[1].Loaded() || !recs[1].Has(day, streak.Frozen) {
				t.Errorf("got %v\nand %v", recs[0], recs[1])
			}
		}
		recs, err := s.ReadAll(t.Context(), []Key{loaded, lost, newKey()})
		if err != nil || !recs[0].Has(day, streak.Tapped) || !recs[1].Has(day, streak.Frozen) || *recs[2] != (streak.Record{}) {
			t.Errorf("read again: %v, %v", recs, err)
		}
		for key, want := range map[Key]bool{loaded: true, lost: false} {
			if rec, err := s.Read(t.Context(), key); err != nil || rec != nil != want {
				t.Errorf("got %v, %v, want a record: %v", rec, err, want)
			}
		}
	})
}

func TestDrop_RemovesOnlyGivenKeys(t *testing.T) {
	t.Parallel()
	everyEngine(t, func(t *testing.T, s *Store) {
		user := ids.New[accounts.User]()
		var keys []Key
		var recs []*streak.Record
		for year := 2023; year <= 2027; year++ {
			keys, recs = append(keys, Key{user, year}), append(recs, streak.RecordOf(year, streak.History{}))
		}
		if err := s.Load(t.Context(), keys, recs); err != nil {
			t.Fatal(err)
		}
		there := func() (years []int) {
			t.Helper()
			held, err := s.Held(t.Context(), keys)
			if err != nil {
				t.Fatal(err)
			}
			for i, h := range held {
				if h.There {
					years = append(years, keys[i].Year)
				}
			}
			return years
		}
		if err := s.DropYears(t.Context(), user, 2024, 2026); err != nil {
			t.Fatal(err)
		}
		if got := there(); !slices.Equal(got, []int{2023, 2027}) {
			t.Errorf("got the records of %v, want those of 2023 and 2027", got)
		}
		if err := s.Drop(t.Context(), []Key{{user, 2023}, {user, 2025}}); err != nil {
			t.Fatal(err)
		}
		if got := there(); !slices.Equal(got, []int{2027}) {
			t.Errorf("got the records of %v, want that of 2027", got)
		}
	})
}

func TestLoad_MergesWithoutLoss(t *testing.T) {
	t.Parallel()
	everyEngine(t, func(t *testing.T, s *Store) {
		for range 40 {
			a, b, key := randomRecord(), randomRecord(), newKey()
			for _, rec := range []*streak.Record{a, b, a} {
				in := *rec
				if err := s.Load(t.Context(), []Key{key}, []*streak.Record{&in}); err != nil {
					t.Fatal(err)
				}
			}
			got, err := s.Read(t.Context(), key)
			if want := merged(a, b); err != nil || *got != *want {
				t.Fatalf("got  %v, %v\nwant %v", got, err, want)
			}
		}
	})
}

// merged is load.lua in Go.
func merged(sql, held *streak.Record) *streak.Record {
	if held[0] != 0 && held[0] != sql[0] {
		return sql
	}
	out := *sql
	for i := range out {
		if i < 2 || i >= 16 {
			out[i] |= held[i]
		}
	}
	first := 2
	for _, end := range []int{8, 10, 12, 14, 16} {
		if bytes.Compare(held[first:end], sql[first:end]) > 0 {
			copy(out[first:end], held[first:end])
		}
		first = end
	}
	return &out
}

func TestReplace_MatchesTwin(t *testing.T) {
	t.Parallel()
	everyEngine(t, func(t *testing.T, s *Store) {
		texts := []string{"", "\x00\x01", string(randomRecord()[:]), string(randomRecord()[:])}
		for _, seen := range texts {
			for i := range 5 {
				key, rec := newKey(), randomRecord()
				var is Held
				switch i {
				case 0: // nothing
				case 1:
					is.There, is.Foreign = true, true
					s.do(t, "HSET", key, "a", "b")
				default:
					is.There, is.Text = true, texts[i-1]
					s.do(t, "SET", key, is.Text, "PX", "1000000")
				}
				want, wantDone := replaced(is, Held{Text: seen}, rec)
				done, err := s.Replace(t.Context(), key, Held{Text: seen}, rec)
				got, err2 := s.Held(t.Context(), []Key{key})
				if err != nil || err2 != nil || done != wantDone || got[0] != want {
					t.Errorf("%v seen as %q: got %v, %v, %v %v, want %v, %v", is, seen, got, done, err, err2, want, wantDone)
				}
				s.do(t, "UNLINK", key) // some are not records
			}
		}
	})
}

// replaced is replace.lua in Go.
func replaced(is, seen Held, rec *streak.Record) (Held, bool) {
	switch {
	case is.Foreign && seen.Text == "":
		return Held{}, true
	case is.Foreign || !is.There || seen.Text == "" || is.Text != seen.Text:
		return is, false
	}
	return Held{There: true, Text: string(rec[:])}, true
}

func TestScan_FindsEachRecordInPages(t *testing.T) {
	t.Parallel()
	everyEngine(t, func(t *testing.T, s *Store) {
		var keys []Key
		var recs []*streak.Record
		for range 400 {
			keys, recs = append(keys, newKey()), append(recs, randomRecord())
		}
		if err := s.Load(t.Context(), keys, recs); err != nil {
			t.Fatal(err)
		}
		for _, cursor := range []string{"", "7/9 5"} { // the second cursor is from more servers than there are: the scan begins again
			from := cursor
			found, pages := map[Key]bool{}, 0
			for {
				some, next, err := s.Scan(t.Context(), cursor)
				if err != nil {
					t.Fatal(err)
				}
				for _, k := range some {
					found[k] = true
				}
				if pages++; next == "" {
					break
				}
				cursor = next
			}
			if pages < 2 && s.db.Mode() != "embedded" || len(found) != len(keys) || slices.ContainsFunc(keys, func(k Key) bool {
				return !found[k]
			}) {
				t.Errorf("from %q: %d of %d records are found in %d pages", from, len(found), len(keys), pages)
			}
		}
	})
}

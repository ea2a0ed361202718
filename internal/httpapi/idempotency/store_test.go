package idempotency

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoa-dev/stoa/internal/base/leaktest"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/groupcommit"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

func TestMain(m *testing.M) {
	leaktest.Main(m, "github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest.(*server).start.func1")
}

// watched returns a store whose batches are passed to see before they are written. They are written from the call of
// run until the test ends.
func watched(t *testing.T, db *sqldb.DB, see func(batch []change)) (a *Store, run func()) {
	a = New(db, "", nil)
	a.group = groupcommit.New(func(ctx context.Context, batch []change) ([]claimed, error) {
		see(batch)
		return a.commit(ctx, batch)
	}, batches)
	return a, func() {
		ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
		var done sync.WaitGroup
		done.Go(func() { _ = a.group.Run(ctx) })
		t.Cleanup(func() { stop(); done.Wait() })
	}
}

// started returns a store that writes until the test ends.
func started(t *testing.T, db *sqldb.DB) *Store {
	s, run := watched(t, db, func([]change) {})
	run()
	return s
}

// onEngines runs f on each engine, with a clock that only f moves.
func onEngines(t *testing.T, f func(t *testing.T, s *Store, clock *atomic.Int64)) {
	for _, e := range sqldbtest.Engines(t) {
		t.Run(e.Name, func(t *testing.T) {
			clock := &atomic.Int64{}
			clock.Store(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixMilli())
			f(t, started(t, e.Open(t, func(c *sqldb.Config) { c.Now = func() time.Time { return time.UnixMilli(clock.Load()) } })), clock)
		})
	}
}

func rows(t *testing.T, db *sqldb.DB) (n int) {
	t.Helper()
	if err := db.NewRaw("SELECT COUNT(*) FROM idempotency_keys").Scan(t.Context(), &n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestStore_ManyRequestsShareABatch(t *testing.T) {
	db := sqldbtest.SQLite(t)
	bubble.Test(t, func(t *testing.T) {
		const n = 40
		var sizes []int
		a, run := watched(t, db, func(batch []change) { sizes = append(sizes, len(batch)) })
		var old []Record
		for i := range n {
			old = append(old, Record{Scope: "ann thing.make", Key: fmt.Sprint("old ", i), Claim: int64(i + 1),
				Expires: time.Now().Add(time.Hour).UnixMilli()})
		}
		if all, err := a.sql.add(t.Context(), old); !all || err != nil {
			t.Fatal(all, err)
		}
		var calls sync.WaitGroup
		for i, rec := range old {
			calls.Go(func() {
				rec.Status, rec.Body = 201, []byte(rec.Key)
				if err := a.Finish(t.Context(), rec); err != nil {
					t.Error(err)
				}
			})
			calls.Go(func() {
				rec := Record{Scope: "ann thing.make", Key: fmt.Sprint("new ", i)}
				if got, err := a.Claim(t.Context(), rec); err != nil || got.Status != 0 || got.Key != rec.Key {
					t.Errorf("got %+v (%v)", got, err)
				}
			})
		}
		synctest.Wait()
		run()
		calls.Wait()
		if !slices.Equal(sizes, []int{2 * n}) {
			t.Errorf("got batches of %v, want one of %d", sizes, 2*n)
		}
		for _, rec := range old {
			if got, err := a.Claim(t.Context(), rec); err != nil || got.Status != 201 || string(got.Body) != rec.Key {
				t.Errorf("%s: got %d %q (%v), want its own answer", rec.Key, got.Status, got.Body, err)
			}
		}
	})
}

func TestStore_RefusedRowFailsAlone(t *testing.T) {
	db := sqldbtest.SQLite(t)
	if _, err := db.ExecContext(t.Context(), `CREATE TRIGGER refuse BEFORE INSERT ON idempotency_keys
		WHEN NEW.idem_key = 'bad' BEGIN SELECT RAISE(ABORT, 'bad'); END`); err != nil {
		t.Fatal(err)
	}
	bubble.Test(t, func(t *testing.T) {
		a, run := watched(t, db, func([]change) {})
		var calls sync.WaitGroup
		for _, key := range []string{"a", "b", "bad", "c", "d", "e"} {
			calls.Go(func() {
				_, err := a.Claim(t.Context(), Record{Scope: "ann thing.make", Key: key})
				if bad := key == "bad"; (err != nil) != bad {
					t.Errorf("%s: got %v", key, err)
				}
			})
		}
		synctest.Wait() // all wait for one batch
		run()
		calls.Wait()
		if got := rows(t, db); got != 5 {
			t.Errorf("%d rows were written, want 5", got)
		}
	})
}

func TestStore_DisconnectFreesTheRow(t *testing.T) {
	db := sqldbtest.SQLite(t)
	bubble.Test(t, func(t *testing.T) {
		write := make(chan struct{})
		a, run := watched(t, db, func([]change) { <-write })
		run()
		rec := Record{Scope: "ann thing.make", Key: "k", RequestHash: "h"}
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error)
		go func() {
			_, err := a.Claim(ctx, rec)
			left <- err
		}()
		synctest.Wait() // its batch is about to be written
		leave()
		synctest.Wait()
		close(write)
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the request's own end", err)
		}
		if got := rows(t, db); got != 1 {
			t.Errorf("%d rows were written, want 1: the batch goes on", got)
		}
		if _, err := a.Claim(t.Context(), rec); err != nil {
			t.Errorf("the retry got %v, want the row", err)
		}
	})
}

func TestStore_BatchMayBeWrittenTwice(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store, _ *atomic.Int64) {
		claim := change{Record: Record{Scope: "ann thing.make", Key: "k", RequestHash: "h", Claim: 7}}
		for range 2 {
			out, err := s.commit(t.Context(), []change{claim})
			if err != nil || out[0].refusal != nil || out[0].rec.Claim != 7 || out[0].rec.Status != 0 {
				t.Fatalf("got %+v (%v), want the row", out, err)
			}
		}
		end := change{Record: claim.Record, end: true}
		end.Status, end.Body = 201, []byte("answer")
		for range 2 {
			if _, err := s.commit(t.Context(), []change{end}); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := s.Claim(t.Context(), claim.Record); err != nil || got.Status != 201 || string(got.Body) != "answer" {
			t.Errorf("got %d %q (%v), want the answer", got.Status, got.Body, err)
		}
	})
}

func TestStore_EndRestoresNoErasedRow(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store, _ *atomic.Int64) {
		for _, key := range []string{"kept", "erased"} {
			claims := []change{{Record: Record{Scope: "ann thing.make", Key: key, RequestHash: "h", Claim: 7}},
				{Record: Record{Scope: "bob thing.make", Key: key, RequestHash: "h", Claim: 8}}}
			ends := slices.Clone(claims)
			for i := range ends {
				ends[i].end, ends[i].Status = true, 201
			}
			if _, err := s.commit(t.Context(), claims); err != nil {
				t.Fatal(err)
			}
			if key == "erased" {
				if err := eraseRecords(t.Context(), s.db, "ann"); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := s.commit(t.Context(), ends); err != nil {
				t.Fatal(err)
			}
			if n := rows(t, s.db); n != 2 { // two users' rows, and then bob's rows
				t.Errorf("%s: %d rows, want 2", key, n)
			}
		}
	})
}

func TestStore_OneOfTwoTriesOwnsTheRow(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store, clock *atomic.Int64) {
		try := func(claim int64) change {
			return change{Record: Record{Scope: "ann thing.make", Key: "k", RequestHash: "h", Claim: claim}}
		}
		commit := func(changes ...change) []claimed {
			t.Helper()
			out, err := s.commit(t.Context(), changes)
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		commit(try(1))
		clock.Add(claimTimeout.Milliseconds())
		if out := commit(try(2), try(3)); out[0].refusal != nil || !errors.Is(out[1].refusal, ErrBusy) {
			t.Errorf("got %v and %v, want the lapsed row for the first and busy", out[0].refusal, out[1].refusal)
		}
		late := try(1)
		late.end, late.Status = true, 200
		commit(late)
		if out := commit(try(4)); !errors.Is(out[0].refusal, ErrBusy) {
			t.Errorf("after the late answer of the first try: got %+v, want busy", out[0])
		}
	})
}

func TestStore_ExpiredClaimIsTakenOverOnce(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store, clock *atomic.Int64) {
		rec := Record{Scope: "ann thing.make", Key: "k", RequestHash: "h"}
		old, err := s.Claim(t.Context(), rec)
		if err != nil {
			t.Fatal(err)
		}
		clock.Add(claimTimeout.Milliseconds())
		nodes := []*Store{s, started(t, s.db)}
		var won, busy atomic.Int64
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				got, err := nodes[i%2].Claim(t.Context(), rec)
				switch {
				case err == nil:
					won.Add(1)
					if got.Claim == old.Claim || got.RequestID() != old.RequestID() {
						t.Errorf("got the claim %d and the request id %d after %d and %d, want another claim and the same request id", got.Claim,
							got.RequestID(), old.Claim, old.RequestID())
					}
				case errors.Is(err, ErrBusy):
					busy.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 || busy.Load() != 15 {
			t.Errorf("%d won and %d were busy, want 1 and 15", won.Load(), busy.Load())
		}
	})
}

func TestStore_SweepDeletesExpiredRows(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store, clock *atomic.Int64) {
		if _, err := s.Claim(t.Context(), Record{Scope: "ann thing.make", Key: "k"}); err != nil {
			t.Fatal(err)
		}
		err := s.db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			for i := range 2*sweepChunk + 1 {
				old := Record{Scope: "old", Key: strconv.Itoa(i), Expires: int64(i / 2)} // two of each time
				if _, err := tx.SQL().ExecContext(ctx, s.sql.insert.For(1), old.values(nil)...); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		now := time.UnixMilli(clock.Load())
		if n, err := s.Sweep(t.Context(), now); n != 2*sweepChunk+1 || err != nil || rows(t, s.db) != 1 {
			t.Errorf("swept %d rows (%v) and left %d, want %d and 1", n, err, rows(t, s.db), 2*sweepChunk+1)
		}
		if n, err := s.Sweep(t.Context(), now.Add(answerTTL)); n != 1 || err != nil {
			t.Errorf("a day later, swept %d rows (%v), want 1", n, err)
		}
	})
}

func FuzzKey(f *testing.F) {
	for _, seed := range []string{"", "a", "key 1", "\x00", "é", strings.Repeat("k", 128), strings.Repeat("k", 129), `"quoted"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		key, ok := Key(http.Header{"Idempotency-Key": {line}})
		good := len(line) > 0 && len(line) <= 128
		for _, r := range line {
			good = good && r >= 0x20 && r <= 0x7e
		}
		if ok != good || ok && key != line {
			t.Errorf("%q: got %q, %v, want %v", line, key, ok, good)
		}
		if _, ok := Key(http.Header{"Idempotency-Key": {line, line}}); ok {
			t.Errorf("%q twice was accepted", line)
		}
	})
}

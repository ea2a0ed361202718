package web

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/groupcommit"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// watched returns answers whose batches are passed to see before they are written. They are written from the call of
// run until the test ends.
func watched(t *testing.T, db *sqldb.DB, see func(batch []change)) (a *answers, run func()) {
	a = newAnswers(db, "", nil)
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

func rows(t *testing.T, db *sqldb.DB) (n int) {
	t.Helper()
	if err := db.NewRaw("SELECT COUNT(*) FROM idempotency_keys").Scan(t.Context(), &n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAnswers_ManyRequestsShareABatch(t *testing.T) {
	db := sqldbtest.SQLite(t)
	bubble.Test(t, func(t *testing.T) {
		const n = 40
		var sizes []int
		a, run := watched(t, db, func(batch []change) { sizes = append(sizes, len(batch)) })
		var old []record
		for i := range n {
			old = append(old, record{Scope: "ann thing.make", Key: fmt.Sprint("old ", i), Claim: int64(i + 1),
				Expires: time.Now().Add(time.Hour).UnixMilli()})
		}
		if all, err := a.sql.add(t.Context(), old); !all || err != nil {
			t.Fatal(all, err)
		}
		var calls sync.WaitGroup
		for i, rec := range old {
			calls.Go(func() {
				rec.Status, rec.Body = 201, []byte(rec.Key)
				if err := a.finish(t.Context(), rec); err != nil {
					t.Error(err)
				}
			})
			calls.Go(func() {
				rec := record{Scope: "ann thing.make", Key: fmt.Sprint("new ", i)}
				if got, err := a.claim(t.Context(), rec); err != nil || got.Status != 0 || got.Key != rec.Key {
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
			if got, err := a.claim(t.Context(), rec); err != nil || got.Status != 201 || string(got.Body) != rec.Key {
				t.Errorf("%s: got %d %q (%v), want its own answer", rec.Key, got.Status, got.Body, err)
			}
		}
	})
}

func TestAnswers_RefusedRowFailsAlone(t *testing.T) {
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
				_, err := a.claim(t.Context(), record{Scope: "ann thing.make", Key: key})
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

func TestAnswers_OneRunOnTwoNodes(t *testing.T) {
	keyed(t, func(t *testing.T, s *site, _ *atomic.Int64) {
		nodes := []*site{s, newSite(t, func(c *Config) { c.DB = s.cfg.DB })}
		for round := range 20 {
			key, start := fmt.Sprint("k", round), make(chan struct{})
			answers := make([]*httptest.ResponseRecorder, 8)
			var calls sync.WaitGroup
			for i := range answers {
				calls.Go(func() {
					<-start
					answers[i] = nodes[i%2].ask(t, "POST", "/v1/things", thingBody, "Idempotency-Key", key)
				})
			}
			close(start)
			calls.Wait()
			if got := nodes[0].runs.Load() + nodes[1].runs.Load(); got != int64(round+1) {
				t.Fatalf("the handler ran %d times for %d keys", got, round+1)
			}
			var good string
			for _, w := range answers {
				switch {
				case w.Code == 201 && (good == "" || w.Body.String() == good):
					good = w.Body.String()
				case code(w) != "idempotency.busy":
					t.Errorf("got %d %s, want %s or busy", w.Code, w.Body, good)
				}
			}
			if good == "" {
				t.Error("no request got the response")
			}
		}
	})
}

func TestAnswers_CrashKeepsTheRequestID(t *testing.T) {
	keyed(t, func(t *testing.T, s *site, clock *atomic.Int64) {
		other := newSite(t, func(c *Config) { c.DB = s.cfg.DB })
		s.do.Store(ptr(func(context.Context) error { s.stopStoring(); return nil })) // the domain's change is committed
		first := s.ask(t, "POST", "/v1/things", thingBody, "Idempotency-Key", "k")
		if w := other.ask(t, "POST", "/v1/things", thingBody, "Idempotency-Key", "k"); code(w) != "idempotency.busy" {
			t.Errorf("at once: got %d %s, want busy", w.Code, w.Body)
		}
		clock.Add(claimTimeout.Milliseconds())
		again := other.ask(t, "POST", "/v1/things", thingBody, "Idempotency-Key", "k")
		if again.Code != 201 || again.Header().Get("Idempotency-Replayed") != "" || request(t, again) != request(t, first) {
			t.Errorf("when the claim has lapsed: got %d %s, want a run with the request id of %s", again.Code, again.Body, first.Body)
		}
		if w := s.ask(t, "POST", "/v1/things", thingBody, "Idempotency-Key", "k2"); w.Code != 503 {
			t.Errorf("a node that stores no more: got %d %s, want 503", w.Code, w.Body)
		}
	})
}

func TestAnswers_DisconnectFreesTheRow(t *testing.T) {
	db := sqldbtest.SQLite(t)
	bubble.Test(t, func(t *testing.T) {
		write := make(chan struct{})
		a, run := watched(t, db, func([]change) { <-write })
		run()
		rec := record{Scope: "ann thing.make", Key: "k", RequestHash: "h"}
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error)
		go func() {
			_, err := a.claim(ctx, rec)
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
		if _, err := a.claim(t.Context(), rec); err != nil {
			t.Errorf("the retry got %v, want the row", err)
		}
	})
}

func TestAnswers_ErasedRowIsNotRestored(t *testing.T) {
	keyed(t, func(t *testing.T, s *site, _ *atomic.Int64) {
		s.do.Store(ptr(func(ctx context.Context) error { return s.Erase(ctx, "ann") }))
		if w := s.ask(t, "POST", "/v1/things", thingBody, "Idempotency-Key", "k"); w.Code != 201 {
			t.Errorf("got %d %s", w.Code, w.Body)
		}
		if got := rows(t, s.cfg.DB); got != 0 {
			t.Errorf("%d rows are left, want none", got)
		}
	})
}

func TestAnswers_BatchMayBeWrittenTwice(t *testing.T) {
	keyed(t, func(t *testing.T, s *site, _ *atomic.Int64) {
		claim := change{record: record{Scope: "ann thing.make", Key: "k", RequestHash: "h", Claim: 7}}
		for range 2 {
			out, err := s.answers.commit(t.Context(), []change{claim})
			if err != nil || out[0].refusal != nil || out[0].rec.Claim != 7 || out[0].rec.Status != 0 {
				t.Fatalf("got %+v (%v), want the row", out, err)
			}
		}
		end := change{record: claim.record, end: true}
		end.Status, end.Body = 201, []byte("answer")
		for range 2 {
			if _, err := s.answers.commit(t.Context(), []change{end}); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := s.answers.claim(t.Context(), claim.record); err != nil || got.Status != 201 || string(got.Body) != "answer" {
			t.Errorf("got %d %q (%v), want the answer", got.Status, got.Body, err)
		}
	})
}

func TestAnswers_OneOfTwoTriesOwnsTheRow(t *testing.T) {
	keyed(t, func(t *testing.T, s *site, clock *atomic.Int64) {
		try := func(claim int64) change {
			return change{record: record{Scope: "ann thing.make", Key: "k", RequestHash: "h", Claim: claim}}
		}
		commit := func(changes ...change) []claimed {
			t.Helper()
			out, err := s.answers.commit(t.Context(), changes)
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		commit(try(1))
		clock.Add(claimTimeout.Milliseconds())
		if out := commit(try(2), try(3)); out[0].refusal != nil || !errors.Is(out[1].refusal, errBusy) {
			t.Errorf("got %v and %v, want the lapsed row for the first and busy", out[0].refusal, out[1].refusal)
		}
		late := try(1)
		late.end, late.Status = true, 200
		commit(late)
		if out := commit(try(4)); !errors.Is(out[0].refusal, errBusy) {
			t.Errorf("after the late answer of the first try: got %+v, want busy", out[0])
		}
	})
}

package web

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// SQL accepts statements and never responds, like a stopped MariaDB.
func TestOperation_AnswersThoughSQLNeverDoes(t *testing.T) {
	db := sqldbtest.SQLite(t)
	bubble.Test(t, func(t *testing.T) {
		s := newSite(t, func(c *Config) { c.DB = db })
		limit := time.Duration(0)
		wait := func(ctx context.Context) error {
			limit = ctx.Value(sqldb.LimitKey{}).(time.Duration)
			<-ctx.Done()
			return ctx.Err()
		}
		s.do.Store(&wait)
		begun := time.Now()
		tryOne := func(what string, headers ...string) {
			t.Helper()
			defer func() { begun = time.Now() }()
			w := s.ask(t, "POST", "/v1/things", thingBody, headers...)
			if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || code(w) != "unavailable" {
				t.Errorf("%s: got %d %v %s, want 503 with Retry-After", what, w.Code, w.Header(), w.Body)
			}
			if took := time.Since(begun); took < opTime || took > 6*time.Second {
				t.Errorf("%s: the answer took %s, want at most 6 s", what, took)
			}
		}
		tryOne("a handler")
		if limit != opTime {
			t.Errorf("a statement has %s, want %s", limit, opTime)
		}
		begun = time.Now()
		if a := s.Invoke(t.Context(), Invocation{Op: "thing.make", Body: []byte(thingBody), Caller: func(context.Context) (Caller, error) {
			return person{"ann"}, nil
		}}); a.Status != 503 || time.Since(begun) != opTime {
			t.Errorf("an invocation: got %d after %s", a.Status, time.Since(begun))
		}
		begun = time.Now()
		hold := func(ctx context.Context) error { // the claim is stored, but not the end of the try
			conn, err := db.Writer().Conn(ctx)
			if err != nil {
				return err
			}
			t.Cleanup(func() { _ = conn.Close() })
			<-ctx.Done()
			return ctx.Err()
		}
		s.do.Store(&hold)
		tryOne("the end of a try", "Idempotency-Key", "k1")
		tryOne("the claim of a try", "Idempotency-Key", "k2")
	})
}

// The server waits for a body that takes longer than the operation may.
func TestOperation_TimeBeginsAfterItsBody(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newSite(t)
		network := s.listen(t)
		done := func(ctx context.Context) error { bubble.Sleep(opTime - time.Second); return ctx.Err() }
		s.do.Store(&done)
		body := slowly{[]byte(thingBody), 8 * time.Second}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://site/v1/things", &body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer good-ann")
		req.Header.Set("Content-Type", "application/json")
		resp, err := network.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusCreated {
			t.Errorf("got %d, want 201", resp.StatusCode)
		}
	})
}

// slowly is a body that arrives after a while.
type slowly struct {
	data  []byte
	after time.Duration
}

func (s *slowly) Read(b []byte) (int, error) {
	bubble.Sleep(s.after)
	s.after = 0
	n := copy(b, s.data)
	s.data = s.data[n:]
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

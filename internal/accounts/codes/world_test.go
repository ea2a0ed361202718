package codes

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts/attempts"
	"github.com/stoa-dev/stoa/internal/accounts/emails"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/ratelimit"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// A world is the service with a database, a Redis and a clock that the test sets. It defines which addresses have
// accounts.
type world struct {
	*Service
	t     testing.TB
	redis *redis.DB
	ahead *atomic.Int64     // nanoseconds
	known map[string]string // the known client network of each account, by address
}

// plenty are limits that tests do not reach by accident.
var plenty = Limits{PerMinute: 100, PerDay: 100, PerClientNet: 100, All: 10_000, Wrong: 2_000}

// mac has a secret that no server has.
func mac(label string, parts ...string) []byte {
	h := hmac.New(sha256.New, []byte("a secret of the test"))
	for _, p := range append([]string{label}, parts...) {
		fmt.Fprintf(h, "%d %s", len(p), p)
	}
	return h.Sum(nil)
}

func newWorld(t testing.TB, open func(...func(*sqldb.Config)) *sqldb.DB, rdb *redis.DB, limits Limits) *world {
	t.Helper()
	w := &world{t: t, redis: rdb, ahead: new(atomic.Int64), known: map[string]string{}}
	db := open(func(c *sqldb.Config) {
		c.Now = func() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }
	})
	log := slog.New(slog.DiscardHandler)
	tries := attempts.New(rdb, log)
	if !bubble.In(t) { // a slow machine must not look like an unavailable Redis
		tries.Within, tries.After = 10*time.Second, 10*time.Second
	}
	w.Service = New(Config{DB: db, Limiter: ratelimit.New(rdb), Attempts: tries, Log: log, MAC: mac, Life: 5 * time.Minute, Limits: limits,
		Knows: func(_ context.Context, e emails.Address, clientNet string) (bool, error) {
			home, there := w.known[e.Key]
			return there && home == clientNet, nil
		},
		Owner: func(_ context.Context, _ sqldb.Querier, email, _ string) (string, error) {
			if _, there := w.known[emails.Key(email)]; !there {
				return "", nil
			}
			return email, nil
		}})
	return w
}

// onSQLite returns a world on the embedded engines.
func onSQLite(t testing.TB, limits Limits) *world {
	t.Helper()
	return newWorld(t, func(f ...func(*sqldb.Config)) *sqldb.DB { return sqldbtest.SQLite(t, f...) }, redistest.Open(t, "embedded"), limits)
}

// eachEngine runs test on the embedded engines, in a bubble, and on a real Redis with a real MariaDB.
func eachEngine(t *testing.T, test func(t *testing.T, w *world)) {
	for _, e := range sqldbtest.Engines(t) {
		run := func(t *testing.T, cfg redis.Config) {
			w := newWorld(t, func(f ...func(*sqldb.Config)) *sqldb.DB { return e.Open(t, f...) }, redistest.OpenConfig(t, cfg), plenty)
			test(t, w)
			redistest.KeysDeclared(t, w.redis, Keys)
		}
		t.Run(e.Name, func(t *testing.T) {
			if e.Name == "sqlite" {
				bubble.Test(t, func(t *testing.T) { run(t, redis.Config{URL: "embedded"}) })
			} else {
				run(t, redistest.Shared(t))
			}
		})
	}
}

func (w *world) pass(d time.Duration) { w.ahead.Add(int64(d)) }

// to returns the proof of an address without a log-in.
func to(email string, p Purpose) Proof {
	return Proof{Email: emails.Address{Given: email, Key: email}, Purpose: p}
}

// ask requests a code from a client network and returns it.
func (w *world) ask(p Proof, clientNet string) string {
	w.t.Helper()
	if err := w.Send(w.t.Context(), p, clientNet); err != nil {
		w.t.Fatal(err)
	}
	return w.mailed(p)
}

// mailed returns the last mailed code.
func (w *world) mailed(p Proof) string {
	w.t.Helper()
	var payload []byte
	if err := w.db.QueryRowContext(w.t.Context(), "SELECT payload FROM outbox WHERE topic = ? AND msg_key = ?", Topic,
		w.storedCode(p, "").mailKey()).Scan(&payload); err != nil {
		w.t.Fatal(err)
	}
	var n Notice
	if err := json.Unmarshal(payload, &n); err != nil {
		w.t.Fatal(err)
	}
	return w.mac.code(p, n.Seed)
}

func otherThan(code string) string {
	if code == "000000" {
		return "000001"
	}
	return "000000"
}

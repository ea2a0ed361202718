package accounts

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts/codes"
	"github.com/stoa-dev/stoa/internal/accounts/password"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// onMemory runs test in a bubble, with a Redis that it may kill and whose commands it may count.
func onMemory(t *testing.T, settings Settings, test func(t *testing.T, w *world, server *redistest.Memory)) {
	t.Helper()
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		w := newWorld(t, func(f ...func(*sqldb.Config)) *sqldb.DB { return sqldbtest.SQLite(t, f...) }, server.Open(t), settings)
		w.memory = server
		test(t, w, server)
	})
}

// back waits until Redis answers again.
func (w *world) back() {
	w.t.Helper()
	eventually.NoError(w.t, "Redis to answer", func() error { return w.redis.Ping(w.t.Context()) })
}

func TestRedisOutage_LogsOutNoDevice(t *testing.T) {
	onMemory(t, Settings{}, func(t *testing.T, w *world, server *redistest.Memory) {
		a := w.join("ann@example.org", "correct horse")
		w.check("before", a.Access, nil)
		server.Kill()

		w.check("killed", a.Access, nil)
		b := w.join("bob@example.org", "correct horse")
		w.check("registered meanwhile", b.Access, nil)
		code := w.code("bob@example.org", "login")
		b2, err := w.Login(t.Context(), Login{Email: "bob@example.org", Code: code})
		if err != nil {
			t.Fatalf("by code: %v", err)
		}
		b3, err := w.Refresh(t.Context(), b2.Refresh)
		if err != nil {
			t.Fatalf("refresh: %v", err)
		}
		if err := w.Revoke(t.Context(), b.User.ID, b.Device); err != nil {
			t.Fatalf("revoke: %v", err)
		}
		w.check("revoked meanwhile", b.Access, ErrToken)
		w.check("rotated away meanwhile", b2.Access, ErrToken)
		w.check("rotated meanwhile", b3.Access, nil)

		server.RestartEmpty() // empty
		w.back()
		for what, tt := range map[string]struct {
			access string
			want   error
		}{"from before": {a.Access, nil}, "revoked": {b.Access, ErrToken}, "rotated away": {b2.Access, ErrToken}, "rotated": {b3.Access, nil}} {
			w.check("back, "+what, tt.access, tt.want)
		}
		server.FlushAll()
		w.check("flushed", a.Access, nil)
		redistest.KeysDeclared(t, w.redis, Keys, codes.Keys)
	})
}

func TestRedisOutage_GuessesAreLimited(t *testing.T) {
	onMemory(t, Settings{}, func(t *testing.T, w *world, server *redistest.Memory) {
		w.join("ann@example.org", "correct horse")
		w.code("bob@example.org", "register")
		server.Kill()

		wrong := 0
		for i := range 12 {
			_, err := w.Login(t.Context(), Login{Email: "ann@example.org", Password: fmt.Sprint("wrong horse ", i)})
			if errors.Is(err, ErrCredentials) {
				wrong++
			} else if !errors.Is(err, ErrLocked) {
				t.Fatalf("got %v", err)
			}
		}
		if wrong != 5 {
			t.Errorf("12 wrong passwords: %d were looked at, want 5", wrong)
		}
		code := w.codeTo("bob@example.org", "register", "192.0.2.1")
		register := func(code string) error {
			_, err := w.Register(t.Context(), Registration{Email: "bob@example.org", Code: code, Name: "Bob", IP: "192.0.2.1"})
			return err
		}
		for range 5 {
			if err := register(otherThan(code)); !errors.Is(err, codes.ErrWrong) {
				t.Fatalf("a wrong code: got %v, want codes.ErrWrong", err)
			}
		}
		if err := register(code); !errors.Is(err, codes.ErrWrong) {
			t.Errorf("the right code after five wrong ones: got %v, want codes.ErrWrong", err)
		}
		if err := register(w.codeTo("bob@example.org", "register", "192.0.2.1")); err != nil {
			t.Errorf("a new code: %v", err)
		}
	})
}

func TestRedisOutage_SuccessfulLoginsDoNotCount(t *testing.T) {
	onMemory(t, Settings{}, func(t *testing.T, w *world, server *redistest.Memory) {
		w.join("ann@example.org", "correct horse")
		server.Kill()
		for range 12 {
			w.enter("ann@example.org", "correct horse")
		}
	})
}

// A Redis that accepts commands and never answers costs no more than the budgets.
func TestRedisOutage_WaitsAreBounded(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		wire := redistest.InMemory(t).Wire()
		cfg := wire.Config()
		cfg.Patience, cfg.Connections = time.Minute, 1 // it does not count as unavailable, and the connection exists
		w := newWorld(t, func(f ...func(*sqldb.Config)) *sqldb.DB { return sqldbtest.SQLite(t, f...) }, redistest.OpenConfig(t, cfg), Settings{})
		w.join("ann@example.org", "correct horse")
		wire.BlackHole()
		for range 12 { // this process counts them and gives successful ones back
			began := time.Now()
			w.enter("ann@example.org", "correct horse")
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("a log-in took %s, which is more than all budgets together", took)
			}
		}
	})
}

// calls returns the number of calls of each Redis command.
func (w *world) calls() map[string]int { return w.memory.Calls() }

func BenchmarkVerify(b *testing.B) {
	for name, url := range map[string]string{"embedded": "embedded", "standalone": redistest.Server(b).URL} {
		w := newWorld(b, func(f ...func(*sqldb.Config)) *sqldb.DB { return sqldbtest.SQLite(b, f...) }, redistest.Open(b, url), Settings{})
		a := w.join("ann@example.org", "")
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := w.Verify(b.Context(), a.Access); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/64callers", func(b *testing.B) {
			b.SetParallelism(32)
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					if _, err := w.Verify(b.Context(), a.Access); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

func BenchmarkLogin(b *testing.B) {
	w := onSQLite(b, Settings{})
	w.hasher = password.NewHasher(1, password.OWASP)
	w.join("ann@example.org", "correct horse")
	for b.Loop() {
		w.enter("ann@example.org", "correct horse")
	}
}

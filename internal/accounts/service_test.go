package accounts

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alexedwards/argon2id"

	"github.com/stoa-dev/stoa/internal/accounts/codes"
	"github.com/stoa-dev/stoa/internal/accounts/emails"
	"github.com/stoa-dev/stoa/internal/background/queue"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/clientnet"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/mail"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/ratelimit"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/logtest"
)

// A world is the domain with a database, a Redis, a clock that the test sets, and a log that it reads.
type world struct {
	*Service
	t      testing.TB
	redis  *redis.DB
	memory *redistest.Memory // of onMemory
	bus    *events.Bus       // not running: users come from SQL, unless a test calls listen
	box    *mail.Box
	ahead  *atomic.Int64 // nanoseconds
	log    *logtest.Buffer
	ips    atomic.Int64
}

// cheap is a password cost for tests: the real cost takes an eighth of a second with the race detector.
var cheap = argon2id.Params{Memory: 256, Iterations: 1, Parallelism: 1, SaltLength: 16, KeyLength: 32}

// patience ends a test that would hang.
const patience = time.Minute

// unhurried replaces the budgets and the MaxStale of production on real engines, where a slow machine must not look
// like an unavailable Redis.
const unhurried = 10 * time.Second

// newWorld builds a world on a database made by open. The time is noon UTC, far from midnight. The clock of Redis
// stands still, so that the limit of one code a minute applies only if settings set it.
func newWorld(t testing.TB, open func(...func(*sqldb.Config)) *sqldb.DB, rdb *redis.DB, settings Settings) *world {
	t.Helper()
	w := &world{t: t, redis: rdb, ahead: new(atomic.Int64), log: new(logtest.Buffer)}
	if settings.Limits.CodesPerMinute == 0 {
		settings.Limits.CodesPerMinute = 100
	}
	now := time.Now()
	w.pass(now.UTC().Truncate(24 * time.Hour).Add(12 * time.Hour).Sub(now))
	log := slog.New(slog.NewJSONHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	db := open(func(c *sqldb.Config) {
		c.Log = log
		c.Now = func() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }
	})
	w.box = mail.NewBox(db)
	w.bus = events.NewBus(rdb, ids.New[world]().String(), log)
	var budget time.Duration // in virtual time the budgets of production
	if !bubble.In(t) {
		budget = unhurried
	}
	caches := cache.NewRuntime(rdb, w.bus.Nodes(), cache.Config{Budget: budget})
	s, err := New(Config{DB: db, Redis: rdb, Limiter: ratelimit.New(rdb), Caches: caches, Cache: cache.Policy{MaxStale: budget}, Bus: w.bus,
		Mail: w.box, Page: "https://stoa.example.org", Log: log, Secret: []byte("a secret of exactly thirty-two b"), PasswordCost: cheap,
		Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	if budget != 0 {
		s.budget, s.redis.budget, s.attempts.Within, s.attempts.After = budget, budget, budget, budget
	}
	w.Service = s
	return w
}

// onSQLite returns a world on the embedded engines.
func onSQLite(t testing.TB, settings Settings) *world {
	t.Helper()
	return newWorld(t, func(f ...func(*sqldb.Config)) *sqldb.DB { return sqldbtest.SQLite(t, f...) }, redistest.Open(t, "embedded"), settings)
}

// eachEngine runs test on the embedded engines, in a bubble, and on a real Redis with a real MariaDB.
func eachEngine(t *testing.T, settings Settings, test func(t *testing.T, w *world)) {
	for _, e := range sqldbtest.Engines(t) {
		run := func(t *testing.T, cfg redis.Config) {
			w := newWorld(t, func(f ...func(*sqldb.Config)) *sqldb.DB { return e.Open(t, f...) }, redistest.OpenConfig(t, cfg), settings)
			test(t, w)
			redistest.KeysDeclared(t, w.redis, Keys, codes.Keys, events.Keys)
		}
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			if e.Name == "sqlite" {
				bubble.Test(t, func(t *testing.T) { run(t, redis.Config{URL: "embedded"}) })
			} else {
				run(t, redistest.Shared(t))
			}
		})
	}
}

func (w *world) pass(d time.Duration) { w.ahead.Add(int64(d)) }

// mails returns the mails to an address, newest first.
func (w *world) mails(to string) []mail.Sent {
	w.t.Helper()
	w.deliver()
	list, err := w.box.Newest(w.t.Context(), to)
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

// code requests a code and returns the mailed one, or "" if the mail has none.
func (w *world) code(email, purpose string) string {
	w.t.Helper()
	// Each request has its own address, because the limit for addresses has its own test.
	return w.codeTo(email, purpose, fmt.Sprintf("10.0.%d.%d", w.ips.Add(1)/250, w.ips.Load()%250))
}

// codeTo returns the code for a request from that client network.
func (w *world) codeTo(email, purpose, clientNet string) string {
	w.t.Helper()
	if _, err := w.RequestCode(w.t.Context(), email, purpose, clientNet); err != nil {
		w.t.Fatal(err)
	}
	return w.mails(email)[0].Code
}

// join registers an address.
func (w *world) join(email, password string) Tokens {
	w.t.Helper()
	t, err := w.Register(w.t.Context(), Registration{Email: email, Code: w.code(email, "register"), Password: password,
		Name: "Ann", Zone: "Europe/Athens", Device: "phone", IP: "192.0.2.1"})
	if err != nil {
		w.t.Fatal(err)
	}
	return t
}

// Accounts may be stored with either spelling of their domain.
func TestLogin_AcceptsBothSpellingsOfADomain(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		on := true
		for name, stored := range map[string]string{"ann": "xn--mller-kva.example", "bea": "müller.example", "eve": "MÜller.example"} {
			email := name + "@" + stored
			id := w.join(name+"@example.org", "correct horse").User.ID
			if _, err := w.Update(t.Context(), id, Change{FindByEmail: &on}); err != nil {
				t.Fatal(err)
			}
			w.exec("UPDATE users SET email = ?, email_key = ? WHERE id = ?", email, emails.Lower(email), id)
			for _, spelling := range []string{stored, "Müller.example", "xn--mller-kva.example"} {
				if name == "eve" && spelling != stored {
					continue // capitals beyond a to z are found in their own spelling
				}
				typed := name + "@" + spelling
				if got := w.enter(typed, "correct horse").User.ID; got != id {
					t.Errorf("%s logs in as %s, want %s", typed, got, id)
				}
				if got, err := w.FindByEmail(t.Context(), typed); err != nil || got.ID != id {
					t.Errorf("%s finds %+v, %v", typed, got, err)
				}
				if _, err := w.RequestCode(t.Context(), typed, "register", "192.0.2.9"); err != nil || w.mails("")[0].To != email ||
					w.mails("")[0].Code != "" {
					t.Errorf("a code to register %s: %v, %+v", typed, err, w.mails("")[0])
				}
				d := NewDirectory(w.db)
				if got, err := d.Find(t.Context(), typed); err != nil || got.ID != id {
					t.Errorf("to operators %s is %+v, %v", typed, got, err)
				}
				if got, err := d.ByEmail(t.Context(), []string{typed}); err != nil || got[typed].ID != id {
					t.Errorf("with others %s is %+v, %v", typed, got, err)
				}
			}
		}
		// Two accounts from the time when each spelling was an account.
		var both []ID
		for _, domain := range []string{"müller.example", "xn--mller-kva.example"} {
			both = append(both, w.join("x"+domain+"@example.org", domain+" horse").User.ID)
			w.exec("UPDATE users SET email = ?, email_key = ? WHERE id = ?", "flo@"+domain, "flo@"+domain, both[len(both)-1])
		}
		for i, domain := range []string{"müller.example", "xn--mller-kva.example"} {
			if got := w.enter("flo@"+domain, domain+" horse").User.ID; got != both[i] {
				t.Errorf("flo@%s logs in as %s, want %s", domain, got, both[i])
			}
		}
	})
}

// enter logs one more device in by password.
func (w *world) enter(email, password string) Tokens {
	w.t.Helper()
	t, err := w.Login(w.t.Context(), Login{Email: email, Password: password, Device: "tablet", IP: "192.0.2.2"})
	if err != nil {
		w.t.Fatal(err)
	}
	return t
}

// check compares the result of Verify for an access token with want.
func (w *world) check(what, access string, want error) Caller {
	w.t.Helper()
	c, err := w.Verify(w.t.Context(), access)
	if !errors.Is(err, want) {
		w.t.Errorf("%s: got %v, want %v", what, err, want)
	}
	return c
}

// deliver passes the due messages of the outbox to their handlers, in any order. Repeated delivery is the topic of the
// worker's tests.
func (w *world) deliver() {
	w.t.Helper()
	handlers := w.Handlers()
	var rows []struct {
		ID      int64
		Topic   string
		Payload []byte
	}
	if err := w.db.NewRaw("SELECT id, topic, payload FROM outbox WHERE due <= ? ORDER BY id", w.db.Now().UnixMilli()).Scan(w.t.Context(),
		&rows); err != nil {
		w.t.Fatal(err)
	}
	for _, r := range rows {
		handle := handlers[r.Topic]
		if handle == nil {
			continue // for another domain
		}
		if err := handle(w.t.Context(), queue.Delivery{Topic: r.Topic, Payload: r.Payload, Attempt: 1}); err != nil {
			w.t.Fatal(err)
		}
		if _, err := w.db.ExecContext(w.t.Context(), "DELETE FROM outbox WHERE id = ?", r.ID); err != nil {
			w.t.Fatal(err)
		}
	}
}

func TestLogin_ByPasswordAndByCode(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		a := w.join("Ann@example.org", "correct horse")
		if c := w.check("after registering", a.Access, nil); c.User != a.User.ID || c.Device != a.Device || c.Clock.Zone != "Europe/Athens" {
			t.Errorf("got the caller %+v, want user %s on %s in Athens", c, a.User.ID, a.Device)
		}
		b := w.enter("ANN@example.org", "correct horse")
		w.pass(time.Second)
		c, err := w.Login(t.Context(), Login{Email: "ann@example.org", Code: w.code("ann@example.org", "login"), IP: "192.0.2.3"})
		if err != nil {
			t.Fatal(err)
		}
		w.check("by password", b.Access, nil)
		w.check("by code", c.Access, nil)
		if a.User != b.User || b.User != c.User || a.Device == b.Device || b.Device == c.Device {
			t.Errorf("three log-ins: %+v, %+v, %+v, want one user on three devices", a, b, c)
		}
		list, err := w.Sessions(t.Context(), a.User.ID)
		if err != nil || len(list) != 3 || list[0].Device != c.Device || list[0].IP != "192.0.2.3" {
			t.Errorf("Sessions: got %+v, %v, want three, the last used first", list, err)
		}
	})
}

func TestRegister_OneOfManyWins(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		code := w.code("ann@example.org", "register")
		var won, refused atomic.Int64
		together(64, func(i int) {
			_, err := w.Register(t.Context(), Registration{Email: "ann@example.org", Code: code, Name: fmt.Sprint("Ann ", i)})
			switch {
			case err == nil:
				won.Add(1)
			case errors.Is(err, codes.ErrWrong) || errors.Is(err, ErrEmailTaken):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
		if won.Load() != 1 || refused.Load() != 63 {
			t.Errorf("64 registrations of one address: %d won, %d were refused, want 1 and 63", won.Load(), refused.Load())
		}
	})
}

func TestRegister_TakenAddressIsAConflict(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		code := w.code("ann@example.org", "register") // it is mailed before the account exists
		w.accounts([]string{"ann@example.org"}, "")
		_, err := w.Register(t.Context(), Registration{Email: "ANN@example.org", Code: code, Name: "Ann"})
		if !errors.Is(err, ErrEmailTaken) || errs.KindOf(err) != errs.Conflict {
			t.Errorf("got %v, want ErrEmailTaken", err)
		}
	})
}

func TestCode_WorksOnce(t *testing.T) {
	eachEngine(t, Settings{Limits: Limits{LoginFails: 1000}}, func(t *testing.T, w *world) {
		w.join("ann@example.org", "")
		code := w.code("ann@example.org", "login")
		var won atomic.Int64
		together(64, func(int) {
			_, err := w.Login(t.Context(), Login{Email: "ann@example.org", Code: code})
			if err == nil {
				won.Add(1)
			} else if !errors.Is(err, ErrCredentials) {
				t.Error(err)
			}
		})
		if won.Load() != 1 {
			t.Errorf("64 uses of one code: %d worked, want 1", won.Load())
		}
	})
}

func TestCode_VoidAfterFiveWrongGuesses(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		code := w.code("ann@example.org", "register")
		try := func(code string) error {
			_, err := w.Register(t.Context(), Registration{Email: "ann@example.org", Code: code, Name: "Ann", IP: "192.0.2.1"})
			return err
		}
		var looked atomic.Int64
		together(20, func(int) {
			if err := try(otherThan(code)); !errors.Is(err, codes.ErrWrong) {
				t.Error(err)
			}
			looked.Add(1)
		})
		if err := try(code); !errors.Is(err, codes.ErrWrong) {
			t.Errorf("the right code after 20 wrong ones: got %v, want codes.ErrWrong", err)
		}
		if err := try(w.codeTo("ann@example.org", "register", "192.0.2.1")); err != nil {
			t.Errorf("a new code: got %v", err)
		}
	})
}

func TestCode_Expires(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		code := w.code("ann@example.org", "register")
		w.pass(5 * time.Minute)
		_, err := w.Register(t.Context(), Registration{Email: "ann@example.org", Code: code, Name: "Ann"})
		if !errors.Is(err, codes.ErrWrong) {
			t.Errorf("after five minutes: got %v, want codes.ErrWrong", err)
		}
	})
}

func TestCode_OnlyForItsPurpose(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		code := w.code("ann@example.org", "register")
		if _, err := w.Login(t.Context(), Login{Email: "ann@example.org", Code: code}); !errors.Is(err, ErrCredentials) {
			t.Errorf("a code to register, used to log in: got %v, want ErrCredentials", err)
		}
	})
}

func TestRequestCode_DoesNotRevealAccounts(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		w.join("ann@example.org", "correct horse")
		if got := w.code("ann@example.org", "register"); got != "" {
			t.Errorf("registering a known address mailed the code %s", got)
		}
		if got := w.code("bob@example.org", "login"); got != "" {
			t.Errorf("logging in to an unknown address mailed the code %s", got)
		}
		_, known := w.Login(t.Context(), Login{Email: "ann@example.org", Password: "wrong horse"})
		_, unknown := w.Login(t.Context(), Login{Email: "bob@example.org", Password: "wrong horse"})
		if known == nil || unknown == nil || known.Error() != unknown.Error() {
			t.Errorf("a wrong password: got %v for a known and %v for an unknown address", known, unknown)
		}
	})
}

func TestRequestCode_LimitedByAddressAndClientNetwork(t *testing.T) {
	eachEngine(t, Settings{Limits: Limits{CodesPerMinute: 1, CodesPerDay: 3, CodesPerIP: 5}}, func(t *testing.T, w *world) {
		ask := func(email, ip string) error {
			_, err := w.RequestCode(t.Context(), email, "register", ip)
			return err
		}
		if err := ask("ann@example.org", "192.0.2.1"); err != nil {
			t.Fatal(err)
		}
		err := ask("Ann@Example.org", "192.0.2.2")
		refusal, ok := errors.AsType[*errs.Error](err)
		if !ok || !errors.Is(err, codes.ErrTooMany) || refusal.After <= 0 || refusal.After > time.Minute {
			t.Errorf("twice in a minute: got %v, want codes.ErrTooMany with at most a minute to wait", err)
		}
		for i := range 4 {
			if err := ask(fmt.Sprintf("bob%d@example.org", i), "192.0.2.1"); err != nil {
				t.Errorf("address %d from one IP: %v", i+2, err)
			}
		}
		if err := ask("carol@example.org", "192.0.2.1"); !errors.Is(err, codes.ErrTooMany) {
			t.Errorf("the sixth from one IP: got %v, want codes.ErrTooMany", err)
		}
		if got := len(w.mails("ann@example.org")) + len(w.mails("carol@example.org")); got != 1 {
			t.Errorf("%d mails, want one: a refused request mails nothing", got)
		}
	})
}

func TestRequestCode_DailyLimit(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{Limits: Limits{CodesPerDay: 3, CodesPerIP: 4}})
		refused := func(what, email, ip string, least, most time.Duration) {
			t.Helper()
			_, err := w.RequestCode(t.Context(), email, "register", ip)
			refusal, ok := errors.AsType[*errs.Error](err)
			if !ok || !errors.Is(err, codes.ErrTooMany) || refusal.After < least || refusal.After > most {
				t.Errorf("%s: got %v, want codes.ErrTooMany with %s to %s to wait", what, err, least, most)
			}
		}
		for range 3 {
			w.code("ann@example.org", "register")
		}
		refused("a fourth code", "ann@example.org", "192.0.2.1", 23*time.Hour, 24*time.Hour)
		for i := range 4 {
			if _, err := w.RequestCode(t.Context(), fmt.Sprintf("bob%d@example.org", i), "register", "192.0.2.2"); err != nil {
				t.Fatal(err)
			}
		}
		refused("a fifth from one IP", "carol@example.org", "192.0.2.2", 59*time.Minute, time.Hour)
	})
}

func TestLogin_NeedsPasswordOrCode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		w.join("ann@example.org", "correct horse")
		code := w.code("ann@example.org", "login")
		before := w.dump("SELECT * FROM sessions") + w.dump("SELECT * FROM codes")
		for range 6 { // more than the allowed failures
			for what, l := range map[string]Login{"both": {Password: "correct horse", Code: code}, "neither": {}} {
				l.Email = "ann@example.org"
				if _, err := w.Login(t.Context(), l); !errors.Is(err, ErrEither) {
					t.Errorf("%s: got %v, want ErrEither", what, err)
				}
			}
		}
		if after := w.dump("SELECT * FROM sessions") + w.dump("SELECT * FROM codes"); after != before {
			t.Errorf("before:\n%s\nafter:\n%s", before, after)
		}
		if _, err := w.Login(t.Context(), Login{Email: "ann@example.org", Code: code}); err != nil {
			t.Errorf("by the code alone: %v", err)
		}
	})
}

func TestLogin_FiveWrongPasswordsLock(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		w.join("ann@example.org", "correct horse")
		for _, email := range []string{"ann@example.org", "nobody@example.org"} {
			var wrong, locked atomic.Int64
			together(12, func(int) {
				switch _, err := w.Login(t.Context(), Login{Email: email, Password: "wrong horse"}); {
				case errors.Is(err, ErrCredentials):
					wrong.Add(1)
				case errors.Is(err, ErrLocked):
					locked.Add(1)
				default:
					t.Error(err)
				}
			})
			if wrong.Load() != 5 || locked.Load() != 7 {
				t.Errorf("%s: 12 wrong passwords at once: %d looked at, %d locked, want 5 and 7", email, wrong.Load(), locked.Load())
			}
			_, err := w.Login(t.Context(), Login{Email: email, Password: "correct horse"})
			refusal, ok := errors.AsType[*errs.Error](err)
			if !ok || !errors.Is(err, ErrLocked) || refusal.After < 29*time.Minute || refusal.After > 30*time.Minute {
				t.Errorf("%s: the right password while locked: got %v, want ErrLocked for half an hour", email, err)
			}
		}
	})
}

func TestLogin_SuccessResetsTheCount(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		w.join("ann@example.org", "correct horse")
		for range 3 {
			for range 4 {
				if _, err := w.Login(t.Context(), Login{Email: "ann@example.org", Password: "wrong horse", IP: "192.0.2.2"}); !errors.Is(err,
					ErrCredentials) {
					t.Fatalf("got %v, want ErrCredentials", err)
				}
			}
			w.enter("ann@example.org", "correct horse")
		}
	})
}

func TestRefresh_ReplacesBothTokens(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		a := w.join("ann@example.org", "")
		w.check("before", a.Access, nil) // the cache entry exists
		b, err := w.Refresh(t.Context(), a.Refresh)
		if err != nil {
			t.Fatal(err)
		}
		if b.User != a.User || b.Device != a.Device || b.Access == a.Access || b.Refresh == a.Refresh {
			t.Errorf("got %+v after %+v, want two new tokens of the same device", b, a)
		}
		w.check("the old access token", a.Access, ErrToken)
		w.check("the new access token", b.Access, nil)
		for _, wrong := range []string{"", "x", a.Access, b.Access, strings.Replace(b.Refresh, "sr_", "sa_", 1)} {
			if _, err := w.Refresh(t.Context(), wrong); !errors.Is(err, ErrRefresh) {
				t.Errorf("Refresh(%q): got %v, want ErrRefresh", wrong, err)
			}
		}
		w.check("after wrong refresh tokens", b.Access, nil)
	})
}

func TestRefresh_ConcurrentCallersGetOnePair(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		a := w.join("ann@example.org", "")
		var mu sync.Mutex
		pairs := map[[2]string]int{}
		began := w.db.Now()
		together(64, func(int) {
			b, err := w.Refresh(t.Context(), a.Refresh)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			pairs[[2]string{b.Access, b.Refresh}]++
		})
		if len(pairs) != 1 {
			t.Fatalf("64 refreshes of one token brought %d pairs, want one", len(pairs))
		}
		w.pass(9*time.Second - w.db.Now().Sub(began)) // includes real time
		b, err := w.Refresh(t.Context(), a.Refresh)
		if err != nil || pairs[[2]string{b.Access, b.Refresh}] != 64 {
			t.Errorf("once more after nine seconds: got another pair, or %v", err)
		}
		w.check("the pair's access token", b.Access, nil)
	})
}

func TestRefresh_LateReplayEndsTheSession(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		a := w.join("ann@example.org", "correct horse")
		other := w.enter("ann@example.org", "correct horse")
		b, err := w.Refresh(t.Context(), a.Refresh)
		if err != nil {
			t.Fatal(err)
		}
		w.check("before", b.Access, nil)
		w.pass(11 * time.Second)
		if _, err := w.Refresh(t.Context(), a.Refresh); !errors.Is(err, ErrReused) {
			t.Errorf("after eleven seconds: got %v, want ErrReused", err)
		}
		w.check("the device's access token", b.Access, ErrToken)
		if _, err := w.Refresh(t.Context(), b.Refresh); !errors.Is(err, ErrRefresh) {
			t.Errorf("the device's refresh token: got %v, want ErrRefresh", err)
		}
		w.check("another device of the user", other.Access, nil)
	})
}

func TestPreviousSecret_ItsTokensAreAccepted(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		a, b := w.join("ann@example.org", ""), w.join("bob@example.org", "correct horse")
		next, err := w.Refresh(t.Context(), a.Refresh)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.move(b, "eve@example.org", w.emailCode(b.User.ID, "eve@example.org"), "correct horse"); err != nil {
			t.Fatal(err)
		}
		w.previous, w.mint = w.mint, mint("the secret after, which is long as well")

		if again, err := w.Refresh(t.Context(), a.Refresh); err != nil || again.Refresh != next.Refresh || again.Access != next.Access {
			t.Errorf("a repeated refresh: got another pair, or %v", err)
		}
		for range maxStrays {
			w.strays.count("192.0.2.9/32", w.db.Now())
		}
		crowded := context.WithValue(t.Context(), clientnet.Key{}, func() string { return "192.0.2.9/32" })
		if _, err := w.Verify(crowded, next.Access); err != nil {
			t.Errorf("an access token of the previous secret among many made-up ones: %v", err)
		}
		if err := w.undo(w.undoLink("bob@example.org")); err != nil || w.emailOf(b.User.ID) != "bob@example.org" {
			t.Errorf("a link of the previous secret: got %v, address %s", err, w.emailOf(b.User.ID))
		}
		w.pass(2 * replayWindow)
		if _, err := w.Refresh(t.Context(), a.Refresh); !errors.Is(err, ErrReused) {
			t.Errorf("a stolen refresh token: got %v, want ErrReused", err)
		}
		w.check("its session", next.Access, ErrToken)
	})
}

// A client that retries while the COMMIT hangs has not received the pair.
func TestRefresh_SlowCommitReturnsThePair(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		a := w.join("ann@example.org", "")
		old, _ := parseToken(refreshPrefix, a.Refresh)
		var first refreshed
		type answer struct {
			Tokens
			error
		}
		again := make(chan answer, 1)
		err := w.db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) (err error) {
			first, err = w.rotateTokens(ctx, tx, old, true)
			go func() {
				b, err := w.Refresh(t.Context(), a.Refresh)
				again <- answer{b, err}
			}()
			bubble.Sleep(time.Second)
			w.pass(replayWindow)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if b := <-again; b.error != nil || b.Refresh != first.tokens.Refresh || b.Access != first.tokens.Access {
			t.Errorf("got another pair, or %v", b.error)
		}
		w.pass(replayWindow)
		if _, err := w.Refresh(t.Context(), a.Refresh); !errors.Is(err, ErrReused) {
			t.Errorf("after the pair was returned: got %v, want ErrReused", err)
		}
	})
}

func TestRefresh_ReplayWindowStartsWithTheResponse(t *testing.T) {
	// Events after the rotation of a token: the transaction ends, or the same token is presented again and returns the
	// pair or counts as stolen.
	type step struct {
		after time.Duration
		what  string
	}
	for name, steps := range map[string][]step{
		"a slow commit": {{12 * time.Second, "committed"}, {21 * time.Second, "told"}, {22 * time.Second, "stolen"}},
		"a slow commit, and the pair was already returned": {{5 * time.Second, "told"}, {12 * time.Second, "committed"},
			{13 * time.Second, "stolen"}},
		"no answer": {{12 * time.Second, "unanswered"}, {time.Hour, "told"}, {time.Hour + 9*time.Second, "told"},
			{time.Hour + 10*time.Second, "stolen"}},
		"no answer, and the pair was already returned": {{5 * time.Second, "told"}, {12 * time.Second, "unanswered"},
			{13 * time.Second, "stolen"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w := onSQLite(t, Settings{})
				a := w.join("ann@example.org", "")
				old, _ := parseToken(refreshPrefix, a.Refresh)
				var first refreshed
				if err := w.db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) (err error) {
					first, err = w.rotateTokens(ctx, tx, old, true)
					return err
				}); err != nil {
					t.Fatal(err)
				}
				for _, step := range steps {
					w.pass(first.rotated.Used.Add(step.after).Sub(w.db.Now()))
					switch step.what {
					case "committed":
						w.startReplayWindow(t.Context(), first.rotated, nil)
					case "unanswered":
						w.startReplayWindow(t.Context(), first.rotated, errors.Join(ErrStore, sqldb.ErrOutcomeUnknown))
						if err := w.flushUnconfirmed(t.Context()); err != nil {
							t.Fatal(err)
						}
					case "told":
						if b, err := w.Refresh(t.Context(), a.Refresh); err != nil || b.Refresh != first.tokens.Refresh {
							t.Errorf("after %s: got another pair, or %v", step.after, err)
						}
					case "stolen":
						if _, err := w.Refresh(t.Context(), a.Refresh); !errors.Is(err, ErrReused) {
							t.Errorf("after %s: got %v, want ErrReused", step.after, err)
						}
					}
				}
			})
		})
	}
}

func TestRefresh_OldTokenEndsTheSessionGuessDoesNot(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		a := w.join("ann@example.org", "")
		b, err := w.Refresh(t.Context(), a.Refresh)
		if err != nil {
			t.Fatal(err)
		}
		c, err := w.Refresh(t.Context(), b.Refresh)
		if err != nil {
			t.Fatal(err)
		}
		_, guess := mint("the secret of an impostor, 32 B.").pair(a.User.ID, a.Device, "", "")
		for _, guess := range []string{guess, guess[:tokenLen-secretLen] + strings.Repeat("\n", secretLen)} { // base64 ignores the latter
			if _, err := w.Refresh(t.Context(), guess); !errors.Is(err, ErrRefresh) {
				t.Errorf("the guess %q: got %v, want ErrRefresh", guess, err)
			}
			w.check("after a guess", c.Access, nil)
		}
		if _, err := w.Refresh(t.Context(), a.Refresh); !errors.Is(err, ErrReused) {
			t.Errorf("the first of three: got %v, want ErrReused", err)
		}
		w.check("after the replay", c.Access, ErrToken)
	})
}

func TestTokens_Expire(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{AccessLife: time.Hour, RefreshLife: 2 * time.Hour})
		a := w.join("ann@example.org", "")
		w.check("fresh", a.Access, nil)
		w.pass(time.Hour)
		w.check("after an hour, with a copy", a.Access, ErrToken)
		b, err := w.Refresh(t.Context(), a.Refresh)
		if err != nil {
			t.Fatal(err)
		}
		w.check("refreshed", b.Access, nil)
		w.pass(2 * time.Hour)
		if _, err := w.Refresh(t.Context(), b.Refresh); !errors.Is(err, ErrRefresh) {
			t.Errorf("an expired refresh token: got %v, want ErrRefresh", err)
		}
		if list, err := w.Sessions(t.Context(), a.User.ID); len(list) != 0 || err != nil {
			t.Errorf("sessions then: got %v, %v, want none", list, err)
		}
		if err := w.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := w.count("sessions") + w.count("codes"); n != 0 {
			t.Errorf("%d rows left after the sweep, want none", n)
		}
	})
}

func (w *world) count(table string) (n int) {
	w.t.Helper()
	if err := w.db.QueryRowContext(w.t.Context(), "SELECT COUNT(*) FROM "+table).Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

func TestSweep_DeletesOnlyExpiredRows(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		w.join("ann@example.org", "")
		w.code("bob@example.org", "register")
		w.pass(time.Minute)
		w.code("carol@example.org", "register")
		w.pass(4 * time.Minute)
		if err := w.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if codes, sessions := w.count("codes"), w.count("sessions"); codes != 1 || sessions != 1 {
			t.Errorf("%d codes and %d sessions left, want one each", codes, sessions)
		}
	})
}

func TestLogOut_EndsOneDeviceOrAll(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		a := w.join("ann@example.org", "correct horse")
		b, c := w.enter("ann@example.org", "correct horse"), w.enter("ann@example.org", "correct horse")
		for _, x := range []Tokens{a, b, c} {
			w.check("before", x.Access, nil)
		}
		if err := w.Revoke(t.Context(), a.User.ID, b.Device); err != nil {
			t.Fatal(err)
		}
		w.check("the device logged out", b.Access, ErrToken)
		w.check("another device", a.Access, nil)
		if err := w.Revoke(t.Context(), a.User.ID, b.Device); !errors.Is(err, ErrNoSession) {
			t.Errorf("once more: got %v, want ErrNoSession", err)
		}
		if err := w.RevokeAll(t.Context(), a.User.ID, DeviceID{}); err != nil {
			t.Fatal(err)
		}
		w.check("all logged out", a.Access, ErrToken)
		w.check("all logged out", c.Access, ErrToken)
		if err := w.RevokeAll(t.Context(), a.User.ID, DeviceID{}); err != nil {
			t.Errorf("all again: %v", err)
		}
	})
}

func TestRevoke_OnlyOwnDevices(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		a, b := w.join("ann@example.org", ""), w.join("bob@example.org", "")
		if err := w.Revoke(t.Context(), b.User.ID, a.Device); !errors.Is(err, ErrNoSession) {
			t.Errorf("got %v, want ErrNoSession", err)
		}
		w.check("the device", a.Access, nil)
	})
}

func TestLogin_LeastUsedDevicesAreLoggedOut(t *testing.T) {
	eachEngine(t, Settings{Devices: 2}, func(t *testing.T, w *world) {
		a := w.join("ann@example.org", "correct horse")
		w.pass(time.Second)
		b := w.enter("ann@example.org", "correct horse")
		w.pass(time.Second)
		a2, err := w.Refresh(t.Context(), a.Refresh)
		if err != nil {
			t.Fatal(err)
		}
		w.check("before", b.Access, nil)
		w.pass(time.Second)
		c := w.enter("ann@example.org", "correct horse")
		w.check("the least used", b.Access, ErrToken)
		w.check("the one refreshed", a2.Access, nil)
		w.check("the new one", c.Access, nil)
	})
}

func TestUpdate_ZoneAppliesFromNextMidnight(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		a := w.join("ann@example.org", "")
		w.check("before", a.Access, nil)
		zone, name := "Asia/Tokyo", " Anna "
		u, err := w.Update(t.Context(), a.User.ID, Change{Zone: &zone, Name: &name})
		if err != nil || u.Name != "Anna" || u.Clock.Zone != "Europe/Athens" || u.Clock.Next != zone {
			t.Fatalf("got %+v, %v, want Anna in Athens and Tokyo to come", u, err)
		}
		if c := w.check("after", a.Access, nil); c.Clock != u.Clock {
			t.Errorf("the caller's clock is %+v, want %+v", c.Clock, u.Clock)
		}
		var payload []byte
		if err := w.db.QueryRowContext(t.Context(), "SELECT payload FROM outbox WHERE topic = ?", TopicZone).Scan(&payload); err != nil {
			t.Fatal(err)
		}
		var told ZoneChanged
		if err := json.Unmarshal(payload, &told); err != nil || told.User != a.User.ID {
			t.Errorf("told %s, %v, want user %s", payload, err, a.User.ID)
		}
		if got, err := w.User(t.Context(), a.User.ID); err != nil || got != u {
			t.Errorf("User: got %+v, %v, want %+v", got, err, u)
		}
		clocks, err := w.Clocks(t.Context(), []ID{a.User.ID, ids.New[User]()})
		if err != nil || len(clocks) != 1 || clocks[a.User.ID] != u.Clock {
			t.Errorf("Clocks: got %v, %v, want %+v", clocks, err, u.Clock)
		}
		names, err := w.Profiles(t.Context(), []ID{ids.New[User](), a.User.ID})
		if err != nil || len(names) != 1 || names[a.User.ID].Name != "Anna" {
			t.Errorf("Profiles: got %v, %v, want Anna", names, err)
		}
	})
}

func TestUpdate_SkippedDateIsPublished(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		user := w.join("ben@example.org", "").User.ID
		if _, err := w.db.ExecContext(t.Context(), "UPDATE users SET zone = 'Pacific/Pago_Pago' WHERE id = ?", user); err != nil {
			t.Fatal(err)
		}
		skipped := civil.Clock{Zone: "Pacific/Pago_Pago"}.Today(w.db.Now()) + 1
		choose := func(zone string) civil.Clock {
			u, err := w.Update(t.Context(), user, Change{Zone: &zone})
			if err != nil {
				t.Fatal(err)
			}
			return u.Clock
		}
		// expect compares the waiting messages, except those due now, with the given ones.
		expect := func(when string, due int64, want ...civil.Day) {
			t.Helper()
			rows, err := w.db.QueryContext(t.Context(), "SELECT payload, due FROM outbox WHERE topic = ? AND msg_key <> ?", TopicZone, user)
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			var got []civil.Day
			for rows.Next() {
				var payload []byte
				var at int64
				var told ZoneChanged
				if err := errors.Join(rows.Scan(&payload, &at), json.Unmarshal(payload, &told)); err != nil || told.User != user || at != due {
					t.Errorf("%s: %s due at %d, %v, want %d", when, payload, at, err, due)
				}
				got = append(got, told.Skipped)
			}
			if err := rows.Err(); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: told are %v, %v, want %v", when, got, err, want)
			}
		}
		from := choose("Pacific/Kiritimati").From
		expect("chosen", from, skipped)
		choose("Pacific/Pago_Pago")
		expect("taken back", from, 0)
		choose("Pacific/Kiritimati")
		choose("Asia/Tokyo")
		expect("another one", from, 0)
		choose("Pacific/Kiritimati")
		expect("chosen again", from, skipped)
		w.pass(25 * time.Hour)
		choose("Asia/Tokyo")
		expect("nobody has worked since", from, skipped)
		w.pass(25 * time.Hour)
		choose("Asia/Shanghai")
		expect("the one after", from, skipped)
	})
}

func TestUpdate_InvalidFieldsChangeNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		a := w.join("ann@example.org", "")
		for _, zone := range []string{"", "Local", "Europe/Atlantis", "../../etc/passwd"} {
			if _, err := w.Update(t.Context(), a.User.ID, Change{Zone: &zone}); !errors.Is(err, civil.ErrZone) {
				t.Errorf("zone %q: got %v, want ErrZone", zone, err)
			}
		}
		name, zone := " ", "Asia/Tokyo"
		if _, err := w.Update(t.Context(), a.User.ID, Change{Name: &name, Zone: &zone}); !errors.Is(err, ErrName) {
			t.Errorf("got %v, want ErrName", err)
		}
		if u, err := w.User(t.Context(), a.User.ID); err != nil || u != a.User {
			t.Errorf("got %+v, %v, want %+v", u, err, a.User)
		}
		if n, err := w.Update(t.Context(), ids.New[User](), Change{}); !errors.Is(err, ErrNoUser) {
			t.Errorf("a user that is not: got %+v, %v, want ErrNoUser", n, err)
		}
	})
}

func TestClocks_ManyUsers(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) { namesAndClocks(t, onSQLite(t, Settings{})) })
	t.Run("server", func(t *testing.T) { namesAndClocks(t, onRealSQL(t)) }) // its order may differ
}

func namesAndClocks(t *testing.T, w *world) {
	var all []ID
	want := map[ID]civil.Clock{}
	err := w.db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		for i := range 1203 {
			u := User{ID: ids.New[User](), Name: fmt.Sprint("user ", i), Clock: civil.Clock{Zone: "UTC", From: int64(i)}, OnBoards: true,
				Created: tx.Now()}
			all = append(all, u.ID)
			want[u.ID] = u.Clock
			if err := insertUser(ctx, tx, u, fmt.Sprint(i), ""); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	names, err := w.Profiles(t.Context(), all)
	if err != nil || len(names) != len(all) || names[all[1202]].Name != "user 1202" {
		t.Errorf("got %d names, %v, want %d", len(names), err, len(all))
	}
	inOrder := slices.SortedFunc(slices.Values(all), ID.Compare)
	var few, strangers []ID // with ten others between each two, and with some that are nobody's
	for i := 5; i < len(inOrder); i += 11 {
		few = append(few, inOrder[i])
		strangers = append(strangers, inOrder[i], ids.New[User]())
	}
	slices.SortFunc(strangers, ID.Compare)
	for name, asked := range map[string][]ID{
		"as they came": all, "in order": inOrder, "half of those in order": inOrder[300:902],
		"each twice": slices.SortedFunc(slices.Values(append(all[:400:400], all[:400]...)), ID.Compare),
		"few":        few, "strangers": strangers, "one": all[:1], "nobody": {ids.New[User]()},
	} {
		mine := map[ID]civil.Clock{}
		for _, id := range asked {
			if c, ok := want[id]; ok {
				mine[id] = c
			}
		}
		if got, err := w.Clocks(t.Context(), asked); err != nil || !maps.Equal(got, mine) {
			t.Errorf("%s: got %d clocks, %v, want %d", name, len(got), err, len(mine))
		}
	}
	if names, err := w.Profiles(t.Context(), nil); len(names) != 0 || err != nil {
		t.Errorf("no users: got %v, %v", names, err)
	}
}

// dump returns the rows of a query as text.
func (w *world) dump(query string) string {
	w.t.Helper()
	rows, err := w.db.QueryContext(w.t.Context(), query)
	if err != nil {
		w.t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		w.t.Fatal(err)
	}
	var b strings.Builder
	for rows.Next() {
		values := make([]any, len(columns))
		for i := range values {
			values[i] = new(sql.RawBytes)
		}
		if err := rows.Scan(values...); err != nil {
			w.t.Fatal(err)
		}
		for _, v := range values {
			b.Write(*v.(*sql.RawBytes))
			b.WriteByte('\n')
		}
	}
	if err := rows.Err(); err != nil {
		w.t.Fatal(err)
	}
	return b.String()
}

// together runs fn n times at once and waits for all.
func together(n int, fn func(i int)) {
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-start
			fn(i)
		})
	}
	close(start)
	all.Wait()
}

func otherThan(code string) string {
	if code == "000000" {
		return "000001"
	}
	return "000000"
}

func TestMailCode_ExpiredCodeIsNotMailed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		if _, err := w.RequestCode(t.Context(), "ann@example.org", "register", "192.0.2.1"); err != nil {
			t.Fatal(err)
		}
		w.pass(5 * time.Minute)
		if got := w.mails("ann@example.org"); len(got) != 0 {
			t.Errorf("mailed %+v, want nothing", got)
		}
		if n := w.count("outbox"); n != 0 {
			t.Errorf("%d messages left in the outbox, want none", n)
		}
	})
}

// during runs change in a transaction that has locked the row of the user, runs do meanwhile, and commits when do waits
// for that row.
func (w *world) during(user ID, change func(ctx context.Context, tx *sqldb.Tx, u User) error, do func()) {
	w.t.Helper()
	waiting := func() (n int) {
		if err := w.db.QueryRowContext(w.t.Context(),
			"SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'").Scan(&n); err != nil {
			w.t.Error(err)
		}
		return n
	}
	var all sync.WaitGroup
	done := make(chan struct{})
	err := w.db.Tx(w.t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		u, err := lockUser(ctx, tx, user)
		if err != nil {
			return err
		}
		if err := change(ctx, tx, u); err != nil {
			return err
		}
		all.Go(func() {
			defer close(done)
			do()
		})
		for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
			select {
			case <-done: // wrong: it did not wait
				return nil
			case <-time.After(150 * time.Millisecond): // InnoDB updates that table only if it was not read for 100 ms
			}
			if waiting() > 0 {
				return nil
			}
		}
		return errors.New("it neither waits nor ends")
	})
	all.Wait()
	if err != nil {
		w.t.Fatal(err)
	}
}

// onRealSQL returns a world with row locks.
func onRealSQL(t testing.TB) *world {
	t.Helper()
	return newWorld(t, func(f ...func(*sqldb.Config)) *sqldb.DB {
		return sqldbtest.Default(t).Open(t, f...)
	}, redistest.Open(t, "embedded"), Settings{})
}

// A proof of an address that the account changes meanwhile proves nothing for the account. A log-out of all devices
// includes a device that logs in meanwhile.
func TestLocks_WaitersRecheckTheAccount(t *testing.T) {
	w := onRealSQL(t)
	a := w.join("ann@example.org", "correct horse")
	reset, login := w.code("ann@example.org", "reset_password"), w.code("ann@example.org", "login")
	moves := func(to string) func(ctx context.Context, tx *sqldb.Tx, u User) error {
		return func(ctx context.Context, tx *sqldb.Tx, u User) error {
			return updateEmail(ctx, tx, u.ID, emails.Address{Given: to, Key: to})
		}
	}
	var err error
	w.during(a.User.ID, moves("bea@example.org"), func() {
		err = w.ResetPassword(t.Context(), Reset{"ann@example.org", reset, "battery staple", "192.0.2.1"})
	})
	if !errors.Is(err, codes.ErrWrong) {
		t.Errorf("a reset: got %v, want codes.ErrWrong", err)
	}
	w.enter("bea@example.org", "correct horse")
	w.exec("UPDATE users SET email = 'ann@example.org', email_key = 'ann@example.org'")
	w.during(a.User.ID, moves("bea@example.org"), func() {
		_, err = w.Login(t.Context(), Login{Email: "ann@example.org", Code: login})
	})
	if !errors.Is(err, ErrCredentials) {
		t.Errorf("a log-in: got %v, want ErrCredentials", err)
	}
	w.during(a.User.ID, func(ctx context.Context, tx *sqldb.Tx, u User) error {
		return insertSession(ctx, tx, sessionRow{Session: Session{Device: ids.New[Session](), Created: tx.Now(), Used: tx.Now()}, user: u.ID,
			accessExpires: tx.Now().Add(time.Hour), refreshExpires: tx.Now().Add(time.Hour)})
	}, func() { err = w.RevokeAll(t.Context(), a.User.ID, DeviceID{}) })
	if n := w.count("sessions"); err != nil || n != 0 {
		t.Errorf("all were logged out, and %d are in, %v", n, err)
	}
}

func TestLogin_DuringAZoneChangeGetsTheNewClock(t *testing.T) {
	w := onRealSQL(t)
	a := w.join("ann@example.org", "correct horse")
	var b Tokens
	w.during(a.User.ID, func(ctx context.Context, tx *sqldb.Tx, u User) (err error) {
		before := u.Clock
		if u.Clock, err = u.Clock.Change("Asia/Tokyo", tx.Now()); err != nil {
			return err
		}
		if err := updateUser(ctx, tx, u); err != nil {
			return err
		}
		return w.enqueueZoneChange(ctx, tx, u.ID, before, u.Clock)
	}, func() {
		b = w.enter("ann@example.org", "correct horse")
		w.check("at once", b.Access, nil) // creates the cache entry
	})
	if c := w.check("after both", b.Access, nil); c.Clock.Next != "Asia/Tokyo" {
		t.Errorf("the caller's clock is %+v, want Tokyo to come", c.Clock)
	}
}

// Package testkit runs a whole server in a test. Every part runs as in production, on embedded engines by default, with
// a clock that the test sets. In a bubble (package bubble) the server listens in memory and its clock is the bubble's.
// Several servers can share an embedded database and a redistest.Memory.
package testkit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alexedwards/argon2id"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/background/supervise"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/keyspace/audit"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// init lets the heap grow. Nodes allocate much and retain little, and this saves a sixth of the processor time.
func init() { debug.SetGCPercent(400) }

// Server is one running node.
type Server struct {
	URL   string
	HTTP  *http.Client // sends to URL; compares responses with the description of the API
	Clock *Clock

	// Dial connects to the server, for a test's own transport.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	Stop func() // stops the server before the test ends

	AdminURL string // of the operators' address, if the settings name one

	Operations string // equal for servers with the same operations

	people atomic.Int64
	sql    sqldb.Config
}

// Clock is the server's clock. It runs like any other from the time that was set.
type Clock struct {
	mu     sync.Mutex
	offset time.Duration
}

// Now returns the server's present time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.offset)
}

// Set sets the clock to t, forwards or backwards.
func (c *Clock) Set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset = time.Until(t)
}

// Start runs a server until the test ends; each change may alter its settings. Limits on requests and mails are off and
// passwords are cheap, so that tests are fast. At the end, if Redis is available, every key in it must match its
// declaration.
func Start(t testing.TB, change ...func(*app.Config)) *Server {
	t.Helper()
	return StartLogged(t, slog.New(slog.NewTextHandler(logWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn})), change...)
}

// StartLogged is [Start] with the test's own logger.
func StartLogged(t testing.TB, log *slog.Logger, change ...func(*app.Config)) *Server {
	t.Helper()
	s := &Server{HTTP: &http.Client{Transport: http.DefaultTransport}, Dial: new(net.Dialer).DialContext, Clock: &Clock{}}
	cfg := app.Config{Addr: "127.0.0.1:0", Data: t.TempDir(), Redis: "embedded", SQL: "sqlite", KeyPrefix: "stoa", Dev: "true",
		Now: s.Clock.Now}
	cfg.Accounts.Limits.CodesPerIP = 1_000_000
	cfg.PasswordCost = argon2id.Params{Memory: 256, Iterations: 1, Parallelism: 1, SaltLength: 16, KeyLength: 32}
	for _, c := range change {
		c(&cfg)
	}
	s.sql = sqldb.Config{URL: cfg.SQL, Dir: cfg.Data, Now: s.Clock.Now}
	sqldbtest.CopySchema(t, s.sql) // migrations take a third of a node's start
	ln, err := s.listen(t)
	if err != nil {
		t.Fatal(err)
	}
	s.URL = "http://" + ln.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	s.Stop = cancel
	a, err := app.New(ctx, cfg, log)
	if err != nil {
		t.Fatal(err)
	}
	s.Operations = operationsOf(cfg)
	s.HTTP.Transport = newDeclared(t, s.HTTP.Transport, ln.Addr().String(), cfg, a.OpenAPI)
	if cfg.AdminAddr != "" {
		admin, err := net.Listen("tcp", cfg.AdminAddr)
		if err != nil {
			t.Fatal(err)
		}
		s.AdminURL = "http://" + admin.Addr().String()
		a.Admin(admin)
	}
	virtual := bubble.In(t)
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- a.Run(ctx, ln, func() { close(ready) }) }()
	t.Cleanup(func() {
		if r, err := a.Audit(ctx, audit.Options{Full: true}); err == nil && !r.Clean() {
			t.Errorf("keys in Redis are not as declared: %+v", r.Findings)
		} else if err != nil && ctx.Err() == nil && !errors.Is(err, redis.ErrUnavailable) {
			t.Errorf("the keys in Redis could not be looked at: %v", err)
		}
		cancel()
		s.HTTP.CloseIdleConnections()
		switch err := <-ended; {
		case errors.Is(err, supervise.ErrStuck) && !virtual: // on a machine that stalls, some seconds prove nothing
			t.Logf("the server ended with: %v", err)
		case err != nil:
			t.Errorf("the server ended with: %v", err)
		}
		if err := a.Close(); err != nil {
			t.Errorf("the server closed with: %v", err)
		}
		if virtual {
			time.Sleep(2 * time.Second) // the library of sockets waits that long for clients that return
		}
	})
	select {
	case <-ready:
	case err := <-ended:
		ended <- nil
		t.Fatalf("the server did not start: %v", err)
	}
	return s
}

// listen opens the server's port, or in a bubble a listener in memory.
func (s *Server) listen(t testing.TB) (net.Listener, error) {
	if !bubble.In(t) {
		return net.Listen("tcp", "127.0.0.1:0")
	}
	n := bubble.NewNetwork()
	s.HTTP, s.Dial = n.Client(), n.Dial
	return n, nil
}

// SQL opens the server's database, as another process does, until the test ends.
func (s *Server) SQL(t testing.TB) *sqldb.DB {
	t.Helper()
	db, err := sqldb.Open(t.Context(), s.sql)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// Client returns a client without a log-in.
func (s *Server) Client(t testing.TB, opts ...client.Option) *client.Client {
	t.Helper()
	c, err := client.New(s.URL, append([]client.Option{client.WithHTTPClient(s.HTTP)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

type logWriter struct{ t testing.TB }

func (w logWriter) Write(b []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

// SignUp registers a new user, named "User N". It returns a logged-in client.
func (s *Server) SignUp(t testing.TB, zone string) *client.Client {
	t.Helper()
	n := s.people.Add(1)
	return s.Register(t, api.RegisterRequest{Email: fmt.Sprintf("user%d@example.org", n), Name: fmt.Sprintf("User %d", n), Zone: zone})
}

// Register registers a user with the code from the development outbox. It returns a logged-in client.
func (s *Server) Register(t testing.TB, in api.RegisterRequest) *client.Client {
	t.Helper()
	c := s.Client(t)
	if _, err := c.RequestCode(t.Context(), api.CodeRequest{Email: in.Email, Purpose: api.PurposeRegister}); err != nil {
		t.Fatal(err)
	}
	in.Code = s.Code(t, in.Email)
	if _, err := c.Register(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	return c
}

// Code waits for the newest code that was mailed to an address, and returns it.
func (s *Server) Code(t testing.TB, email string) string {
	t.Helper()
	c := s.Client(t)
	var code string
	eventually.NoError(t, "a code to be mailed to "+email, func() error {
		mails, err := c.DevMails(t.Context(), email)
		if err == nil && (len(mails) == 0 || mails[0].Code == "") {
			return errors.New("there is none")
		}
		if err == nil {
			code = mails[0].Code
		}
		return err
	})
	return code
}

// Call sends one request as c's user and returns status, headers and body. The
// body is sent as JSON; headers are pairs of name and value.
func (s *Server) Call(t testing.TB, c *client.Client, method, path, body string, headers ...string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if c != nil {
		req.Header.Set("Authorization", "Bearer "+c.Tokens().AccessToken)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := s.HTTP.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(answer)
}

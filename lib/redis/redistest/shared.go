package redistest

import (
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stoa-dev/stoa/lib/redis"
)

// Shared returns the configuration of an empty Redis: a prefix that no other test has, on one redis-server that all
// tests of this binary share. The server starts at the first call and ends with the binary. DBs with the same
// configuration see the same keys and channels.
//
// Use [Server] for a test that kills, pauses, flushes or reconfigures its server, counts the server's connections, or
// writes physical keys. Use "embedded" for a test in a [testing/synctest] bubble, because the bubble's clock would stop
// while the test waits for a socket.
func Shared(t testing.TB) redis.Config {
	t.Helper()
	return standalone.config(t)
}

// SharedEngines is [Engines] for tests that could use [Shared]: all tests of this binary share the servers, except for
// those that each connection starts for itself.
func SharedEngines(t testing.TB) []Engine {
	t.Helper()
	es := Engines(t)
	for i, e := range es {
		switch e.Name {
		case standalone.name:
			es[i].config = standalone.config
		case sentinel.name:
			es[i].config = sentinel.config
		case cluster.name:
			es[i].config = cluster.config
		}
	}
	return es
}

// A share is a kind of Redis that all tests of this binary share.
type share struct {
	name  string
	start func(testing.TB) string // returns the URL
	once  sync.Once
	url   string // empty if it did not start
}

var (
	standalone = &share{name: "standalone", start: func(t testing.TB) string { return Server(t).URL }}
	sentinel   = &share{name: "sentinel", start: func(t testing.TB) string { return Sentinel(t).URL }}
	cluster    = &share{name: "cluster", start: func(t testing.TB) string { return Cluster(t, 3, 0).URL }}

	prefixes atomic.Int64
)

func (s *share) config(t testing.TB) redis.Config {
	t.Helper()
	cfg := redis.Config{Prefix: "t" + strconv.FormatInt(prefixes.Add(1), 10), Patience: patience}
	if !childrenDie { // the shared servers would never end
		cfg.URL = s.start(t)
		return cfg
	}
	s.once.Do(func() { s.url = s.start(&lasting{TB: t}) })
	if s.url == "" {
		t.Fatalf("the shared %s did not start", s.name)
	}
	cfg.URL = s.url
	return cfg
}

// lasting is a test whose servers outlive it: they end with the binary.
type lasting struct {
	testing.TB
}

// openUntilExit contains the values that must stay open while the binary runs.
var openUntilExit struct {
	sync.Mutex
	all []any
}

func keepOpen(what any) {
	openUntilExit.Lock()
	defer openUntilExit.Unlock()
	openUntilExit.all = append(openUntilExit.all, what)
}

// Cleanup keeps end from running.
func (l *lasting) Cleanup(end func()) { keepOpen(end) }

// TempDir returns a directory that a shell removes after the binary has ended.
func (l *lasting) TempDir() string {
	l.Helper()
	dir, err := os.MkdirTemp("", "redistest-")
	if err != nil {
		l.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", `cat >/dev/null; rm -rf "$0"`, dir)
	stdin, err := cmd.StdinPipe()
	if err == nil {
		outliveInterrupt(cmd)
		err = cmd.Start()
	}
	if err != nil {
		os.RemoveAll(dir)
		l.Fatal(err)
	}
	keepOpen(stdin)
	return dir
}

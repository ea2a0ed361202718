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

// Shared returns the configuration of an empty Redis: a prefix that no other test
// has, on one redis-server that all tests of this binary share. The server starts at
// the first call and ends with the binary. Several [redis.DB] that are opened with
// the same configuration see the same keys and channels.
//
// A test that kills, stalls, flushes or reconfigures its server, counts the server's
// connections, or spells physical keys, takes [Server] instead. A test in a
// [testing/synctest] bubble takes "embedded": its clock would stand still while it
// waits for a socket.
func Shared(t testing.TB) redis.Config {
	t.Helper()
	return standalone.config(t)
}

// SharedEngines is [Engines] for tests that could use [Shared]: what is not a
// connection's own is shared by all tests of this binary.
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

// A share is what all tests of this binary share of one kind.
type share struct {
	name  string
	start func(testing.TB) string // returns the URL
	once  sync.Once
	url   string // empty when it did not start
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
	if !childrenDie { // nothing would end the servers that all share
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

// untilTheEnd has what must stay open while the binary runs.
var untilTheEnd struct {
	sync.Mutex
	all []any
}

func keep(what any) {
	untilTheEnd.Lock()
	defer untilTheEnd.Unlock()
	untilTheEnd.all = append(untilTheEnd.all, what)
}

// Cleanup keeps what the function would end.
func (l *lasting) Cleanup(end func()) { keep(end) }

// TempDir returns a folder that a shell removes when the binary has ended.
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
	keep(stdin)
	return dir
}

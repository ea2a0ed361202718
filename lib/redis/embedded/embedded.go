package embedded

import (
	"crypto/rand"
	"net"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/stoa-dev/stoa/lib/redis/internal/engine"
	"github.com/stoa-dev/stoa/lib/redis/internal/pipe"
)

func init() {
	engine.Start = func() (engine.Server, error) {
		s, err := start()
		if err != nil {
			return nil, err
		}
		return s, nil
	}
}

const (
	// tick is the resolution of the embedded server's clock: keys expire up to this late.
	tick = 50 * time.Millisecond
	// clockShare bounds the clock's share of the time to one part in clockShare. The server is blocked while it checks
	// every key in turn (about 50 ms for 100,000 keys, which then expire up to a second late).
	clockShare = 20
)

// server is a Redis in this process.
type server struct {
	redis  *miniredis.Miniredis
	id     string
	mu     sync.Mutex
	closed bool

	clock sync.Mutex
	aged  time.Time     // time up to which expiry was applied
	rest  time.Duration // time before the next expiry check
}

func start() (*server, error) {
	s := &server{redis: miniredis.NewMiniRedis(), id: rand.Text(), aged: time.Now()}
	// The first Dial starts the server without a listener; its own connection, which has no buffer, is not used.
	c, err := s.redis.Dial()
	if err != nil {
		return nil, err
	}
	return s, c.Close()
}

// Dial returns a new connection, which needs no network.
func (s *server) Dial() (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, net.ErrClosed
	}
	near, far := pipe.New()
	s.redis.Server().ServeConn(aged{far, s})
	return near, nil
}

// aged applies expiry when commands arrive, so that an idle server does nothing. A hook of the server before each
// command would also be called within scripts, which hold the lock that expiry needs.
type aged struct {
	net.Conn
	server *server
}

func (c aged) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.server.age()
	return n, err
}

func (s *server) age() {
	s.clock.Lock()
	defer s.clock.Unlock()
	now := time.Now()
	if past := now.Sub(s.aged); past >= s.rest {
		s.redis.FastForward(past)
		s.aged, s.rest = now, max(tick, clockShare*time.Since(now))
	}
}

// ID replaces run id and replication id.
func (s *server) ID() string { return s.id }

// Connections returns the number of open connections, and of all connections so far.
func (s *server) Connections() (open, made int) {
	return s.redis.CurrentConnectionCount(), s.redis.TotalConnectionCount()
}

// Close waits until every connection has been served.
func (s *server) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.redis.Close()
}

package redis

import (
	"crypto/rand"
	"net"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
)

const (
	// tick is the grain of the embedded server's clock: keys die up to this late.
	tick = 50 * time.Millisecond
	// clockShare bounds the clock's part of the time to one in so many: the
	// server stands still while it looks at every key in turn (about 50 ms for
	// 100,000 keys, which then die up to a second late).
	clockShare = 20
	// embeddedPage is how many keys one SCAN of the embedded server yields; it
	// sorts all of them for each page.
	embeddedPage = 100_000
)

// embedded is a Redis in this process.
type embedded struct {
	server *miniredis.Miniredis
	id     string // stands for run id and replication id
	mu     sync.Mutex
	closed bool

	clock sync.Mutex
	aged  time.Time     // up to when keys have grown old
	rest  time.Duration // before they do so again
}

func startEmbedded() (*embedded, error) {
	e := &embedded{server: miniredis.NewMiniRedis(), id: rand.Text(), aged: time.Now()}
	// The first Dial starts the server without a listener; its own connection,
	// which has no buffer, is not used.
	c, err := e.server.Dial()
	if err != nil {
		return nil, err
	}
	return e, c.Close()
}

func (e *embedded) dial() (net.Conn, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, net.ErrClosed
	}
	client, server := newPipe()
	e.server.Server().ServeConn(aged{server, e})
	return client, nil
}

// aged has keys grow old when commands arrive, so that a server that nobody asks does
// nothing. A hook of the server before each command would be called within scripts as
// well, which hold the lock that growing old needs.
type aged struct {
	net.Conn
	server *embedded
}

func (c aged) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.server.age()
	return n, err
}

func (e *embedded) age() {
	e.clock.Lock()
	defer e.clock.Unlock()
	now := time.Now()
	if past := now.Sub(e.aged); past >= e.rest {
		e.server.FastForward(past)
		e.aged, e.rest = now, max(tick, clockShare*time.Since(now))
	}
}

// close waits until every connection is served to its end.
func (e *embedded) close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.server.Close()
}

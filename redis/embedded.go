package redis

import (
	"context"
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
}

func startEmbedded() (*embedded, error) {
	e := &embedded{server: miniredis.NewMiniRedis(), id: rand.Text()}
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
	e.server.Server().ServeConn(server)
	return client, nil
}

// run lets keys grow old until ctx ends.
func (e *embedded) run(ctx context.Context) {
	t := time.NewTimer(tick)
	defer t.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			now := time.Now()
			e.server.FastForward(now.Sub(last))
			last = now
			t.Reset(max(tick, clockShare*time.Since(now)))
		}
	}
}

// close waits until every connection is served to its end.
func (e *embedded) close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.server.Close()
}

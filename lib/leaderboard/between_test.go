package leaderboard_test

import (
	"bytes"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/leaderboard"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

// echoes is the echo that one connection to a server waits for: one, because the hook runs once.
type echoes struct {
	asked atomic.Bool
	came  chan struct{}
}

// between connects to a server so that hook runs, once, right before the server gets the first LRANGE of a key that
// ends in suffix after arm was called.
func between(t *testing.T, server *redistest.Instance, suffix string, hook func()) (db *redis.DB, arm func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	var mu sync.Mutex
	armed := false
	// echo is a reply that shows that the server has executed all earlier commands.
	const ask, echo = "*2\r\n$4\r\nECHO\r\n$7\r\nbetween\r\n", "$7\r\nbetween\r\n"
	forward := func(to io.Writer, b []byte, echoes *echoes) error {
		mu.Lock()
		defer mu.Unlock()
		if at := bytes.Index(b, []byte(suffix+"\r\n")); armed && at >= 0 {
			start := bytes.LastIndex(b[:at], []byte("\r\n*")) + 2
			if start == 1 {
				start = 0
			}
			if bytes.Contains(b[start:at], []byte("LRANGE")) {
				echoes.asked.Store(true)
				if _, err := to.Write(append(bytes.Clone(b[:start]), ask...)); err != nil {
					return err
				}
				armed, b = false, b[start:]
				<-echoes.came
				hook()
			}
		}
		_, err := to.Write(b)
		return err
	}
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", server.Addr)
			if err != nil {
				near.Close()
				return
			}
			echoes := &echoes{came: make(chan struct{})}
			go func() {
				defer near.Close()
				var replies []byte
				b := make([]byte, 1<<16)
				for {
					n, err := far.Read(b)
					replies = append(replies, b[:n]...)
					if echoes.asked.Load() {
						before, after, ok := bytes.Cut(replies, []byte(echo))
						if !ok && err == nil {
							continue
						}
						echoes.asked.Store(false)
						close(echoes.came)
						replies = append(before, after...)
					}
					if _, failed := near.Write(replies); failed != nil || err != nil {
						return
					}
					replies = replies[:0]
				}
			}()
			go func() {
				defer far.Close()
				b := make([]byte, 1<<16)
				for {
					n, err := near.Read(b)
					if n > 0 {
						err = forward(far, b[:n], echoes)
					}
					if err != nil {
						return
					}
				}
			}()
		}
	}()
	return redistest.Open(t, "redis://"+l.Addr().String()), func() {
		mu.Lock()
		armed = true
		mu.Unlock()
	}
}

func TestCompact_FoldDuringReadIsNoticed(t *testing.T) {
	server := redistest.Server(t)
	direct := redistest.Open(t, server.URL)
	for _, again := range []bool{false, true} { // whether the reader has seen the board before
		k := freshCompact()
		hand := leaderboard.Compact(direct, k)
		hooked := false
		db, arm := between(t, server, ":log", func() {
			hooked = true
			_, err := hand.Sweep(t.Context(), noon)
			must(t, err)
		})
		must(t, hand.Load(t.Context(), noon, all(many(3, noon.Add(time.Hour))...)))
		reader := leaderboard.Compact(db, k)
		if again {
			wantTop(t, reader, noon, "m000002 2, m000001 1, m000000 0")
		}
		apply(t, direct, hand, entry("eve", 9, noon))
		arm()
		best, err := reader.Top(t.Context(), noon, 1)
		if err != nil || best[0].Member != "eve" || !hooked {
			t.Errorf("Top = %v %v (folded: %v, seen before: %v), want eve", best, err, hooked, again)
		}
	}
}

func TestCompact_FoldBeforeEndOfLoadIsNoticed(t *testing.T) {
	server := redistest.Server(t)
	direct, k := redistest.Open(t, server.URL), freshCompact()
	hand := leaderboard.Compact(direct, k)
	es := many(3, noon.Add(time.Hour))
	hooked := false
	db, arm := between(t, server, ":held", func() {
		hooked = true
		apply(t, direct, hand, entry("ada", 8, noon))
		_, err := hand.Sweep(t.Context(), noon)
		must(t, err)
		apply(t, direct, hand, entry("bob", 7, noon))
	})
	err := leaderboard.Compact(db, k).Load(t.Context(), noon, func(yield func(leaderboard.Entry, error) bool) {
		apply(t, direct, hand, entry("eve", 9, noon))
		arm()
		all(es...)(yield)
	})
	must(t, err)
	wantTop(t, hand, noon, "eve 9, ada 8, bob 7, m000002 2, m000001 1, m000000 0")
	if !hooked {
		t.Error("the hook did not run")
	}
}

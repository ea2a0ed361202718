package conformance

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// Wrapped tests a [redis.Conn] for faults of its servers and connections. open returns a DB on a new client for the
// server at addr, and closes both when its test ends.
func Wrapped(t *testing.T, open func(t *testing.T, addr string) *redis.DB) {
	for name, run := range map[string]func(*testing.T, func(*testing.T, string) *redis.DB){
		"a lost reply is an outage, and nothing is sent twice": testLostAnswer,
		"a silent server blocks no caller beyond its context":  testSilence,
		"a cut subscription is resumed":                        testCutSubscription,
		"Close waits for no server":                            testCloseInSilence,
	} {
		t.Run(name, func(t *testing.T) { run(t, open) })
	}
}

// loseReply marks a command in its arguments: the reply is lost.
const loseReply = "lose this reply"

// lossyProxy starts a proxy to a server that loses the replies to marked commands, each with its connection. It returns
// the proxy's address, and the number of lost replies.
func lossyProxy(t *testing.T, server string) (addr string, lost *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	lost = new(atomic.Int64)
	var all sync.WaitGroup
	forward := func(near net.Conn) {
		far, err := net.Dial("tcp", server)
		if err != nil {
			near.Close()
			return
		}
		var armed atomic.Bool
		pass := func(from, to net.Conn, seen func(string) (drop bool)) {
			defer from.Close()
			defer to.Close()
			for b := make([]byte, 1<<16); ; {
				n, err := from.Read(b)
				if err != nil || seen(string(b[:n])) {
					return
				}
				if _, err := to.Write(b[:n]); err != nil {
					return
				}
			}
		}
		all.Go(func() {
			pass(near, far, func(s string) bool {
				if strings.Contains(s, loseReply) {
					armed.Store(true)
				}
				return false
			})
		})
		all.Go(func() {
			pass(far, near, func(string) bool {
				if armed.Load() {
					lost.Add(1)
				}
				return armed.Load()
			})
		})
	}
	all.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			forward(near)
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	return l.Addr().String(), lost
}

func testLostAnswer(t *testing.T, open func(*testing.T, string) *redis.DB) {
	addr, lost := lossyProxy(t, redistest.Server(t).Addr)
	db := open(t, addr)
	if before := db.Ended(); db.Ended() == before {
		t.Error("Ended returned the same number twice, but connections are unknown")
	}
	counted := visits.At(n(1))
	count := redis.NewScript("redis.call('EXPIRE', KEYS[1], 60) return redis.call('INCR', KEYS[1])")
	must(t, count.Run(t.Context(), db, []keyspace.Key{counted.Key}))
	for i := range int64(4) {
		cmd := count.Cmd([]keyspace.Key{counted.Key}, loseReply)
		var err error
		if i%2 == 0 {
			err = db.Do(t.Context(), cmd).Err
		} else {
			err = db.DoMulti(t.Context(), []keyspace.Cmd{cmd, {Name: "GET", Key: counted.Key}})[0].Err
		}
		if !errors.Is(err, redis.ErrUnavailable) {
			t.Fatalf("reply %d was lost: %v, want ErrUnavailable", i, err)
		}
		var got int64
		eventually.NoError(t, "the client reconnects", func() (err error) {
			got, err = counted.Get(t.Context(), db)
			return err
		})
		if got != i+2 || lost.Load() != i+1 {
			t.Fatalf("after %d lost replies of %d the counter is %d, want %d", lost.Load(), i+1, got, i+2)
		}
	}
}

func testSilence(t *testing.T, open func(*testing.T, string) *redis.DB) {
	server := redistest.Server(t)
	db := open(t, server.Addr)
	if err := db.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.Pause()
	defer server.Resume()
	read := keyspace.Cmd{Name: "GET", Key: value.At(n(1)).Key}
	gone, leave := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, leave)
	if err := db.DoMulti(gone, []keyspace.Cmd{read, read})[1].Err; !errors.Is(err, context.Canceled) || errors.Is(err, redis.ErrUnavailable) {
		t.Errorf("a caller that leaves: %v", err)
	}
	late, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := db.Do(late, read).Err; !errors.Is(err, redis.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a deadline: %v", err)
	}
}

func testCutSubscription(t *testing.T, open func(*testing.T, string) *redis.DB) {
	server := redistest.Server(t)
	db := open(t, server.Addr)
	l := redistest.Listen(t, db, news.At(n(1)))
	for i := range 3 {
		if i > 0 {
			redistest.Wait(t, l.Up)
		}
		if err := db.Publish(t.Context(), news.At(n(1)), "x"); err != nil {
			t.Fatal(err)
		}
		redistest.Wait(t, l.Got)
		if _, err := server.Do("CLIENT", "KILL", "TYPE", "pubsub"); err != nil {
			t.Fatal(err)
		}
	}
	redistest.Wait(t, l.Up)
	if err := l.Stop(); !errors.Is(err, context.Canceled) {
		t.Errorf("Subscribe returned %v", err)
	}
}

func testCloseInSilence(t *testing.T, open func(*testing.T, string) *redis.DB) {
	server := redistest.Server(t)
	db := open(t, server.Addr)
	l := redistest.Listen(t, db, news.At(n(1)))
	server.Pause()
	defer server.Resume()
	answer := make(chan error, 1)
	go func() { answer <- db.Do(t.Context(), keyspace.Cmd{Name: "GET", Key: value.At(n(1)).Key}).Err }()
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	if err := redistest.Wait(t, answer); !errors.Is(err, redis.ErrClosed) || !errors.Is(err, redis.ErrUnavailable) {
		t.Errorf("a command under way: %v", err)
	}
	if err := l.Stop(); !errors.Is(err, redis.ErrClosed) && !errors.Is(err, context.Canceled) {
		t.Errorf("Subscribe returned %v", err)
	}
}

// Resharded moves the slot of a subscribed channel to another owner. open returns a DB on a client of the cluster with
// servers at addrs, and closes both when its test ends.
func Resharded(t *testing.T, open func(t *testing.T, addrs []string) *redis.DB) {
	c := redistest.Cluster(t, 3, 0)
	db, others := open(t, strings.Split(strings.TrimPrefix(c.URL, "redis-cluster://"), ",")), redistest.Open(t, c.URL)
	ctx, cancel := context.WithCancel(t.Context())
	ch := news.At(keyspace.Int{N: 1})
	var subscribed, received atomic.Int64
	var listening sync.WaitGroup
	listening.Go(func() {
		_ = db.Subscribe(ctx, ch, redis.Handler{Subscribed: func() { subscribed.Add(1) }, Message: func(string) { received.Add(1) }})
	})
	defer listening.Wait()
	defer cancel()
	eventually.True(t, "a subscription", func() bool { return subscribed.Load() == 1 })
	c.Move(t, db.Physical(keyspace.Key{})+ch.String())
	eventually.True(t, "a message from the new owner", func() bool {
		_ = others.Publish(t.Context(), ch, "x") // it may not know the new owner yet
		return received.Load() > 0
	})
	if subscribed.Load() < 2 {
		t.Error("Subscribed was not called after messages may have been missed")
	}
}

package redis

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/redis/internal/pipe"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// watching starts a watcher of servers that accept connections and then run serve.
func watching(t *testing.T, serve func(addr string, far net.Conn)) *nodes {
	t.Helper()
	var serving sync.WaitGroup
	t.Cleanup(serving.Wait)
	ns := newNodes(Config{Patience: patience, Dial: func(_ context.Context, _, addr string) (net.Conn, error) {
		near, far := pipe.New()
		t.Cleanup(func() { far.Close() })
		serving.Go(func() { serve(addr, far) })
		return near, nil
	}}, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); ns.watch(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	return ns
}

// watched starts a server that accepts and never replies, and connects to it.
func watched(t *testing.T) (ns *nodes, conn net.Conn, dial func() (net.Conn, error)) {
	t.Helper()
	ns = watching(t, func(string, net.Conn) {})
	dial = func() (net.Conn, error) { return ns.dial(t.Context(), "server", new(net.Dialer), nil) }
	var err error
	if conn, err = dial(); err != nil {
		t.Fatal(err)
	}
	return ns, conn, dial
}

// untilCut waits until another goroutine closes conn.
func untilCut(t *testing.T, conn net.Conn) time.Duration {
	t.Helper()
	began := time.Now()
	conn.SetDeadline(began.Add(10 * time.Second))
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatalf("the connection ended with %v, want it cut", err)
	}
	return time.Since(began)
}

func TestNodes_LateCommandCutsSilentServer(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ns, conn, dial := watched(t)
		ns.suspectIfLate(context.DeadlineExceeded)
		if took := untilCut(t, conn); took != patience {
			t.Errorf("cut after %s, want the patience of %s", took, patience)
		}
		if _, err := dial(); !errors.Is(err, ErrUnavailable) {
			t.Errorf("dialling an unavailable server: %v, want ErrUnavailable at once", err)
		}
	})
}

// flood reports many late commands at a time until the test ends.
func flood(t *testing.T, ns *nodes) {
	stop, ended := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(stop); <-ended })
	go func() {
		defer close(ended)
		for { // the watcher drains a flood when it begins to ping
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				for range floodLimit {
					ns.suspectIfLate(context.DeadlineExceeded)
				}
			}
		}
	}()
}

func TestNodes_FloodCutsSilentServerAtOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ns, conn, _ := watched(t)
		flood(t, ns)
		if took := untilCut(t, conn); took > floodGrace+5*time.Millisecond {
			t.Errorf("cut after %s, want at once", took)
		}
	})
}

func TestNodes_FloodKeepsOtherServers(t *testing.T) {
	for name, near := range map[string]bool{"that is idle and near": true, "that is busy and far away": false} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				var made atomic.Int64
				ns := watching(t, func(addr string, far net.Conn) {
					switch {
					case addr == "silent":
					case near:
						if _, err := far.Read(make([]byte, 100)); err == nil {
							time.Sleep(floodGrace / 2)
							_, _ = far.Write([]byte("+PONG\r\n"))
						}
					case made.Add(1) == 1: // it replies to commands, but to no ping in time
						for err := error(nil); err == nil; _, err = far.Write([]byte("+OK\r\n")) {
							time.Sleep(floodGrace / 2)
						}
					}
				})
				conns := map[string]net.Conn{}
				for _, addr := range []string{"silent", "other"} {
					var err error
					if conns[addr], err = ns.dial(t.Context(), addr, new(net.Dialer), nil); err != nil {
						t.Fatal(err)
					}
				}
				go func() { _, _ = io.Copy(io.Discard, conns["other"]) }()
				flood(t, ns)
				untilCut(t, conns["silent"])
				time.Sleep(10 * floodGrace)
				var s Stats
				if ns.count(&s); !ns.isAway("silent") || s.Losses != 1 {
					t.Errorf("%d losses, silent server unavailable: %v; want only that one", s.Losses, ns.isAway("silent"))
				}
			})
		})
	}
}

func TestNodes_OtherErrorsRaiseNoSuspicion(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ns, conn, _ := watched(t)
		ns.suspectIfLate(context.Canceled)
		ns.suspectIfLate(errors.New("another error"))
		conn.SetDeadline(time.Now().Add(patience + 200*time.Millisecond))
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("the connection was cut")
		}
	})
}

func TestNodes_ClosedSilentConnectionLosesServer(t *testing.T) {
	for name, c := range map[string]struct {
		held     time.Duration
		answered bool
		away     bool
	}{
		"after the patience":                  {held: patience, away: true},
		"just before":                         {held: patience - 1},
		"after the patience, but it answered": {held: patience, answered: true},
		"by a process that was stopped":       {held: 2 * patience},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				ns, first, dial := watched(t)
				second, err := dial()
				if err != nil {
					t.Fatal(err)
				}
				second.(*tracked).answered.Store(c.answered)
				time.Sleep(c.held)
				second.Close()
				if got := ns.isAway("server"); got != c.away {
					t.Errorf("server unavailable: %v, want %v", got, c.away)
				}
				if c.away {
					if took := untilCut(t, first); took != 0 {
						t.Errorf("the other connection is cut after %s, want at once", took)
					}
				}
			})
		})
	}
}

func TestNodes_PauseOfTheProcessLosesNoServer(t *testing.T) {
	for name, paused := range map[string]int64{"in a dial": 1, "in a question": 2, "in two questions": 3} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				var dials atomic.Int64
				ns := newNodes(Config{Patience: patience, Dial: func(context.Context, string, string) (net.Conn, error) {
					if n := dials.Add(1); n <= paused && (n > 1 || paused == 1) {
						time.Sleep(2 * patience) // a paused process does not notice its deadline
						return nil, os.ErrDeadlineExceeded
					}
					near, far := pipe.New()
					t.Cleanup(func() { far.Close() })
					_, err := far.Write([]byte("+PONG\r\n"))
					return near, err
				}}, slog.New(slog.DiscardHandler))
				ctx, cancel := context.WithCancel(t.Context())
				var watch sync.WaitGroup
				watch.Go(func() { ns.watch(ctx) })
				defer func() { cancel(); watch.Wait() }()
				if _, err := ns.dial(ctx, "server", new(net.Dialer), nil); err == nil {
					ns.suspectIfLate(context.DeadlineExceeded)
				}
				time.Sleep(10 * patience)
				var s Stats
				if ns.count(&s); s.Losses != 0 || ns.suspects.Load() {
					t.Errorf("%d losses, check pending: %v; want none", s.Losses, ns.suspects.Load())
				}
			})
		})
	}
}

func TestNodes_UnusedServerIsForgotten(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ns, conn, dial := watched(t)
		ns.suspectIfLate(context.DeadlineExceeded)
		untilCut(t, conn)
		if _, err := dial(); err == nil {
			t.Fatal("dialled an unavailable server")
		}
		ns.mu.Lock()
		for _, n := range ns.byAddr {
			n.lastWanted = time.Now().Add(-2 * forgetAfter)
		}
		ns.mu.Unlock()
		if time.Sleep(5 * time.Second); ns.anyAway() {
			t.Error("the server is still watched")
		}
	})
}

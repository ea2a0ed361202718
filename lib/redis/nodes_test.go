package redis

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/redis/internal/pipe"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// watched starts a server that accepts and never answers, and connects to it.
func watched(t *testing.T) (ns *nodes, conn net.Conn, dial func() (net.Conn, error)) {
	t.Helper()
	ns = newNodes(Config{Patience: patience, Dial: func(context.Context, string, string) (net.Conn, error) {
		near, far := pipe.New()
		t.Cleanup(func() { far.Close() })
		return near, nil
	}}, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); ns.watch(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	dial = func() (net.Conn, error) { return ns.dial(t.Context(), "server", new(net.Dialer), nil) }
	var err error
	if conn, err = dial(); err != nil {
		t.Fatal(err)
	}
	return ns, conn, dial
}

// untilCut waits until somebody else closes conn.
func untilCut(t *testing.T, conn net.Conn) time.Duration {
	t.Helper()
	began := time.Now()
	conn.SetDeadline(began.Add(10 * time.Second))
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatalf("the connection ended with %v, want it cut", err)
	}
	return time.Since(began)
}

func TestOneLateCommandHasTheServerAskedAndCut(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ns, conn, dial := watched(t)
		ns.note(context.DeadlineExceeded)
		if took := untilCut(t, conn); took != patience {
			t.Errorf("cut after %s, want the patience of %s", took, patience)
		}
		if _, err := dial(); !errors.Is(err, ErrUnavailable) {
			t.Errorf("dialling a server that is away: %v, want ErrUnavailable at once", err)
		}
	})
}

func TestManyLateCommandsEndThePatienceWithAServer(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ns, conn, _ := watched(t)
		stop := make(chan struct{})
		defer close(stop)
		go func() {
			for { // until the flood that the watcher drains when it begins to ask has come again
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
					for range floodLimit {
						ns.note(context.DeadlineExceeded)
					}
				}
			}
		}()
		if took := untilCut(t, conn); took > 5*time.Millisecond {
			t.Errorf("cut after %s, want at once", took)
		}
	})
}

func TestOtherErrorsRaiseNoSuspicion(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ns, conn, _ := watched(t)
		ns.note(context.Canceled)
		ns.note(errors.New("some other"))
		conn.SetDeadline(time.Now().Add(patience + 200*time.Millisecond))
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("the connection was cut")
		}
	})
}

func TestAConnectionGivenUpBeforeAnyAnswerHasAskedAlready(t *testing.T) {
	for name, c := range map[string]struct {
		held     time.Duration
		answered bool
		away     bool
	}{
		"after the patience":                  {held: patience, away: true},
		"just before":                         {held: patience - 1},
		"after the patience, but it answered": {held: patience, answered: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				ns, first, dial := watched(t)
				second, err := dial()
				if err != nil {
					t.Fatal(err)
				}
				second.(*tracked).heard.Store(c.answered)
				time.Sleep(c.held)
				second.Close()
				if got := ns.isAway("server"); got != c.away {
					t.Errorf("the server is away: %v, want %v", got, c.away)
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

func TestAServerThatNobodyAsksForIsForgotten(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ns, conn, dial := watched(t)
		ns.note(context.DeadlineExceeded)
		untilCut(t, conn)
		if _, err := dial(); err == nil {
			t.Fatal("dialled a server that is away")
		}
		ns.mu.Lock()
		for _, n := range ns.by {
			n.wanted = time.Now().Add(-2 * forgetAfter)
		}
		ns.mu.Unlock()
		if time.Sleep(5 * time.Second); ns.anyAway() {
			t.Error("it is still watched")
		}
	})
}

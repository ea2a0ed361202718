package redistest_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// A command whose reply is held back was executed.
func TestWire_HeldReplyMeansExecutedCommand(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	w := redistest.NewWire(t, server.Addr)
	near, far := redistest.OpenConfig(t, w.Config()), redistest.Open(t, server.URL)
	w.Hold(redistest.ToNode)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := letterKey.At(ann).Set(ctx, near, "Come!"); !errors.Is(err, redis.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a held reply: %v", err)
	}
	eventually.True(t, "the server to have the value", func() bool {
		text, _, err := letterKey.At(ann).Get(t.Context(), far)
		return text == "Come!" && err == nil
	})
	w.Heal()
	eventually.NoError(t, "a command after the hold", func() error { return near.Ping(t.Context()) })
}

func TestWire_FaultsOnTheWayToARealServer(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	w := redistest.NewWire(t, server.Addr)
	near, far := redistest.OpenConfig(t, w.Config()), redistest.Open(t, server.URL)
	w.Refuse()
	if conn, err := net.Dial("tcp", w.Addr); err == nil { // the reset may arrive before the dial returns
		defer conn.Close()
		_, _ = conn.Write([]byte("PING\r\n"))
		if n, err := conn.Read(make([]byte, 10)); err == nil {
			t.Errorf("a refused connection: received %d bytes", n)
		}
	}
	if err := near.Ping(t.Context()); err == nil {
		t.Error("while connections are refused: the command succeeded")
	}
	w.Heal()
	heard := redistest.Listen(t, near, bell.At(ann))
	for _, reset := range []func(){w.Reset, w.ResetSubscriptions} {
		reset()
		redistest.Wait(t, heard.Up)
	}
	w.LoseMessages()
	for _, size := range []int{1, 40_000, 1, 1, 100_000} {
		if err := far.Publish(t.Context(), bell.At(ann), strings.Repeat("*", size)); err != nil {
			t.Fatal(err)
		}
	}
	eventually.Equal(t, "lost messages", 5, w.Lost)
	w.Heal()
	if err := far.Publish(t.Context(), bell.At(ann), "the next"); err != nil {
		t.Fatal(err)
	}
	if got := redistest.Wait(t, heard.Got); got != "the next" {
		t.Errorf("received %.20q of %d bytes, want the message after the fault", got, len(got))
	}
	redistest.KeysDeclared(t, far, post)
}

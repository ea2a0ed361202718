package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/centrifugal/centrifuge"

	"github.com/stoa-dev/stoa/bench/servers"
)

// idle opens idle connections, one for each user, to both servers.
func (b *bench) idle(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	fmt.Printf("1. %d connections, logged in, each with its user's channel, %d opened at a time\n\n%-34s %14s %14s\n", *idle, atOnce, "",
		"KB each", "opened per s")
	alone := func(form string) func() (*servers.Program, error) {
		return func() (*servers.Program, error) { return servers.Start(exec.Command(self, "-bare", form)) }
	}
	var each [4]float64
	for i, side := range []struct {
		name  string
		start func() (*servers.Program, error)
	}{
		{"the library's bare echo server", alone("library")},
		{"that, reading through 512 bytes", alone("small")},
		{"that, on the sockets of gws", alone("gws")},
		{"stoa, each token looked up in SQL", func() (*servers.Program, error) { return b.stoa(b.redis) }},
	} {
		s, err := side.start()
		if err != nil {
			return err
		}
		bytes, rate, err := b.hold(ctx, s)
		if err := errors.Join(err, s.Stop()); err != nil {
			return fmt.Errorf("%s: %w", side.name, err)
		}
		each[i] = bytes
		fmt.Printf("%-34s %14.1f %14.0f\n", side.name, bytes/1024, rate)
	}
	fmt.Printf("\nmemory, stoa against the bare server: %.2f ×\n", each[3]/each[0])
	return nil
}

// hold opens the connections and returns the server's memory for each of them after it has settled.
func (b *bench) hold(ctx context.Context, s *servers.Program) (bytes, rate float64, err error) {
	time.Sleep(*settle)
	before, err := s.Resident()
	if err != nil {
		return 0, 0, err
	}
	open := make([]*socket, *idle)
	defer func() {
		for _, o := range open {
			if o != nil {
				o.close()
			}
		}
	}()
	took, err := each(*idle, func(i int) (err error) {
		open[i], _, err = connect(ctx, s.Addr, b.people[i], nil, nil)
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	time.Sleep(*settle)
	after, err := s.Resident()
	for i, o := range open {
		select {
		case <-o.gone:
			return 0, 0, fmt.Errorf("connection %d has ended", i)
		default:
		}
	}
	return (after - before) / float64(*idle), float64(*idle) / took.Seconds(), err
}

// everybody is the channel of figure 4.
const everybody = "everybody"

// serveBare runs the library with its defaults. A client is the user in its token, and has a channel with that name.
// The server echoes calls. In the form "fan", it publishes them to the subscribers of [everybody].
func serveBare() error {
	node, err := centrifuge.New(centrifuge.Config{})
	if err != nil {
		return err
	}
	node.OnConnecting(func(_ context.Context, e centrifuge.ConnectEvent) (centrifuge.ConnectReply, error) {
		user, _, _ := strings.Cut(strings.TrimPrefix(e.Token, "sa_"), ".")
		return centrifuge.ConnectReply{Credentials: &centrifuge.Credentials{UserID: user},
			Subscriptions: map[string]centrifuge.SubscribeOptions{user: {}}}, nil
	})
	node.OnConnect(func(c *centrifuge.Client) {
		c.OnSubscribe(func(_ centrifuge.SubscribeEvent, reply centrifuge.SubscribeCallback) {
			reply(centrifuge.SubscribeReply{}, nil)
		})
		c.OnRPC(func(e centrifuge.RPCEvent, reply centrifuge.RPCCallback) {
			var err error
			if *bare == "fan" {
				_, err = node.Publish(everybody, e.Data)
			}
			reply(centrifuge.RPCReply{Data: e.Data}, err)
		})
	})
	if err := node.Run(); err != nil {
		return err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("bare ready on http://%s\n", ln.Addr())
	mux := http.NewServeMux()
	switch *bare {
	case "library", "fan":
		mux.Handle("GET /v1/socket", centrifuge.NewWebsocketHandler(node, centrifuge.WebsocketConfig{UseWriteBufferPool: true}))
	case "small":
		mux.Handle("GET /v1/socket", centrifuge.NewWebsocketHandler(node,
			centrifuge.WebsocketConfig{UseWriteBufferPool: true, ReadBufferSize: 512}))
	case "gws":
		mux.Handle("GET /v1/socket", newGWS(node))
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, func() { _ = ln.Close() })
	if err := http.Serve(ln, mux); ctx.Err() == nil { //nolint:gosec // the parent ends it
		return err
	}
	return nil
}

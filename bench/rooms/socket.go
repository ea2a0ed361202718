package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/centrifugal/centrifuge"
	"github.com/coder/websocket"
)

// socket is a minimal client: it has one channel, and a function for its events.
type socket struct {
	conn *websocket.Conn
	gone chan struct{} // closed when it has ended
}

type frame struct {
	ID    int
	Error *struct {
		Code    int
		Message string
	}
	Push *struct {
		Pub *struct{ Data json.RawMessage }
	}
}

// event is a received event with unparsed data.
type event struct {
	Type string
	Data json.RawMessage
}

// connect opens a socket with a subscription to a channel; heard is called with its events.
func connect(ctx context.Context, addr, token, channel string, heard func(data []byte)) (*socket, error) {
	conn, _, err := websocket.Dial(ctx, "ws://"+addr+"/v1/socket", nil) //nolint:bodyclose // closed by Dial
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(-1)
	s := &socket{conn: conn, gone: make(chan struct{})}
	if err := conn.Write(ctx, websocket.MessageText, fmt.Appendf(nil,
		"{\"id\":1,\"connect\":{\"token\":%q}}\n{\"id\":2,\"subscribe\":{\"channel\":%q}}", token, channel)); err != nil {
		return nil, err
	}
	ready := make(chan error, 1)
	go func() {
		defer close(s.gone)
		ctx := context.WithoutCancel(ctx)
		for {
			_, text, err := conn.Read(ctx)
			if err != nil {
				select {
				case ready <- err:
				default:
				}
				return
			}
			for line := range strings.Lines(string(text)) {
				if line = strings.TrimSpace(line); line == "{}" {
					_ = conn.Write(ctx, websocket.MessageText, []byte("{}")) // the end of the connection shows above
					continue
				}
				var f frame
				switch err := json.Unmarshal([]byte(line), &f); {
				case err != nil:
				case f.Error != nil:
					ready <- fmt.Errorf("refused: %s", line)
				case f.ID == 2:
					ready <- nil
				case f.Push != nil && f.Push.Pub != nil:
					heard(f.Push.Pub.Data)
				}
			}
		}
	}()
	return s, <-ready
}

func (s *socket) close() {
	_ = s.conn.CloseNow()
	<-s.gone
}

// audience is sockets that each receive one event after another.
type audience struct {
	sockets []*socket
	heard   atomic.Int64
	all     chan struct{} // gets a value when every socket has received an event
	last    atomic.Pointer[[]byte]
}

// gather connects n sockets, 32 at a time. as returns the address, token and channel of number i. Events of other types
// are ignored.
func gather(ctx context.Context, n int, typ string, as func(i int) (addr, token, channel string, err error)) (*audience, error) {
	a := &audience{all: make(chan struct{}, 1)}
	var mu sync.Mutex
	var work sync.WaitGroup
	var next atomic.Int64
	faults := make([]error, 32)
	for w := range faults {
		work.Go(func() {
			for i := int(next.Add(1) - 1); i < n && faults[w] == nil; i = int(next.Add(1) - 1) {
				addr, token, channel, err := as(i)
				if err != nil {
					faults[w] = err
					return
				}
				s, err := connect(ctx, addr, token, channel, func(data []byte) {
					var e event
					if json.Unmarshal(data, &e) != nil || e.Type != typ {
						return
					}
					if a.last.Load() == nil {
						a.last.Store(&data)
					}
					if a.heard.Add(1)%int64(n) == 0 {
						a.all <- struct{}{}
					}
				})
				if faults[w] = err; s != nil {
					mu.Lock()
					a.sockets = append(a.sockets, s)
					mu.Unlock()
				}
			}
		})
	}
	work.Wait()
	return a, errors.Join(faults...)
}

func (a *audience) leave() {
	for _, s := range a.sockets {
		s.close()
	}
}

// fan causes n events one after another, each after the whole audience has the previous one. It returns the time until
// the last socket for each.
func (a *audience) fan(ctx context.Context, n int, do func(i int) error) (times []time.Duration, err error) {
	for i := range n {
		began := time.Now()
		if err := do(i); err != nil {
			return nil, err
		}
		select {
		case <-a.all:
		case <-time.After(30 * time.Second):
			return nil, fmt.Errorf("event %d reached %d of %d sockets within 30 s", i, a.heard.Load()%int64(len(a.sockets)), len(a.sockets))
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		times = append(times, time.Since(began))
	}
	return times, nil
}

// everybody is the channel of the bare library.
const everybody = "everybody"

// serveBare runs the library with its defaults: it publishes each posted body to all subscribers.
func serveBare() error {
	node, err := centrifuge.New(centrifuge.Config{})
	if err != nil {
		return err
	}
	node.OnConnecting(func(_ context.Context, e centrifuge.ConnectEvent) (centrifuge.ConnectReply, error) {
		return centrifuge.ConnectReply{Credentials: &centrifuge.Credentials{UserID: e.Token}}, nil
	})
	node.OnConnect(func(c *centrifuge.Client) {
		c.OnSubscribe(func(_ centrifuge.SubscribeEvent, reply centrifuge.SubscribeCallback) {
			reply(centrifuge.SubscribeReply{}, nil)
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
	mux.Handle("GET /v1/socket", centrifuge.NewWebsocketHandler(node, centrifuge.WebsocketConfig{UseWriteBufferPool: true}))
	mux.HandleFunc("POST /publish", func(w http.ResponseWriter, r *http.Request) {
		var data json.RawMessage
		err := json.NewDecoder(r.Body).Decode(&data)
		if err == nil {
			_, err = node.Publish(everybody, data)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, func() { _ = ln.Close() })
	if err := http.Serve(ln, mux); ctx.Err() == nil { //nolint:gosec // the parent ends it
		return err
	}
	return nil
}

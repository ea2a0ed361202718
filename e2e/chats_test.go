package e2e

import (
	"context"
	crand "crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/eventually"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/redis/redistest"
)

// device is one of a person's, with a socket and the chat that it keeps: by what its socket
// brings, and by asking for what is missing.
type device struct {
	t      *testing.T
	c      *client.Client
	socket *client.Socket
	chat   string

	behind chan struct{} // asks for what is missing

	mu    sync.Mutex
	texts []string // by seq; handed to the app in this order, each once
}

// newDevice opens a device that asks the nodes by turns, beginning with one of them.
func newDevice(t *testing.T, ctx context.Context, all *sync.WaitGroup, nodes []*node, first int, p *person, peer string) *device {
	d := &device{t: t, chat: client.ChatWith(peer), behind: make(chan struct{}, 1)}
	var tries atomic.Int64
	tries.Store(int64(first))
	h := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		n := nodes[int(tries.Add(1))%len(nodes)]
		return new(net.Dialer).DialContext(ctx, network, strings.TrimPrefix(n.URL(), "http://"))
	}}}
	t.Cleanup(h.CloseIdleConnections)
	var err error
	d.c, err = client.New("http://stoa.example.org", client.WithHTTPClient(h), client.WithTokens(api.Tokens{AccessToken: p.token, User: api.User{ID: p.id}}))
	if err != nil {
		t.Fatal(err)
	}
	d.socket = d.c.Socket(client.SocketListener{
		Open: func(resumed bool) {
			if !resumed {
				d.ask()
			}
		},
		Event: d.hear,
	})
	all.Go(func() { _ = d.socket.Run(ctx) })
	all.Go(func() { d.catchUp(ctx) })
	return d
}

func (d *device) ask() {
	select {
	case d.behind <- struct{}{}:
	default:
	}
}

// hear takes the next message, skips one that it has, and asks where one is missing.
func (d *device) hear(e api.Event) {
	data, _ := e.Data.(json.RawMessage)
	switch e.Type {
	case api.EventMessageNew:
		var m api.Message
		if json.Unmarshal(data, &m) == nil && m.Chat == d.chat && !d.take(m) {
			d.ask()
		}
	case api.EventChatStands:
		var at api.ChatStands
		if json.Unmarshal(data, &at) == nil && at.Chat == d.chat {
			d.mu.Lock()
			missing := at.Seq > int64(len(d.texts))
			d.mu.Unlock()
			if missing {
				d.ask()
			}
		}
	}
}

// take reports whether m is the next message, or one that is there already.
func (d *device) take(m api.Message) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch next := int64(len(d.texts)) + 1; {
	case m.Seq == next:
		d.texts = append(d.texts, m.ClientID+m.From+" "+m.Text)
	case m.Seq > next:
		return false
	}
	return true
}

// catchUp asks for messages that are missing, until ctx ends.
func (d *device) catchUp(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.behind:
		}
		d.mu.Lock()
		have := int64(len(d.texts))
		d.mu.Unlock()
		r := client.MessageRange{After: have, Limit: 200}
		if have == 0 {
			r = client.MessageRange{Before: 200, Limit: 200}
		}
		list, err := d.c.Messages(ctx, d.chat, r)
		for _, m := range list.Messages {
			d.take(m)
		}
		if client.CodeOf(err) == "chat.unknown" {
			continue // nothing was said yet
		}
		if err != nil || list.More && have > 0 {
			d.ask()
			time.Sleep(50 * time.Millisecond)
		}
	}
}

func (d *device) all() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.texts[:len(d.texts):len(d.texts)]
}

// TestChatsAreWholeWhateverIsKilled has pairs of people talk over sockets while nodes, Redis
// and MariaDB are killed, emptied, stopped and cut off. Afterwards every message that was
// acknowledged is on every device of both, once and in order, and nothing else is.
func TestChatsAreWholeWhateverIsKilled(t *testing.T) {
	t.Parallel()
	maria := sqldbtest.OwnServer(t, sqldbtest.Options{Durable: true, TCP: true})
	server := redistest.Server(t)
	proxy := newWire(t, strings.TrimPrefix(server.URL, "redis://"))
	db := sqldbtest.Open(t, sqldb.Config{URL: maria.URL})
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64() >> 1
	}
	rng := rand.New(rand.NewPCG(seed, 14))
	env := []string{"STOA_SECRET=" + crand.Text() + crand.Text()}
	var nodes []*node
	for _, redis := range []string{"redis://" + proxy.ln.Addr().String(), server.URL} {
		nodes = append(nodes, newNode(t, env, "--sql", maria.URL, "--redis", redis, "--limits=false", "--dev=true", "--chats-messages-from=everybody"))
	}
	const couples = 4
	people := enrol(t, db, rng, 2*couples)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var all, writers sync.WaitGroup
	defer all.Wait()
	defer cancel()
	type acked struct{ key, text string }
	var mu sync.Mutex
	told := map[string][]acked{} // by couple
	var answers atomic.Int64
	devices := map[string][]*device{}
	stop := make(chan struct{})
	var calm sync.RWMutex // held by a writer for each message
	for i := range couples {
		couple := fmt.Sprint(i)
		for side := range 2 {
			me, peer := people[2*i+side], people[2*i+1-side]
			var mine []*device
			for n := range 2 {
				mine = append(mine, newDevice(t, ctx, &all, nodes, n+i, me, peer.id))
			}
			devices[couple] = append(devices[couple], mine...)
			writers.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					default:
					}
					calm.RLock()
					key, text := fmt.Sprintf("%s-%d", me.id, n), fmt.Sprint("text ", n)
					call := api.SocketCall{Path: map[string]any{"chat": client.ChatWith(peer.id)},
						Body: api.Send{ClientID: key, Content: api.Content{Kind: api.MessageText, Text: text}}}
					for { // until it is acknowledged: the same message however often it is sent
						err := mine[n%2].socket.Call(ctx, "chats.send", call, nil)
						if err == nil {
							break
						}
						if e, refused := errors.AsType[*client.Error](err); refused && e.Status < 500 && e.Status != 499 && e.Status != 429 {
							t.Errorf("a message was refused: %v", err)
							calm.RUnlock()
							return
						}
						time.Sleep(20 * time.Millisecond)
					}
					mu.Lock()
					told[couple] = append(told[couple], acked{key, text})
					mu.Unlock()
					answers.Add(1)
					calm.RUnlock()
				}
			})
		}
	}
	more := func(n int64) { // answers, so that a harm meets messages under way
		t.Helper()
		from := answers.Load()
		eventually.True(t, "messages to be acknowledged", func() bool { return answers.Load() >= from+n })
	}
	pause := func(d time.Duration) { time.Sleep(d + time.Duration(rng.Int64N(int64(200*time.Millisecond)))) }
	harms := []struct {
		what string
		harm func()
	}{
		{"a node is killed", func() { nodes[1].Kill(); pause(300 * time.Millisecond); nodes[1].Start() }},
		{"Redis is emptied", server.FlushAll},
		{"a node is cut off from Redis", func() { proxy.cut.Store(true); pause(2 * time.Second); proxy.cut.Store(false) }},
		{"a node is killed between SQL and Redis", func() {
			proxy.cut.Store(true)
			pause(100 * time.Millisecond)
			nodes[0].Kill()
			proxy.cut.Store(false)
			nodes[0].Start()
		}},
		{"Redis is killed", func() { server.Kill(); pause(300 * time.Millisecond); server.Restart() }},
		{"Redis stands still", func() { server.Pause(); pause(3 * time.Second); server.Resume() }},
		{"MariaDB is killed", func() { maria.Kill9(t); pause(300 * time.Millisecond); maria.Restart(t) }},
	}
	for range *soakFlag {
		for _, h := range harms {
			more(30)
			t.Log(h.what)
			h.harm()
		}
	}
	more(30)
	whole := func() { // while nobody writes
		t.Helper()
		for i := range couples {
			couple := fmt.Sprint(i)
			mu.Lock()
			want := map[string]bool{}
			for _, a := range told[couple] {
				want[a.text+a.key] = true
			}
			mu.Unlock()
			var whole []string
			for n, d := range devices[couple] {
				eventually.True(t, fmt.Sprintf("device %d of couple %d to have all %d messages", n, i, len(want)), func() bool { return len(d.all()) >= len(want) })
				got := d.all()
				if len(got) != len(want) {
					t.Errorf("device %d of couple %d has %d messages, and %d were acknowledged", n, i, len(got), len(want))
				}
				for at, text := range got {
					if n == 0 {
						whole = append(whole, bare(text))
					} else if at < len(whole) && bare(text) != whole[at] {
						t.Errorf("message %d of couple %d is %q on one device and %q on another", at+1, i, whole[at], bare(text))
					}
				}
			}
			seen := map[string]bool{}
			for _, text := range whole {
				if seen[text] {
					t.Errorf("%q is there twice", text)
				}
				seen[text] = true
			}
		}
	}
	// Nothing follows that would show a client that it is behind.
	for _, h := range []struct {
		what string
		harm func()
	}{
		{"a node is back at Redis, and nobody writes any more", func() { proxy.cut.Store(false) }},
		{"a node that could not tell what it stored is killed, and nobody writes any more", func() {
			nodes[0].Kill()
			proxy.cut.Store(false)
			nodes[0].Start()
		}},
	} {
		t.Log(h.what)
		proxy.cut.Store(true)
		more(40)
		calm.Lock()
		h.harm()
		whole()
		calm.Unlock()
	}
	close(stop)
	writers.Wait()
	t.Logf("seed %d: %d messages were acknowledged", seed, answers.Load())
}

// bare is a message without the client id, which only its sender sees: who and what.
func bare(text string) string {
	who, what, _ := strings.Cut(text, " ")
	return who[max(0, len(who)-12):] + " " + what
}

package e2e

import (
	"context"
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
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/social"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// device is a device of a user, with a socket. It builds its copy of the chat from the events of the socket, and
// requests missing messages.
type device struct {
	t      *testing.T
	c      *client.Client
	socket *client.Socket
	me     string // the user's id
	chat   string

	behind chan struct{} // signals missing messages

	mu    sync.Mutex
	texts []string // by seq; passed to the app in this order, each once
	notes []string // its latest actions
}

// note records an action for [device.tells].
func (d *device) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.notes = append(d.notes, time.Now().UTC().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
	d.notes = d.notes[max(0, len(d.notes)-40):]
}

// tells logs the device's copy of a chat, and its latest actions.
func (d *device) tells(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.t.Logf("%s has %d messages of %s:\n%s", name, len(d.texts), d.chat, strings.Join(d.notes, "\n"))
}

// newDevice opens a device that uses the nodes in turn, starting with one of them.
func newDevice(t *testing.T, ctx context.Context, all *sync.WaitGroup, nodes []*node, first int, p *person, chat string) *device {
	d := &device{t: t, me: p.id, chat: chat, behind: make(chan struct{}, 1)}
	var tries atomic.Int64
	tries.Store(int64(first))
	h := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			n := nodes[int(tries.Add(1))%len(nodes)]
			return new(net.Dialer).DialContext(ctx, network, strings.TrimPrefix(n.URL(), "http://"))
		}}}
	t.Cleanup(h.CloseIdleConnections)
	var err error
	d.c, err = client.New("http://stoa.example.org", client.WithHTTPClient(h),
		client.WithTokens(api.Tokens{AccessToken: p.token, User: api.User{ID: p.id}}))
	if err != nil {
		t.Fatal(err)
	}
	d.socket = d.c.Socket(client.SocketListener{
		Open: func(resumed bool) {
			d.note("open, resumed: %v", resumed)
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

// hear stores the next message, skips one that it has, and requests missing ones.
func (d *device) hear(e api.Event) {
	data, _ := e.Data.(json.RawMessage)
	d.note("%s %.150s", e.Type, data)
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

// take reports whether m is the next message, or one that the device already has.
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

// catchUp requests missing messages until ctx ends.
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
		list, err := d.c.Messages(ctx, d.chat, client.MessageRange{After: &have, Limit: 200})
		d.note("after %d there are %d, more: %v, %v", have, len(list.Messages), list.More, err)
		for _, m := range list.Messages {
			d.take(m)
		}
		if client.CodeOf(err) == "chat.unknown" {
			continue // there is no message yet
		}
		if err != nil || list.More {
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

// talk is a set of users of a world who write over sockets, each on two devices: some couples, and one group. At the end
// every acknowledged message is on every device of its users, once and in order, and there is no other message.
type talk struct {
	*world
	people  []*person
	devices [][]*device // of all users, by chat; the group's is the last one
	ends    context.Context
	acked   atomic.Int64

	mu   sync.Mutex
	told []map[string]bool // acknowledged messages by chat
}

// The users of a talk.
const (
	couples = 4
	trio    = 3 // members of the group
)

func newTalk(w *world) *talk {
	all := &talk{world: w, people: w.take(2*couples + trio)}
	var end context.CancelFunc
	all.ends, end = context.WithCancel(context.WithoutCancel(w.t.Context()))
	var sockets sync.WaitGroup
	w.t.Cleanup(func() {
		end()
		w.stop()
		sockets.Wait()
		w.t.Logf("%d messages were acknowledged", all.acked.Load())
	})
	members := all.people[2*couples:]
	group := found(w.t, w.db, w.nodes[0], members)
	for i := range couples + 1 {
		all.told = append(all.told, map[string]bool{})
		all.devices = append(all.devices, nil)
		users := members
		if i < couples {
			users = all.people[2*i : 2*i+2]
		} else {
			all.told[i]["the group was created"] = true
		}
		for side, me := range users {
			chat := group
			if i < couples {
				chat = client.ChatWith(users[1-side].id)
			}
			for n := range 2 {
				all.devices[i] = append(all.devices[i], newDevice(w.t, all.ends, &sockets, w.nodes, n+i, me, chat))
			}
		}
	}
	return all
}

func (w *talk) begin() {
	for chat, devices := range w.devices {
		sent := make([]int, len(devices)/2)
		w.work(len(sent), 150*time.Millisecond, func(rng *rand.Rand, i int) {
			w.write(w.ends, chat, devices[2*i+rng.IntN(2)], sent[i])
			sent[i]++
		})
	}
}

// found lets the first user create a group of the users, and returns its chat.
func found(t *testing.T, db *sqldb.DB, n *node, members []*person) string {
	t.Helper()
	var all []accounts.ID
	var pairs [][2]accounts.ID
	var others []string
	for i, p := range members {
		id, err := ids.Parse[accounts.User](p.id)
		if err != nil {
			t.Fatal(err)
		}
		if all = append(all, id); i > 0 {
			pairs, others = append(pairs, [2]accounts.ID{all[0], id}), append(others, p.id)
		}
	}
	if err := social.Befriend(t.Context(), db, pairs); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(n.URL(), client.WithTokens(api.Tokens{AccessToken: members[0].token}))
	if err != nil {
		t.Fatal(err)
	}
	g, err := c.CreateGroup(t.Context(), api.GroupNew{Name: "Rowing", Members: others})
	if err != nil {
		t.Fatal(err)
	}
	return client.ChatIn(g.Group.ID)
}

// write sends a user's n-th message until it is acknowledged.
func (w *talk) write(ctx context.Context, chat int, d *device, n int) {
	key, text := fmt.Sprintf("%s-%d", d.me, n), fmt.Sprint("text ", n)
	call := api.SocketCall{Path: map[string]any{"chat": d.chat},
		Body: api.Send{ClientID: key, Content: api.Content{Kind: api.MessageText, Text: text}}}
	var sent api.Sent
	for { // the same message at every try
		err := d.socket.Call(ctx, "chats.send", call, &sent)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return
		}
		if e, refused := errors.AsType[*client.Error](err); refused && e.Status < 500 && e.Status != 499 && e.Status != 429 {
			w.t.Errorf("a message was refused: %v", err)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	w.mu.Lock()
	w.told[chat][text+key] = true
	w.mu.Unlock()
	w.acked.Add(1)
	if n%3 == 0 { // the responses are ignored
		_ = d.c.Mark(ctx, d.chat, api.MarkRequest{Read: max(1, sent.Seq-2)})
		_, _ = d.c.React(ctx, d.chat, max(1, sent.Seq-1), "👍")
	}
}

// more waits for responses, so that a failure meets messages in flight.
func (w *talk) more(n int64) {
	w.t.Helper()
	from := w.acked.Load()
	eventually.True(w.t, "messages to be acknowledged", func() bool { return w.acked.Load() >= from+n })
}

// check checks that each device has all acknowledged messages, once, and in the same order as the others.
func (w *talk) check() {
	w.t.Helper()
	for i, devices := range w.devices {
		w.mu.Lock()
		want := len(w.told[i])
		w.mu.Unlock()
		var whole []string
		for n, d := range devices {
			name := fmt.Sprintf("device %d of chat %d", n, i)
			behind := true
			w.t.Cleanup(func() {
				if behind {
					d.tells(name)
				}
			})
			eventually.True(w.t, fmt.Sprintf("%s to have all %d messages", name, want), func() bool { return len(d.all()) >= want })
			behind = false
			got := d.all()
			if len(got) != want {
				w.t.Errorf("device %d of chat %d has %d messages, and %d were acknowledged", n, i, len(got), want)
			}
			for at, text := range got {
				if n == 0 {
					whole = append(whole, bare(text))
				} else if at < len(whole) && bare(text) != whole[at] {
					w.t.Errorf("message %d of chat %d is %q on one device and %q on another", at+1, i, whole[at], bare(text))
				}
			}
		}
		seen := map[string]bool{}
		for _, text := range whole {
			if seen[text] {
				w.t.Errorf("%q is there twice", text)
			}
			seen[text] = true
		}
	}
}

// sameAsFresh compares what the nodes return about all chats before and after Redis loses all data. No caller works.
func (w *talk) sameAsFresh(forget func()) {
	t := w.t
	t.Helper()
	hc := &http.Client{}
	defer hc.CloseIdleConnections()
	say := func() (said []string) {
		for _, n := range w.nodes {
			waitReady(t, hc, n)
			for _, p := range w.people {
				c, err := client.New(n.URL(), client.WithHTTPClient(hc), client.WithTokens(api.Tokens{AccessToken: p.token, User: api.User{ID: p.id}}))
				if err != nil {
					t.Fatal(err)
				}
				list, err := c.Chats(t.Context(), "", "", 100)
				if err != nil || len(list.Chats) == 0 {
					t.Fatalf("%d chats, %v", len(list.Chats), err)
				}
				list.Sync = ""
				newest, err := c.Messages(t.Context(), list.Chats[0].Chat, client.MessageRange{Limit: 50})
				if err != nil {
					t.Fatal(err)
				}
				text, err := json.Marshal([]any{list, newest})
				if err != nil {
					t.Fatal(err)
				}
				said = append(said, string(text))
			}
		}
		return said
	}
	before := say()
	forget()
	for i, fresh := range say() {
		if fresh != before[i] {
			t.Errorf("the chats were\n%s\nand computed anew they are\n%s", before[i], fresh)
		}
	}
}

// bare returns the sender and the text of a message, without the client id that only its sender sees.
func bare(text string) string {
	who, what, _ := strings.Cut(text, " ")
	return who[max(0, len(who)-12):] + " " + what
}

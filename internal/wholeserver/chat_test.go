package wholeserver

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// talker is a user with a socket who records the events of chats. Messages are recorded as "seq text" in their order of
// arrival, and other events by their type.
type talker struct {
	*device
	id string
}

// join registers a user and opens a socket at a node.
func (p *deployment) join(node int, name string) *talker {
	p.t.Helper()
	c := p.nodes[node].Register(p.t, api.RegisterRequest{Email: strings.ToLower(name) + "@example.org", Name: name})
	return &talker{p.socket(node, c.Tokens()), id(c)}
}

func (d *talker) says(t *testing.T, to *talker, id, text string) api.Sent {
	t.Helper()
	var sent api.Sent
	in := api.Send{ClientID: id, Content: api.Content{Kind: api.MessageText, Text: text}}
	if err := d.Call(t.Context(), "chats.send", api.SocketCall{Path: map[string]any{"chat": client.ChatWith(to.id)}, Body: in},
		&sent); err != nil {
		t.Fatal(err)
	}
	return sent
}

// chats returns the recorded events of chats. It omits typing, which has no order, and repeated messages, as a client
// does by their numbers.
func (d *talker) chats() (out []string) {
	for _, what := range d.all() {
		if slices.Contains(out, what) {
			continue
		}
		if strings.HasPrefix(what, "message.") || strings.HasPrefix(what, "chat.") && what != api.EventChatTyping {
			out = append(out, what)
		}
	}
	return out
}

func (d *talker) hearsOfChats(t *testing.T, want ...string) {
	t.Helper()
	eventually.Equal(t, "what is heard of chats", fmt.Sprintf("%q", want), func() string { return fmt.Sprintf("%q", d.chats()) })
}

func describeEvent(e api.Event) string {
	data, _ := e.Data.(json.RawMessage)
	switch e.Type {
	case api.EventMessageNew, api.EventMessageChanged:
		var m api.Message
		_ = json.Unmarshal(data, &m)
		s := fmt.Sprintf("%s %d %s", e.Type, m.Seq, m.Text)
		for _, r := range m.Reactions {
			s += fmt.Sprint(" ", r.Emoji, len(r.Users))
		}
		return s
	case api.EventChatMarked:
		var m api.ChatMark
		_ = json.Unmarshal(data, &m)
		return fmt.Sprintf("%s %d", e.Type, m.Read)
	}
	return e.Type
}

func TestTwoPeopleChatOnTwoNodes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := deploy(t, 2)
		bob, eve := p.join(0, "Bob"), p.join(1, "Eve")
		err := bob.Call(t.Context(), "chats.send", api.SocketCall{Path: map[string]any{"chat": client.ChatWith(eve.id)},
			Body: api.Send{ClientID: "x", Content: api.Content{Kind: api.MessageText, Text: "Hi"}}}, nil)
		if client.CodeOf(err) != "message.refused" {
			t.Errorf("a stranger's message: %v", err)
		}
		befriend(t, bob.c, eve.c)
		if sent := bob.says(t, eve, "1", "Hi"); sent.Seq != 1 {
			t.Errorf("got %+v", sent)
		}
		if again := bob.says(t, eve, "1", "Hi"); again.Seq != 1 {
			t.Errorf("sent again: %+v", again)
		}
		// Events of two nodes have no order among them; clients use the message's rev.
		bob.hearsOfChats(t, "message.new 1 Hi")
		eve.hearsOfChats(t, "message.new 1 Hi")
		eve.says(t, bob, "1", "Hello")
		bob.hearsOfChats(t, "message.new 1 Hi", "message.new 2 Hello")
		eve.hearsOfChats(t, "message.new 1 Hi", "message.new 2 Hello")
		must(t, eve.c.Typing(t.Context(), client.ChatWith(bob.id), true))
		must(t, bob.c.Mark(t.Context(), client.ChatWith(eve.id), api.MarkRequest{Read: 2}))
		bob.hearsOfChats(t, "message.new 1 Hi", "message.new 2 Hello", "chat.marked 2")
		eve.hearsOfChats(t, "message.new 1 Hi", "message.new 2 Hello", "chat.marked 2")
		if _, err := eve.c.React(t.Context(), client.ChatWith(bob.id), 1, "👍"); err != nil {
			t.Fatal(err)
		}
		bob.hearsOfChats(t, "message.new 1 Hi", "message.new 2 Hello", "chat.marked 2", "message.changed 1 Hi 👍1")
		if _, err := bob.c.EditMessage(t.Context(), client.ChatWith(eve.id), 1, "Hi there"); err != nil {
			t.Fatal(err)
		}
		bob.hearsOfChats(t, "message.new 1 Hi", "message.new 2 Hello", "chat.marked 2", "message.changed 1 Hi 👍1",
			"message.changed 1 Hi there 👍1")
		eve.hearsOfChats(t, "message.new 1 Hi", "message.new 2 Hello", "chat.marked 2", "message.changed 1 Hi 👍1",
			"message.changed 1 Hi there 👍1")
		eventually.True(t, "Bob to see that Eve types", func() bool { return slices.Contains(bob.all(), api.EventChatTyping) })

		eve.line.harm(nil)
		bob.says(t, eve, "2", "Are you there?")
		bob.says(t, eve, "3", "Eve?")
		began := len(eve.chats())
		bubble.Sleep(time.Second)
		eve.line.harm(p.nodes[0])
		eventually.Equal(t, "what Eve gets when she is back", `["message.new 3 Are you there?" "message.new 4 Eve?"]`, func() string {
			return fmt.Sprintf("%q", eve.chats()[began:])
		})
		if chats, err := eve.c.Chats(t.Context(), "", "", 0); err != nil || chats.Unread != 2 || chats.Chats[0].Last.Text != "Eve?" ||
			chats.Chats[0].PeerName != "Bob" {
			t.Errorf("got %+v, %v", chats, err)
		}
	})
}

// reader is a client that builds its copy of one chat as clients should. It takes messages in the order of their
// numbers, and requests missing ones when the server reports that events may be missing.
type reader struct {
	have   atomic.Int64 // number of messages
	closed atomic.Int64 // number of times that its socket was closed
}

// read runs a reader at the client's node until the test ends.
func (p *deployment) read(c *client.Client, chat string) *reader {
	p.t.Helper()
	d, ask := &reader{}, make(chan struct{}, 1)
	behind := func() {
		select {
		case ask <- struct{}{}:
		default:
		}
	}
	socket := c.Socket(client.SocketListener{
		Closed: func(error) { d.closed.Add(1) },
		Open: func(resumed bool) {
			if !resumed {
				behind()
			}
		},
		Event: func(e api.Event) {
			data, _ := e.Data.(json.RawMessage)
			var at struct { // seq of a message, or last seq of a chat
				Chat string
				Seq  int64
			}
			if e.Type != api.EventMessageNew && e.Type != api.EventChatStands || json.Unmarshal(data, &at) != nil || at.Chat != chat {
				return
			}
			if e.Type != api.EventMessageNew || !d.have.CompareAndSwap(at.Seq-1, at.Seq) && at.Seq > d.have.Load() {
				behind()
			}
		},
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(p.t.Context()))
	var all sync.WaitGroup
	p.t.Cleanup(func() { cancel(); all.Wait() })
	all.Go(func() { _ = socket.Run(ctx) })
	all.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-ask:
			}
			have := d.have.Load()
			list, err := c.Messages(ctx, chat, client.MessageRange{After: &have})
			for _, m := range list.Messages {
				d.have.CompareAndSwap(m.Seq-1, m.Seq)
			}
			if client.CodeOf(err) != "chat.unknown" && (err != nil || list.More) {
				behind()
			}
		}
	})
	return d
}

// The node that stores messages is cut off from Redis repeatedly, for less time than the other nodes need to consider
// it dead. A subscriber at the other node receives each message, even if no other message follows.
func TestWhatANodeStoresWhileItIsCutOffIsHeardOnTheOther(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := deploy(t, 2)
		bob, eve := p.join(0, "Bob"), p.join(1, "Eve")
		befriend(t, bob.c, eve.c)
		there := p.read(p.client(1, client.WithTokens(eve.c.Tokens())), client.ChatWith(bob.id))
		for n := range int64(10) {
			p.wires[0].Refuse()
			bubble.Sleep(time.Second + rand.N(time.Second)) // so that no two intervals stay in step
			bob.says(t, eve, fmt.Sprint(n), "Hi")
			bubble.Sleep(rand.N(time.Second))
			p.wires[0].Heal()
			closed := there.closed.Load()
			for range 1000 { // until Eve's client is asked to resynchronise
				if bubble.Sleep(time.Millisecond); there.closed.Load() > closed {
					break
				}
			}
			p.wires[0].Refuse() // it was connected for a moment only
			bubble.Sleep(2 * time.Second)
			p.wires[0].Heal()
			bubble.Sleep(5 * time.Second)
			if have := there.have.Load(); have != n+1 {
				t.Errorf("Eve has %d messages, and Bob sent %d", have, n+1)
			}
		}
	})
}

// After a block on one node, the other node refuses messages within maxStale, and publishes no typing.
func TestWhoIsBlockedReachesNobody(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := deploy(t, 2)
		bob, eve := p.join(0, "Bob"), p.join(1, "Eve")
		befriend(t, bob.c, eve.c)
		bob.says(t, eve, "1", "Hi")
		eve.hearsOfChats(t, "message.new 1 Hi")
		must(t, eve.c.Block(t.Context(), bob.id))
		bubble.Sleep(maxStale)
		chat := client.ChatWith(eve.id)
		_, err := bob.c.Send(t.Context(), chat, api.Send{ClientID: "2", Content: api.Content{Kind: api.MessageText, Text: "Ho"}})
		if client.CodeOf(err) != "message.refused" {
			t.Errorf("a message: %v", err)
		}
		if _, err := bob.c.React(t.Context(), chat, 1, "👍"); client.CodeOf(err) != "message.refused" {
			t.Errorf("a reaction: %v", err)
		}
		if err := bob.c.Typing(t.Context(), chat, true); err != nil {
			t.Errorf("typing tells of a block: %v", err)
		}
		bubble.Sleep(time.Second)
		if got := eve.chats(); !slices.Equal(got, []string{"message.new 1 Hi"}) {
			t.Errorf("she who blocks heard %q", got)
		}
	})
}

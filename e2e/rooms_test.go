package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// older reports whether a register is older than another.
func older(a, b api.Playback) bool {
	return cmp.Or(cmp.Compare(a.Generation, b.Generation), cmp.Compare(a.Version, b.Version)) < 0
}

// A node is killed during commands, then SQL, then Redis with all its data. The other node has all acknowledged state
// of a room. If Redis lost everything, only moves within one item may be lost.
func TestARoomOutlivesANodeSQLAndRedis(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	maria, server := sqldbtest.OwnServer(t, sqldbtest.Options{Durable: true, TCP: true}), redistest.Server(t)
	common := []string{"--sql", maria.URL, "--redis", server.URL, "--dev=true", "--limits=false"}
	env := []string{"STOA_SECRET=0123456789abcdef0123456789abcdef"}
	first, second := newNode(t, env, common...), newNode(t, env, common...)
	ann := register(t, second.URL(), "ann@example.org")
	there, err := client.New(first.URL(), client.WithTokens(ann.Tokens()))
	if err != nil {
		t.Fatal(err)
	}
	place, err := ann.CreateRoom(ctx, api.RoomNew{Name: "Film night"})
	if err != nil {
		t.Fatal(err)
	}
	room := place.Room.ID
	item, err := ann.AddToRoom(ctx, room, api.RoomItemNew{Kind: "url", Source: "https://example.org/film.mp4", Title: "A film"})
	if err != nil {
		t.Fatal(err)
	}
	state, err := ann.Playback(ctx, room)
	if err != nil {
		t.Fatal(err)
	}
	// do sends a command at a node, with the version of the last acknowledged state.
	do := func(c *client.Client, what api.PlaybackCommand) error {
		what.Generation, what.Version = state.Generation, state.Version
		got, err := c.Command(ctx, room, what)
		if err == nil {
			state = got
		}
		return err
	}
	// looks requests the playback until the response is not older than the acknowledged state. While Redis does not
	// respond in time, a node has only the checkpoint.
	looks := func(c *client.Client, when string) api.Playback {
		t.Helper()
		var got api.Playback
		eventually.NoError(t, "the room to be answered "+when, func() (err error) {
			if got, err = c.Playback(ctx, room); err == nil && (older(got, state) || got.Item != item.ID) {
				err = fmt.Errorf("%+v, want nothing older than %+v", got, state)
			}
			return err
		})
		return got
	}
	// catchUp stores the effect of a command without a response.
	catchUp := func(c *client.Client) {
		if got, err := c.Playback(ctx, room); err == nil && !older(got, state) {
			state = got
		}
	}
	for _, what := range []api.PlaybackCommand{{Do: "load", Item: item.ID}, {Do: "play"}} {
		if err := do(ann, what); err != nil {
			t.Fatal(err)
		}
	}

	some, killed := make(chan struct{}), make(chan struct{})
	enough := sync.OnceFunc(func() { close(some) })
	go func() {
		defer close(killed)
		<-some
		first.Kill()
	}()
	commands := 0
	for ; ; commands++ {
		if commands == 50 {
			enough()
		}
		err := do(there, api.PlaybackCommand{Do: "seek", Position: int64(commands)})
		if refused, _ := errors.AsType[*client.Error](err); refused != nil && refused.Code == "room.state_away" {
			catchUp(there) // Redis did not respond in time, and may have run it
		} else if refused != nil {
			t.Fatalf("a command is refused: %v", err)
		} else if err != nil {
			break
		}
	}
	enough()
	<-killed
	state = looks(ann, "after the node was killed") // the command without a response may have run
	t.Logf("%d commands until the node was killed", commands)
	eventually.NoError(t, "a command at the other node", func() error {
		catchUp(ann)
		return do(ann, api.PlaybackCommand{Do: "seek", Position: 60_000})
	})

	maria.Kill9(t)
	looks(ann, "without SQL")
	maria.Restart(t)
	eventually.NoError(t, "the room to be paused", func() error {
		catchUp(ann)
		return do(ann, api.PlaybackCommand{Do: "pause"})
	})

	server.Kill()
	eventually.NoError(t, "the checkpoint to be answered without Redis", func() error { _, err := ann.Playback(ctx, room); return err })
	server.RestartEmpty()
	eventually.NoError(t, "a command after Redis came back empty", func() error {
		got, err := ann.Playback(ctx, room)
		if err != nil {
			return err
		}
		if !got.Paused || got.Item != item.ID || got.Position != state.Position || got.Generation < state.Generation {
			t.Errorf("after Redis came back empty: %+v, want the pause of %+v", got, state)
		}
		state = got
		return do(ann, api.PlaybackCommand{Do: "play"})
	})
	first.Start()
	waitReady(t, http.DefaultClient, first)
	there, err = client.New(first.URL(), client.WithTokens(ann.Tokens()))
	if err != nil {
		t.Fatal(err)
	}
	if got := looks(there, "by the node that was killed"); got.Paused {
		t.Errorf("the node that was killed says %+v, want %+v", got, state)
	}
}

// A viewer at a killed node no longer counts after the node's lease has expired. A room needs no worker between two
// commands.
func TestARoomOutlivesAGatewayAndAWorker(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	common := []string{"--sql", sqldbtest.Server(t).URL, "--redis", redistest.Server(t).URL, "--dev=true", "--limits=false"}
	env := []string{"STOA_SECRET=0123456789abcdef0123456789abcdef"}
	front := newNode(t, env, append(common, "--roles", "api,gateway")...)
	gate := newNode(t, env, append(common, "--roles", "gateway")...)
	back := newNode(t, env, append(common, "--roles", "worker")...)
	ann, bob, eve := register(t, front.URL(), "ann@example.org"), register(t, front.URL(), "bob@example.org"),
		register(t, front.URL(), "eve@example.org")
	open := "open"
	place, err := ann.CreateRoom(ctx, api.RoomNew{Name: "Film night", Access: &open})
	if err != nil {
		t.Fatal(err)
	}
	room := place.Room.ID
	for _, c := range []*client.Client{bob, eve} {
		if _, err := c.JoinRoom(ctx, room, api.RoomJoin{}); err != nil {
			t.Fatal(err)
		}
	}
	viewers := func() string {
		got, err := ann.Room(ctx, room)
		if err != nil {
			return err.Error()
		}
		online, err := ann.RoomOnline(ctx, room)
		return fmt.Sprintf("%d, of whom %d have a name (%v)", got.Room.Viewers, len(online.Viewers), err)
	}
	count := func(n int) string { return fmt.Sprintf("%d, of whom %d have a name (<nil>)", n, n) }
	watchRoom(t, front, ann, room)
	atGate := watchRoom(t, gate, bob, room)
	watchRoom(t, gate, eve, room)
	eventually.Equal(t, "viewers", count(3), viewers)
	say := func(text string, to *viewer) {
		t.Helper()
		if _, err := ann.SayInRoom(ctx, room, text); err != nil {
			t.Fatal(err)
		}
		eventually.True(t, "a viewer to hear "+text, func() bool { return to.heard(text) })
	}
	say("Shall we begin?", atGate)

	gate.Kill()
	eventually.Equal(t, "viewers after their node was killed", count(1), viewers)
	moved := watchRoom(t, front, bob, room)
	eventually.Equal(t, "viewers when one has come to another node", count(2), viewers)

	back.Kill()
	say("Who is there?", moved)
	if _, err := bob.RequestCode(ctx, api.CodeRequest{Email: "zoe@example.org", Purpose: api.PurposeRegister}); err != nil {
		t.Fatal(err)
	}
	watchRoom(t, front, eve, room)
	eventually.Equal(t, "viewers without a worker", count(3), viewers)
	back.Start()
	eventually.True(t, "the mail that was asked for without a worker", func() bool {
		mails, err := ann.DevMails(ctx, "zoe@example.org")
		return err == nil && len(mails) == 1
	})
	say("Then let us begin.", moved)
}

// viewer records the chat of a room that it watches.
type viewer struct {
	mu   sync.Mutex
	said []string
}

func (v *viewer) heard(text string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Contains(v.said, text)
}

// watchRoom lets a user watch a room at a node until the test ends.
func watchRoom(t *testing.T, n *node, who *client.Client, room string) *viewer {
	t.Helper()
	c, err := client.New(n.URL(), client.WithTokens(who.Tokens()))
	if err != nil {
		t.Fatal(err)
	}
	socket, v, open := c.Socket(client.SocketListener{}), &viewer{}, make(chan struct{})
	opened := sync.OnceFunc(func() { close(open) })
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = socket.Run(ctx) })
	running.Go(func() {
		_ = socket.Watch(ctx, api.RoomChannel(room), client.SocketListener{
			Open: func(bool) { opened() },
			Event: func(e api.Event) {
				var line api.RoomLine
				if data, ok := e.Data.(json.RawMessage); ok && e.Type == api.EventRoomSaid && json.Unmarshal(data, &line) == nil {
					v.mu.Lock()
					defer v.mu.Unlock()
					v.said = append(v.said, line.Text)
				}
			},
		})
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	<-open
	return v
}

package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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

// screening is a room of a world, whose owner sends commands at both nodes. No failure takes an acknowledged state back.
type screening struct {
	*world
	owner    []*client.Client // at each node
	room     string
	items    []string
	commands int

	state  api.Playback   // the newest acknowledged one
	unsure []api.Playback // effects of commands since then, which may have run or may still run
}

func newScreening(w *world) *screening {
	s := &screening{world: w, owner: w.clients(w.take(1)[0])}
	ctx := w.t.Context()
	place, err := s.owner[0].CreateRoom(ctx, api.RoomNew{Name: "Film night"})
	if err != nil {
		w.t.Fatal(err)
	}
	s.room = place.Room.ID
	for _, title := range []string{"A film", "Another one"} {
		item, err := s.owner[0].AddToRoom(ctx, s.room, api.RoomItemNew{Kind: "url", Source: "https://example.org/film.mp4", Title: title})
		if err != nil {
			w.t.Fatal(err)
		}
		s.items = append(s.items, item.ID)
	}
	if s.state, err = s.owner[0].Playback(ctx, s.room); err != nil {
		w.t.Fatal(err)
	}
	s.command(rand.New(rand.NewPCG(w.seed, 1)), "load")
	return s
}

func (s *screening) begin() {
	s.work(1, 50*time.Millisecond, func(rng *rand.Rand, _ int) {
		s.command(rng, []string{"load", "play", "pause", "seek", "seek", "seek"}[rng.IntN(6)])
	})
}

// command sends one command until a node has run it, or returns a state that is not older than the acknowledged one.
func (s *screening) command(rng *rand.Rand, do string) {
	what := api.PlaybackCommand{Do: do}
	effect := s.state
	switch what.Do {
	case "load":
		what.Item = s.items[rng.IntN(len(s.items))]
		effect.Item = what.Item
	case "play", "pause":
		effect.Paused = what.Do == "pause"
	case "seek":
		what.Position = rng.Int64N(60_000)
	}
	s.unsure = append(s.unsure, effect)
	s.retry(rng, fmt.Sprintf("%+v", what), func(node int) error {
		c := s.owner[node]
		what.Generation, what.Version = s.state.Generation, s.state.Version
		got, err := c.Command(s.t.Context(), s.room, what)
		if err == nil {
			s.state, s.unsure = got, nil // a command with an older version runs no more
			s.commands++
			return nil
		}
		if client.CodeOf(err) != "room.playback_changed" && !temporary(err) {
			return err
		}
		got, unread := c.Playback(s.t.Context(), s.room)
		if unread == nil && !older(got, s.state) {
			s.takes(got)
			return nil
		}
		return fmt.Errorf("%v; then %+v, %v", err, got, unread) // a node without Redis has only the checkpoint
	})
}

// takes takes a state that was read after a command without an acknowledgement. If Redis has lost everything, the state
// has a higher generation. Only moves within one item may be lost.
func (s *screening) takes(got api.Playback) {
	possible := func(p api.Playback) bool {
		return p.Item == got.Item && (p.Paused == got.Paused || p.Item != s.state.Item) // a load may pause
	}
	if !possible(s.state) && !slices.ContainsFunc(s.unsure, possible) {
		s.bad("the room shows %+v, want the item and the pause of %+v, or an effect of %+v", got, s.state, s.unsure)
	}
	s.state = got
}

func (s *screening) check() {
	before, rng := s.commands, rand.New(rand.NewPCG(s.seed, 1))
	eventually.True(s.t, "a command to be acknowledged", func() bool {
		s.command(rng, "pause")
		return s.commands > before || s.t.Failed()
	})
	for i, c := range s.owner {
		eventually.NoError(s.t, fmt.Sprintf("node %d to show the acknowledged state of the room", i), func() error {
			got, err := c.Playback(s.t.Context(), s.room)
			if err == nil && (older(got, s.state) || got.Item != s.state.Item || got.Paused != s.state.Paused) {
				err = fmt.Errorf("%+v, want nothing older than %+v", got, s.state)
			}
			return err
		})
	}
}

// A killed node is listed as dead after its lease has expired, and a viewer there no longer counts. A room needs no worker
// between two commands.
func TestARoomOutlivesAGatewayAndAWorker(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	redis := redistest.Server(t).URL
	common := []string{"--sql", sqldbtest.Server(t).URL, "--redis", redis, "--dev=true", "--limits=false"}
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

	nodes := map[string]bool{front.URL(): true, gate.URL(): true, back.URL(): true}
	eventually.Equal(t, "the nodes that are alive", nodes, func() map[string]bool { return alive(t, redis) })
	gate.Kill()
	nodes[gate.URL()] = false
	eventually.Equal(t, "the nodes, one of them killed", nodes, func() map[string]bool { return alive(t, redis) })
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
	if mails, err := ann.DevMails(ctx, "zoe@example.org"); err != nil || len(mails) != 0 {
		t.Errorf("without a worker: %d mails (%v), want none", len(mails), err)
	}
	back.Start()
	eventually.True(t, "the mail that was asked for without a worker", func() bool {
		mails, err := ann.DevMails(ctx, "zoe@example.org")
		return err == nil && len(mails) == 1
	})
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 200, "/": 404, "/v1/checkin": 404, "/dev/mail": 404} {
		if got, _ := fetch(t, back.URL()+path); got != want {
			t.Errorf("the worker answers %d to %s, want %d", got, path, want)
		}
	}
	const handled = `stoa_queue_handled_total{outcome="done"`
	if _, text := fetch(t, back.URL()+"/metrics"); !strings.Contains(text, handled) {
		t.Error("the worker's metrics do not show that it handled a message")
	}
	if _, text := fetch(t, front.URL()+"/metrics"); strings.Contains(text, handled) {
		t.Error("the API's metrics show that it handled a message")
	}
	say("Then let us begin.", moved)
}

// alive returns whether each node is alive, by its address, as "stoa nodes" lists it.
func alive(t *testing.T, redis string) map[string]bool {
	t.Helper()
	nodes := map[string]bool{}
	for _, n := range listNodes(t, redis) {
		nodes["http://"+n.Address] = n.Alive
	}
	return nodes
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

package e2e

import (
	"cmp"
	"errors"
	"net/http"
	"sync"
	"testing"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/eventually"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/redis/redistest"
)

// older reports whether a register is from before another.
func older(a, b api.Playback) bool {
	return cmp.Or(cmp.Compare(a.Generation, b.Generation), cmp.Compare(a.Version, b.Version)) < 0
}

// A node is killed in the midst of commands, then SQL, then Redis with all that it has. What was acknowledged of a room is
// there at the other node; of a Redis that lost everything only what moved the room within one item may be gone.
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
	// do sends a command at a node, by what was acknowledged last.
	do := func(c *client.Client, what api.PlaybackCommand) error {
		what.Generation, what.Version = state.Generation, state.Version
		got, err := c.Command(ctx, room, what)
		if err == nil {
			state = got
		}
		return err
	}
	// looks asks a node until it answers, and wants nothing from before what was acknowledged.
	looks := func(when string) api.Playback {
		t.Helper()
		var got api.Playback
		eventually.NoError(t, "the room to be answered "+when, func() (err error) { got, err = ann.Playback(ctx, room); return err })
		if older(got, state) || got.Item != item.ID {
			t.Errorf("%s: %+v, want nothing older than %+v", when, got, state)
		}
		return got
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
		if err := do(there, api.PlaybackCommand{Do: "seek", Position: int64(commands)}); err != nil {
			if _, refused := errors.AsType[*client.Error](err); refused {
				t.Errorf("a command is refused: %v", err)
			}
			break
		}
	}
	enough()
	<-killed
	state = looks("after the node was killed") // the command that was not answered may have been done
	t.Logf("%d commands until the node was killed", commands)
	if err := do(ann, api.PlaybackCommand{Do: "seek", Position: 60_000}); err != nil {
		t.Errorf("a command at the other node: %v", err)
	}

	maria.Kill9(t)
	looks("without SQL")
	maria.Restart(t)
	eventually.NoError(t, "the room to be paused", func() error {
		if got, err := ann.Playback(ctx, room); err == nil {
			state = got
		}
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
	got, err := there.Playback(ctx, room)
	if err != nil || older(got, state) || got.Paused {
		t.Errorf("the node that was killed says %+v, %v; want %+v", got, err, state)
	}
}

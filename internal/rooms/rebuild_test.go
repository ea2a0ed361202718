package rooms

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/rooms/playback"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// startAndSeek loads an item in a room and seeks to 5,000 seconds.
func (w *world) startAndSeek(user ParticipantID, id ID) playback.State {
	w.t.Helper()
	ctx := w.t.Context()
	it, err := w.Add(ctx, user, id, Item{Source: "https://example.org/film.mp4"})
	w.must(err)
	s, err := w.Playback(ctx, user, id)
	w.must(err)
	for _, c := range []playback.Command{{Verb: playback.Load, Item: it.ID.String()}, {Verb: playback.SetRate, Rate: 2000},
		{Verb: playback.Seek, Position: 5_000_000}} {
		c.Generation, c.Version = s.Generation, s.Version
		s, err = w.Command(ctx, user, id, c)
		w.must(err)
	}
	return s
}

// loseRegister deletes a room's register from Redis.
func (w *world) loseRegister(id ID) {
	w.t.Helper()
	w.must(w.Service.redis.db.Do(w.t.Context(), keyspace.Cmd{Name: "UNLINK", Key: stateKeys.At(id).Key}).Err)
}

func TestPlayback_SeekAndRateSurviveTheLossOfRedis(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		other := w.newNode() // a node that has not read the room
		owner := w.newUsers(1)[0]
		id, me := w.newRoom(owner), ParticipantID(owner)
		s := w.startAndSeek(me, id)
		w.loseRegister(id)
		got, err := other.Playback(t.Context(), me, id)
		if err != nil || !got.Newer(s) || got.Position != s.Position || got.Rate != s.Rate || got.Item != s.Item {
			t.Errorf("got %+v, %v, want %+v under another generation", got, err, s)
		}
	})
}

func TestPlayback_RebuiltFromTheNodesRegister(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		wire := server.Wire()
		w := newWorldOn(t, sqldbtest.SQLite(t), server.Open(t), redistest.OpenConfig(t, wire.Config()), new(atomic.Int64), new(sync.Map),
			Settings{})
		ctx := t.Context()
		owner := w.newUsers(1)[0]
		id, me := w.newRoom(owner), ParticipantID(owner)
		s := w.startAndSeek(me, id)
		// as if SQL had not stored the checkpoint
		_, err := w.db.ExecContext(ctx, "UPDATE room_playback SET fence = 0, item = '', position = 0, rate = 1000, paused = ? WHERE room_id = ?",
			true, id)
		w.must(err)
		wire.Refuse()
		if got, err := w.Playback(ctx, me, id); err != nil || got != s {
			t.Errorf("while Redis is unavailable: got %+v, %v, want %+v", got, err, s)
		}
		wire.Heal()
		bubble.Sleep(2 * beatEvery)
		w.loseRegister(id)
		got, err := w.Playback(ctx, me, id)
		if err != nil || !got.Newer(s) || got.Position != s.Position || got.Rate != s.Rate || got.Item != s.Item {
			t.Errorf("after the loss: got %+v, %v, want %+v under another generation", got, err, s)
		}
		old := got
		old.Version = 0
		s, err = w.Command(ctx, me, id, playback.Command{Generation: got.Generation, Version: got.Version, Verb: playback.Pause})
		w.must(err)
		w.must(w.Service.redis.forget(ctx, id))
		_, err = w.Service.redis.load(ctx, id, old, playback.State{})
		w.must(err)
		if got, err := w.Playback(ctx, me, id); err != nil || !got.Newer(s) || !got.Paused {
			t.Errorf("after Redis was set back: got %+v, %v, want %+v under another generation", got, err, s)
		}
	})
}

func TestRebuild_ReleasesAHold(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := newHeldRoom(t, singleNode(t, Settings{}), true)
		h.Subscribed(h.waiting.String(), "1", api.RoomChannel(h.id.String()))
		h.startBuffering(h.world)
		h.checkHeld(true)
		w := h.world
		w.must(w.Service.redis.forget(t.Context(), h.id))
		h.checkHeld(false)
	})
}

func TestCommand_ClaimedVersionStartsNoGeneration(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		wire := server.Wire()
		w := newWorldOn(t, sqldbtest.SQLite(t), server.Open(t), redistest.OpenConfig(t, wire.Config()), new(atomic.Int64), new(sync.Map),
			Settings{})
		ctx := t.Context()
		owner := w.newUsers(1)[0]
		id, me := w.newRoom(owner), ParticipantID(owner)
		s := w.startAndSeek(me, id)
		claim := playback.Command{Generation: s.Generation, Version: 99_999, Verb: playback.Pause}
		for range 3 {
			if got, err := w.Command(ctx, me, id, claim); !errors.Is(err, ErrVersion) || got != s {
				t.Errorf("got %+v, %v, want %+v", got, err, s)
			}
			if got, err := w.Ended(ctx, me, id, claim.Generation, claim.Version); err != nil || got != s {
				t.Errorf("ended: got %+v, %v, want %+v", got, err, s)
			}
		}
		wire.Refuse()
		_, err := w.Command(ctx, me, id, claim)
		w.wantErr("while Redis is unavailable", err, ErrStateAway)
		wire.Heal()
		bubble.Sleep(3 * beatEvery)
		if got, err := w.Playback(ctx, me, id); err != nil || got != s {
			t.Errorf("when Redis is available again: got %+v, %v, want %+v", got, err, s)
		}
		_, err = w.Command(ctx, me, id, playback.Command{Generation: s.Generation, Version: s.Version, Verb: playback.Pause})
		w.wantErr("a command of the present version", err, nil)
	})
}

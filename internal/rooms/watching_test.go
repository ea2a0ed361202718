package rooms

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/foundation/ids"
	"github.com/stoa-dev/stoa/internal/rooms/playback"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// The nodes' leases are what counts: an entry that a dead node left is nobody's.
func TestViewersOfADeadNodeAreGoneWithItsLease(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := single(t, Settings{})
		other := w.neighbour()
		ctx := t.Context()
		who := w.people(3)
		id := w.open(who[0], who[1], who[2])
		channel := api.RoomChannel(id.String())
		w.Subscribed(who[0].String(), "1", channel)
		w.Subscribed(who[0].String(), "2", channel)
		other.Subscribed(who[0].String(), "1", channel) // on both nodes, and yet one viewer
		other.Subscribed(who[1].String(), "2", channel)
		count := func(n *world) func() int { return func() int { return n.viewers(ctx, []ID{id})[id] } }
		eventually.Equal(t, "viewers", 2, count(w))
		eventually.Equal(t, "viewers as the other node has them", 2, func() int { return other.watched.viewers(id) })
		w.Unsubscribed(who[0].String(), "1", channel)
		bubble.Sleep(5 * time.Second)
		if n := count(w)(); n != 2 {
			t.Errorf("with a connection left: %d", n)
		}
		w.live.Delete(other.cfg.Node) // it is as good as dead
		eventually.Equal(t, "viewers after a death", 1, count(w))
		list, err := w.Online(ctx, ViewerID(who[0]), id)
		if err != nil || len(list) != 1 || list[0].User != ViewerID(who[0]) {
			t.Errorf("on line are %+v, %v", list, err)
		}
		w.Unsubscribed(who[0].String(), "2", channel)
		eventually.Equal(t, "viewers when all have gone", 0, count(w))
	})
}

// A number that a dead node has left is counted anew by whoever asks, although nobody here watches.
func TestTheNumberOfADeadNodeIsCountedAnew(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := single(t, Settings{})
		other := w.neighbour()
		who := w.people(1)
		id := w.open(who[0])
		other.Subscribed(who[0].String(), "1", api.RoomChannel(id.String()))
		count := func() int { return w.viewers(t.Context(), []ID{id})[id] }
		eventually.Equal(t, "viewers", 1, count)
		w.live.Delete(other.cfg.Node)
		if n := count(); n != 0 {
			t.Errorf("after the death of the only node with viewers there are %d", n)
		}
	})
}

func TestARegisterThatRedisHasLostComesBackAsANewerOne(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		owner := w.people(1)[0]
		id, me := w.open(owner), ViewerID(owner)
		it, err := w.Add(ctx, me, id, Item{Source: "https://example.org/film.mp4"})
		w.must(err)
		s, err := w.Playback(ctx, me, id)
		w.must(err)
		do := func(c playback.Command) {
			t.Helper()
			c.Generation, c.Version = s.Generation, s.Version
			s, err = w.Command(ctx, me, id, c)
			w.must(err)
		}
		lose := func() {
			t.Helper()
			w.must(w.store.db.Do(ctx, keyspace.Cmd{Name: "UNLINK", Key: stateKey.At(id).Key}).Err)
		}
		do(playback.Command{Verb: playback.Load, Item: it.ID.String(), Position: 5000})
		loaded := s
		lose()
		if s, err = w.Playback(ctx, me, id); err != nil || !s.Newer(loaded) || s.Paused || s.Item != it.ID.String() {
			t.Errorf("after a load came back %+v, %v, of %+v", s, err, loaded)
		}
		do(playback.Command{Verb: playback.Seek, Position: 90_000})
		do(playback.Command{Verb: playback.Pause})
		before := s
		lose()
		if s, err = w.Playback(ctx, me, id); err != nil || !s.Newer(before) || s.Position != before.Position || !s.Paused || s.Item != it.ID.String() {
			t.Errorf("after a pause came back %+v, %v, of %+v", s, err, before)
		}
		do(playback.Command{Verb: playback.Play})
		w.keepMoved(ctx, true)
		playing := s
		lose()
		stale := playback.Command{Generation: playing.Generation, Version: playing.Version, Verb: playback.Pause}
		if now, err := w.Command(ctx, me, id, stale); !errors.Is(err, ErrVersion) || !now.Newer(playing) || now.Paused {
			t.Errorf("a command on what was lost: %+v, %v", now, err)
		}
		if s, err = w.Playback(ctx, me, id); err != nil || s.At(playing.Time+10_000) != playing.At(playing.Time+10_000) {
			t.Errorf("it goes on at %+v, not at %+v: %v", s, playing, err)
		}
		// What is older than a checkpoint leaves it as it is.
		w.must(saveCheckpoints(ctx, w.db, map[ID]playback.State{id: before}))
		if kept, err := selectCheckpoint(ctx, w.db, id); err != nil || kept.Paused || kept.Stamp() != playing.Stamp() {
			t.Errorf("the checkpoint is %+v, %v", kept, err)
		}
	})
}

func TestAllWaitForWhoWaitsForData(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := single(t, Settings{})
		ctx := t.Context()
		who := w.people(2)
		id := w.open(who[0], who[1])
		owner, ann := ViewerID(who[0]), ViewerID(who[1])
		_, _, err := w.Change(ctx, owner, id, Update{Hold: to(true)})
		w.must(err)
		w.Subscribed(who[0].String(), "1", api.RoomChannel(id.String()))
		s, err := w.Playback(ctx, owner, id)
		w.must(err)
		_, err = w.Command(ctx, owner, id, playback.Command{Generation: s.Generation, Version: s.Version, Verb: playback.Play})
		w.must(err)
		stands := func(want string) {
			t.Helper()
			s, err := w.Playback(ctx, owner, id)
			w.must(err)
			got := map[bool]string{false: "plays", true: "is paused"}[s.Paused]
			if s.Held {
				got = "is held"
			}
			if got != want {
				t.Errorf("the room %s, want: %s", got, want)
			}
		}
		w.must(w.Buffering(ctx, ann, id, true))
		stands("is held")
		bubble.Sleep(6 * time.Second)
		w.must(w.Buffering(ctx, ann, id, true))
		bubble.Sleep(6 * time.Second)
		stands("is held")
		w.must(w.Buffering(ctx, ann, id, false))
		stands("plays")
		w.must(w.Buffering(ctx, ann, id, true))
		bubble.Sleep(13 * time.Second) // her machine is gone
		stands("plays")
		_, _, err = w.Change(ctx, owner, id, Update{Hold: to(false)})
		w.must(err)
		w.must(w.Buffering(ctx, ann, id, true))
		stands("plays")
	})
}

// Danmaku that flew before a node had anybody in a room are there for whoever comes, and what was cleared is not.
func TestWhatFliesIsOnEveryNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := single(t, Settings{})
		other := w.neighbour()
		ctx := t.Context()
		who := w.people(2)
		id := w.open(who[0], who[1])
		owner, ann := ViewerID(who[0]), ViewerID(who[1])
		flies := func(n *world) (all []string) {
			t.Helper()
			s, err := n.Scene(ctx, ann, id)
			w.must(err)
			for _, d := range s.Danmaku {
				all = append(all, d.Text)
			}
			return all
		}
		shoot := func(n *world, text string) {
			t.Helper()
			_, err := n.Shoot(ctx, owner, id, Comment{Text: text})
			w.must(err)
			bubble.Sleep(time.Second)
		}
		shoot(w, "one")
		if got := flies(other); !slices.Equal(got, []string{"one"}) {
			t.Errorf("a node that hears of the room for the first time: %q", got)
		}
		shoot(w, "two")
		shoot(other, "three")
		for _, n := range []*world{w, other} {
			if got := flies(n); !slices.Equal(got, []string{"one", "two", "three"}) {
				t.Errorf("flies: %q", got)
			}
		}
		w.must(w.social.Block(ctx, who[1], who[0]))
		if got := flies(other); len(got) != 0 {
			t.Errorf("of whom ann blocks flies %q", got)
		}
		w.must(w.social.Unblock(ctx, who[1], who[0]))
		w.must(w.ClearDanmaku(ctx, owner, id))
		bubble.Sleep(time.Second)
		for _, n := range []*world{w, other} {
			if got := flies(n); len(got) != 0 {
				t.Errorf("cleared, flies %q", got)
			}
		}
	})
}

// Each event drops its copies and no others, with as many keys as there are in one round trip.
func TestEachEventDropsExactlyItsCopies(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := single(t, Settings{})
		who := w.people(2)
		id := w.open(who[0], who[1])
		a, b := Seat{A: id, B: ViewerID(who[0])}, Seat{A: id, B: ViewerID(who[1])}
		room, list, state := "cache:room:"+id.String(), "cache:playlist:"+id.String(), "cache:room_state:"+id.String()
		member := func(s Seat) string { return "cache:member:" + id.String() + ":" + s.B.String() }
		for what, c := range map[string]struct {
			targets []cache.Target
			want    []string
		}{
			SettingsChanged.Name():    {SettingsChanged.Of(w.caches, id), []string{room}},
			RoomUpdated.Name():        {RoomUpdated.Of(w.caches, id), []string{room}},
			RoomDeleted.Name():        {RoomDeleted.Of(w.caches, id), []string{list, room, state}},
			PermissionsChanged.Name(): {PermissionsChanged.Of(w.caches, a, b), []string{member(a), member(b)}},
			MemberKicked.Name():       {MemberKicked.Of(w.caches, a), []string{member(a)}},
			PlaylistChanged.Name():    {PlaylistChanged.Of(w.caches, id), []string{list}},
		} {
			var got []string
			for _, target := range c.targets {
				got = append(got, target.Key().String())
			}
			slices.Sort(got)
			slices.Sort(c.want)
			if !slices.Equal(got, c.want) {
				t.Errorf("%s drops %q, want %q", what, got, c.want)
			}
		}
		if err := w.caches.Check(); err != nil {
			t.Error(err)
		}
		trips := func() (n uint64) {
			s := w.redis.Stats()
			for _, kind := range [][]uint64{s.Lone.Took, s.Script.Took, s.Batch.Took} {
				for _, some := range kind {
					n += some
				}
			}
			return n
		}
		many := make([]Seat, 100)
		for i := range many {
			many[i] = Seat{A: id, B: ids.New[Viewer]()}
		}
		least := uint64(math.MaxUint64)
		for range 5 { // the first one teaches Redis the script, and a beat of what runs beside may fall in between
			before := trips()
			w.must(w.caches.Drop(t.Context(), PermissionsChanged.Of(w.caches, many...)...))
			least = min(least, trips()-before)
		}
		if least != 1 {
			t.Errorf("dropping a hundred took %d round trips, want 1", least)
		}
	})
}

// A scene of a warm room is one command to Redis, and none to SQL.
func TestASceneOfAWarmRoomIsOneCommand(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := single(t, Settings{})
		ctx := t.Context()
		who := w.people(2)
		id := w.open(who[0], who[1])
		w.Subscribed(who[0].String(), "1", api.RoomChannel(id.String()))
		_, err := w.Scene(ctx, ViewerID(who[1]), id)
		w.must(err)
		n, err := w.Warm(ctx, 100, func(int, int) {})
		if err != nil || n != 1 {
			t.Errorf("warm: %d, %v", n, err)
		}
		w.must(w.db.Close()) // whoever asks it fails
		commands := func() uint64 {
			s := w.redis.Stats()
			return s.Lone.Commands + s.Script.Commands + s.Batch.Commands
		}
		before := commands()
		scene, err := w.Scene(ctx, ViewerID(who[1]), id)
		if err != nil || scene.Room.ID != id {
			t.Errorf("a scene: %+v, %v", scene, err)
		}
		if n := commands() - before; n != 1 {
			t.Errorf("a scene took %d commands, want 1", n)
		}
	})
}

package rooms

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/rooms/danmaku"
	"github.com/stoa-dev/stoa/internal/rooms/playback"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// A node without a lease is dead, and its entries do not count.
func TestViewers_OfADeadNodeDoNotCount(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := singleNode(t, Settings{})
		other := w.newNode()
		ctx := t.Context()
		users := w.newUsers(3)
		id := w.newRoom(users[0], users[1], users[2])
		channel := api.RoomChannel(id.String())
		w.Subscribed(users[0].String(), "1", channel)
		w.Subscribed(users[0].String(), "2", channel)
		other.Subscribed(users[0].String(), "1", channel) // on both nodes, but one viewer
		other.Subscribed(users[1].String(), "2", channel)
		count := func(n *world) func() int { return func() int { return n.viewers(ctx, []ID{id})[id] } }
		eventually.Equal(t, "viewers", 2, count(w))
		eventually.Equal(t, "viewers as the other node has them", 2, func() int { n, _ := other.watched.viewers(id); return n })
		w.Unsubscribed(users[0].String(), "1", channel)
		bubble.Sleep(5 * time.Second)
		if n := count(w)(); n != 2 {
			t.Errorf("with one connection left: %d viewers, want 2", n)
		}
		w.live.Delete(other.cfg.Node) // counts as dead
		eventually.Equal(t, "viewers after a death", 1, count(w))
		bubble.Sleep(countEvery + beatEvery)
		list, err := w.Online(ctx, ParticipantID(users[0]), id)
		if err != nil || len(list) != 1 || list[0].User != ParticipantID(users[0]) {
			t.Errorf("online: got %+v, %v", list, err)
		}
		w.Unsubscribed(users[0].String(), "2", channel)
		eventually.Equal(t, "viewers when all have left", 0, count(w))
	})
}

// A failover or a restored backup loses the latest writes to Redis, such as the removal of a viewer who left.
func TestViewers_RestoredEntriesAreDeleted(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := singleNode(t, Settings{})
		other := w.newNode()
		users := w.newUsers(3)
		id := w.newRoom(users[0], users[1], users[2])
		channel := api.RoomChannel(id.String())
		count := func() int { return w.viewers(t.Context(), []ID{id})[id] }
		w.Subscribed(users[0].String(), "1", channel)
		w.Subscribed(users[1].String(), "2", channel)
		other.Subscribed(users[1].String(), "1", channel)
		other.Subscribed(users[2].String(), "2", channel)
		eventually.Equal(t, "viewers", 3, count)
		restoreEntry := func(n *world, user accounts.ID) {
			t.Helper()
			w.must(w.Service.redis.writeOnline(t.Context(), n.cfg.Node,
				[]viewerReport{{room: id, present: map[ParticipantID]time.Time{ParticipantID(user): w.db.Now()}}}))
		}
		w.Unsubscribed(users[0].String(), "1", channel)
		w.Unsubscribed(users[1].String(), "2", channel)
		eventually.Equal(t, "viewers when one has left, and one of both nodes left one of them", 2, count)
		restoreEntry(w, users[0])
		restoreEntry(w, users[1])
		w.watched.mu.Lock()
		r := w.watched.rooms[id]
		w.watched.mu.Unlock()
		w.watched.eventsLost(r) // this node no longer has viewers
		bubble.Sleep(2 * countEvery)
		if n := count(); n != 2 {
			t.Errorf("%d viewers, want 2", n)
		}
		other.Unsubscribed(users[2].String(), "2", channel)
		eventually.Equal(t, "viewers when one is left", 1, count)
		restoreEntry(other, users[2])
		bubble.Sleep(2 * countEvery)
		list, err := w.Online(t.Context(), ParticipantID(users[0]), id)
		if err != nil || len(list) != 1 || list[0].User != ParticipantID(users[1]) {
			t.Errorf("online: got %+v, %v", list, err)
		}
	})
}

// A read counts again if a dead node stored the number, even on a node without viewers of the room.
func TestViewers_RecountsForADeadNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := singleNode(t, Settings{})
		other := w.newNode()
		users := w.newUsers(1)
		id := w.newRoom(users[0])
		other.Subscribed(users[0].String(), "1", api.RoomChannel(id.String()))
		count := func() int { return w.viewers(t.Context(), []ID{id})[id] }
		eventually.Equal(t, "viewers", 1, count)
		w.live.Delete(other.cfg.Node)
		if n := count(); n != 0 {
			t.Errorf("after the death of the only node with viewers: %d viewers, want none", n)
		}
	})
}

// A node without viewers returns and publishes the same number of viewers.
func TestViewers_NodeWithoutViewersReturnsTheNumber(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := singleNode(t, Settings{})
		other := w.newNode()
		ctx := t.Context()
		users := w.newUsers(3)
		id := w.newRoom(users[0], users[1], users[2])
		channel := api.RoomChannel(id.String())
		w.Subscribed(users[0].String(), "1", channel)
		w.Subscribed(users[1].String(), "2", channel)
		bubble.Sleep(5 * time.Second)
		changed := make(chan api.Room, 9)
		_, leave := w.cfg.Bus.Listen(ctx, channel, &events.Listener{Lost: func() {}, Event: func(e events.Event, _ events.Position) {
			var r api.Room
			if e.Type == api.EventRoomChanged && json.Unmarshal(e.Data, &r) == nil {
				changed <- r
			}
		}})
		defer leave()
		owner, path := accounts.Caller{User: users[0]}, RoomPath{id}
		for name, count := range map[string]func(n *world) (int, error){
			"a scene": func(n *world) (int, error) {
				out, err := n.getScene(ctx, owner, &path)
				return out.Body.Room.Viewers, err
			},
			"a join": func(n *world) (int, error) {
				out, err := n.postJoin(ctx, owner, &struct {
					RoomPath
					Body *api.RoomJoin
				}{RoomPath: path})
				return out.Body.Room.Viewers, err
			},
			"an event": func(n *world) (int, error) {
				_, _, err := n.Update(ctx, ParticipantID(users[0]), id, Update{Name: to(n.cfg.Node)})
				return (<-changed).Viewers, err
			},
		} {
			for at, n := range map[string]*world{"a node with them": w, "another one": other} {
				if got, err := count(n); err != nil || got != 2 {
					t.Errorf("%s, by %s: %d viewers, %v", name, at, got, err)
				}
			}
		}
	})
}

// All viewers of a room may ask for the list at once, because the node has counted them.
func TestOnline_ReadsOnceForAllCallers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := singleNode(t, Settings{})
		other := w.newNode()
		ctx := t.Context()
		owner := w.newUsers(1)[0]
		id := w.newRoom(owner)
		for range 5 * maxOnline / 2 {
			w.Subscribed(ids.New[Participant]().String(), "1", api.RoomChannel(id.String()))
		}
		bubble.Sleep(2 * beatEvery)
		commands := func(n *world) int {
			t.Helper()
			before := n.redis.Stats().Lone.Commands + n.redis.Stats().Batch.Commands
			for range 300 {
				list, err := n.Online(ctx, ParticipantID(owner), id)
				if err != nil || len(list) != maxOnline {
					t.Fatalf("%d viewers are online, %v, want %d", len(list), err, maxOnline)
				}
			}
			return int(n.redis.Stats().Lone.Commands + n.redis.Stats().Batch.Commands - before)
		}
		if n := commands(w); n > 10 {
			t.Errorf("300 calls sent %d commands, want at most 10", n)
		}
		found, err := other.Service.redis.online(ctx, []ID{id}, 2*maxOnline)
		if commands(other); err != nil || len(found[id]) != 2*maxOnline {
			t.Errorf("a node without viewers reads %d entries, %v", len(found[id]), err)
		}
	})
}

// A client that gets the event of a new viewer may ask any node for the list.
func TestOnline_HasANewViewerOnAllNodes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := singleNode(t, Settings{})
		other := w.newNode()
		owner := w.newUsers(1)[0]
		id := w.newRoom(owner)
		channel := api.RoomChannel(id.String())
		other.Subscribed(owner.String(), "1", channel)
		for range 4 {
			bubble.Sleep(3 * beatEvery)
			users := ids.New[Participant]()
			received := make(chan api.RoomViewers, 9)
			_, leave := other.cfg.Bus.Listen(t.Context(), channel, &events.Listener{Lost: func() {}, Event: func(e events.Event, _ events.Position) {
				var v api.RoomViewers
				if e.Type == api.EventRoomViewers && json.Unmarshal(e.Data, &v) == nil {
					received <- v
				}
			}})
			w.Subscribed(users.String(), "1", channel)
			<-received
			leave()
			bubble.Sleep(beatEvery)
			list, err := other.Online(t.Context(), ParticipantID(owner), id)
			if err != nil || !slices.ContainsFunc(list, func(p Presence) bool { return p.User == users }) {
				t.Errorf("%d viewers are online, %v, without the new one", len(list), err)
			}
		}
	})
}

// In a large room, each member would get the events of all others.
func TestEvents_LargeRoomOmitsJoinsAndLeaves(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := singleNode(t, Settings{})
		ctx := t.Context()
		users := w.newUsers(2)
		owner, user := ParticipantID(users[0]), ParticipantID(users[1])
		for others, want := range map[int]string{
			maxFanOut - 1: "map[room.gone:2 room.member:3 them room.gone:2]",
			maxFanOut:     "map[room.gone:1 room.member:1 them room.gone:2]",
		} {
			id := w.newRoom(users[0])
			_, err := w.db.ExecContext(ctx, "UPDATE rooms SET members = ? WHERE id = ?", others, id)
			w.must(err)
			received := make(chan string, 99)
			for channel, prefix := range map[string]string{api.RoomChannel(id.String()): "", user.String(): "them "} {
				_, leave := w.cfg.Bus.Listen(ctx, channel, &events.Listener{Lost: func() {},
					Event: func(e events.Event, _ events.Position) { received <- prefix + e.Type }})
				defer leave()
			}
			join := func() {
				t.Helper()
				_, _, err := w.Join(ctx, users[1], id, Admission{})
				w.must(err)
			}
			join()
			w.appoint(id, users[0], users[1])
			w.must(w.Leave(ctx, user, id))
			join()
			w.must(w.Kick(ctx, owner, id, user))
			bubble.Sleep(time.Second)
			got := map[string]int{}
			for range len(received) {
				got[<-received]++
			}
			if fmt.Sprint(got) != want {
				t.Errorf("with %d other members: got %v, want %s", others, got, want)
			}
		}
	})
}

// Redis does not get a viewer's removal, and the viewer returns before the next write.
func TestSubscribed_ReturnWithoutRedisCounts(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		wire := server.Wire()
		w := newWorld(t, sqldbtest.SQLite(t), redistest.OpenConfig(t, wire.Config()), new(atomic.Int64), new(sync.Map), Settings{})
		users := w.newUsers(1)
		id := w.newRoom(users[0])
		user, channel := users[0].String(), api.RoomChannel(id.String())
		viewersInRedis := func() int {
			n, err := server.Open(t).Do(t.Context(), keyspace.Cmd{Name: "ZCARD", Key: onlineKeys.At(id).Key}).Int()
			w.must(err)
			return int(n)
		}
		w.Subscribed(user, "1", channel)
		eventually.Equal(t, "viewers in Redis", 1, viewersInRedis)
		wire.BlackHole()
		w.Unsubscribed(user, "1", channel)
		eventually.True(t, "a beat to be writing to Redis", func() bool {
			w.watched.mu.Lock()
			defer w.watched.mu.Unlock()
			return !w.watched.rooms[id].dirty
		})
		w.Subscribed(user, "2", channel)
		bubble.Sleep(roundTime)
		wire.Reset()
		wire.Heal()
		for range 10 {
			bubble.Sleep(time.Second)
			if n := viewersInRedis(); n != 1 {
				t.Fatalf("Redis has %d viewers, want 1", n)
			}
		}
	})
}

func TestPlayback_LostRegisterGetsAHigherGeneration(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		owner := w.newUsers(1)[0]
		id, me := w.newRoom(owner), ParticipantID(owner)
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
			w.must(w.Service.redis.db.Do(ctx, keyspace.Cmd{Name: "UNLINK", Key: stateKeys.At(id).Key}).Err)
		}
		do(playback.Command{Verb: playback.Load, Item: it.ID.String(), Position: 5000})
		loaded := s
		lose()
		if s, err = w.Playback(ctx, me, id); err != nil || !s.Newer(loaded) || s.Paused || s.Item != it.ID.String() {
			t.Errorf("after a load: got %+v, %v, want a newer register than %+v", s, err, loaded)
		}
		do(playback.Command{Verb: playback.Seek, Position: 90_000})
		do(playback.Command{Verb: playback.Pause})
		before := s
		lose()
		if s, err = w.Playback(ctx, me, id); err != nil || !s.Newer(before) || s.Position != before.Position || !s.Paused ||
			s.Item != it.ID.String() {
			t.Errorf("after a pause: got %+v, %v, want a newer register than %+v", s, err, before)
		}
		do(playback.Command{Verb: playback.Play})
		w.checkpointChanged(ctx, true)
		playing := s
		lose()
		stale := playback.Command{Generation: playing.Generation, Version: playing.Version, Verb: playback.Pause}
		if now, err := w.Command(ctx, me, id, stale); !errors.Is(err, ErrVersion) || !now.Newer(playing) || now.Paused {
			t.Errorf("a command on the lost register: got %+v, %v", now, err)
		}
		if s, err = w.Playback(ctx, me, id); err != nil || s.At(playing.Time+10_000) != playing.At(playing.Time+10_000) {
			t.Errorf("playback continues at %+v, %v, want the position of %+v", s, err, playing)
		}
		// A register older than the checkpoint does not change it.
		w.must(saveCheckpoints(ctx, w.db, map[ID]playback.State{id: before}))
		if stored, err := selectCheckpoint(ctx, w.db, id); err != nil || stored.Paused || stored.Stamp() != playing.Stamp() {
			t.Errorf("the checkpoint is %+v, %v", stored, err)
		}
	})
}

// On a cluster, the caches may be available while the register is not, and may fail soon after.
func TestPlayback_ReturnsTheCheckpointWithoutRedis(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		wire := server.Wire()
		w := newWorldOn(t, sqldbtest.SQLite(t), server.Open(t), redistest.OpenConfig(t, wire.Config()), new(atomic.Int64), new(sync.Map),
			Settings{})
		ctx := t.Context()
		owner := w.newUsers(1)[0]
		id, me := w.newRoom(owner), ParticipantID(owner)
		for _, source := range []string{"https://example.org/a.mp4", "https://example.org/b.mp4"} {
			it, err := w.Add(ctx, me, id, Item{Source: source})
			w.must(err)
			eventually.NoError(t, "the film to be loaded", func() error {
				s, err := w.Playback(ctx, me, id)
				if err == nil {
					_, err = w.Command(ctx, me, id, playback.Command{Generation: s.Generation, Version: s.Version, Verb: playback.Load,
						Item: it.ID.String()})
				}
				return err
			})
			wire.Refuse()
			if s, err := w.Playback(ctx, me, id); err != nil || s.Item != it.ID.String() {
				t.Errorf("while the register is unavailable: %+v, %v, want item %s", s, err, it.ID)
			}
			wire.Heal()
			bubble.Sleep(10 * time.Second)
		}
	})
}

// A checkpoint may be from a time when the clock of Redis was ahead.
func TestRebuild_TimeFarAheadCountsAsNow(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := singleNode(t, Settings{})
		ctx := t.Context()
		owner := w.newUsers(1)[0]
		id, me := w.newRoom(owner), ParticipantID(owner)
		s, err := w.Playback(ctx, me, id)
		w.must(err)
		s.Version, s.Position, s.Time, s.Paused = s.Version+1, 5000, w.Clock()+time.Hour.Milliseconds(), false
		w.must(saveCheckpoints(ctx, w.db, map[ID]playback.State{id: s}))
		w.must(w.Service.redis.db.Do(ctx, keyspace.Cmd{Name: "UNLINK", Key: stateKeys.At(id).Key}).Err)
		back, err := w.Playback(ctx, me, id)
		if w.must(err); back.Time > w.Clock() || back.At(w.Clock()+10_000) < 15_000 {
			t.Errorf("checkpoint %+v: got the register %+v at %d", s, back, w.Clock())
		}
	})
}

// A failover or a restored backup loses the latest commands. Clients have seen their results, and accept no older
// register.
func TestPlayback_ReissuedAfterRedisWasSetBack(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := singleNode(t, Settings{})
		other := w.newNode()
		ctx := t.Context()
		owner := w.newUsers(1)[0]
		id, me := w.newRoom(owner), ParticipantID(owner)
		it, err := w.Add(ctx, me, id, Item{Source: "https://example.org/film.mp4"})
		w.must(err)
		s, err := w.Playback(ctx, me, id)
		w.must(err)
		do := func(c playback.Command) playback.State {
			t.Helper()
			c.Generation, c.Version = s.Generation, s.Version
			s, err = w.Command(ctx, me, id, c)
			w.must(err)
			return s
		}
		setBack := func(old playback.State) {
			t.Helper()
			w.must(w.Service.redis.forget(ctx, id))
			_, err := w.Service.redis.load(ctx, id, old, playback.State{})
			w.must(err)
		}
		playing := do(playback.Command{Verb: playback.Load, Item: it.ID.String(), Position: 5000})
		paused := do(playback.Command{Verb: playback.Pause})
		setBack(playing)
		s, err = w.Command(ctx, me, id, playback.Command{Generation: s.Generation, Version: s.Version, Verb: playback.Play})
		if !errors.Is(err, ErrVersion) || !s.Newer(paused) || !s.Paused || s.Item != paused.Item || s.Position != paused.Position {
			t.Errorf("a command after a pause that was lost: %+v, %v, want %+v under another generation", s, err, paused)
		}
		do(playback.Command{Verb: playback.Play})
		sought := do(playback.Command{Verb: playback.Seek, Position: 90_000})
		later := do(playback.Command{Verb: playback.Seek, Position: 120_000})
		setBack(sought)
		if s, err = w.Ended(ctx, me, id, later.Generation, later.Version); err != nil || !s.Newer(later) || s.Paused ||
			s.Position != later.Position {
			t.Errorf("an end after a seek that was lost: %+v, %v, want %+v under another generation", s, err, later)
		}
		w.Subscribed(owner.String(), "1", api.RoomChannel(id.String()))
		other.Subscribed(ids.New[Participant]().String(), "2", api.RoomChannel(id.String()))
		bubble.Sleep(2 * beatEvery)
		for name, n := range map[string]*world{"the node of the command": w, "a node that got its event": other,
			"a node that missed its event": other} {
			playing := do(playback.Command{Verb: playback.Play})
			paused := do(playback.Command{Verb: playback.Pause})
			bubble.Sleep(2 * beatEvery)
			setBack(playing)
			n.watched.mu.Lock()
			r := n.watched.rooms[id]
			if r.register != paused {
				t.Errorf("%s has the register %+v, want %+v", name, r.register, paused)
			}
			if name == "a node that missed its event" {
				r.register = playing
			}
			n.watched.mu.Unlock()
			n.watched.eventsLost(r)
			bubble.Sleep(2 * beatEvery)
			if s, err = w.Playback(ctx, me, id); err != nil || !s.Newer(paused) || !s.Paused {
				t.Errorf("%s: got the register %+v, %v, want %+v under another generation", name, s, err, paused)
			}
		}
	})
}

// The sender of a command does not get the reply of Redis, and has disconnected.
func TestCommand_WithoutReplyIsPublished(t *testing.T) {
	for name, send := range map[string]func(w *world, wire *redistest.Wire, command func(context.Context) error){
		"its reply is lost": func(w *world, wire *redistest.Wire, command func(context.Context) error) {
			wire.Hold(redistest.ToNode)
			w.wantErr("a command", command(w.t.Context()), ErrStateAway)
			wire.Reset()
			wire.Heal()
		},
		"its sender disconnects": func(w *world, wire *redistest.Wire, command func(context.Context) error) {
			wire.Delay(100 * time.Millisecond)
			ctx, cancel := context.WithTimeout(w.t.Context(), 100*time.Millisecond)
			defer cancel()
			_ = command(ctx)
			wire.Heal()
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				server := redistest.InMemory(t)
				wire := server.Wire()
				w := newWorld(t, sqldbtest.SQLite(t), redistest.OpenConfig(t, wire.Config()), new(atomic.Int64), new(sync.Map), Settings{})
				other := newWorld(t, w.db, server.Open(t), w.ahead, w.live, Settings{})
				ctx := t.Context()
				users := w.newUsers(1)
				id, owner := w.newRoom(users[0]), ParticipantID(users[0])
				s, err := w.Playback(ctx, owner, id)
				w.must(err)
				command := func(ctx context.Context, verb playback.Verb) (playback.State, error) {
					return w.Command(ctx, owner, id, playback.Command{Generation: s.Generation, Version: s.Version, Verb: verb})
				}
				s, err = command(ctx, playback.Pause) // from here on Redis has the script
				w.must(err)
				bubble.Sleep(time.Second)
				var mu sync.Mutex
				var received []api.Playback
				_, leave := other.cfg.Bus.Listen(ctx, api.RoomChannel(id.String()),
					&events.Listener{Lost: func() {}, Event: func(e events.Event, _ events.Position) {
						var p api.Playback
						if e.Type == api.EventRoomPlayback && json.Unmarshal(e.Data, &p) == nil {
							mu.Lock()
							defer mu.Unlock()
							received = append(received, p)
						}
					}})
				defer leave()
				send(w, wire, func(ctx context.Context) error {
					_, err := command(ctx, playback.Play)
					return err
				})
				bubble.Sleep(10 * time.Second)
				mu.Lock()
				defer mu.Unlock()
				if len(received) != 1 || received[0].Version != s.Version+1 || received[0].Paused {
					t.Errorf("the room's channel got %+v, want one event of a playing register", received)
				}
			})
		})
	}
}

// The node of the command dies, and the sender of the command connects to the other node.
func TestCommand_OfADeadNodeIsPublishedByAnother(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		w := newWorld(t, sqldbtest.SQLite(t), server.Open(t), new(atomic.Int64), new(sync.Map), Settings{})
		other := newWorld(t, w.db, server.Open(t), w.ahead, w.live, Settings{})
		ctx := t.Context()
		users := w.newUsers(1)
		id, owner := w.newRoom(users[0]), ParticipantID(users[0])
		other.Subscribed(owner.String(), "a connection", api.RoomChannel(id.String()))
		scene, err := other.Scene(ctx, owner, id)
		w.must(err)
		var received atomic.Int64
		_, leave := other.cfg.Bus.Listen(ctx, api.RoomChannel(id.String()),
			&events.Listener{Lost: func() {}, Event: func(e events.Event, _ events.Position) {
				if e.Type == api.EventRoomPlayback {
					received.Add(1)
				}
			}})
		defer leave()
		bubble.Sleep(5 * time.Second)
		state, done, err := w.Service.redis.command(ctx, id, playback.Command{Generation: scene.Playback.Generation,
			Version: scene.Playback.Version, Verb: playback.Pause}, w.cfg.Bus.Nodes().Time())
		w.must(err)
		if !done || state.Stamp() <= scene.Playback.Stamp() {
			t.Fatalf("the command changed %+v to %+v", scene.Playback, state)
		}
		bubble.Sleep(5 * time.Second)
		if n := received.Load(); n != 0 {
			t.Fatalf("the room got %d events of an unpublished command", n)
		}
		_, err = other.Scene(ctx, owner, id)
		w.must(err)
		bubble.Sleep(2 * beatEvery)
		if n := received.Load(); n != 1 {
			t.Errorf("the room got %d events, want one", n)
		}
		_, err = other.Playback(ctx, owner, id)
		w.must(err)
		bubble.Sleep(2 * beatEvery)
		if n := received.Load(); n != 1 {
			t.Errorf("the room got %d events after a read without a change, want still one", n)
		}
	})
}

func TestBuffering_HoldsTheRoom(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := singleNode(t, Settings{})
		ctx := t.Context()
		users := w.newUsers(2)
		id := w.newRoom(users[0], users[1])
		owner, ann := ParticipantID(users[0]), ParticipantID(users[1])
		_, _, err := w.Update(ctx, owner, id, Update{Hold: to(true)})
		w.must(err)
		w.Subscribed(users[0].String(), "1", api.RoomChannel(id.String()))
		w.Subscribed(users[1].String(), "2", api.RoomChannel(id.String()))
		s, err := w.Playback(ctx, owner, id)
		w.must(err)
		_, err = w.Command(ctx, owner, id, playback.Command{Generation: s.Generation, Version: s.Version, Verb: playback.Play})
		w.must(err)
		checkState := func(want string) {
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
		checkState("is held")
		bubble.Sleep(6 * time.Second)
		w.must(w.Buffering(ctx, ann, id, true))
		bubble.Sleep(6 * time.Second)
		checkState("is held")
		w.must(w.Buffering(ctx, ann, id, false))
		checkState("plays")
		w.must(w.Buffering(ctx, ann, id, true))
		bubble.Sleep(13 * time.Second) // her player no longer reports
		checkState("plays")
		_, _, err = w.Update(ctx, owner, id, Update{Hold: to(false)})
		w.must(err)
		w.must(w.Buffering(ctx, ann, id, true))
		checkState("plays")
	})
}

// A node does not know that a room waits for a player, because it had no viewers at that time or missed the event. The
// player sends no further report.
func TestHold_EndsOnANodeThatMissedIt(t *testing.T) {
	for name, miss := range map[string]func(w, other *world, id ID, wait func()){
		"viewers who join on another node": func(_, other *world, id ID, wait func()) {
			wait()
			other.Subscribed(ids.New[Participant]().String(), "1", api.RoomChannel(id.String()))
		},
		"viewers who join when the node has no state of the room": func(w, _ *world, id ID, wait func()) {
			wait()
			bubble.Sleep(2 * unusedDelay)
			w.Subscribed(ids.New[Participant]().String(), "1", api.RoomChannel(id.String()))
		},
		"an event that is lost": func(_, other *world, id ID, wait func()) {
			other.Subscribed(ids.New[Participant]().String(), "1", api.RoomChannel(id.String()))
			bubble.Sleep(2 * beatEvery)
			wait()
			bubble.Sleep(2 * beatEvery)
			other.watched.setHeld(id, false)
			other.watched.mu.Lock()
			r := other.watched.rooms[id]
			other.watched.mu.Unlock()
			other.watched.eventsLost(r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w := singleNode(t, Settings{})
				other := w.newNode()
				ctx := t.Context()
				users := w.newUsers(1)
				id, owner := w.newRoom(users[0]), ParticipantID(users[0])
				_, _, err := w.Update(ctx, owner, id, Update{Hold: to(true)})
				w.must(err)
				s, err := w.Playback(ctx, owner, id)
				w.must(err)
				_, err = w.Command(ctx, owner, id, playback.Command{Generation: s.Generation, Version: s.Version, Verb: playback.Play})
				w.must(err)
				miss(w, other, id, func() {
					w.must(w.updateHold(ctx, id, owner, true)) // a player without a connection
				})
				bubble.Sleep(bufferingLife + 3*beatEvery)
				if s, err := w.Playback(ctx, owner, id); err != nil || s.Held || s.Paused {
					t.Errorf("no player waits, and the register is %+v, %v, want it to play", s, err)
				}
			})
		})
	}
}

// A node that gets its first viewer shows earlier danmaku, but not deleted ones.
func TestScene_HasRecentDanmakuOnEveryNode(t *testing.T) {
	for _, apart := range []time.Duration{0, 20 * time.Second, -20 * time.Second} {
		t.Run(fmt.Sprint("clocks differ by ", apart), func(t *testing.T) { testDanmakuOnNodes(t, apart) })
	}
}

// testDanmakuOnNodes checks two nodes; the clock of the second one is ahead.
func testDanmakuOnNodes(t *testing.T, ahead time.Duration) {
	bubble.Test(t, func(t *testing.T) {
		w := singleNode(t, Settings{})
		other := w.newNode()
		ctx := t.Context()
		users := w.newUsers(2)
		id := w.newRoom(users[0], users[1])
		owner, ann := ParticipantID(users[0]), ParticipantID(users[1])
		byClockOf := func(n *world) {
			w.ahead.Store(0)
			if n == other {
				w.ahead.Store(int64(ahead))
			}
		}
		danmakuTexts := func(n *world) (all []string) {
			t.Helper()
			byClockOf(n)
			s, err := n.Scene(ctx, ann, id)
			w.must(err)
			for _, d := range s.Danmaku {
				all = append(all, d.Text)
			}
			return all
		}
		send := func(n *world, text string) {
			t.Helper()
			byClockOf(n)
			_, err := n.SendDanmaku(ctx, owner, id, Comment{Text: text})
			w.must(err)
			bubble.Sleep(time.Second)
		}
		send(w, "one")
		if got := danmakuTexts(other); !slices.Equal(got, []string{"one"}) {
			t.Errorf("a node without earlier viewers of the room: got %q", got)
		}
		send(w, "two")
		send(other, "three")
		for _, n := range []*world{w, other} {
			if got := danmakuTexts(n); !slices.Equal(got, []string{"one", "two", "three"}) {
				t.Errorf("got the danmaku %q", got)
			}
		}
		w.must(w.social.Block(ctx, users[1], users[0]))
		if got := danmakuTexts(other); len(got) != 0 {
			t.Errorf("got the danmaku %q of a blocked user", got)
		}
		w.must(w.social.Unblock(ctx, users[1], users[0]))
		w.must(w.ClearDanmaku(ctx, owner, id))
		bubble.Sleep(time.Second)
		for _, n := range []*world{w, other} {
			if got := danmakuTexts(n); len(got) != 0 {
				t.Errorf("got the danmaku %q after the deletion", got)
			}
		}
	})
}

// SQL does not respond to the query for danmaku.
func TestViewers_CountedWithoutSQL(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := singleNode(t, Settings{})
		ctx := t.Context()
		users := w.newUsers(1)
		id, owner := w.newRoom(users[0]), ParticipantID(users[0])
		w.watched.mu.Lock()
		filling := w.watched.getOrAdd(id, time.Now()).filling
		w.watched.mu.Unlock()
		filling <- struct{}{}
		shortCtx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		scene := make(chan error, 1)
		go func() {
			_, err := w.Scene(shortCtx, owner, id)
			scene <- err
		}()
		bubble.Sleep(2 * time.Second)
		select {
		case err := <-scene:
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a call with a deadline of one second: got %v", err)
			}
		default:
			t.Error("a call with a deadline of one second still runs after two")
		}
		w.Subscribed(users[0].String(), "1", api.RoomChannel(id.String()))
		bubble.Sleep(countEvery + roundTime)
		if n := w.viewers(ctx, []ID{id})[id]; n != 1 {
			t.Errorf("%d viewers, want 1", n)
		}
		<-filling
		if list, err := w.recentDanmaku(ctx, id); err != nil || len(list) != 0 {
			t.Errorf("when SQL responds again: got %+v, %v, want no danmaku", list, err)
		}
	})
}

// A moderator clears the danmaku, or events are lost, between the query and the use of its rows.
func TestFill_IgnoresRowsFromBeforeAnInvalidation(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := singleNode(t, Settings{})
		ctx := t.Context()
		users := w.newUsers(1)
		id, owner := w.newRoom(users[0]), ParticipantID(users[0])
		for name, invalidate := range map[string]func(r *watch){
			"cleared": func(*watch) { w.must(w.ClearDanmaku(ctx, owner, id)) },
			"lost": func(r *watch) {
				w.must(w.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return deleteComments(ctx, tx, id) }))
				w.watched.eventsLost(r)
			}, // including the event
		} {
			_, err := w.SendDanmaku(ctx, owner, id, Comment{Text: "one"})
			w.must(err)
			bubble.Sleep(time.Second)
			if list, err := w.recentDanmaku(ctx, id); err != nil || len(list) != 1 {
				t.Fatalf("%s: before the test: got %+v, %v, want one danmaku", name, list, err)
			}
			now := w.Clock()
			w.watched.mu.Lock()
			r := w.watched.rooms[id]
			w.watched.mu.Unlock()
			w.watched.eventsLost(r)
			if list, err := w.recentDanmaku(ctx, id); err != nil || len(list) != 1 {
				t.Errorf("%s: after lost events: got %+v, %v, want the danmaku of SQL", name, list, err)
			}
			_, invalidations, _ := w.watched.ringOf(r, now)
			stored, err := latestComments(ctx, w.db, id, now-danmaku.Life, danmaku.MaxComments)
			w.must(err)
			invalidate(r)
			bubble.Sleep(time.Millisecond) // its event arrives; the next beat is later
			w.watched.fill(r, id, stored, now, invalidations)
			if list, err := w.recentDanmaku(ctx, id); err != nil || len(list) != 0 {
				t.Errorf("%s: got %+v, %v, want no danmaku", name, list, err)
			}
		}
	})
}

// Each event drops exactly its cache entries, with any number of keys in one round trip.
func TestCacheEvents_DropExactlyTheirEntries(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := singleNode(t, Settings{})
		users := w.newUsers(2)
		id := w.newRoom(users[0], users[1])
		a, b := MemberKey{A: id, B: ParticipantID(users[0])}, MemberKey{A: id, B: ParticipantID(users[1])}
		room, list, state := "cache:room:"+id.String(), "cache:playlist:"+id.String(), "cache:room_state:"+id.String()
		member := func(s MemberKey) string { return "cache:member:" + id.String() + ":" + s.B.String() }
		for name, c := range map[string]struct {
			targets []cache.Target
			want    []string
		}{
			SettingsChanged.Name():    {SettingsChanged.Of(w.caches.Runtime, id), []string{room}},
			RoomUpdated.Name():        {RoomUpdated.Of(w.caches.Runtime, id), []string{room}},
			RoomDeleted.Name():        {RoomDeleted.Of(w.caches.Runtime, id), []string{list, room, state}},
			PermissionsChanged.Name(): {PermissionsChanged.Of(w.caches.Runtime, a, b), []string{member(a), member(b)}},
			MemberKicked.Name():       {MemberKicked.Of(w.caches.Runtime, a), []string{member(a)}},
			PlaylistChanged.Name():    {PlaylistChanged.Of(w.caches.Runtime, id), []string{list}},
		} {
			var got []string
			for _, target := range c.targets {
				got = append(got, target.Key().String())
			}
			slices.Sort(got)
			slices.Sort(c.want)
			if !slices.Equal(got, c.want) {
				t.Errorf("%s drops %q, want %q", name, got, c.want)
			}
		}
		if err := w.caches.Check(); err != nil {
			t.Error(err)
		}
		trips := func() (n uint64) {
			s := w.redis.Stats()
			for _, kind := range [][]uint64{s.Lone.Took, s.Script.Took, s.Batch.Took} {
				for _, count := range kind {
					n += count
				}
			}
			return n
		}
		many := make([]MemberKey, 100)
		for i := range many {
			many[i] = MemberKey{A: id, B: ids.New[Participant]()}
		}
		fewest := uint64(math.MaxUint64)
		for range 5 { // the first call loads the script into Redis, and a beat may run meanwhile
			before := trips()
			w.must(w.caches.Drop(t.Context(), PermissionsChanged.Of(w.caches.Runtime, many...)...))
			fewest = min(fewest, trips()-before)
		}
		if fewest != 1 {
			t.Errorf("dropping a hundred took %d round trips, want 1", fewest)
		}
	})
}

// A scene of a room with filled caches needs one command to Redis, and none to SQL.
func TestScene_OfAWarmRoomIsOneCommand(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := singleNode(t, Settings{})
		ctx := t.Context()
		users := w.newUsers(2)
		id := w.newRoom(users[0], users[1])
		w.Subscribed(users[0].String(), "1", api.RoomChannel(id.String()))
		_, err := w.Scene(ctx, ParticipantID(users[1]), id)
		w.must(err)
		n, err := w.Warm(ctx, 100, func(int, int) {})
		if err != nil || n != 1 {
			t.Errorf("warm: %d, %v", n, err)
		}
		w.must(w.db.Close()) // reads from SQL fail from here on
		commands := func() uint64 {
			s := w.redis.Stats()
			return s.Lone.Commands + s.Script.Commands + s.Batch.Commands
		}
		before := commands()
		scene, err := w.Scene(ctx, ParticipantID(users[1]), id)
		if err != nil || scene.Room.ID != id {
			t.Errorf("a scene: %+v, %v", scene, err)
		}
		if n := commands() - before; n != 1 {
			t.Errorf("a scene took %d commands, want 1", n)
		}
	})
}

// Clients ignore an event with a lower version than the last one of the same thing.
func TestEvents_VersionOfARoomGrows(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := singleNode(t, Settings{})
		users := w.newUsers(2)
		id := w.newRoom(users[0], users[1])
		bubble.Sleep(time.Second) // the events of the members who joined are published
		got := make(chan int64, 9)
		_, leave := w.cfg.Bus.Listen(t.Context(), api.RoomChannel(id.String()),
			&events.Listener{Lost: func() {}, Event: func(e events.Event, _ events.Position) {
				var data struct{ Version int64 }
				if json.Unmarshal(e.Data, &data) == nil && api.EventVersions[e.Type] != nil {
					got <- data.Version
				}
			}})
		defer leave()
		last, err := selectRoom(t.Context(), w.cfg.DB, id, "")
		w.must(err)
		version := last.Version
		checkGrows := func(name string) {
			t.Helper()
			if v := <-got; v <= version {
				t.Errorf("%s: version %d after %d", name, v, version)
			} else {
				version = v
			}
		}
		_, _, err = w.Update(t.Context(), ParticipantID(users[0]), id, Update{Name: to("Another name")})
		w.must(err)
		checkGrows("another name")
		w.appoint(id, users[0], users[1])
		checkGrows("another role")
		w.must(w.Kick(t.Context(), ParticipantID(users[0]), id, ParticipantID(users[1])))
		checkGrows("a member removed")
	})
}

package rooms

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/rooms/playback"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

// The script and package playback agree for random histories, even if the clock jumps.
func TestCommandScript_FollowsPackagePlayback(t *testing.T) {
	for _, url := range []string{"embedded", "real"} {
		t.Run(url, func(t *testing.T) {
			cfg := redis.Config{URL: "embedded", Patience: 20 * time.Second}
			if url == "real" {
				cfg = redistest.Shared(t)
			}
			s := &redisStore{redistest.OpenConfig(t, cfg)}
			for seed := range uint64(20) {
				roll := rand.New(rand.NewPCG(seed, 3))
				id := ids.New[Room]()
				if _, _, err := s.command(t.Context(), id, playback.Command{Verb: playback.Play}, time.Now()); !errors.Is(err, errNoState) {
					t.Fatalf("a command without a register: got %v, want errNoState", err)
				}
				want := playback.State{Generation: 1 + roll.Int64N(5), Position: roll.Int64N(100_000), Time: 1_700_000_000_000, Rate: playback.Normal,
					Paused: true}
				if got, err := s.load(t.Context(), id, want, playback.State{}); err != nil || got != want {
					t.Fatalf("loaded %+v, %v, want %+v", got, err, want)
				}
				if got, err := s.load(t.Context(), id, playback.State{Generation: 99},
					playback.State{Generation: want.Generation, Version: want.Version + 1}); err != nil || got != want {
					t.Fatalf("loaded over another one: %+v, %v", got, err)
				}
				now := want.Time
				for range 60 {
					if now += roll.Int64N(7000) - 1000; roll.IntN(10) == 0 { // the clock jumps
						now += roll.Int64N(40_000) - 20_000
					}
					c := playback.Command{Generation: want.Generation, Version: want.Version - roll.Int64N(2)*roll.Int64N(2),
						Verb: []playback.Verb{playback.Play, playback.Pause, playback.Seek, playback.SetRate, playback.Load, playback.Hold,
							playback.Release}[roll.IntN(7)],
						Position: roll.Int64N(playback.MaxPosition), Rate: 250 + roll.Int64N(3750), Item: []string{"", "V1StGXR8_Z5j"}[roll.IntN(2)]}
					var ok bool
					want, ok = want.Apply(c, now)
					got, done, err := s.command(t.Context(), id, c, time.UnixMilli(now))
					if err != nil || done != ok || got != want {
						t.Fatalf("seed %d, %+v at %d: the script returns %+v %v %v, Apply %+v %v", seed, c, now, got, done, err, want, ok)
					}
				}
				newer := playback.State{Generation: want.Generation + 1, Item: "V1StGXR8_Z5j", Position: 7, Time: now, Rate: playback.Normal}
				if got, err := s.load(t.Context(), id, newer, want); err != nil || got != newer {
					t.Fatalf("loaded in place of %+v: %+v, %v", want, got, err)
				}
				want = newer
				found, err := s.states(t.Context(), []ID{ids.New[Room](), id})
				if err != nil || len(found) != 1 || found[id] != want {
					t.Fatalf("read %+v, %v", found, err)
				}
			}
			redistest.KeysDeclared(t, s.db, Keys)
		})
	}
}

func TestBuffer_ReportsExpire(t *testing.T) {
	s := &redisStore{redistest.Open(t, "embedded")}
	id, a, b := ids.New[Room](), ids.New[Participant](), ids.New[Participant]()
	now := time.Now()
	for i, c := range []struct {
		user    ParticipantID
		waiting bool
		after   time.Duration
		want    int64
	}{{a, true, 0, 1}, {b, true, 5 * time.Second, 2}, {ParticipantID{}, false, 9 * time.Second, 2},
		{ParticipantID{}, false, 11 * time.Second, 1},
		{b, false, 12 * time.Second, 0}} {
		got, err := s.buffer(t.Context(), id, c.user, c.waiting, now.Add(c.after))
		if err != nil || got != c.want {
			t.Errorf("step %d: got %d, %v, want %d", i, got, err, c.want)
		}
	}
}

func TestNextCommand_FollowsTheLoopSetting(t *testing.T) {
	list := []Item{{ID: ids.New[Item]()}, {ID: ids.New[Item]()}, {ID: ids.New[Item]()}}
	names := map[string]string{"": ""}
	for i, it := range list {
		names[it.ID.String()] = fmt.Sprint(i)
	}
	gone := ids.New[Item]().String()
	names[gone] = "gone"
	for _, c := range []struct {
		now  string
		loop Loop
		want string
	}{
		{list[0].ID.String(), LoopOff, "1"}, {list[2].ID.String(), LoopOff, ""}, {gone, LoopOff, ""},
		{list[1].ID.String(), LoopItem, "1"}, {gone, LoopItem, ""},
		{list[1].ID.String(), LoopList, "2"}, {list[2].ID.String(), LoopList, "0"}, {gone, LoopList, "0"},
	} {
		if got := nextCommand(list, c.now, c.loop); names[got.Item] != c.want || got.Verb != playback.Load {
			t.Errorf("after %s with %s: %+v, want %s", names[c.now], c.loop, got, c.want)
		}
	}
	list[1].Removed = 1
	for _, c := range []struct {
		now  int
		loop Loop
		want string
	}{{1, LoopOff, "2"}, {1, LoopItem, "2"}, {1, LoopList, "2"}, {0, LoopOff, "2"}, {2, LoopList, "0"}} {
		if got := nextCommand(list, list[c.now].ID.String(), c.loop); names[got.Item] != c.want {
			t.Errorf("after %d with %s, if 1 was removed: %+v, want %s", c.now, c.loop, got, c.want)
		}
	}
	list[2].Removed = 1
	for loop, want := range map[Loop]string{LoopOff: "", LoopItem: "", LoopList: "0"} {
		if got := nextCommand(list, list[2].ID.String(), loop); names[got.Item] != want {
			t.Errorf("after the last one, removed, with %s: %+v, want %s", loop, got, want)
		}
	}
	if got := nextCommand(nil, gone, LoopList); got.Item != "" {
		t.Errorf("after an empty list: got %s, want no item", got.Item)
	}
}

package wholeserver

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// player is a user's player on a machine with its own clock and a slow connection.
type player struct {
	mu       sync.Mutex
	sync     client.PlaybackSync
	skew     time.Duration // deviation of the machine's clock
	pushes   *rand.Rand    // for the delays of pushes
	calls    *rand.Rand    // for the delays of calls; separate, so that the measured clock does not depend on pushes
	position time.Duration
	rate     float64
	moved    time.Time // by the bubble's clock
}

func (p *player) now() time.Time { return time.Now().Add(p.skew) }

// delay returns the delay in one direction: 150 ± 50 ms.
func (p *player) delay(roll *rand.Rand) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return 100*time.Millisecond + time.Duration(roll.Int64N(int64(100*time.Millisecond)))
}

// ask requests the servers' clock over the connection.
func (p *player) ask(t *testing.T, c *client.Client) {
	sent := p.now()
	bubble.Sleep(p.delay(p.calls))
	at, err := c.RoomClock(t.Context())
	bubble.Sleep(p.delay(p.calls))
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		t.Error(err)
		return
	}
	p.sync.AddClock(sent, p.now(), at)
}

// play advances the player, and applies its correction.
func (p *player) play() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.position += time.Duration(float64(now.Sub(p.moved)) * p.rate)
	p.moved = now
	c := p.sync.Correct(p.now(), p.position)
	if c.Seek {
		p.position = c.To
	}
	if p.rate = c.Rate; c.Paused {
		p.rate = 0
	}
}

// Ten users on two nodes have clocks that are up to two seconds wrong, and delays of 150 ± 50 ms to and from either
// node. After each event, all players are at the same position.
func TestTenPlayersOnTwoNodesAreAtTheSamePlace(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const players = 10
		c := newCircle(t, players)
		ctx := t.Context()
		ann, open := c.people[0], "open"
		made, err := ann.CreateRoom(ctx, api.RoomNew{Name: "Film night", Access: &open})
		c.must(err)
		room := made.Room.ID
		item, err := ann.AddToRoom(ctx, room, api.RoomItemNew{Kind: api.ItemURL, Source: "https://example.org/film.mp4"})
		c.must(err)
		all := make([]*player, players)
		var running sync.WaitGroup
		stop := make(chan struct{})
		join := func(i int) {
			cl := c.at(i%2, i)
			_, err := cl.JoinRoom(ctx, room, api.RoomJoin{})
			c.must(err)
			p := &player{skew: time.Duration(i-players/2) * 400 * time.Millisecond, pushes: rand.New(rand.NewPCG(uint64(i), 1)),
				calls: rand.New(rand.NewPCG(uint64(i), 2)), moved: time.Now()}
			p.sync.Drift, p.sync.Jump = time.Duration(made.Room.Drift)*time.Millisecond, time.Duration(made.Room.Jump)*time.Millisecond
			all[i] = p
			w := c.watch(i%2, cl.Tokens().AccessToken, room)
			running.Go(func() { // pushes arrive late, in their order
				for {
					select {
					case line := <-w.told:
						bubble.Sleep(p.delay(p.pushes))
						var push struct {
							Push struct{ Pub struct{ Data roomPush } }
						}
						var state api.Playback
						if json.Unmarshal([]byte(line), &push) == nil && push.Push.Pub.Data.Type == api.EventRoomPlayback &&
							json.Unmarshal(push.Push.Pub.Data.Data, &state) == nil {
							p.mu.Lock()
							p.sync.Take(state)
							p.mu.Unlock()
						}
					case <-stop:
						return
					}
				}
			})
			bubble.Sleep(p.delay(p.calls))
			scene, err := cl.RoomScene(ctx, room)
			bubble.Sleep(p.delay(p.calls))
			c.must(err)
			p.mu.Lock()
			p.sync.Take(scene.Playback)
			p.mu.Unlock()
			running.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					case <-time.After(map[bool]time.Duration{true: 100 * time.Millisecond, false: 10 * time.Second}[n < 12]):
						p.ask(t, cl)
					}
				}
			})
			running.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(100 * time.Millisecond):
						p.play()
					}
				}
			})
		}
		for i := range players - 1 {
			join(i)
		}
		bubble.Sleep(10 * time.Second)
		state, err := ann.Playback(ctx, room)
		c.must(err)
		var off []time.Duration
		measure := func(what string) {
			t.Helper()
			bubble.Sleep(4 * time.Second) // by then, a player that was late has caught up
			var here []time.Duration
			for range 30 {
				bubble.Sleep(100 * time.Millisecond)
				var at []time.Duration
				for _, p := range all {
					if p == nil {
						continue
					}
					p.play()
					p.mu.Lock()
					at = append(at, p.position)
					p.mu.Unlock()
				}
				here = append(here, slices.Max(at)-slices.Min(at))
			}
			off = append(off, here...)
			t.Logf("after %s: at most %s apart", what, slices.Max(here))
		}
		do := func(cmd api.PlaybackCommand) {
			t.Helper()
			cmd.Generation, cmd.Version = state.Generation, state.Version
			state, err = ann.Command(ctx, room, cmd)
			c.must(err)
			measure(cmd.Do)
		}
		do(api.PlaybackCommand{Do: api.PlaybackLoad, Item: item.ID})
		do(api.PlaybackCommand{Do: api.PlaybackSeek, Position: 600_000})
		do(api.PlaybackCommand{Do: api.PlaybackRate, Rate: 2})
		do(api.PlaybackCommand{Do: api.PlaybackPause})
		do(api.PlaybackCommand{Do: api.PlaybackPlay})
		do(api.PlaybackCommand{Do: api.PlaybackRate, Rate: 1})
		join(players - 1)
		measure("somebody joins")
		slices.Sort(off)
		if p99 := off[len(off)*99/100]; p99 > 100*time.Millisecond {
			t.Errorf("p99 of how far players are apart is %s, want at most 100ms", p99)
		}
		if want := time.Duration(state.Position)*time.Millisecond +
			time.Since(time.UnixMilli(state.ServerTime)); (all[0].position - want).Abs() > 150*time.Millisecond {
			t.Errorf("all are at %s, and the room is at %s", all[0].position, want)
		}
		t.Logf("p50 %s, p99 %s, max %s", off[len(off)/2], off[len(off)*99/100], off[len(off)-1])
		close(stop)
		running.Wait()
	})
}

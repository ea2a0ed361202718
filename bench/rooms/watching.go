package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/bench/servers"
	"github.com/stoa-dev/stoa/client"
)

// player is a guest's player on a machine with its own clock and a slow connection.
type player struct {
	mu       sync.Mutex
	sync     client.PlaybackSync
	skew     time.Duration // deviation of the machine's clock
	position time.Duration
	rate     float64
	moved    time.Time
	pushes   chan arrival
}

// arrival is an event at the client's end of the connection.
type arrival struct {
	at   time.Time
	data []byte
}

// delay returns the delay in one direction: 150 ± 50 ms.
func delay() time.Duration {
	return 100*time.Millisecond + rand.N(100*time.Millisecond)
}

// play advances the player to now, applies its correction, and returns its position.
func (p *player) play(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.position += time.Duration(float64(now.Sub(p.moved)) * p.rate)
	p.moved = now
	c := p.sync.Correct(now.Add(p.skew), p.position)
	if c.Seek {
		p.position = c.To
	}
	if p.rate = c.Rate; c.Paused {
		p.rate = 0
	}
	return p.position
}

// hear handles pushes late, in their order.
func (p *player) hear(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case a := <-p.pushes:
			time.Sleep(time.Until(a.at.Add(delay())))
			var e event
			var state api.Playback
			if json.Unmarshal(a.data, &e) == nil && e.Type == api.EventRoomPlayback && json.Unmarshal(e.Data, &state) == nil {
				p.mu.Lock()
				p.sync.Take(state)
				p.mu.Unlock()
			}
		}
	}
}

// ask requests the servers' clock over the connection.
func (p *player) ask(ctx context.Context, c *client.Client) error {
	sent := time.Now().Add(p.skew)
	time.Sleep(delay())
	now, err := c.RoomClock(ctx)
	time.Sleep(delay())
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.sync.AddClock(sent, time.Now().Add(p.skew), now)
	}
	return err
}

// together lets ten players watch through two nodes.
func (b *bench) together(ctx context.Context) (err error) {
	const players = 10
	room, item, err := b.open(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	var all []*player
	var sockets []*socket
	defer func() {
		cancel()
		running.Wait()
		for _, s := range sockets {
			s.close()
		}
	}()
	join := func(i int) error {
		c, err := b.client(i % 2)
		if err != nil {
			return err
		}
		guest, err := c.VisitRoom(ctx, room.ID, api.RoomGuestNew{Name: fmt.Sprint("Visitor ", i)})
		if err == nil {
			c, err = b.client(i%2, client.WithTokens(api.Tokens{AccessToken: guest.Token}))
		}
		if err != nil {
			return err
		}
		p := &player{skew: time.Duration(i-players/2) * 400 * time.Millisecond, moved: time.Now(), pushes: make(chan arrival, 1000)}
		p.sync.Drift, p.sync.Jump = time.Duration(room.Drift)*time.Millisecond, time.Duration(room.Jump)*time.Millisecond
		s, err := connect(ctx, b.nodes[i%2].Addr, guest.Token, api.RoomChannel(room.ID), func(data []byte) {
			p.pushes <- arrival{time.Now(), data}
		})
		if s != nil {
			sockets = append(sockets, s)
		}
		if err != nil {
			return err
		}
		running.Go(func() { p.hear(ctx) })
		for range 12 {
			if err := p.ask(ctx, c); err != nil {
				return err
			}
		}
		scene, err := c.RoomScene(ctx, room.ID)
		p.sync.Take(scene.Playback)
		all = append(all, p)
		return err
	}
	for i := range players - 1 {
		if err := join(i); err != nil {
			return err
		}
	}
	fmt.Printf("1. ten players on two nodes, clocks up to 2 s wrong, lines of 150 ± 50 ms: how far apart they are\n\n")
	var whole []time.Duration
	measure := func(what string) error {
		var apart []time.Duration
		for began := time.Now(); time.Since(began) < 4*time.Second+*look; time.Sleep(50 * time.Millisecond) {
			var positions []time.Duration
			now := time.Now()
			for _, p := range all {
				positions = append(positions, p.play(now))
			}
			if now.Sub(began) > 4*time.Second { // by then, a player that was late has caught up
				apart = append(apart, slices.Max(positions)-slices.Min(positions))
			}
		}
		whole = append(whole, apart...)
		fmt.Printf("  %-8s p50 %s, p99 %s\n", what, at(apart, .5), at(apart, .99))
		return ctx.Err()
	}
	for _, cmd := range []api.PlaybackCommand{{Do: api.PlaybackLoad, Item: item}, {Do: api.PlaybackPause}, {Do: api.PlaybackPlay},
		{Do: api.PlaybackSeek, Position: 600_000}, {Do: api.PlaybackRate, Rate: 1.5}} {
		if err := errors.Join(b.command(ctx, room.ID, cmd), measure(cmd.Do)); err != nil {
			return err
		}
	}
	if err := errors.Join(join(players-1), measure("join")); err != nil {
		return err
	}
	fmt.Printf("  all: p50 %s, p99 %s (aim: 100 ms)\n\n", at(whole, .5), at(whole, .99))
	return nil
}

// crowd opens a room that many guests watch through one node, or through both in turn.
func (b *bench) crowd(ctx context.Context, nodes int, typ string) (room, item string, a *audience, err error) {
	made, item, err := b.open(ctx)
	if err != nil {
		return "", "", &audience{}, err
	}
	a, err = gather(ctx, *viewers, typ, func(i int) (string, string, string, error) {
		c, err := b.client(i % nodes)
		if err != nil {
			return "", "", "", err
		}
		guest, err := c.VisitRoom(ctx, made.ID, api.RoomGuestNew{Name: "Visitor"})
		return b.nodes[i%nodes].Addr, guest.Token, api.RoomChannel(made.ID), err
	})
	time.Sleep(3 * time.Second) // until all are counted
	return made.ID, item, a, err
}

// change changes the playback, which many viewers see.
func (b *bench) change(ctx context.Context) error {
	room, item, a, err := b.crowd(ctx, 2, api.EventRoomPlayback)
	defer a.leave()
	if err != nil {
		return err
	}
	now, err := b.owner.Playback(ctx, room)
	if err != nil {
		return err
	}
	times, err := a.fan(ctx, 1+*spread, func(i int) error {
		cmd := api.PlaybackCommand{Generation: now.Generation, Version: now.Version, Do: api.PlaybackSeek, Position: int64(i) * 1000}
		if i == 0 {
			cmd.Do, cmd.Item = api.PlaybackLoad, item
		}
		now, err = b.owner.Command(ctx, room, cmd)
		return err
	})
	if err != nil {
		return err
	}
	times = times[1:]
	fmt.Printf("2. %d changes of what is on, until the last of %d viewers on two nodes has it\n\n  p50 %s, p99 %s (aim: 60 ms)\n\n", *spread,
		*viewers, at(times, .5), at(times, .99))
	return nil
}

// danmaku sends danmaku, and publishes the same bytes with the library. Both servers run all the time, and take turns.
func (b *bench) danmaku(ctx context.Context) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	alone, err := servers.Start(exec.Command(self, "-bare"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, alone.Stop()) }()
	room, _, here, err := b.crowd(ctx, 1, api.EventRoomDanmaku)
	defer here.leave()
	if err != nil {
		return err
	}
	there, err := gather(ctx, *viewers, api.EventRoomDanmaku, func(i int) (string, string, string, error) {
		return alone.Addr, fmt.Sprint("viewer", i), everybody, nil
	})
	defer there.leave()
	if err != nil {
		return err
	}
	var ours, theirs []time.Duration
	for turn := range *turns + 1 { // the first one warms up
		took, err := here.fan(ctx, *spread, func(i int) error {
			_, err := b.owner.Shoot(ctx, room, api.DanmakuNew{Text: fmt.Sprint("Wow ", i)})
			return err
		})
		if err != nil {
			return err
		}
		bareTook, err := there.fan(ctx, *spread, func(int) error {
			resp, err := http.Post("http://"+alone.Addr+"/publish", "application/json",
				bytes.NewReader(*here.last.Load())) //nolint:noctx // on loopback
			if err != nil {
				return err
			}
			return resp.Body.Close()
		})
		if err != nil {
			return err
		}
		if turn > 0 {
			ours, theirs = append(ours, took...), append(theirs, bareTook...)
		}
	}
	fmt.Printf("3. a comment that flies, until the last of %d viewers of one node has it, %d turns of %d\n\n", *viewers, *turns, *spread)
	fmt.Printf("  stoa     p50 %s, p99 %s\n  library  p50 %s, p99 %s\n  stoa against the library: %.2f × (aim: 1.3)\n\n", at(ours, .5),
		at(ours, .99), at(theirs, .5), at(theirs, .99),
		float64(quantile(ours, .5))/float64(quantile(theirs, .5)))
	return nil
}

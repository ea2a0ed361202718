// Command rooms measures rooms for watching together: two nodes as children, on a real redis-server and a real MariaDB,
// against the library of sockets alone. All clients are guests, in this process.
//
//	1  the largest distance of ten players on two nodes, with clocks up to 2 s wrong and delays of 150 ± 50 ms
//	2  a change of the playback, until the last of 1,000 viewers has it
//	3  a danmaku, until the last of 1,000 has it, against the library's publish of the same bytes
//	4  the commands and statements of a scene of a warm room in Redis and SQL
//	5  the time to load 10,000 rooms
//
//	go run ./rooms [-figure 1,2] [-short]      (in the folder bench)
//
// Linux only: it reads /proc.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/bench/servers"
	"github.com/stoa-dev/stoa/client"
)

var (
	figures = flag.String("figure", "1,2,3,4,5", "which ones")
	short   = flag.Bool("short", false, "take seconds, only to see that everything runs")
	viewers = flag.Int("viewers", 1_000, "how many watch in figures 2 and 3")
	turns   = flag.Int("turns", 3, "how many turns each side of figure 3 has")
	spread  = flag.Int("spread", 100, "events of a turn")
	look    = flag.Duration("look", 5*time.Second, "for how long players are looked at after each command")
	many    = flag.Int("many", 10_000, "rooms that are warmed")
	scenes  = flag.Int("scenes", 2_000, "scenes that are read in figure 4")
	bare    = flag.Bool("bare", false, "serve the library alone; the program starts itself so")
)

func main() {
	flag.Parse()
	if *short {
		*viewers, *turns, *spread, *look, *many, *scenes = 200, 1, 20, time.Second, 500, 200
	}
	do := run
	if *bare {
		do = serveBare
	}
	if err := do(); err != nil {
		log.Fatal(err)
	}
}

// bench has the shared parts of all figures.
type bench struct {
	binary, dir   string
	redis, sqlURL string
	nodes         [2]*servers.Program
	owner         *client.Client
}

func run() (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	b := &bench{}
	setup, end, err := servers.NewSetup(ctx, "rooms")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	b.dir, b.binary, b.redis, b.sqlURL = setup.Dir, setup.Binary, setup.Redis, setup.SQL
	for i := range b.nodes { // all clients are on this machine: with a trusted proxy they do not count as one client network
		if b.nodes[i], err = servers.Start(exec.Command(b.binary, "serve", "--addr", "127.0.0.1:0", "--data", b.dir, "--sql", b.sqlURL, "--redis",
			b.redis, "--log", "error",
			"--dev", "--no-limits", "--trust-proxy", "127.0.0.0/8", "--gateway-max-from", "50000")); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, b.nodes[i].Stop()) }()
	}
	if b.owner, err = b.signUp(ctx); err != nil {
		return err
	}
	all := map[string]func(context.Context) error{"1": b.together, "2": b.change, "3": b.danmaku, "4": b.scene, "5": b.warm}
	for number := range strings.SplitSeq(*figures, ",") {
		if all[number] == nil {
			return fmt.Errorf("there is no figure %q", number)
		}
		if err := all[number](ctx); err != nil {
			return fmt.Errorf("figure %s: %w", number, err)
		}
	}
	return nil
}

func (b *bench) client(node int, opts ...client.Option) (*client.Client, error) {
	return client.New("http://"+b.nodes[node].Addr, opts...)
}

func (b *bench) signUp(ctx context.Context) (*client.Client, error) {
	c, err := b.client(0)
	if err != nil {
		return nil, err
	}
	const email = "ann@example.org"
	if _, err := c.RequestCode(ctx, api.CodeRequest{Email: email, Purpose: api.PurposeRegister}); err != nil {
		return nil, err
	}
	for range 100 {
		mails, err := c.DevMails(ctx, email)
		if err != nil {
			return nil, err
		}
		if len(mails) > 0 && mails[0].Code != "" {
			_, err := c.Register(ctx, api.RegisterRequest{Email: email, Code: mails[0].Code, Name: "Ann", Zone: "UTC"})
			return c, err
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil, errors.New("no code was mailed")
}

// open creates a room that accepts guests, with an item in its playlist.
func (b *bench) open(ctx context.Context) (room api.Room, item string, err error) {
	access, yes := "open", true
	made, err := b.owner.CreateRoom(ctx, api.RoomNew{Name: "Film night", Access: &access, Guests: &yes})
	if err != nil {
		return room, "", err
	}
	added, err := b.owner.AddToRoom(ctx, made.Room.ID, api.RoomItemNew{Kind: api.ItemURL, Source: "https://example.org/film.mp4"})
	return made.Room, added.ID, err
}

// command changes the current playback.
func (b *bench) command(ctx context.Context, room string, cmd api.PlaybackCommand) error {
	now, err := b.owner.Playback(ctx, room)
	if err != nil {
		return err
	}
	cmd.Generation, cmd.Version = now.Generation, now.Version
	_, err = b.owner.Command(ctx, room, cmd)
	return err
}

// at returns a quantile as text in milliseconds.
func at(times []time.Duration, q float64) string {
	return fmt.Sprintf("%.1f ms", float64(quantile(times, q).Microseconds())/1000)
}

func quantile(times []time.Duration, q float64) time.Duration {
	slices.Sort(times)
	return times[min(len(times)-1, int(q*float64(len(times))))]
}

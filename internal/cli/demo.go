package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"text/tabwriter"

	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/cli/demo"
	"github.com/stoa-dev/stoa/internal/config"
	"github.com/stoa-dev/stoa/internal/live"
	"github.com/stoa-dev/stoa/internal/obs"
)

type demoCmd struct {
	settings
	Serve bool `help:"Run the server, too, with some of the users on line, a film that plays again and again, and a live stream."`
}

// Run fills a database without accounts. It does not change a database that has accounts.
func (cmd *demoCmd) Run(ctx context.Context, c *console) error {
	load := cmd.load
	if cmd.Serve {
		load = cmd.loadServer
	}
	cfg, rep, err := load()
	if err != nil {
		return err
	}
	filled, err := c.fill(ctx, cfg)
	if err != nil {
		return err
	}
	if err := c.result(map[string]any{"existed": filled.Existed, "people": filled.People, "days": filled.Days,
		"friendships": filled.Friendships, "messages": filled.Messages, "log_in": filled.LogIn},
		func(w io.Writer) error { return guide(w, cfg, filled, cmd.Serve) }); err != nil || !cmd.Serve {
		return err
	}
	return c.play(ctx, cfg, rep)
}

// fill writes the demo while no server with a Redis of its own uses the database.
func (c *console) fill(ctx context.Context, cfg app.Config) (out demo.Filled, err error) {
	release, err := cfg.Alone()
	if err != nil {
		return out, err
	}
	out, err = demo.Fill(ctx, cfg)
	return out, errors.Join(err, release())
}

// play runs a server with some members of the cast connected. They log out before the server stops.
func (c *console) play(ctx context.Context, cfg app.Config, rep *config.Report) error {
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	playing, leave := context.WithCancel(ctx)
	defer leave()
	ready, played := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		defer stop()
		select {
		case <-playing.Done():
			played <- nil
		case addr := <-ready:
			played <- c.perform(playing, cfg, "http://"+reachable(addr.String()))
		}
	}()
	err := c.serve(serving, cfg, rep, func(addr net.Addr) { ready <- addr })
	leave()
	return errors.Join(<-played, err)
}

// perform plays the demo on the server at url until ctx ends.
func (c *console) perform(ctx context.Context, cfg app.Config, url string) error {
	db, err := c.sql(ctx, cfg.SQL, cfg)
	if err != nil {
		return err
	}
	return errors.Join(demo.Play(ctx, db, url, obs.NewLogger(c.err, cfg.Log)), db.Close())
}

// guide explains where to begin in the demo.
func guide(w io.Writer, cfg app.Config, filled demo.Filled, serves bool) error {
	begin := fmt.Sprintf("The demo is ready: %d people, %d check-ins, %d friendships, %d messages.", filled.People, filled.Days,
		filled.Friendships, filled.Messages)
	if filled.Existed {
		begin = "The demo is there already. Nothing was changed."
	}
	start := "stoa demo --serve   runs the server with users on line, a film that plays and a live stream\nstoa serve          runs the " +
		"server alone"
	if serves {
		start = "The server starts. Ctrl-C stops it."
	}
	url := "http://" + reachable(cfg.Addr)
	code := "the code arrives by mail"
	if cfg.Development() {
		code = "its code is shown at " + url + "/dev/mail"
	}
	stream := "a stream, while stoa demo --serve runs and the UDP address " + cfg.Live.UDP + " is free"
	if cfg.Live.UDP == live.Off {
		stream = "no stream: live.udp is off"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n%s\n\nOpen %s/ and log in as %s; %s. Then look at:\n\n", begin, start, url, filled.LogIn, code)
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, area := range [][3]string{
		{"account", "/#/profile", "a picture, a card to scan, the devices"},
		{"friends", "/#/friends", "friends made over a year, requests that wait, a blocked user"},
		{"chats", "/#/chats", "two users and groups, English and Chinese: unread, pinned, replies, reactions, files"},
		{"check-in", "/", "a streak that waits for today, freezes, days to make up, four leaderboards"},
		{"rooms", "/#/rooms", "“" + demo.FilmRoom + "”: a film that plays again and again, with danmaku"},
		{"live", "/#/rooms", "“" + demo.LiveRoom + "”: " + stream},
	} {
		fmt.Fprintf(table, "  %s\t%s\t%s\n", area[0], area[1], area[2])
	}
	_ = table.Flush() // writes to memory
	b.WriteString("\nUsers who are on line and who were seen last are in the chats; files and notices are in the chats and behind the bell.\n")
	_, err := io.WriteString(w, b.String())
	return err
}

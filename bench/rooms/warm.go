package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/accounts/password"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/rooms"
	"github.com/stoa-dev/stoa/internal/social"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/ratelimit"
	"github.com/stoa-dev/stoa/lib/redis"
)

// node has rooms as package app builds them, in this process, on the same servers as the other nodes.
type node struct {
	db      *sqldb.DB
	redis   *redis.DB
	bus     *events.Bus
	caches  *cache.Runtime
	rooms   *rooms.Service
	running sync.WaitGroup
	stop    func()
}

func (b *bench) node(ctx context.Context) (n *node, err error) {
	n = &node{}
	quiet := slog.New(slog.DiscardHandler)
	if n.db, err = sqldb.Open(ctx, sqldb.Config{URL: b.sqlURL, Log: quiet}); err != nil {
		return nil, err
	}
	if n.redis, err = redis.Open(ctx, redis.Config{URL: b.redis, Prefix: "stoa", Log: quiet}); err != nil {
		return nil, errors.Join(err, n.db.Close())
	}
	name := ids.New[node]().String()
	n.bus = events.NewBus(n.redis, name, quiet)
	n.caches = cache.NewRuntime(n.redis, n.bus.Nodes(), cache.Config{Log: quiet})
	policy := cache.Policy{Entries: 20_000}
	people, err := accounts.New(accounts.Config{DB: n.db, Redis: n.redis, Limiter: ratelimit.New(n.redis), Caches: n.caches, Bus: n.bus,
		Cache:  policy,
		Secret: []byte(strings.Repeat("secret of a benchmark", 2)), Log: quiet})
	if err != nil {
		return n, errors.Join(err, n.close())
	}
	friends, err := social.New(social.Config{DB: n.db, Caches: n.caches, Cache: policy, Bus: n.bus, People: people, Log: quiet})
	if err != nil {
		return n, errors.Join(err, n.close())
	}
	if n.rooms, err = rooms.New(ctx, rooms.Config{DB: n.db, Redis: n.redis, Caches: n.caches, Cache: policy, Bus: n.bus, Node: name,
		People: people, Blocks: friends,
		Passwords: password.NewHasher(1, password.OWASP), Log: quiet, Settings: rooms.Settings{Owned: 1000}}); err != nil {
		return n, errors.Join(err, n.close())
	}
	ctx, n.stop = context.WithCancel(ctx)
	n.running.Go(func() { _ = n.bus.Run(ctx, func() {}) })
	ready := make(chan struct{})
	n.running.Go(func() { _ = n.caches.Run(ctx, func() { close(ready) }) })
	<-ready
	for n.bus.Nodes().Seen() == 0 { // before that, nothing is cached in process
		time.Sleep(time.Millisecond)
	}
	return n, nil
}

func (n *node) close() error {
	if n.stop != nil {
		n.stop()
	}
	n.running.Wait()
	return errors.Join(n.redis.Close(), n.db.Close())
}

// commands returns the number of commands that this process has sent to Redis.
func (n *node) commands() uint64 {
	s := n.redis.Stats()
	return s.Lone.Commands + s.Script.Commands + s.Batch.Commands
}

// statements returns the number of SELECTs of MariaDB from all clients.
func (n *node) statements(ctx context.Context) (total int, err error) {
	var name, value string
	if err := n.db.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Com_select'").Scan(&name, &value); err != nil {
		return 0, err
	}
	return strconv.Atoi(value)
}

// fill creates rooms of new owners, each with an item, and returns them.
func (n *node) fill(ctx context.Context, many int) (all []rooms.ID, owners []accounts.ID, err error) {
	const each = 500 // rooms of an owner
	for range (many + each - 1) / each {
		u, err := accounts.NewUser(ids.New[node]().String()+"@example.org", "Owner", "UTC")
		if err != nil {
			return nil, nil, err
		}
		if err := n.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			return accounts.InsertUsers(ctx, tx, []accounts.User{u})
		}); err != nil {
			return nil, nil, err
		}
		owners = append(owners, u.ID)
	}
	all = make([]rooms.ID, many)
	var work sync.WaitGroup
	var next atomic.Int64
	faults := make([]error, 16)
	for w := range faults {
		work.Go(func() {
			for i := int(next.Add(1) - 1); i < many && faults[w] == nil; i = int(next.Add(1) - 1) {
				title, access, owner := fmt.Sprint("Room ", i), rooms.Open, owners[i/each]
				r, _, err := n.rooms.Create(ctx, owner, ids.New[rooms.Room](), rooms.Update{Name: &title, Access: &access})
				if err == nil {
					_, err = n.rooms.Add(ctx, rooms.ParticipantID(owner), r.ID, rooms.Item{Source: "https://example.org/film.mp4", Title: "A film"})
				}
				all[i], faults[w] = r.ID, err
			}
		})
	}
	work.Wait()
	return all, owners, errors.Join(faults...)
}

// scene reads the scene of a warm room, and counts the commands of Redis and the statements of MariaDB. The other nodes
// have periodic work, which is counted for the same time without scenes.
func (b *bench) scene(ctx context.Context) (err error) {
	n, err := b.node(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.close()) }()
	list, owners, err := n.fill(ctx, 1)
	if err != nil {
		return err
	}
	read := func() error {
		_, err := n.rooms.Scene(ctx, rooms.ParticipantID(owners[0]), list[0])
		return err
	}
	if err := errors.Join(read(), read()); err != nil {
		return err
	}
	count := func(do func() error) (commands, statements float64, took time.Duration, err error) {
		before, err := n.statements(ctx)
		if err != nil {
			return 0, 0, 0, err
		}
		sent, began := n.commands(), time.Now()
		if err := do(); err != nil {
			return 0, 0, 0, err
		}
		took = time.Since(began)
		commands = float64(n.commands() - sent)
		after, err := n.statements(ctx)
		return commands, float64(after - before), took, err
	}
	commands, statements, took, err := count(func() error {
		for range *scenes {
			if err := read(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	restCommands, restStatements, _, err := count(func() error { time.Sleep(took); return nil })
	if err != nil {
		return err
	}
	fmt.Printf("4. %d scenes of a warm room, one after another, %s each\n\n", *scenes, (took / time.Duration(*scenes)).Round(time.Microsecond))
	fmt.Printf("  commands to Redis %.0f (%.0f in as long without), SELECTs %.0f (%.0f): %.3f and %.3f a scene (aim: 1 and 0)\n\n", commands,
		restCommands, statements, restStatements,
		(commands-restCommands)/float64(*scenes), (statements-restStatements)/float64(*scenes))
	return nil
}

// warm loads many rooms in a node that has just started: once when Redis has no cached copies, and once when it has
// them.
func (b *bench) warm(ctx context.Context) (err error) {
	first, err := b.node(ctx)
	if err != nil {
		return err
	}
	_, _, err = first.fill(ctx, *many)
	if err := errors.Join(err, first.close()); err != nil {
		return err
	}
	fmt.Printf("5. %d rooms with their playlists, warmed by a node that has just started\n\n", *many)
	for _, what := range []string{"Redis as the rooms' making left it", "Redis has the copies"} {
		n, err := b.node(ctx)
		if err != nil {
			return err
		}
		began := time.Now()
		got, err := n.rooms.Warm(ctx, *many, func(int, int) {})
		took := time.Since(began)
		if err := errors.Join(err, n.close()); err != nil {
			return err
		}
		fmt.Printf("  %-36s %d rooms in %s (aim: 10,000 in 2 s)\n", what, got, took.Round(time.Millisecond))
	}
	return nil
}

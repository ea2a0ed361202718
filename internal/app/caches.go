package app

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/internal/background/worker"
	"github.com/stoa-dev/stoa/internal/config"
	"github.com/stoa-dev/stoa/lib/cache"
)

// CacheSettings are an operator's settings of the caches.
type CacheSettings struct {
	Entries  int           `koanf:"entries" default:"10000" help:"values that each cache keeps in this process; -1 keeps none"`
	MaxStale time.Duration `koanf:"max_stale" default:"500ms" help:"how long after a change an old value may be read anywhere, whatever happens to the network"`
	Budget   time.Duration `koanf:"budget" help:"how long a read waits for Redis before it asks SQL; 0 is 75ms, and 5s for the embedded Redis"`
	Loads    int           `koanf:"loads" default:"64" help:"reads of SQL for caches at a time, others wait"`
	Warm     int           `koanf:"warm" default:"1000" help:"users, the most recently active, that a node reads when it has started" zero:"none"`
}

// leastStale is the smallest MaxStale: three beats of the bus.
const leastStale = 300 * time.Millisecond

// MostWarm is the largest number of users that a starting node loads, so that it never reads a whole table.
const MostWarm = 100_000

// Validate returns all faults, joined.
func (s CacheSettings) Validate() error {
	config.Defaults(&s)
	return errors.Join(
		config.Refuse(s.Entries < -1, "entries", "%d is not -1 or more", s.Entries),
		config.Refuse(s.MaxStale < leastStale, "max_stale", "%s is less than %s: nodes hear of changes each 100ms, and one may be missed",
			s.MaxStale, leastStale),
		config.Refuse(s.Budget < 0 || s.Budget > 5*time.Second, "budget", "%s is not between 0 and 5s", s.Budget),
		config.Refuse(s.Loads < 0, "loads", "%d is less than 0", s.Loads),
		config.Refuse(s.Warm < 0 || s.Warm > MostWarm, "warm", "%d is not between 0 and %d", s.Warm, MostWarm))
}

func (s CacheSettings) policy() cache.Policy {
	return cache.Policy{Entries: s.Entries, MaxStale: s.MaxStale}
}

// runCaches runs the caches, their invalidations and their first load.
func (a *App) runCaches(ctx context.Context, ready func()) error {
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { a.drops.Run(ctx, a.caches) })
	if a.cfg.Cache.Warm > 0 && a.cfg.does(roleAPI) {
		beside.Go(func() {
			worker.Warm(ctx, a.log, "users", a.bus.Nodes().Wait, a.cfg.Cache.Warm, a.accounts.Users().Warm)
		})
	}
	return a.caches.Run(ctx, ready)
}

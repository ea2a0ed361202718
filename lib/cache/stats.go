package cache

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/stoa-dev/stoa/lib/bus"
)

// Stats are a cache's counts since it was created.
type Stats struct {
	Hits      uint64 // answered from this process' memory
	RedisHits uint64 // answered from Redis
	Loads     uint64 // calls of the source
	Loaded    uint64 // keys that were loaded by these calls
	NotFound  uint64 // Loads that found nothing
	Errors    uint64 // Loads that failed
	LoadTime  time.Duration
	Stale     uint64 // answered with a value past its soft life
	Bypassed  uint64 // reads that did not use copies, because changes may have been missed
	Failed    uint64 // reads for which Redis failed
	Fenced    uint64 // loads that were not stored, because a change was under way
	Refused   uint64 // loads that were not stored, because a change happened in between
	Waited    uint64 // polls for another node's load
	Refreshed uint64 // loads before the end of a life
	Renewed   uint64 // lives extended at random
	Applied   uint64 // changes applied to a loaded collection
	Entries   int    // copies in process
}

// counter is divided into parts, so that many processors can count hits at once. The clock, which a hit has read
// anyway, selects the part.
type counter struct {
	parts [8]struct {
		n atomic.Uint64
		_ [56]byte
	}
}

func (c *counter) add(now bus.Moment, n uint64) { c.parts[now>>4&7].n.Add(n) }

func (c *counter) load() (n uint64) {
	for i := range c.parts {
		n += c.parts[i].n.Load()
	}
	return n
}

// plain is a counter for less frequent events.
type plain struct{ n atomic.Uint64 }

func (c *plain) add(n uint64) { c.n.Add(n) }

type counters struct {
	hits                                                                                      counter
	redisHits, loads, keys, notFound, errors, nanos, stale, bypassed, failed, fenced, refused plain
	waited, refreshed, renewed, applied                                                       plain
	recent                                                                                    atomic.Int64 // load time: moving average in ns
}

// loadTime returns the average duration of a load that finds a result; 0 before the first.
func (c *counters) loadTime() time.Duration { return time.Duration(c.recent.Load()) }

func (c *counters) loaded(keys int, took time.Duration, err error) {
	c.loads.add(1)
	c.keys.add(uint64(keys))
	c.nanos.add(uint64(took))
	if err == nil || errors.Is(err, ErrNotFound) {
		before := c.recent.Load() // a lost race loses one load
		if before == 0 {
			before = int64(took)
		}
		c.recent.Store(before + (int64(took)-before)/8)
	}
	switch {
	case errors.Is(err, ErrNotFound):
		c.notFound.add(1)
	case err != nil:
		c.errors.add(1)
	}
}

func (c *counters) read() Stats {
	return Stats{Hits: c.hits.load(), RedisHits: c.redisHits.n.Load(), Loads: c.loads.n.Load(), Loaded: c.keys.n.Load(),
		NotFound: c.notFound.n.Load(), Errors: c.errors.n.Load(), LoadTime: time.Duration(c.nanos.n.Load()), Stale: c.stale.n.Load(),
		Bypassed: c.bypassed.n.Load(), Failed: c.failed.n.Load(), Fenced: c.fenced.n.Load(), Refused: c.refused.n.Load(),
		Waited: c.waited.n.Load(), Refreshed: c.refreshed.n.Load(), Renewed: c.renewed.n.Load(), Applied: c.applied.n.Load()}
}

// Stats returns the counts of all caches, by name.
func (rt *Runtime) Stats() map[string]Stats {
	all := map[string]Stats{}
	for _, c := range rt.registered() {
		all[c.Name()] = c.Stats()
	}
	return all
}

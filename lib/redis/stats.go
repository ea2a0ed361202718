package redis

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/stoa-dev/stoa/lib/keyspace"
)

// Stats are the counts of a [DB] since Open. BenchmarkStats measures their cost.
type Stats struct {
	Lone   Trips // DB.Do of a plain command
	Script Trips // DB.Do of a script, and pipelines with a script
	Batch  Trips // other pipelines

	Away     uint64 // commands that failed because a server was unavailable
	TimedOut uint64 // commands whose context timed out
	Canceled uint64 // commands whose caller left
	Refused  uint64 // commands with an error reply of a server

	Connections int    // open now, including those to sentinels
	Connects    uint64 // connections made
	Reconnects  uint64 // connections that replaced an ended one
	Losses      uint64 // times a server was found unavailable
	ServersAway int    // servers unavailable now
}

// Trips are the round trips of one kind. They include round trips that timed out, but not those that found the server
// unavailable. Of the round trips with one command, one in eight is timed, at random, and counts for eight.
type Trips struct {
	Took     []uint64 // number that took at most TripBounds()[i]; the last entry: longer
	Total    time.Duration
	Commands uint64
}

// tripBounds range from a command of the embedded server to a second; callers that can answer from SQL wait 50 ms.
var tripBounds = [...]time.Duration{
	50 * time.Microsecond, 100 * time.Microsecond, 200 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond,
	20 * time.Millisecond, 50 * time.Millisecond, 200 * time.Millisecond, time.Second,
}

// TripBounds returns the bounds of [Trips].Took.
func TripBounds() []time.Duration { return append([]time.Duration(nil), tripBounds[:]...) }

// Stats returns a snapshot.
func (db *DB) Stats() Stats {
	s := Stats{
		Lone: db.stats.lone.snapshot(), Script: db.stats.script.snapshot(), Batch: db.stats.batch.snapshot(),
		Away: db.stats.faults[faultAway].Load(), TimedOut: db.stats.faults[faultTimedOut].Load(),
		Canceled: db.stats.faults[faultCanceled].Load(), Refused: db.stats.faults[faultRefused].Load(),
	}
	if db.server != nil {
		open, made := db.server.Connections()
		s.Connections, s.Connects = open, uint64(made)
		return s
	}
	db.nodes.count(&s)
	return s
}

// stats is the internal form of [Stats].
type stats struct {
	lone, script, batch trips
	faults              [faultKinds]atomic.Uint64
}

type trips struct {
	took     [len(tripBounds) + 1]atomic.Uint64
	total    atomic.Int64
	commands atomic.Uint64
}

// sampleRate: one in sampleRate round trips with one command is timed. Two readings of the clock and shared counters
// cost about 200 ns of processor time; a command of the embedded server takes 4 µs. It must be a power of two.
const sampleRate = 8

// clock reads only the monotonic clock, which is cheaper than time.Now.
func clock() time.Duration { return time.Since(started) }

var started = time.Now()

// add counts one timed round trip as standsFor round trips.
func (t *trips) add(took time.Duration, standsFor, commands int) {
	i := 0
	for i < len(tripBounds) && took > tripBounds[i] {
		i++
	}
	t.took[i].Add(uint64(standsFor))
	t.total.Add(int64(took) * int64(standsFor))
	t.commands.Add(uint64(standsFor * commands))
}

func (t *trips) snapshot() Trips {
	s := Trips{Took: make([]uint64, len(t.took)), Total: time.Duration(t.total.Load()), Commands: t.commands.Load()}
	for i := range t.took {
		s.Took[i] = t.took[i].Load()
	}
	return s
}

type fault uint8

const (
	faultAway fault = iota
	faultTimedOut
	faultCanceled
	faultRefused
	faultKinds
)

// fault counts a command's error, and reports whether its duration is meaningful.
func (s *stats) fault(err error) (timed bool) {
	kind := faultRefused
	switch {
	case errors.Is(err, context.Canceled):
		kind = faultCanceled
	case errors.Is(err, context.DeadlineExceeded):
		kind = faultTimedOut
	case errors.Is(err, ErrUnavailable):
		kind = faultAway
	}
	s.faults[kind].Add(1)
	return kind == faultTimedOut || kind == faultRefused
}

// ServerInfo is the information from one server that owns keys.
type ServerInfo struct {
	Addr   string            // host:port, a socket's path, or "embedded"
	Fields map[string]string // the requested values, by name
	Err    error             // why there are none
}

// infoTimeout bounds the request to each server, so that a hanging server does not hide the others.
const infoTimeout = time.Second

// Info gets the INFO of every server that owns keys. It fails if these servers are not known; a server that does not
// reply has an Err. The embedded server reports little.
func (db *DB) Info(ctx context.Context) ([]ServerInfo, error) {
	return db.askAll(ctx, []string{"INFO"}, func(r keyspace.Reply) (map[string]string, error) {
		text, _, err := r.Text()
		fields := make(map[string]string)
		for line := range strings.SplitSeq(text, "\n") {
			if name, value, ok := strings.Cut(strings.TrimSuffix(line, "\r"), ":"); ok {
				fields[name] = value
			}
		}
		return fields, err
	})
}

// Settings gets settings from every server that owns keys, like Info. It uses CONFIG GET, which a user may not be
// allowed, because it shows passwords too. Several settings at once need Redis 7.0.
func (db *DB) Settings(ctx context.Context, names ...string) ([]ServerInfo, error) {
	return db.askAll(ctx, append([]string{"CONFIG", "GET"}, names...), func(r keyspace.Reply) (map[string]string, error) {
		flat, err := r.Items()
		fields := make(map[string]string)
		for i := 1; i < len(flat); i += 2 {
			fields[flat[i-1].Str] = flat[i].Str
		}
		return fields, err
	})
}

func (db *DB) askAll(ctx context.Context, cmd []string, read func(keyspace.Reply) (map[string]string, error)) ([]ServerInfo, error) {
	servers, err := db.infoServers(ctx)
	if err != nil {
		return nil, err
	}
	var all []ServerInfo
	for _, s := range servers {
		all = append(all, db.askOne(ctx, s, cmd, read))
	}
	return all, nil
}

// infoServers returns the servers that own keys. A server of a cluster that cannot be asked yet is among them without a
// Do, so that it does not hide the others.
func (db *DB) infoServers(ctx context.Context) (all []Server, err error) {
	if db.via != nil {
		return db.servers(ctx)
	}
	c, err := db.conn()
	if err != nil {
		return nil, err
	}
	clients := c.Nodes()
	switch {
	case db.server != nil:
		clients = map[string]rueidis.Client{"embedded": c}
	case db.mode == "cluster":
		owners, err := db.owners(ctx, c)
		if err != nil {
			return nil, err
		}
		masters := make(map[string]rueidis.Client, len(owners))
		for _, addr := range owners {
			masters[addr] = clients[addr]
		}
		clients = masters
	}
	for addr, client := range clients {
		s := Server{Addr: addr}
		if client != nil {
			s.Do = db.through(client)
		}
		all = append(all, s)
	}
	return all, nil
}

func (db *DB) askOne(ctx context.Context, s Server, cmd []string, read func(keyspace.Reply) (map[string]string, error)) ServerInfo {
	if s.Do == nil {
		return ServerInfo{Addr: s.Addr, Err: &unavailable{errConnecting}}
	}
	ctx, cancel := context.WithTimeout(ctx, infoTimeout)
	defer cancel()
	fields, err := read(ask(ctx, s, cmd...))
	if err != nil {
		return ServerInfo{Addr: s.Addr, Err: err}
	}
	return ServerInfo{Addr: s.Addr, Fields: fields}
}

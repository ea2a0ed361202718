package obs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/lib/redis"
)

// RedisEvery is the recommended interval between calls of [Redis.Poll].
const RedisEvery = 15 * time.Second

// maxServers is the largest number of values of the label "server". Of a larger cluster, the first servers by address
// are watched.
const maxServers = 64

// Redis is a prometheus.Collector of this process's use of Redis, and of the servers' INFO at the last poll.
type Redis struct {
	db *redis.DB

	mu      sync.Mutex
	servers []redis.ServerInfo
}

var _ prometheus.Collector = (*Redis)(nil)

// NewRedis returns a collector for db.
func NewRedis(db *redis.DB) *Redis { return &Redis{db: db} }

// Poll reads INFO from the servers. If they are unavailable, it records that and returns no error.
func (r *Redis) Poll(ctx context.Context) error {
	servers, err := r.db.Info(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil { // the current servers are unknown: report the previous ones as down
		for i := range r.servers {
			r.servers[i] = redis.ServerInfo{Addr: r.servers[i].Addr, Err: err}
		}
		return nil
	}
	slices.SortFunc(servers, func(a, b redis.ServerInfo) int { return cmp.Compare(a.Addr, b.Addr) })
	r.servers = servers[:min(len(servers), maxServers)]
	return nil
}

// A field is one metric from a server's INFO; a server without that entry has no value.
type field struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(info map[string]string) (float64, bool)
}

func redisDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("stoa_redis_"+name, help, labels, nil)
}

func number(name string) func(map[string]string) (float64, bool) {
	return func(info map[string]string) (float64, bool) {
		v, err := strconv.ParseFloat(info[name], 64)
		return v, err == nil
	}
}

// word returns a reader that is 1 if all the named values equal want, and 0 otherwise. It ignores values that the
// server does not have.
func word(want string, names ...string) func(map[string]string) (float64, bool) {
	return func(info map[string]string) (float64, bool) {
		all, known := 1.0, false
		for _, name := range names {
			if v, ok := info[name]; ok {
				known = true
				if v != want {
					all = 0
				}
			}
		}
		return all, known
	}
}

var serverFields = []field{
	{redisDesc("memory_used_bytes", "Memory that a server has allocated.", "server"), prometheus.GaugeValue, number("used_memory")},
	{redisDesc("memory_max_bytes", "A server's maxmemory; 0 is no limit.", "server"), prometheus.GaugeValue, number("maxmemory")},
	{redisDesc("memory_host_bytes", "Memory of a server's machine.", "server"), prometheus.GaugeValue, number("total_system_memory")},
	{redisDesc("evicted_keys_total", "Keys that a server evicted because its memory was full; always 0 under noeviction.", "server"),
		prometheus.CounterValue, number("evicted_keys")},
	{redisDesc("clients", "Connections to a server from all clients.", "server"), prometheus.GaugeValue, number("connected_clients")},
	{redisDesc("master", "1 if the server reports the role master, 0 for a replica.", "server"), prometheus.GaugeValue,
		word("master", "role")},
	{redisDesc("replicas", "Replicas connected to a master.", "server"), prometheus.GaugeValue, number("connected_slaves")},
	{redisDesc("replication_lag_bytes", "Bytes that the slowest replica of a master has not confirmed yet.", "server"), prometheus.GaugeValue,
		replicationLag},
	{redisDesc("aof_enabled", "1 if a server writes an append-only file.", "server"), prometheus.GaugeValue, word("1", "aof_enabled")},
	{redisDesc("aof_ok", "1 while the last write and the last rewrite of the append-only file succeeded.", "server"), prometheus.GaugeValue,
		word("ok", "aof_last_write_status", "aof_last_bgrewrite_status")},
	{redisDesc("rdb_ok", "1 while the last snapshot succeeded.", "server"), prometheus.GaugeValue, word("ok", "rdb_last_bgsave_status")},
	{redisDesc("rdb_last_save_timestamp_seconds", "Unix time of the last snapshot; the server's start if there was none since.", "server"),
		prometheus.GaugeValue, number("rdb_last_save_time")},
	{redisDesc("rdb_changes", "Changes since the last snapshot.", "server"), prometheus.GaugeValue, number("rdb_changes_since_last_save")},
}

var (
	redisUp = redisDesc("up", "1 if the server replied to the last poll.", "server")

	redisHot = redisDesc("hot_key_rate", "Commands per second of this process on its most used key of a family; estimated over a minute, "+
		"for families with a hot key.", "family")

	redisTrips = redisDesc("command_seconds", "Time of a round trip, including waits for other commands: lone (one command), batch "+
		"(a pipeline) or script (either of them with a script).", "trip")
	redisCommands = redisDesc("commands_total", "Commands in those round trips.", "trip")
	redisErrors   = redisDesc("errors_total", "Failed commands: away (no server, or it cannot serve), timeout (the caller's deadline), "+
		"canceled (the caller's context ended), refused (an error reply).", "kind")
	redisConnections = redisDesc("connections", "Connections of this process.")
	redisConnects    = redisDesc("connects_total", "Connections opened.")
	redisReconnects  = redisDesc("reconnects_total", "Connections that replaced an ended one.")
	redisLosses      = redisDesc("losses_total", "Times that a server became unavailable.")
	redisAway        = redisDesc("servers_away", "Servers that are currently unavailable to this process.")
)

// kinds returns the type of every metric that may have no value yet.
func (*Redis) kinds() map[*prometheus.Desc]string {
	kinds := map[*prometheus.Desc]string{redisUp: "gauge", redisHot: "gauge"}
	for _, f := range serverFields {
		kinds[f.desc] = "gauge"
		if f.kind == prometheus.CounterValue {
			kinds[f.desc] = "counter"
		}
	}
	return kinds
}

// Describe implements prometheus.Collector.
func (r *Redis) Describe(ch chan<- *prometheus.Desc) {
	for desc := range r.kinds() {
		ch <- desc
	}
	for _, desc := range []*prometheus.Desc{redisTrips, redisCommands, redisErrors, redisConnections, redisConnects, redisReconnects,
		redisLosses, redisAway} {
		ch <- desc
	}
}

// Collect implements prometheus.Collector.
func (r *Redis) Collect(ch chan<- prometheus.Metric) {
	s := r.db.Stats()
	for trip, t := range map[string]redis.Trips{"lone": s.Lone, "batch": s.Batch, "script": s.Script} {
		buckets, n := make(map[float64]uint64, len(t.Took)), uint64(0)
		for i, bound := range redis.TripBounds() {
			n += t.Took[i]
			buckets[bound.Seconds()] = n
		}
		n += t.Took[len(t.Took)-1]
		ch <- prometheus.MustNewConstHistogram(redisTrips, n, t.Total.Seconds(), buckets, trip)
		counter(ch, redisCommands, t.Commands, trip)
	}
	for kind, n := range map[string]uint64{"away": s.Away, "timeout": s.TimedOut, "canceled": s.Canceled, "refused": s.Refused} {
		counter(ch, redisErrors, n, kind)
	}
	counter(ch, redisConnects, s.Connects)
	counter(ch, redisReconnects, s.Reconnects)
	counter(ch, redisLosses, s.Losses)
	gauge(ch, redisConnections, float64(s.Connections))
	gauge(ch, redisAway, float64(s.ServersAway))
	seen := map[string]bool{}
	for _, k := range r.db.HotKeys() { // the most used first; its name may contain a user's id
		if f := k.Key.Family().Pattern; !seen[f] {
			seen[f] = true
			gauge(ch, redisHot, k.PerSecond, f)
		}
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	for _, server := range r.servers {
		if server.Err != nil {
			gauge(ch, redisUp, 0, server.Addr)
			continue
		}
		gauge(ch, redisUp, 1, server.Addr)
		for _, f := range serverFields {
			if v, ok := f.read(server.Fields); ok {
				ch <- prometheus.MustNewConstMetric(f.desc, f.kind, v, server.Addr)
			}
		}
	}
}

func gauge(ch chan<- prometheus.Metric, desc *prometheus.Desc, v float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, labels...)
}

func counter(ch chan<- prometheus.Metric, desc *prometheus.Desc, n uint64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), labels...)
}

// replicationLag parses lines such as slave0:ip=10.0.0.2,port=6379,state=online,offset=1234,lag=0. It ignores a
// replica that still copies the whole data set.
func replicationLag(info map[string]string) (lag float64, ok bool) {
	at, ok := number("master_repl_offset")(info)
	if !ok || info["role"] != "master" {
		return 0, false
	}
	for n := 0; ; n++ {
		line, more := info[fmt.Sprintf("slave%d", n)]
		if !more {
			return lag, true
		}
		if _, offset, found := strings.Cut(line, ",state=online,offset="); found {
			offset, _, _ = strings.Cut(offset, ",")
			if has, err := strconv.ParseFloat(offset, 64); err == nil {
				lag = max(lag, at-has)
			}
		}
	}
}

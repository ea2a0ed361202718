package obs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// scrape returns every sample as a client gets it, by name and labels.
func scrape(t *testing.T, r *Registry) map[string]float64 {
	t.Helper()
	rec := httptest.NewRecorder()
	r.Handler(slog.New(slog.NewTextHandler(t.Output(), nil))).ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	samples := map[string]float64{}
	for lines := bufio.NewScanner(rec.Body); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), "} "); ok && name[0] != '#' {
			samples[name+"}"], _ = strconv.ParseFloat(value, 64)
		} else if name, value, ok := strings.Cut(lines.Text(), " "); ok && name[0] != '#' {
			samples[name], _ = strconv.ParseFloat(value, 64)
		}
	}
	return samples
}

func watch(t *testing.T, db *redis.DB) (*Redis, *Registry) {
	t.Helper()
	c, r := NewRedis(db), NewRegistry()
	r.MustRegister(c)
	if err := c.Poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c, r
}

func expect(t *testing.T, got map[string]float64, name string, ok func(float64) bool) {
	t.Helper()
	if v, there := got[name]; !there || !ok(v) {
		t.Errorf("%s: got %v (there: %v)", name, v, there)
	}
}

func is(want float64) func(float64) bool { return func(v float64) bool { return v == want } }
func positive(v float64) bool            { return v > 0 }

func TestRedis_ExportsServerState(t *testing.T) {
	server := redistest.Server(t, "appendonly yes", "maxmemory 100mb", "maxmemory-policy noeviction", "save 3600 1")
	db := redistest.Open(t, server.URL)
	for range 3 {
		db.DoMulti(t.Context(), []keyspace.Cmd{{Name: "PING"}, {Name: "PING"}})
	}
	_, r := watch(t, db)
	got := scrape(t, r)
	of := func(name string) string { return "stoa_redis_" + name + `{server="` + server.Addr + `"}` }
	for name, ok := range map[string]func(float64) bool{
		of("up"): is(1), of("memory_max_bytes"): is(100 << 20), of("memory_used_bytes"): positive, of("memory_host_bytes"): positive,
		of("evicted_keys_total"): is(0), of("master"): is(1), of("replicas"): is(0), of("replication_lag_bytes"): is(0),
		of("aof_enabled"): is(1), of("aof_ok"): is(1), of("rdb_ok"): is(1), of("rdb_changes"): is(0), of("clients"): positive,
		of("rdb_last_save_timestamp_seconds"): func(v float64) bool {
			return time.Unix(int64(v), 0).After(time.Now().Add(-time.Hour))
		},
		`stoa_redis_command_seconds_count{trip="batch"}`:            is(3),
		`stoa_redis_command_seconds_bucket{trip="batch",le="+Inf"}`: is(3),
		`stoa_redis_command_seconds_bucket{trip="batch",le="1"}`:    is(3),
		`stoa_redis_commands_total{trip="batch"}`:                   is(6),
		`stoa_redis_errors_total{kind="away"}`:                      is(0),
		"stoa_redis_connections":                                    positive,
		"stoa_redis_connects_total":                                 positive,
		"stoa_redis_reconnects_total":                               is(0),
		"stoa_redis_losses_total":                                   is(0),
		"stoa_redis_servers_away":                                   is(0),
	} {
		expect(t, got, name, ok)
	}
}

func TestRedis_ExportsFailedPersistence(t *testing.T) {
	info := map[string]string{"aof_last_write_status": "err", "aof_last_bgrewrite_status": "ok", "rdb_last_bgsave_status": "err"}
	for _, f := range serverFields {
		if v, known := f.read(info); known && v != 0 {
			t.Errorf("%s is %v, want 0", f.desc, v)
		}
	}
	if v, known := word("ok", "aof_last_write_status", "aof_last_bgrewrite_status")(info); v != 0 || !known {
		t.Errorf("got %v, %v, want 0", v, known)
	}
	if _, known := word("ok", "nothing of the kind")(info); known {
		t.Error("got a value for a field that the server does not have")
	}
}

func TestReplicationLag_IsThatOfTheSlowestReplica(t *testing.T) {
	for name, c := range map[string]struct {
		info map[string]string
		lag  float64
		ok   bool
	}{
		"two": {map[string]string{"role": "master", "master_repl_offset": "1000", "slave0": "ip=a,port=1,state=online,offset=900,lag=0",
			"slave1": "ip=b,port=1,state=online,offset=400,lag=3"}, 600, true},
		"none": {map[string]string{"role": "master", "master_repl_offset": "1000"}, 0, true},
		"copying": {map[string]string{"role": "master", "master_repl_offset": "1000", "slave0": "ip=a,port=1,state=wait_bgsave,offset=0,lag=0"},
			0, true},
		"a replica": {map[string]string{"role": "slave", "master_repl_offset": "1000"}, 0, false},
		"embedded":  {map[string]string{}, 0, false},
	} {
		if lag, ok := replicationLag(c.info); lag != c.lag || ok != c.ok {
			t.Errorf("%s: got %v, %v; want %v, %v", name, lag, ok, c.lag, c.ok)
		}
	}
}

func TestRedis_UnavailableServerHasNoOldValues(t *testing.T) {
	server := redistest.Server(t)
	c, r := watch(t, redistest.Open(t, server.URL))
	server.Kill()
	if err := c.Poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := scrape(t, r)
	expect(t, got, `stoa_redis_up{server="`+server.Addr+`"}`, is(0))
	if _, stale := got[`stoa_redis_memory_used_bytes{server="`+server.Addr+`"}`]; stale {
		t.Error("the memory of an unavailable server is still exported")
	}
}

func TestPoll_CancelledPollChangesNothing(t *testing.T) {
	server := redistest.Server(t)
	c, r := watch(t, redistest.Open(t, server.URL))
	server.Kill()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Poll(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	expect(t, scrape(t, r), `stoa_redis_up{server="`+server.Addr+`"}`, is(1))
}

func TestRedis_ExportsSentinelMasterAndClusterOwners(t *testing.T) {
	t.Run("sentinel", func(t *testing.T) {
		set := redistest.Sentinel(t)
		c, r := watch(t, redistest.Open(t, set.URL))
		expect(t, scrape(t, r), `stoa_redis_replicas{server="`+set.Master.Addr+`"}`, is(1))
		set.Failover(t)
		eventually.True(t, "only the new master to be exported", func() bool {
			if err := c.Poll(t.Context()); err != nil {
				t.Fatal(err)
			}
			got := scrape(t, r)
			_, old := got[`stoa_redis_up{server="`+set.Master.Addr+`"}`]
			return got[`stoa_redis_master{server="`+set.Replica.Addr+`"}`] == 1 && !old
		})
	})
	t.Run("cluster", func(t *testing.T) {
		set := redistest.Cluster(t, 3, 0)
		_, r := watch(t, redistest.Open(t, set.URL))
		got := scrape(t, r)
		for _, m := range set.Masters {
			expect(t, got, `stoa_redis_memory_used_bytes{server="`+m.Addr+`"}`, positive)
		}
	})
}

func TestDescribe_ListsMetricsTheEmbeddedRedisLacks(t *testing.T) {
	_, r := watch(t, redistest.Open(t, "embedded"))
	expect(t, scrape(t, r), `stoa_redis_up{server="embedded"}`, is(1))
	all, err := Describe(r)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]string{}
	for _, m := range all {
		kinds[m.Name] = m.Type
	}
	for name, want := range map[string]string{
		"stoa_redis_memory_used_bytes": "gauge", "stoa_redis_evicted_keys_total": "counter",
		"stoa_redis_command_seconds": "histogram", "stoa_redis_up": "gauge",
	} {
		if kinds[name] != want {
			t.Errorf("%s: got type %q, want %q", name, kinds[name], want)
		}
	}
}

func TestRedis_ExportsHotFamiliesWithoutKeys(t *testing.T) {
	family := keyspace.Def1[keyspace.Int](keyspace.New("obs"), "hot:{n}", keyspace.CounterKind(), keyspace.Forever("a test's"), keyspace.Doc{})
	db := redistest.OpenConfig(t, redis.Config{URL: "embedded", HotKeys: true})
	for i, times := range []int{20_000, 5_000} {
		cmds := make([]keyspace.Cmd, times)
		for j := range cmds {
			cmds[j] = keyspace.Cmd{Name: "GET", Key: family.At(keyspace.Int{N: int64(i)}).Key}
		}
		if err := keyspace.FirstErr(db.DoMulti(t.Context(), cmds)); err != nil {
			t.Fatal(err)
		}
	}
	_, r := watch(t, db)
	got := scrape(t, r)
	// About 78 ± 9 of 20,000 are sampled, scaled to the rate of a second.
	expect(t, got, `stoa_redis_hot_key_rate{family="hot:{n}"}`, func(v float64) bool { return v > 20_000/8 && v < 40_000 })
}

func TestRegistry_IsSafeForConcurrentUse(t *testing.T) {
	db := redistest.Open(t, "embedded")
	r, watch := NewRegistry(), NewRedis(db)
	r.MustRegister(watch)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() { r.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: fmt.Sprint("counter_", i)})) })
		all.Go(func() {
			if err := watch.Poll(t.Context()); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() { scrape(t, r) })
	}
	all.Wait()
	for i := range 4 {
		if _, found := scrape(t, r)[fmt.Sprint("counter_", i)]; !found {
			t.Errorf("counter %d is not in the metrics", i)
		}
	}
	if n := len(r.known); n != 8 {
		t.Errorf("%d collectors are known, want 8", n)
	}
}

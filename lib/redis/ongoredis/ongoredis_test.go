package ongoredis_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/stoa-dev/stoa/lib/cache/cachetest"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/ongoredis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/redis/redistest/conformance"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// open returns a DB on a client.
func open(t *testing.T, client goredis.UniversalClient, cfg redis.WrapConfig) *redis.DB {
	t.Helper()
	t.Cleanup(func() { client.Close() })
	db, err := ongoredis.New(client, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func TestConformance_WrappedClient(t *testing.T) {
	for _, c := range []struct {
		name, mode string
		client     func(*testing.T) goredis.UniversalClient
	}{
		{"one server", "standalone", func(t *testing.T) goredis.UniversalClient {
			return goredis.NewClient(&goredis.Options{Addr: redistest.Server(t).Addr})
		}},
		{"one server by RESP2", "standalone", func(t *testing.T) goredis.UniversalClient {
			return goredis.NewClient(&goredis.Options{Addr: redistest.Server(t).Addr, Protocol: 2, ContextTimeoutEnabled: true})
		}},
		{"behind sentinels", "standalone", func(t *testing.T) goredis.UniversalClient {
			hosts, master, _ := strings.Cut(strings.TrimPrefix(redistest.Sentinel(t).URL, "redis-sentinel://"), "/")
			return goredis.NewFailoverClient(&goredis.FailoverOptions{SentinelAddrs: strings.Split(hosts, ","), MasterName: master})
		}},
		{"cluster", "cluster", func(t *testing.T) goredis.UniversalClient {
			return goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: strings.Split(strings.TrimPrefix(redistest.Cluster(t, 3, 0).URL,
				"redis-cluster://"), ",")})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			client := c.client(t)
			db := open(t, client, redis.WrapConfig{})
			if db.Mode() != c.mode {
				t.Errorf("Mode() = %q, want %q", db.Mode(), c.mode)
			}
			conformance.Run(t, db)
			if err := db.Close(); err != nil {
				t.Error(err)
			}
			if err := db.Ping(t.Context()); !errors.Is(err, redis.ErrClosed) || !errors.Is(err, redis.ErrUnavailable) {
				t.Errorf("after Close: %v", err)
			}
			if err := client.Get(t.Context(), "x").Err(); err != goredis.Nil {
				t.Errorf("the client itself after Close: %v", err)
			}
			other, err := ongoredis.New(client, redis.WrapConfig{})
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			client.Close()
			if err := other.Do(t.Context(), keyspace.Cmd{Name: "PING"}).Err; !errors.Is(err, redis.ErrClosed) ||
				!errors.Is(err, redis.ErrUnavailable) {
				t.Errorf("after the client was closed: %v", err)
			}
		})
	}
}

func TestWrapped_Outages(t *testing.T) { conformance.Wrapped(t, openAt) }

func TestSubscribe_FollowsMovedSlot(t *testing.T) {
	conformance.Resharded(t, func(t *testing.T, addrs []string) *redis.DB {
		return open(t, goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: addrs}), redis.WrapConfig{})
	})
}

func TestNothingStale_TwoClients(t *testing.T) {
	server := redistest.Server(t)
	cachetest.NothingStale(t, [2]*redis.DB{openAt(t, server.Addr), openAt(t, server.Addr)})
}

func openAt(t *testing.T, addr string) *redis.DB {
	t.Helper()
	return open(t, goredis.NewClient(&goredis.Options{Addr: addr}), redis.WrapConfig{})
}

func TestCluster_SendsNoCOMMAND(t *testing.T) {
	c := redistest.Cluster(t, 3, 0)
	db := open(t, goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: strings.Split(strings.TrimPrefix(c.URL, "redis-cluster://"), ",")}),
		redis.WrapConfig{})
	eventually.NoError(t, "a command", func() error { return db.Do(t.Context(), keyspace.Cmd{Name: "TIME"}).Err })
	for _, m := range c.Masters {
		stats, err := m.Do("INFO", "commandstats")
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(stats[0], "cmdstat_command:") {
			t.Errorf("%s got COMMAND: %s", m.Addr, stats[0])
		}
	}
}

func TestTimeout_EndsCommandsWithoutDeadline(t *testing.T) {
	server := redistest.Server(t)
	db := open(t, goredis.NewClient(&goredis.Options{Addr: server.Addr}), redis.WrapConfig{Timeout: 50 * time.Millisecond})
	eventually.NoError(t, "the server answers in time", func() error { return db.Ping(t.Context()) })
	server.Pause()
	defer server.Resume()
	if err := db.Ping(t.Context()); !errors.Is(err, redis.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a silent server: %v", err)
	}
}

func TestErrors_RefusedPasswordFailsBatches(t *testing.T) {
	server := redistest.Server(t, "requirepass right")
	db := open(t, goredis.NewClient(&goredis.Options{Addr: server.Addr, Password: "wrong"}), redis.WrapConfig{})
	cmd := keyspace.Cmd{Name: "TIME"}
	for _, r := range append(db.DoMulti(t.Context(), []keyspace.Cmd{cmd, cmd}), db.Do(t.Context(), cmd)) {
		if !errors.Is(r.Err, redis.ErrUnavailable) || !strings.Contains(r.Err.Error(), "WRONGPASS") {
			t.Errorf("got %+v, want the refusal", r)
		}
	}
	if name, err := db.Fingerprint(t.Context()); !errors.Is(err, redis.ErrUnavailable) {
		t.Errorf("Fingerprint = %q, %v", name, err)
	}
}

func TestNew_UnsuitableClientFails(t *testing.T) {
	for name, client := range map[string]goredis.UniversalClient{
		"a ring":                   goredis.NewRing(&goredis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}}),
		"a reader of replicas":     goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}, ReadOnly: true}),
		"a reader of the nearest":  goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}, RouteByLatency: true}),
		"a reader of any of a set": goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}, RouteRandomly: true}),
	} {
		if _, err := ongoredis.New(client, redis.WrapConfig{}); err == nil {
			t.Errorf("%s is accepted", name)
		}
		client.Close()
	}
	for name, client := range map[string]goredis.UniversalClient{"none": nil, "a nil Client": (*goredis.Client)(nil),
		"a nil ClusterClient": (*goredis.ClusterClient)(nil)} {
		if _, err := ongoredis.New(client, redis.WrapConfig{}); err == nil || !strings.Contains(err.Error(), "nil") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

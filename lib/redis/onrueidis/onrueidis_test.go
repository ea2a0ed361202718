package onrueidis_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/stoa-dev/stoa/lib/cache/cachetest"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/onrueidis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/redis/redistest/conformance"
)

// open returns a DB on its own client, and the client.
func open(t *testing.T, opt rueidis.ClientOption, cfg redis.WrapConfig) (*redis.DB, rueidis.Client) {
	t.Helper()
	client, err := rueidis.NewClient(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	db, err := onrueidis.New(client, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db, client
}

func TestConformance_WrappedClient(t *testing.T) {
	for _, c := range []struct {
		name string
		opt  func(*testing.T) rueidis.ClientOption
	}{
		{"standalone", func(t *testing.T) rueidis.ClientOption {
			return rueidis.ClientOption{InitAddress: []string{redistest.Server(t).Addr}}
		}},
		{"standalone by RESP2", func(t *testing.T) rueidis.ClientOption {
			return rueidis.ClientOption{InitAddress: []string{redistest.Server(t).Addr}, AlwaysRESP2: true, DisableCache: true}
		}},
		{"sentinel", func(t *testing.T) rueidis.ClientOption {
			hosts, master, _ := strings.Cut(strings.TrimPrefix(redistest.Sentinel(t).URL, "redis-sentinel://"), "/")
			return rueidis.ClientOption{InitAddress: strings.Split(hosts, ","), Sentinel: rueidis.SentinelOption{MasterSet: master}}
		}},
		{"cluster", func(t *testing.T) rueidis.ClientOption {
			return rueidis.ClientOption{InitAddress: strings.Split(strings.TrimPrefix(redistest.Cluster(t, 3, 0).URL, "redis-cluster://"), ",")}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db, client := open(t, c.opt(t), redis.WrapConfig{})
			if mode, _, _ := strings.Cut(c.name, " "); db.Mode() != mode {
				t.Errorf("Mode() = %q", db.Mode())
			}
			conformance.Run(t, db)
			if err := db.Close(); err != nil {
				t.Error(err)
			}
			if err := db.Ping(t.Context()); !errors.Is(err, redis.ErrClosed) || !errors.Is(err, redis.ErrUnavailable) {
				t.Errorf("after Close: %v", err)
			}
			if err := client.Do(t.Context(), client.B().Get().Key("x").Build()).Error(); !rueidis.IsRedisNil(err) {
				t.Errorf("the client itself after Close: %v", err)
			}
			other, err := onrueidis.New(client, redis.WrapConfig{})
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			client.Close()
			if err := other.Do(t.Context(), keyspace.Cmd{Name: "PING"}).Err; db.Mode() != "cluster" &&
				(!errors.Is(err, redis.ErrClosed) || !errors.Is(err, redis.ErrUnavailable)) {
				// a cluster's client connects again
				t.Errorf("after the client was closed: %v", err)
			}
		})
	}
}

func TestWrapped_Outages(t *testing.T) { conformance.Wrapped(t, openAt) }

func TestSubscribe_FollowsMovedSlot(t *testing.T) {
	conformance.Resharded(t, func(t *testing.T, addrs []string) *redis.DB {
		db, _ := open(t, rueidis.ClientOption{InitAddress: addrs}, redis.WrapConfig{})
		return db
	})
}

// A cluster behind one address reports none, and a server without peers does not know its own address.
func TestCluster_UnknownAddressIsTheAskedOne(t *testing.T) {
	for name, c := range map[string]*redistest.ClusterSet{
		"unknown by choice": redistest.Cluster(t, 3, 0, "cluster-preferred-endpoint-type unknown-endpoint"),
		"unknown to itself": redistest.Cluster(t, 1, 0),
	} {
		db, _ := open(t, rueidis.ClientOption{InitAddress: strings.Split(strings.TrimPrefix(c.URL, "redis-cluster://"), ",")}, redis.WrapConfig{})
		owners, err := db.Owners(t.Context())
		if err := errors.Join(err, db.Ping(t.Context())); err != nil || len(owners) != len(c.Masters) {
			t.Errorf("%s: %d owners, %v", name, len(owners), err)
		}
	}
}

func TestNothingStale_TwoClients(t *testing.T) {
	server := redistest.Server(t)
	cachetest.NothingStale(t, [2]*redis.DB{openAt(t, server.Addr), openAt(t, server.Addr)})
}

// An error of the server for a new connection is not the reply to a command.
func TestErrors_RefusedConnectionIsUnavailable(t *testing.T) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{redistest.Server(t).Addr}, SelectDB: 99,
		ForceSingleClient: true})
	if err == nil || client == nil {
		t.Fatalf("got %v, %v, want a client and the refusal", client, err)
	}
	defer client.Close()
	db, err := onrueidis.New(client, redis.WrapConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	cmd := keyspace.Cmd{Name: "TIME"}
	for _, r := range append(db.DoMulti(t.Context(), []keyspace.Cmd{cmd, cmd}), db.Do(t.Context(), cmd)) {
		if !errors.Is(r.Err, redis.ErrUnavailable) || !strings.Contains(r.Err.Error(), "DB index") {
			t.Errorf("got %+v, want the refusal", r)
		}
	}
}

func openAt(t *testing.T, addr string) *redis.DB {
	t.Helper()
	db, _ := open(t, rueidis.ClientOption{InitAddress: []string{addr}}, redis.WrapConfig{})
	return db
}

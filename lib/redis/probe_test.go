package redis_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/keyspace/acl"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

var (
	probedSchema = keyspace.New("probed")
	_            = keyspace.Def1[keyspace.Int](probedSchema, "probed:days:{n}", keyspace.BytesOf("bits"), keyspace.Expire(time.Minute),
		keyspace.Doc{})
	_ = keyspace.DefChannel1[keyspace.Int](probedSchema, "probed:told:{n}", keyspace.RawMessages("text"), keyspace.Doc{})
	_ = keyspace.Def1[keyspace.Int](probedSchema, "probed:board:{{n}}", keyspace.SetOf("members"), keyspace.Expire(time.Minute),
		keyspace.Doc{})
)

// probe calls Probe with a bound that decides no test.
func probe(t *testing.T, cfg redis.Config) []redis.Probed {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	servers, err := redis.Probe(ctx, cfg, probedSchema)
	if err != nil {
		t.Fatal(err)
	}
	return servers
}

func TestProbe_FindsServersOfEachURL(t *testing.T) {
	t.Parallel()
	single := redistest.Server(t)
	sentinels := redistest.Sentinel(t)
	cluster := redistest.Cluster(t, 3, 1, "cluster-node-timeout 10000") // no replica may take over
	for _, c := range []struct {
		name, url string
		masters   int
		all       int
	}{
		{"standalone", single.URL, 1, 1},
		{"sentinel", sentinels.URL, 1, 4},
		{"cluster", cluster.URL, 3, -1},
		{"embedded", "embedded", 1, 1},
		{"spawn", "spawn", 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			servers := probe(t, redis.Config{URL: c.url})
			masters := 0
			for _, s := range servers {
				if s.Err != nil || s.Mode != c.name {
					t.Errorf("%s: %+v", s.Addr, s)
				}
				if s.Version == "" && strings.Contains(c.url, "://") {
					t.Errorf("%s has no version", s.Addr)
				}
				if s.Role == "master" {
					masters++
				}
				if s.Role == "" && s.Master != sentinels.Master.Addr {
					t.Errorf("sentinel %s names %q, want %s", s.Addr, s.Master, sentinels.Master.Addr)
				}
			}
			if masters != c.masters || c.all > 0 && len(servers) != c.all {
				t.Errorf("%d masters of %d servers, want %d of %d", masters, len(servers), c.masters, c.all)
			}
		})
	}
	// One address of a cluster leads to all masters.
	if servers := probe(t, redis.Config{URL: "redis-cluster://" + probe(t, redis.Config{URL: cluster.URL})[0].Addr}); len(servers) < 3 {
		t.Errorf("one address leads to %d servers", len(servers))
	}
	if keys, err := single.Do("DBSIZE"); err != nil || !slices.Equal(keys, []string{"0"}) {
		t.Errorf("after a probe there are %v keys, %v", keys, err)
	}
	for _, c := range []struct{ name, url, want string }{
		{"a replica", sentinels.Replica.URL, "replica"},
		{"a server as a cluster", "redis-cluster://" + single.Addr, "belongs to no cluster"},
		{"a cluster as a server", "redis://" + strings.Split(strings.TrimPrefix(cluster.URL, "redis-cluster://"), ",")[0],
			"belongs to a cluster"},
		{"a sentinel as a server", sentinels.Sentinels[0].URL, "this is a sentinel"},
		{"a server as a sentinel", "redis-sentinel://" + single.Addr + "/stoa", "this is not a sentinel"},
		{"a master of another name", "redis-sentinel://" + sentinels.Sentinels[0].Addr + "/other", "no master with the name other"},
		{"a database that is not there", single.URL + "/99", "out of range"},
	} {
		if servers := probe(t, redis.Config{URL: c.url}); servers[0].Err == nil || !strings.Contains(servers[0].Err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, servers[0].Err, c.want)
		}
	}
}

func TestProbe_DetectsValkeyMode(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string][2]string{ // for redis:// and for redis-sentinel://
		"server_mode:standalone\r\n": {"", "this is not a sentinel"},
		"server_mode:sentinel\r\n":   {"this is a sentinel", "no master with the name stoa"},
		"server_mode:cluster\r\n":    {"belongs to a cluster", "this is not a sentinel"},
		"":                           {"", "no master with the name stoa"},
	} {
		valkey, err := server.NewServer("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer valkey.Close()
		answers := map[string]func(c *server.Peer, cmd string, args []string){
			"INFO": func(c *server.Peer, _ string, _ []string) {
				c.WriteBulk("redis_version:7.2.4\r\nrole:master\r\n" + mode)
			},
			"SENTINEL": func(c *server.Peer, _ string, _ []string) { c.WriteNull() },
		}
		for command, answer := range answers {
			if err := valkey.Register(command, answer); err != nil {
				t.Fatal(err)
			}
		}
		for i, url := range []string{"redis://%s", "redis-sentinel://%s/stoa"} {
			if err := probe(t, redis.Config{URL: fmt.Sprintf(url, valkey.Addr())})[0].Err; (err == nil) != (want[i] == "") || err != nil &&
				!strings.Contains(err.Error(), want[i]) {
				t.Errorf("%s at one of %q: %v, want %q", url, mode, err, want[i])
			}
		}
	}
}

func TestProbe_ReportsMissingPermissions(t *testing.T) {
	t.Parallel()
	i := redistest.Server(t)
	own := acl.User{Name: "own", Secret: ">hunter2"}.Line(probedSchema)
	look := acl.User{Name: "look", Secret: ">hunter2", ReadOnly: true}.Line(probedSchema)
	other := acl.User{Name: "other", Secret: ">hunter2", Prefix: "other"}.Line(probedSchema)
	half := strings.NewReplacer("user own", "user half", "+sadd ", "").Replace(own)
	deaf := strings.NewReplacer("user own", "user deaf", "+subscribe ", "").Replace(own)
	for _, line := range []string{own, look, other, half, deaf} {
		if _, err := i.Do(append([]string{"ACL", "SETUSER"}, strings.Fields(line)[1:]...)...); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		user string
		want []string
	}{
		{"own", nil},
		{"look", []string{"MULTI"}},
		{"other", []string{"SET stoa:probed:days:", "and 7 more"}},
		{"half", []string{"SADD stoa:probed:board:"}},
		{"deaf", []string{"SUBSCRIBE stoa:probed:told:0"}},
	} {
		err := probe(t, redis.Config{URL: "redis://" + c.user + ":hunter2@" + i.Addr})[0].Err
		if errors.Is(err, redis.ErrForbidden) != (c.want != nil) {
			t.Errorf("%s: %v", c.user, err)
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q in it", c.user, err, want)
			}
		}
	}
	// On a cluster messages are published to one shard, and a slot may be moving to another.
	cluster := redistest.Cluster(t, 3, 0)
	for user, lacks := range map[string]string{"own": "", "mute": "SPUBLISH stoa:probed:told:0", "deaf": "SSUBSCRIBE stoa:probed:told:0",
		"settled": "ASKING"} {
		command, _, _ := strings.Cut(strings.ToLower(lacks), " ")
		line := strings.NewReplacer("user own", "user "+user, " +"+command+" ", " ").Replace(own)
		for _, node := range cluster.Masters {
			if _, err := node.Do(append([]string{"ACL", "SETUSER"}, strings.Fields(line)[1:]...)...); err != nil {
				t.Fatal(err)
			}
		}
		for _, s := range probe(t, redis.Config{URL: strings.Replace(cluster.URL, "://", "://"+user+":hunter2@", 1)}) {
			if lacks == "" && s.Err != nil || lacks != "" && (s.Err == nil || !strings.HasSuffix(s.Err.Error(), ": "+lacks)) {
				t.Errorf("%s at %s: %v", user, s.Addr, s.Err)
			}
		}
	}
	err := probe(t, redis.Config{URL: "redis://own:wrong-secret@" + i.Addr})[0].Err
	if reply, ok := errors.AsType[redis.ServerError](err); !ok || reply.Code() != "WRONGPASS" ||
		strings.Contains(err.Error(), "wrong-secret") {
		t.Errorf("a wrong password returned %v", err)
	}
	if keys, err := i.Do("DBSIZE"); err != nil || !slices.Equal(keys, []string{"0"}) {
		t.Errorf("after probes there are %v keys, %v", keys, err)
	}
}

func TestProbe_EndsWithUnavailableServers(t *testing.T) {
	t.Parallel()
	hole, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hole.Close()
	accepted := make(chan struct{}, 100)
	go func() {
		for {
			conn, err := hole.Accept()
			if err != nil {
				return
			}
			accepted <- struct{}{}
			go func() { _, _ = io.Copy(io.Discard, conn); conn.Close() }()
		}
	}()
	dead := redistest.Server(t)
	dead.Kill()
	alive := redistest.Server(t)
	for _, scheme := range []string{"redis://:hunter2@" + hole.Addr().String(), "redis-sentinel://" + hole.Addr().String() + "," + dead.Addr +
		"/stoa", "redis-cluster://" + hole.Addr().String() + "," + dead.Addr, "redis://" + dead.Addr} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		servers, err := redis.Probe(ctx, redis.Config{URL: scheme})
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range servers {
			if !errors.Is(s.Err, redis.ErrUnavailable) || strings.Contains(s.Err.Error(), "hunter2") {
				t.Errorf("%s: %v", scheme, s.Err)
			}
		}
	}
	// A cancelled probe does not wait any longer, whatever its deadline.
	for len(accepted) > 0 {
		<-accepted
	}
	giving, up := context.WithTimeout(t.Context(), time.Hour)
	go func() { <-accepted; up() }()
	if servers, err := redis.Probe(giving, redis.Config{URL: "redis://" + hole.Addr().String()}); err != nil ||
		!errors.Is(servers[0].Err, context.Canceled) {
		t.Errorf("cancelled: %+v, %v", servers, err)
	}
	// An unavailable server does not hide an available one.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	servers, err := redis.Probe(ctx, redis.Config{URL: "redis-sentinel://" + dead.Addr + "," + alive.Addr + "/stoa"})
	if err != nil || len(servers) != 2 || servers[1].Version == "" {
		t.Errorf("%+v, %v", servers, err)
	}
}

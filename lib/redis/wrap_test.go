package redis_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/redis/redistest/conformance"
)

// A tap is a minimal Conn: it sends to one server, and receives no messages.
type tap struct {
	*redis.Owner
	mode string
}

func (c tap) Mode() string { return c.mode }

func (c tap) Do(ctx context.Context, cmds []redis.Command) []keyspace.Reply {
	wire := make([][]string, len(cmds))
	for i, cmd := range cmds {
		wire[i] = cmd.Args
	}
	return c.Owner.Do(ctx, wire...)
}

func (c tap) Subscribe(ctx context.Context, _ string, _ redis.Handler) error {
	<-ctx.Done()
	return ctx.Err()
}

func (c tap) Owners(context.Context) ([]redis.Server, error) {
	return []redis.Server{{Addr: c.Addr(), Do: c.Do}}, nil
}

// The Conn of a program's own client. For rueidis and go-redis use the packages of this module.
func ExampleWrap() {
	ctx := context.Background()
	own, err := redis.Open(ctx, redis.Config{URL: "embedded"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer own.Close()
	owners, err := own.Owners(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer owners[0].Close()

	db, err := redis.Wrap(tap{owners[0], "standalone"}, redis.WrapConfig{NoPrefix: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	fmt.Println(value.At(n(7)).SetFor(ctx, db, "seven", time.Minute))
	for _, r := range owners[0].Do(ctx, []string{"GET", "value:{7}"}) {
		fmt.Println(r.Str)
	}
	// Output:
	// <nil>
	// seven
}

func TestWrap_InvalidConfigFails(t *testing.T) {
	for name, c := range map[string]struct {
		mode string
		cfg  redis.WrapConfig
	}{
		"no such mode":        {"ring", redis.WrapConfig{}},
		"a malformed prefix":  {"standalone", redis.WrapConfig{Prefix: "A:"}},
		"a prefix and none":   {"standalone", redis.WrapConfig{Prefix: "a", NoPrefix: true}},
		"a negative time out": {"standalone", redis.WrapConfig{Timeout: -1}},
	} {
		if _, err := redis.Wrap(tap{mode: c.mode}, c.cfg); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if _, err := redis.Wrap(tap{mode: "sentinel"}, redis.WrapConfig{}); err != nil {
		t.Error(err)
	}
}

// A conn that returns too few replies must not shift replies to other commands.
type short struct{ tap }

func (c short) Do(ctx context.Context, cmds []redis.Command) []keyspace.Reply {
	return c.tap.Do(ctx, cmds[1:])
}

func TestWrap_MissingReplyFailsBatch(t *testing.T) {
	owners, err := redistest.Open(t, "embedded").Owners(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer owners[0].Close()
	db, err := redis.Wrap(short{tap{owners[0], "standalone"}}, redis.WrapConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for i, r := range db.DoMulti(t.Context(), []keyspace.Cmd{{Name: "PING"}, {Name: "TIME"}}) {
		if !errors.Is(r.Err, keyspace.ErrReply) {
			t.Errorf("reply %d is %+v", i, r)
		}
	}
}

func TestNoPrefix_KeysAreUnchanged(t *testing.T) {
	server := redistest.Server(t)
	db := redistest.OpenConfig(t, redis.Config{URL: server.URL, NoPrefix: true, Patience: 20 * time.Second})
	if got, want := db.Physical(value.At(n(1)).Key), "value:{1}"; got != want {
		t.Errorf("Physical = %q, want %q", got, want)
	}
	if _, err := server.Do("SET", "value:{1}", "was there"); err != nil {
		t.Fatal(err)
	}
	if got, _, err := value.At(n(1)).Get(t.Context(), db); got != "was there" || err != nil {
		t.Errorf("Get = %q, %v", got, err)
	}
	if replies := db.MGet(t.Context(), []keyspace.Key{value.At(n(2)).Key, value.At(n(1)).Key}); len(replies) != 2 || !replies[0].Nil() ||
		replies[1].Str != "was there" {
		t.Errorf("MGet = %+v", replies)
	}
	server.FlushAll()
	conformance.Run(t, db)
	both := redis.Config{URL: server.URL, Prefix: "a", NoPrefix: true}
	if _, err := redis.Open(t.Context(), both); err == nil || !strings.Contains(err.Error(), "NoPrefix") {
		t.Errorf("Open with a prefix and none: %v", err)
	}
	if _, err := redis.Probe(t.Context(), both); err == nil || !strings.Contains(err.Error(), "NoPrefix") {
		t.Errorf("Probe with a prefix and none: %v", err)
	}
	var found []string
	if err := db.Scan(t.Context(), func(k string) error {
		found = append(found, k)
		return nil
	}); err != nil || !slices.Contains(found, "other:{1}") {
		t.Errorf("Scan: %d keys, %v", len(found), err)
	}
}

// Before Redis 7 the error of a command follows the text of its script.
func TestServerError_CodeInScriptsBeforeRedis7(t *testing.T) {
	const within = "Error running script (call to f_5d3fc6a1e2f3a1a9b7b5c3a3a5b1f0c2d4e6f8a0): @user_script:4: "
	for text, want := range map[string]struct {
		code string
		away bool
	}{
		within + "@user_script: 4: -READONLY You can't write against a read only replica.":            {"READONLY", true},
		"ERR " + within + "@user_script: 4: -OOM command not allowed when used memory > 'maxmemory'.": {"OOM", true},
		within + "@user_script: 4: -NOREPLICAS Not enough good replicas to write.":                    {"NOREPLICAS", true},
		within + "WRONGTYPE Operation against a key holding the wrong kind of value":                  {"WRONGTYPE", false},
		within + "user_script:4: a fault of the script's own":                                         {"ERR", false},
		"@user_script: 8: -OOM command not allowed when used memory > 'maxmemory'.":                   {"OOM", true},
		"OOM command not allowed when used memory > 'maxmemory'. script: 5d3f, on @user_script:4.":    {"OOM", true},
		"Error compiling script (new function): user_script:1: -OOM is no name":                       {"ERR", false},
	} {
		err := redistest.Answering(t, keyspace.Reply{Kind: keyspace.ErrorReply, Err: redis.ServerError(text)}).Ping(t.Context())
		server, ok := errors.AsType[redis.ServerError](err)
		if !ok || server.Code() != want.code || errors.Is(err, redis.ErrUnavailable) != want.away {
			t.Errorf("%v: %s, unavailable: %v; want %s, %v", err, server.Code(), errors.Is(err, redis.ErrUnavailable), want.code, want.away)
		}
	}
}

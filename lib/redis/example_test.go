package redis_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	_ "github.com/stoa-dev/stoa/lib/redis/embedded"
)

// City is the argument of the examples' keys and channels.
type City struct{ keyspace.Text }

var (
	weather = keyspace.New("weather")

	warmthKey = keyspace.Def1[City](weather, "weather:warmth:{{city}}", keyspace.CounterKind(), keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "degrees, rounded"})
	warningChannel = keyspace.DefChannel1[City](weather, "channel:weather_warning:{{city}}", keyspace.RawMessages("a sentence"),
		keyspace.Doc{Purpose: "warnings, for whoever listens"})
)

var oslo, rome = City{keyspace.Text{S: "oslo"}}, City{keyspace.Text{S: "rome"}}

// inMemory opens an empty Redis inside this process.
func inMemory() *redis.DB {
	db, err := redis.Open(context.Background(), redis.Config{URL: "embedded"})
	if err != nil {
		log.Fatal(err)
	}
	return db
}

// A server with TLS, whose passwords are valid for an hour: Credentials is called for each new connection.
func ExampleConfig() {
	token := func(_ context.Context, addr string) (user, password string, err error) {
		return "shop", "a token for " + addr, nil // signed by the cloud
	}
	cfg := redis.Config{URL: "redis-cluster://one.example:6379,two.example:6379?tls=true", Prefix: "shop",
		TLS: &tls.Config{MinVersion: tls.VersionTLS13}, Credentials: redis.Credentials(token), Patience: 3 * time.Second}
	fmt.Println(redis.CheckURL(cfg.URL))
	fmt.Println(redis.CheckURL("redis:/one.example:6379"))
	fmt.Println(redis.CheckPrefix(cfg.Prefix))
	fmt.Println(redis.CheckPrefix("shop:eu"))
	// Output:
	// <nil>
	// redis: the URL is neither "embedded", "spawn" nor scheme://…
	// <nil>
	// redis: the prefix may contain a-z, 0-9, '-', '_' and '.' only
}

// Subscribe returns when its context ends. After each outage it subscribes again and calls Subscribed.
func ExampleDB_Subscribe() {
	ctx, stop := context.WithCancel(context.Background())
	db := inMemory()
	defer db.Close()
	err := db.Subscribe(ctx, warningChannel.At(oslo), redis.Handler{
		Subscribed: func() { // no message is missed from here on: read the earlier state now
			go db.Publish(ctx, warningChannel.At(oslo), "Snow tonight")
		},
		Message: func(text string) {
			fmt.Println(text)
			stop()
		},
	})
	fmt.Println(errors.Is(err, context.Canceled))
	// Output:
	// Snow tonight
	// true
}

var warmer = redis.NewScript(`
-- KEYS[1] the city's degrees; ARGV[1] how many more; returns the new ones
local n = redis.call('INCRBY', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[1], 3600000)
return n`)

// One script for several keys, in one round trip to each server.
func ExampleDB_RunMulti() {
	ctx, db := context.Background(), inMemory()
	defer db.Close()
	for _, r := range db.RunMulti(ctx, []redis.Call{
		{Script: warmer, Keys: []keyspace.Key{warmthKey.At(oslo).Key}, Args: []string{"3"}},
		{Script: warmer, Keys: []keyspace.Key{warmthKey.At(rome).Key}, Args: []string{"24"}},
	}) {
		fmt.Println(r.Int())
	}
	r := warmer.Run(ctx, db, []keyspace.Key{warmthKey.At(oslo).Key, warmthKey.At(rome).Key}, "1")
	fmt.Println(errors.Is(r.Err, redis.ErrCrossSlot))
	// Output:
	// 3 <nil>
	// 24 <nil>
	// true
}

// A caller distinguishes an unavailable Redis from one that refuses a command.
func ExampleErrUnavailable() {
	ctx, db := context.Background(), inMemory()
	r := db.Do(ctx, keyspace.Cmd{Name: "INCRBY", Key: warmthKey.At(oslo).Key, Args: []string{"many"}})
	var refused redis.ServerError
	fmt.Println(errors.As(r.Err, &refused), refused.Code())

	db.Close()
	_, err := warmthKey.At(oslo).Get(ctx, db)
	fmt.Println(errors.Is(err, redis.ErrUnavailable), errors.Is(err, redis.ErrClosed))
	// Output:
	// true ERR
	// true true
}

// Probe checks before a program starts whether the servers are usable.
func ExampleProbe() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var servers []redis.Probed
	servers, err := redis.Probe(ctx, redis.Config{URL: "unix:///nowhere/redis.sock"}, weather)
	if err != nil {
		log.Fatal(err) // the URL is malformed
	}
	for _, s := range servers {
		switch {
		case errors.Is(s.Err, redis.ErrForbidden):
			fmt.Println(s.Addr, "needs another user: ", s.Err)
		case errors.Is(s.Err, redis.ErrUnavailable):
			fmt.Println(s.Addr, "is unavailable")
		default:
			fmt.Println(s.Addr, s.Version, s.Role, s.Took, s.Err)
		}
	}
	// Output:
	// /nowhere/redis.sock is unavailable
}

// The counts of a DB, for a status page. Package cache/cacheprom exports similar ones to Prometheus.
func ExampleDB_Stats() {
	ctx, db := context.Background(), inMemory()
	defer db.Close()
	before := db.Stats().Batch.Commands
	db.DoMulti(ctx, []keyspace.Cmd{warmthKey.At(oslo).GetCmd(), warmthKey.At(rome).GetCmd()})
	var s redis.Stats = db.Stats()
	slow := slowest(s.Batch)
	fmt.Println(s.Batch.Commands > before, slow > 0, s.Losses)
	// Output:
	// true true 0
}

// slowest returns a bound that no round trip exceeded, or 0.
func slowest(t redis.Trips) (bound time.Duration) {
	for i, upTo := range redis.TripBounds() {
		if t.Took[i] > 0 {
			bound = upTo
		}
	}
	return bound
}

// The servers' information about themselves, and the keys that this program uses most.
func ExampleDB_Info() {
	ctx := context.Background()
	db, err := redis.Open(ctx, redis.Config{URL: "embedded", HotKeys: true})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	var infos []redis.ServerInfo
	if infos, err = db.Info(ctx); err != nil {
		log.Fatal(err)
	}
	for _, info := range infos {
		fmt.Println(info.Addr, info.Err)
	}
	var hot []redis.HotKey = db.HotKeys() // of the last minute
	for _, k := range hot {
		fmt.Printf("%s %.0f/s\n", k.Key, k.PerSecond)
	}
	// Output:
	// embedded <nil>
}

// Tools work server by server, with physical names.
func ExampleDB_Owners() {
	ctx, db := context.Background(), inMemory()
	defer db.Close()
	warmthKey.At(oslo).Set(ctx, db, 3)
	var owners []*redis.Owner
	owners, err := db.Owners(ctx) // all masters of a cluster
	if err != nil {
		log.Fatal(err)
	}
	for _, owner := range owners {
		names, next, err := owner.Scan(ctx, 0, "stoa:weather:*", 100)
		fmt.Println(owner.Addr(), names, next, err)
		owner.Close()
	}
	// Output:
	// memory [stoa:weather:warmth:{oslo}] 0 <nil>
}

// A read that may take a tenth of a second, whatever its caller's context.
func ExampleDeadlines() {
	db := inMemory()
	defer db.Close()
	var reads redis.Deadlines // one for all reads
	n, err := warmthKey.At(oslo).Get(reads.Within(100*time.Millisecond), db)
	fmt.Println(n, err)
	// Output:
	// 0 <nil>
}

// teller is a Conn that prints the commands that are sent, with the prefix before each key.
type teller struct{}

func (teller) Mode() string { return "standalone" }

func (t teller) Do(_ context.Context, cmds []redis.Command) []keyspace.Reply {
	replies := make([]keyspace.Reply, len(cmds))
	for i, cmd := range cmds {
		fmt.Println(strings.Join(cmd.Args, " "))
		replies[i] = keyspace.Reply{Kind: keyspace.IntReply, N: 1}
	}
	return replies
}

func (teller) Subscribe(ctx context.Context, _ string, _ redis.Handler) error {
	<-ctx.Done()
	return ctx.Err()
}

func (t teller) Owners(context.Context) ([]redis.Server, error) {
	return []redis.Server{{Addr: "a test", Do: t.Do}}, nil
}

// A test can check the commands that are sent.
func ExampleConn() {
	db, err := redis.Wrap(teller{}, redis.WrapConfig{Prefix: "shop"})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	fmt.Println(warmthKey.At(oslo).Exists(context.Background(), db))
	// Output:
	// EXISTS shop:weather:warmth:{oslo}
	// true <nil>
}

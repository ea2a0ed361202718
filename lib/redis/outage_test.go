package redis_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/internal/pipe"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// get is the command that the outage tests send.
func get(i int) keyspace.Cmd { return keyspace.Cmd{Name: "GET", Key: value.At(n(i)).Key} }

// away waits until db notices the outage, and then wants every command to fail.
func away(t *testing.T, db *redis.DB) {
	t.Helper()
	eventually.True(t, "the outage is noticed", func() bool { return errors.Is(db.Do(t.Context(), get(1)).Err, redis.ErrUnavailable) })
	for range 50 {
		for _, r := range append(db.DoMulti(t.Context(), []keyspace.Cmd{get(1), get(2)}), db.Do(t.Context(), get(1))) {
			if !errors.Is(r.Err, redis.ErrUnavailable) {
				t.Fatalf("a command in the outage: %v, want ErrUnavailable", r.Err)
			}
		}
	}
}

// awayAtOnce is away in a bubble, where an immediate failure takes no time, whatever the command's context.
func awayAtOnce(t *testing.T, db *redis.DB) {
	t.Helper()
	away(t, db)
	began := time.Now()
	if away(t, db); time.Now().After(began) {
		t.Errorf("commands in the outage took %s, want immediate failure", time.Since(began))
	}
}

// back waits until db works again.
func back(t *testing.T, db *redis.DB) {
	t.Helper()
	eventually.True(t, "the server is back", func() bool { return db.Ping(t.Context()) == nil })
	if r := db.Do(t.Context(), get(1)); r.Err != nil {
		t.Errorf("GET after a good Ping: %v", r.Err)
	}
}

// backSoon is back in a bubble.
func backSoon(t *testing.T, db *redis.DB) {
	t.Helper()
	began := time.Now()
	if back(t, db); time.Now().After(began.Add(time.Second)) {
		t.Errorf("back after %s, want at most a second", time.Since(began))
	}
}

func fingerprint(t *testing.T, db *redis.DB) string {
	t.Helper()
	fp, err := db.Fingerprint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return fp
}

func TestOutage_ServerDiesAndReturns(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	var log strings.Builder // read after Close
	db := redistest.OpenConfig(t, redis.Config{URL: server.URL, Log: slog.New(slog.NewTextHandler(&log, nil))})
	before := fingerprint(t, db)
	script := redis.NewScript("return 'ran'")
	must(t, script.Run(t.Context(), db, nil))
	l := redistest.Listen(t, db, news.At(n(1)))

	server.Kill()
	away(t, db)
	if _, err := db.Fingerprint(t.Context()); !errors.Is(err, redis.ErrUnavailable) {
		t.Errorf("Fingerprint in the outage: %v, want ErrUnavailable", err)
	}
	if err := db.Ping(t.Context()); !errors.Is(err, redis.ErrUnavailable) {
		t.Errorf("Ping in the outage: %v, want ErrUnavailable", err)
	}

	// The connection for messages may detect the outage later than the others.
	joined := make(chan struct{}, 10)
	eventually.True(t, "a subscriber in the outage gets no Subscribed", func() bool {
		ctx, cancel := context.WithCancel(t.Context())
		go db.Subscribe(ctx, news.At(n(1)), redis.Handler{Message: func(string) {}, Subscribed: func() { joined <- struct{}{} }})
		select {
		case <-joined:
			cancel()
			return false
		case <-time.After(50 * time.Millisecond):
			t.Cleanup(cancel)
			return true
		}
	})

	server.Restart()
	back(t, db)
	if after := fingerprint(t, db); after == before {
		t.Errorf("the fingerprint %q did not change at a restart", after)
	}
	if r := must(t, script.Run(t.Context(), db, nil)); r.Str != "ran" {
		t.Errorf("a script after the restart = %v", r)
	}
	redistest.Wait(t, l.Up) // it subscribed again by itself, and reports it
	redistest.Wait(t, joined)
	if err := db.Publish(t.Context(), news.At(n(1)), "after"); err != nil {
		t.Fatal(err)
	}
	if got := redistest.Wait(t, l.Got); got != "after" {
		t.Errorf("got %q", got)
	}
	db.Close()
	for _, line := range []string{"redis: server unavailable", "redis: server available again"} {
		if n := strings.Count(log.String(), line); n != 1 {
			t.Errorf("%d log lines say %q, want 1:\n%s", n, line, &log)
		}
	}
}

func TestSubscribe_ResumesAfterCut(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	db := redistest.Open(t, server.URL)
	l := redistest.Listen(t, db, news.At(n(1)))
	for range 2 {
		if killed, err := server.Do("CLIENT", "KILL", "TYPE", "pubsub"); err != nil || killed[0] != "1" {
			t.Fatalf("CLIENT KILL = %v, %v; want 1 killed", killed, err)
		}
		redistest.Wait(t, l.Up)
		if err := db.Publish(t.Context(), news.At(n(1)), "after"); err != nil {
			t.Fatal(err)
		}
		if got := redistest.Wait(t, l.Got); got != "after" {
			t.Errorf("got %q", got)
		}
	}
}

func TestOutage_OnlyPersistedDataSurvives(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t, "appendonly yes", "appendfsync always")
	db := redistest.Open(t, server.URL)
	v := value.At(n(1))
	if err := v.SetFor(t.Context(), db, "kept", time.Hour); err != nil {
		t.Fatal(err)
	}
	server.Restart()
	back(t, db)
	if got, _, err := v.Get(t.Context(), db); got != "kept" || err != nil {
		t.Errorf("after Restart: %q, %v; want kept", got, err)
	}
	server.RestartEmpty()
	back(t, db)
	if _, ok, err := v.Get(t.Context(), db); ok || err != nil {
		t.Errorf("after RestartEmpty: found %v, %v; want nothing", ok, err)
	}
}

func TestKnownFingerprint_AsksOnceASecond(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		db := server.Open(t)
		known := func() string {
			t.Helper()
			var err error
			id := ""
			eventually.True(t, "a fingerprint", func() bool { id, err = db.KnownFingerprint(t.Context()); return err == nil })
			return id
		}
		known() // opens the connection
		time.Sleep(2 * time.Second)
		before := server.Calls()["info"]
		first := known()
		for range 99 {
			if got := known(); got != first {
				t.Errorf("got another fingerprint %q without a restart, want %q", got, first)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := server.Calls()["info"] - before; n < 18 || n > 22 { // two for each fingerprint
			t.Errorf("got %d INFO in 10 s, want about 20", n)
		}
		known()
		server.Restart()
		restarted, err := db.Fingerprint(t.Context())
		for err != nil {
			time.Sleep(time.Millisecond)
			restarted, err = db.Fingerprint(t.Context())
		}
		if got := known(); got != restarted || got == first {
			t.Errorf("after a restart: got %q, want %q, which is not %q", got, restarted, first)
		}
	})
}

func TestOutage_HangingServerRespectsContexts(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		wire := redistest.InMemory(t).Wire()
		db := redistest.OpenConfig(t, wire.Config())
		wire.BlackHole()

		const budget = 50 * time.Millisecond
		var callers sync.WaitGroup
		end := time.Now().Add(1500 * time.Millisecond)
		for range 64 {
			callers.Go(func() {
				for time.Now().Before(end) {
					ctx, cancel := context.WithTimeout(t.Context(), budget)
					began := time.Now()
					err := keyspace.FirstErr(db.DoMulti(ctx, []keyspace.Cmd{get(1), get(2)}))
					took := time.Since(began)
					cancel()
					if !errors.Is(err, redis.ErrUnavailable) {
						t.Errorf("with a hanging server: %v, want ErrUnavailable", err)
					}
					if took > budget {
						t.Errorf("a call with %s took %s", budget, took)
					}
					time.Sleep(5 * time.Millisecond)
				}
			})
		}
		callers.Wait()
		awayAtOnce(t, db) // all waiting commands have failed
		wire.Heal()
		backSoon(t, db)
	})
}

// If a network drops packets, dialling times out. The commands that fail at once because of that must not cause pings
// to the available servers instead of the unavailable one.
func TestOutage_DialRecoversUnderLoad(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		wire := redistest.InMemory(t).Wire()
		cfg := wire.Config()
		var swallowed atomic.Bool
		cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if swallowed.Load() {
				return nil, &net.OpError{Op: "dial", Net: network, Err: context.DeadlineExceeded} // the error of package net
			}
			return wire.Config().Dial(ctx, network, addr)
		}
		db := redistest.OpenConfig(t, cfg)
		swallowed.Store(true)
		wire.Reset()
		awayAtOnce(t, db)
		var callers sync.WaitGroup
		end := time.Now().Add(3 * time.Second)
		for range 8 {
			callers.Go(func() {
				for time.Now().Before(end) {
					db.Do(t.Context(), get(1))
					time.Sleep(5 * time.Millisecond)
				}
			})
		}
		time.Sleep(time.Second)
		swallowed.Store(false)
		time.Sleep(time.Second)
		if err := db.Do(t.Context(), get(1)).Err; err != nil {
			t.Errorf("a second after the network was healed: %v", err)
		}
		callers.Wait()
	})
}

func TestClose_DoesNotWaitForHangingServer(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		wire := redistest.InMemory(t).Wire()
		db := redistest.OpenConfig(t, wire.Config())
		wire.BlackHole()
		pending := make(chan error, 1)
		go func() { pending <- db.Do(t.Context(), get(1)).Err }()
		select {
		case err := <-pending:
			t.Fatalf("a hanging server replied: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
		began := time.Now()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		if d := time.Since(began); d > 100*time.Millisecond {
			t.Errorf("Close took %s", d)
		}
		if err := redistest.Wait(t, pending); !errors.Is(err, redis.ErrUnavailable) {
			t.Errorf("the pending command: %v, want ErrUnavailable", err)
		}
		if err := db.Close(); err != nil {
			t.Errorf("Close again: %v", err)
		}
	})
}

func TestOpen_WithoutServer(t *testing.T) {
	for name, url := range map[string]string{
		"standalone": "redis://memory", "sentinel": "redis-sentinel://memory/stoa", "cluster": "redis-cluster://memory",
	} {
		t.Run(name, func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T) {
				wire := redistest.InMemory(t).Wire()
				for fault, harm := range map[string]func(){"refuses": wire.Refuse, "is silent": wire.BlackHole} {
					harm()
					began := time.Now()
					db, err := redis.Open(t.Context(), redis.Config{URL: url, Dial: wire.Config().Dial})
					if err != nil {
						t.Fatalf("Open with a server that %s: %v", fault, err)
					}
					if d := time.Since(began); d > time.Second {
						t.Errorf("Open with a server that %s took %s", fault, d)
					}
					awayAtOnce(t, db)
					if wire.Heal(); name == "standalone" {
						backSoon(t, db)
					}
					if err := db.Close(); err != nil {
						t.Error(err)
					}
					if err := db.Do(t.Context(), get(1)).Err; !errors.Is(err, redis.ErrUnavailable) {
						t.Errorf("after Close: %v, want ErrUnavailable", err)
					}
				}
				time.Sleep(time.Second) // the client library sleeps again before it checks a cluster
			})
		})
	}
}

func TestErrors_ReadOnlyReplicaIsUnavailable(t *testing.T) {
	t.Parallel()
	master := redistest.Server(t)
	_, port, _ := strings.Cut(master.Addr, ":")
	db := redistest.Open(t, redistest.Server(t, "replicaof 127.0.0.1 "+port).URL)
	err := value.At(n(1)).SetFor(t.Context(), db, "x", time.Minute)
	var server redis.ServerError
	if !errors.Is(err, redis.ErrUnavailable) || !errors.As(err, &server) || server.Code() != "READONLY" {
		t.Errorf("SET on a replica: %v; want READONLY under ErrUnavailable", err)
	}
}

// Redis reports why it accepts no connection, and closes it.
func TestErrors_RefusedConnectionIsUnavailable(t *testing.T) {
	for _, why := range []string{"ERR max number of clients reached", "DENIED Redis is running in protected mode"} {
		redistest.Bubble(t, func(t *testing.T) {
			var ends sync.WaitGroup
			defer ends.Wait()
			db, err := redis.Open(t.Context(), redis.Config{URL: "redis://memory", Dial: func(context.Context, string, string) (net.Conn, error) {
				near, far := pipe.New()
				ends.Go(func() {
					defer far.Close()
					_, _ = far.Read(make([]byte, 100))
					_, _ = io.WriteString(far, "-"+why+"\r\n")
				})
				return near, nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			for _, r := range append(db.DoMulti(t.Context(), []keyspace.Cmd{get(1), get(2)}), db.Do(t.Context(), get(1))) {
				if !errors.Is(r.Err, redis.ErrUnavailable) || !strings.Contains(r.Err.Error(), strings.TrimPrefix(why, "ERR ")) {
					t.Errorf("%s: %v, want ErrUnavailable with that reason", why, r.Err)
				}
			}
		})
	}
}

func TestSentinel_Failover(t *testing.T) {
	t.Parallel()
	s := redistest.Sentinel(t)
	db := redistest.Open(t, s.URL)
	before := fingerprint(t, db)
	l := redistest.Listen(t, db, news.At(n(1)))
	s.Failover(t)
	began := time.Now()
	eventually.True(t, "writing works again", func() bool {
		return value.At(n(1)).SetFor(t.Context(), db, "new", time.Minute) == nil
	})
	t.Logf("writes worked %s after the sentinels had agreed", time.Since(began))
	if after := fingerprint(t, db); after == before {
		t.Errorf("the fingerprint %q did not change at a failover", after)
	}
	redistest.Wait(t, l.Up)
	if err := db.Publish(t.Context(), news.At(n(1)), "after"); err != nil {
		t.Fatal(err)
	}
	if got := redistest.Wait(t, l.Got); got != "after" {
		t.Errorf("got %q", got)
	}
}

// The client library sends no command of a batch with a slot without an owner.
func TestCluster_SlotWithoutOwnerKeepsBatch(t *testing.T) {
	t.Parallel()
	c := redistest.Cluster(t, 3, 0, "cluster-require-full-coverage no")
	var cmds []keyspace.Cmd
	for i := range 20 {
		cmds = append(cmds, value.At(n(i)).SetCmd(strconv.Itoa(i), time.Minute))
	}
	db := redistest.Open(t, c.URL)
	orphan := db.Physical(cmds[7].Key)
	slot, err := c.Masters[0].Do("CLUSTER", "KEYSLOT", orphan)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range c.Masters {
		if _, err := m.Do("CLUSTER", "DELSLOTS", slot[0]); err != nil {
			t.Fatal(err)
		}
	}
	// A new client gets the present state of the cluster. On a machine that stalls, the masters may take each other for
	// failed, and then the other slots have no master for a while.
	eventually.True(t, "only the command of the slot without an owner fails", func() bool {
		db := redistest.Open(t, c.URL)
		for i, r := range db.DoMulti(t.Context(), cmds) {
			if own := i == 7; own != errors.Is(r.Err, redis.ErrUnavailable) || !own && r.Err != nil {
				t.Logf("key %d: %v", i, r.Err)
				return false
			}
		}
		return true
	})
}

func TestCluster_DeadOwnerKeepsOtherSlots(t *testing.T) {
	t.Parallel()
	c := redistest.Cluster(t, 3, 0, "cluster-require-full-coverage no", "cluster-node-timeout 1000")
	db := redistest.Open(t, c.URL)
	var cmds []keyspace.Cmd
	for i := range 60 {
		cmds = append(cmds, value.At(n(i)).SetCmd(strconv.Itoa(i), time.Minute))
	}
	if err := keyspace.FirstErr(db.DoMulti(t.Context(), cmds)); err != nil {
		t.Fatal(err)
	}
	before := fingerprint(t, db)
	dead := c.Masters[1]
	dead.Kill()
	// From the first moment on: no owner's death may affect the others' slots. On a stalled machine one of the other
	// owners may be late for the remaining one, which then refuses all commands, because for it two of three are
	// unavailable.
	for end := time.Now().Add(2500 * time.Millisecond); time.Now().Before(end); {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		lost := 0
		for i, r := range db.DoMulti(ctx, cmds) {
			switch gone := c.Owner(db.Physical(cmds[i].Key)) == dead; {
			case gone && !errors.Is(r.Err, redis.ErrUnavailable):
				t.Fatalf("key %d of the dead owner: %v %v, want ErrUnavailable", i, r, r.Err)
			case !gone && r.Err != nil && !strings.Contains(r.Err.Error(), "CLUSTERDOWN The cluster is down"):
				t.Fatalf("key %d of a living owner: %v", i, r.Err)
			case gone:
				lost++
			}
		}
		cancel()
		if lost == 0 || lost == len(cmds) {
			t.Fatalf("%d of %d keys belong to the dead owner", lost, len(cmds))
		}
	}
	if err := db.Ping(t.Context()); !errors.Is(err, redis.ErrUnavailable) {
		t.Errorf("Ping without one owner: %v, want ErrUnavailable", err)
	}
	if _, err := db.Fingerprint(t.Context()); !errors.Is(err, redis.ErrUnavailable) {
		t.Errorf("Fingerprint without one owner: %v, want ErrUnavailable", err)
	}
	dead.Restart()
	eventually.True(t, "the complete cluster is back", func() bool {
		return keyspace.FirstErr(db.DoMulti(t.Context(), cmds)) == nil && db.Ping(t.Context()) == nil
	})
	if after := fingerprint(t, db); after == before {
		t.Errorf("the fingerprint %q did not change at an owner's restart", after)
	}
}

// A command without a key is not sent to a server that is known to be dead, although the client still has its address.
func TestCluster_KeylessCommandAvoidsDeadNode(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t, 3, 1, "cluster-node-timeout 10000") // no replica may take over
	db := redistest.Open(t, cluster.URL)
	fingerprint(t, db)
	cluster.Replicas[0].Kill()
	for i := range 300 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if r := db.Do(ctx, keyspace.Cmd{Name: "TIME"}); r.Err != nil {
			t.Fatalf("TIME, try %d: %v", i, r.Err)
		}
		if r := db.DoMulti(ctx, []keyspace.Cmd{get(1), {Name: "TIME"}}); r[0].Err != nil || r[1].Err != nil {
			t.Fatalf("a batch with TIME, try %d: %v, %v", i, r[0].Err, r[1].Err)
		}
		if err := db.Ping(ctx); err != nil {
			t.Fatalf("Ping, try %d: %v", i, err)
		}
		cancel()
	}
}

func TestCluster_Failover(t *testing.T) {
	t.Parallel()
	c := redistest.Cluster(t, 3, 1)
	db := redistest.Open(t, c.URL)
	ch := news.At(n(1))
	v := value.At(n(1)) // the channel news:{1} shares its slot
	if err := v.SetFor(t.Context(), db, "x", time.Minute); err != nil {
		t.Fatal(err)
	}
	before := fingerprint(t, db)
	l := redistest.Listen(t, db, ch)
	dead := c.Owner(db.Physical(v.Key))
	dead.Kill()
	began := time.Now()
	eventually.True(t, "the dead owner's slots work again", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		return v.SetFor(ctx, db, "y", time.Minute) == nil
	})
	t.Logf("back %s after the kill", time.Since(began))
	redistest.Wait(t, l.Up)
	// Nodes that have not learned of the failover yet still name the dead owner.
	eventually.True(t, "the fingerprint changes at a failover", func() bool {
		after, err := db.Fingerprint(t.Context())
		return err == nil && after != before
	})
	if err := db.Publish(t.Context(), ch, "after"); err != nil {
		t.Fatal(err)
	}
	if got := redistest.Wait(t, l.Got); got != "after" {
		t.Errorf("got %q", got)
	}

	for k, m := range c.Masters {
		if m != dead { // a slot without an owner, while all owners reply
			if _, err := m.Do("CLUSTER", "DELSLOTS", strconv.Itoa(k*16384/len(c.Masters))); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	eventually.True(t, "Ping reports that the cluster is not complete", func() bool {
		err := db.Ping(t.Context())
		return errors.Is(err, redis.ErrUnavailable) && strings.Contains(err.Error(), "not complete")
	})
}

func TestClose_EndsCommandsAndSubscriptions(t *testing.T) {
	for _, url := range []string{"embedded", "spawn", redistest.Server(t).URL, "redis://127.0.0.1:1"} {
		t.Run(url, func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			db, err := redis.Open(t.Context(), redis.Config{URL: url})
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			up := make(chan struct{}, 10)
			go func() {
				ended <- db.Subscribe(t.Context(), news.At(n(1)), redis.Handler{Message: func(string) {}, Subscribed: func() { up <- struct{}{} }})
			}()
			if url != "redis://127.0.0.1:1" {
				redistest.Wait(t, up)
				db.DoMulti(t.Context(), []keyspace.Cmd{get(1), get(2)})
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
			if err := redistest.Wait(t, ended); !errors.Is(err, redis.ErrUnavailable) || !errors.Is(err, redis.ErrClosed) {
				t.Errorf("Subscribe after Close returned %v, want ErrClosed under ErrUnavailable", err)
			}
			if err := db.Do(t.Context(), get(1)).Err; !errors.Is(err, redis.ErrUnavailable) || !errors.Is(err, redis.ErrClosed) {
				t.Errorf("Do after Close: %v, want ErrClosed under ErrUnavailable", err)
			}
			eventually.NoError(t, "the end of all goroutines", func() error { return goleak.Find(before) })
		})
	}
}

// The client library connects in the context of the first caller that needs the connection, and others wait for it.
func TestDo_CanceledCallerFailsNoOthers(t *testing.T) {
	server := redistest.Server(t)
	db := redistest.Open(t, server.URL)
	for range 200 {
		if _, err := server.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"); err != nil {
			t.Fatal(err)
		}
		var callers sync.WaitGroup
		for i := range 8 {
			impatient, giveUp := context.WithCancel(t.Context())
			callers.Go(func() { db.Do(impatient, get(i)) })
			callers.Go(giveUp)
			callers.Go(func() {
				for _, r := range append(db.DoMulti(t.Context(), []keyspace.Cmd{get(1), get(2)}), db.Do(t.Context(), get(i))) {
					if errors.Is(r.Err, context.Canceled) {
						t.Errorf("a command whose context has not ended: %v", r.Err)
					}
				}
			})
		}
		callers.Wait()
	}
}

// A cluster behind one address reports none, and a server without peers does not know its own address.
func TestCluster_UnknownAddressIsTheAskedOne(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]*redistest.ClusterSet{
		"unknown by choice": redistest.Cluster(t, 3, 0, "cluster-preferred-endpoint-type unknown-endpoint"),
		"unknown to itself": redistest.Cluster(t, 1, 0),
	} {
		db := redistest.Open(t, c.URL)
		owners, err := db.Owners(t.Context())
		if err := errors.Join(err, db.Ping(t.Context())); err != nil || len(owners) != len(c.Masters) {
			t.Errorf("%s: %d owners, %v", name, len(owners), err)
		}
		for _, s := range probe(t, redis.Config{URL: c.URL}) {
			if s.Err != nil {
				t.Errorf("%s: %s: %v", name, s.Addr, s.Err)
			}
		}
	}
}

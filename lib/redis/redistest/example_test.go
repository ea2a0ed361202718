package redistest_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

var (
	post      = keyspace.New("post")
	letterKey = keyspace.Def1[keyspace.Text](post, "letter:{{to}}", keyspace.BytesOf("text"), keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "a letter"})
	bell = keyspace.DefChannel1[keyspace.Text](post, "channel:bell:{{to}}", keyspace.RawMessages("text"),
		keyspace.Doc{Purpose: "a letter has come"})
	ann = keyspace.Text{S: "ann"}
)

// One test for every kind of Redis. With SharedEngines all tests of a binary share servers; Engines is for tests that
// examine their own server.
func TestExample_EveryEngine(t *testing.T) {
	var engines []redistest.Engine = redistest.SharedEngines(t)
	for _, e := range engines {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			db := e.Open(t)
			heard := redistest.Listen(t, db, bell.At(ann))
			if err := letterKey.At(ann).Set(t.Context(), db, "Come!"); err != nil {
				t.Fatal(err)
			}
			if err := db.Publish(t.Context(), bell.At(ann), "a letter"); err != nil {
				t.Fatal(err)
			}
			if got := redistest.Wait(t, heard.Got); got != "a letter" {
				t.Errorf("received %q", got)
			}
			redistest.KeysDeclared(t, db, post)
		})
	}
}

// Several nodes of one test share an empty Redis, on the server of all tests.
func TestExample_TwoNodesOnSharedServer(t *testing.T) {
	t.Parallel()
	cfg := redistest.Shared(t)
	near, far := redistest.OpenConfig(t, cfg), redistest.OpenConfig(t, cfg)
	if err := letterKey.At(ann).Set(t.Context(), near, "Come!"); err != nil {
		t.Fatal(err)
	}
	if text, ok, err := letterKey.At(ann).Get(t.Context(), far); text != "Come!" || !ok || err != nil {
		t.Errorf("%q, %v, %v", text, ok, err)
	}
}

// A value that was written before a master died still exists afterwards, if its replica had it. The subscriber gets
// Subscribed, because it may have missed messages.
func TestExample_Failover(t *testing.T) {
	t.Parallel()
	var set *redistest.Sentinels = redistest.Sentinel(t)
	db := redistest.Open(t, set.URL)
	var heard *redistest.Listener = redistest.Listen(t, db, bell.At(ann))
	if err := letterKey.At(ann).Set(t.Context(), db, "Come!"); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the replica has the value", func() bool {
		reply, err := set.Replica.Do("EXISTS", db.Physical(letterKey.At(ann).Key))
		return err == nil && strings.Join(reply, "") == "1"
	})
	set.Failover(t)
	redistest.Wait(t, heard.Up)
	eventually.True(t, "the new master answers", func() bool {
		text, _, err := letterKey.At(ann).Get(t.Context(), db)
		return err == nil && text == "Come!"
	})
}

// Keys with one hash tag have one owner. The other owners survive its death.
func TestExample_ClusterOwnerDies(t *testing.T) {
	t.Parallel()
	var set *redistest.ClusterSet = redistest.Cluster(t, 3, 0, "cluster-require-full-coverage no")
	db := redistest.Open(t, set.URL)
	bob := keyspace.Text{S: "bob"}
	lost, kept := set.Owner(db.Physical(letterKey.At(ann).Key)), set.Owner(db.Physical(letterKey.At(bob).Key))
	if lost == kept {
		t.Fatal("choose other names")
	}
	lost.Kill()
	if err := letterKey.At(bob).Set(t.Context(), db, "Stay!"); err != nil {
		t.Errorf("of a living owner: %v", err)
	}
}

// A server with its own configuration file persists its data.
func TestExample_ConfigurationFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "redis.conf")
	if err := os.WriteFile(file, []byte("appendonly yes\nappendfsync always\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := redistest.Conf(t, file) // or Server(t, "appendonly yes", …)
	if _, err := server.Do("SET", "post:letter", "Come!"); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	server.Restart()
	if got, err := server.Do("GET", "post:letter"); len(got) != 1 || got[0] != "Come!" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// The behaviour of a program without a Redis.
func TestExample_NoServer(t *testing.T) {
	t.Parallel()
	db, err := redis.Open(t.Context(), redis.Config{URL: fmt.Sprint("redis://127.0.0.1:", redistest.FreePort(t))})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Ping(t.Context()); !errors.Is(err, redis.ErrUnavailable) {
		t.Errorf("a port without a server: %v", err)
	}
}

// An example has no *testing.T.
func ExampleForExample() {
	addr, end := redistest.ForExample()
	defer end()
	if err := redis.CheckURL("redis://" + addr); err != nil {
		panic(err)
	}
}

// A server that sends an unexpected reply.
func TestExample_UnexpectedReply(t *testing.T) {
	db := redistest.Answering(t, keyspace.Reply{Kind: keyspace.ListReply})
	if text, ok, err := letterKey.At(ann).Get(t.Context(), db); ok || !errors.Is(err, keyspace.ErrReply) {
		t.Errorf("got %q, %v, %v; want %v", text, ok, err, keyspace.ErrReply)
	}
	db = redistest.Answering(t, keyspace.Reply{Kind: keyspace.ErrorReply,
		Err: redis.ServerError("LOADING Redis is loading the dataset in memory")})
	if _, _, err := letterKey.At(ann).Get(t.Context(), db); !errors.Is(err, redis.ErrUnavailable) {
		t.Errorf("a loading server: %v, want %v", err, redis.ErrUnavailable)
	}
}

// A server of another kind, here cat, is silent while it is stopped, and writes its output when it continues.
func TestExample_StandStill(t *testing.T) {
	t.Parallel()
	cat := exec.CommandContext(t.Context(), "cat")
	in, _ := cat.StdinPipe()
	out, _ := cat.StdoutPipe()
	if err := cat.Start(); err != nil {
		t.Fatal(err)
	}
	redistest.StandStill(t, cat.Process)
	fmt.Fprintln(in, "hello")
	in.Close()
	said := make(chan string)
	go func() {
		all, _ := io.ReadAll(out)
		said <- string(all)
	}()
	select {
	case what := <-said:
		t.Fatalf("got %q from a stopped process", what)
	case <-time.After(50 * time.Millisecond): // enough for a running process to reply
	}
	cat.Process.Signal(syscall.SIGCONT)
	if what := <-said; what != "hello\n" {
		t.Errorf("got %q", what)
	}
	if err := cat.Wait(); err != nil {
		t.Error(err)
	}
}

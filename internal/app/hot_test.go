package app

import (
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/keyspace/audit"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

func TestNodesTellWhichKeysTheyUseMost(t *testing.T) {
	url := redistest.Server(t).URL
	var nodes []*App
	for _, name := range []string{"one", "two"} {
		nodes = append(nodes, &App{node: name, redis: redistest.OpenConfig(t, redis.Config{URL: url, HotKeys: true})})
	}
	ctx, reader := t.Context(), redistest.Open(t, url)
	tell := func() {
		t.Helper()
		for _, a := range nodes {
			if err := a.writeHotKeys(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	tell() // no keys yet
	if all, err := HotKeys(ctx, reader); err != nil || len(all) != 0 {
		t.Errorf("before anything was used: %v, %v", all, err)
	}
	shared, own := jobFenceKeys.At(keyspace.Text{S: "shared"}).Key, jobFenceKeys.At(keyspace.Text{S: "own"}).Key
	use := func(a *App, key keyspace.Key, times int) {
		cmds := make([]keyspace.Cmd, 1000)
		for i := range cmds {
			cmds[i] = keyspace.Cmd{Name: "GET", Key: key}
		}
		for range times {
			if err := keyspace.FirstErr(a.redis.DoMulti(ctx, cmds)); err != nil {
				t.Fatal(err)
			}
		}
	}
	use(nodes[0], shared, 20)
	use(nodes[1], shared, 20)
	use(nodes[1], own, 5) // far fewer: each node measures rates over its own time, which a stall makes longer
	dead := hotKey.At().SetCmd("dead", `{"at":1,"keys":[{"key":"stoa:old","family":"old","per_second":1e9}]}`)
	odd := hotKey.At().SetCmd("odd", `[]`)
	if err := keyspace.FirstErr(reader.DoMulti(ctx, []keyspace.Cmd{dead, odd})); err != nil {
		t.Fatal(err)
	}
	tell()
	all, err := HotKeys(ctx, reader)
	if err != nil || len(all) < 2 || all[0].Key != "stoa:cluster:job:{shared}:fence" || all[0].Family != jobFenceKeys.Pattern ||
		all[1].Key != "stoa:cluster:job:{own}:fence" {
		t.Errorf("got %+v, %v; want the key that both use, then the other", all, err)
	}
	if notes, err := hotKey.At().All(ctx, reader); err != nil || len(notes) != 2 {
		t.Errorf("the nodes left %d notes (%v), want only their own two", len(notes), err)
	}
	if r, err := audit.Run(ctx, reader, Keys(), audit.Options{Full: true}); err != nil || !r.Clean() || r.Keys != 1 {
		t.Errorf("the keys are not as declared: %+v, %v", r, err)
	}
	if !(&hotNote{At: time.Now().Add(-2 * hotLife).UnixMilli()}).old(time.Now()) {
		t.Error("a note of two minutes ago is not old")
	}
}

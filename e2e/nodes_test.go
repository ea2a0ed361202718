package e2e

import (
	"encoding/json"
	"os/exec"
	"testing"

	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// A node is killed: its lease expires, and "stoa nodes" shows it as dead, next to the live one.
func TestAKilledNodeIsSeenToBeDead(t *testing.T) {
	t.Parallel()
	redis := redistest.Server(t).URL
	common := []string{"--sql", sqldbtest.Server(t).URL, "--redis", redis, "--dev=true"}
	env := []string{"STOA_SECRET=0123456789abcdef0123456789abcdef"}
	lives, dies := newNode(t, env, common...), newNode(t, env, common...)
	type listed struct {
		Status string
		Alive  bool
	}
	list := func() map[string]listed { // by URL
		out, err := exec.Command(stoaBinary(t), "nodes", "--redis", redis, "--json").Output()
		if err != nil {
			t.Fatal(err)
		}
		var page struct {
			Nodes []struct {
				Address string
				listed
			}
		}
		if err := json.Unmarshal(out, &page); err != nil {
			t.Fatal(err)
		}
		nodes := map[string]listed{}
		for _, n := range page.Nodes {
			nodes["http://"+n.Address] = n.listed
		}
		return nodes
	}
	eventually.Equal(t, "the nodes", map[string]listed{lives.URL(): {"serving", true}, dies.URL(): {"serving", true}}, list)
	dies.Kill()
	eventually.Equal(t, "the nodes, one of them killed", map[string]listed{lives.URL(): {"serving", true}, dies.URL(): {"serving", false}},
		list)
}

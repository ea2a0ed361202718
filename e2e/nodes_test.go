package e2e

import (
	"encoding/json"
	"os/exec"
	"testing"

	"github.com/stoa-dev/stoa/internal/foundation/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// A node is killed: its lease ends, and "stoa nodes" shows it as dead beside the one
// that lives.
func TestAKilledNodeIsSeenToBeDead(t *testing.T) {
	t.Parallel()
	redis := redistest.Server(t).URL
	common := []string{"--sql", sqldbtest.Server(t).URL, "--redis", redis, "--dev=true"}
	env := []string{"STOA_SECRET=0123456789abcdef0123456789abcdef"}
	lives, dies := newNode(t, env, common...), newNode(t, env, common...)
	list := func() map[string]bool { // alive, by URL
		out, err := exec.Command(stoaBinary(t), "nodes", "--redis", redis, "--json").Output()
		if err != nil {
			t.Fatal(err)
		}
		var page struct {
			Nodes []struct {
				Address, Status string
				Alive           bool
			}
		}
		if err := json.Unmarshal(out, &page); err != nil {
			t.Fatal(err)
		}
		alive := map[string]bool{}
		for _, n := range page.Nodes {
			if n.Status != "serving" {
				t.Errorf("%s says it is %q", n.Address, n.Status)
			}
			alive["http://"+n.Address] = n.Alive
		}
		return alive
	}
	if got := list(); len(got) != 2 || !got[lives.URL()] || !got[dies.URL()] {
		t.Fatalf("two nodes serve; alive are %v", got)
	}
	dies.Kill()
	eventually.True(t, "the killed node to be listed as dead", func() bool { return !list()[dies.URL()] })
	got := list()
	if dead, listed := got[dies.URL()]; !listed || dead || !got[lives.URL()] {
		t.Errorf("alive are %v, want the other one alone, and both listed", got)
	}
}

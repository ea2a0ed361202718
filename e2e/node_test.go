package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// node is one "stoa serve" process that a test may kill and start again.
type node struct {
	t    *testing.T
	args []string
	env  []string

	mu     sync.Mutex
	cmd    *exec.Cmd
	addr   string // "http://127.0.0.1:PORT"
	log    bytes.Buffer
	ended  chan struct{}
	killed bool
}

// serve runs "stoa serve" on a free port with its own data folder until the test ends. It returns its address,
// "http://127.0.0.1:PORT". The test fails if the server does not drain and exit 0 on SIGTERM.
func serve(t *testing.T, args ...string) string {
	t.Helper()
	return newNode(t, nil, args...).URL()
}

// newNode starts a node; env has entries such as "STOA_SECRET=…".
func newNode(t *testing.T, env []string, args ...string) *node {
	t.Helper()
	n := &node{t: t, env: env, args: append([]string{"serve", "--addr", "127.0.0.1:0", "--data", t.TempDir()}, args...)}
	n.Start()
	t.Cleanup(func() {
		if !n.isDown() {
			n.Stop()
		}
		if t.Failed() {
			t.Logf("stoa said:\n%s", n.said())
		}
	})
	return n
}

// Start starts the node, and returns when the node prints that it is ready.
func (n *node) Start() {
	n.t.Helper()
	cmd := exec.Command(stoaBinary(n.t), n.args...)
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "STOA_") { // a developer's settings must not change the test
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Env = append(cmd.Env, n.env...)
	cmd.Dir = n.t.TempDir() // without any stoa.toml
	cmd.Stderr = writer{n}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		n.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	ready, ended := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(ready)
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			if addr, ok := strings.CutPrefix(lines.Text(), "stoa ready on "); ok {
				ready <- addr
			}
		}
		err := cmd.Wait() // after the reader, because it closes the pipe
		n.mu.Lock()
		if err != nil && !n.killed {
			n.t.Errorf("stoa ended: %v, want exit 0", err)
		}
		n.mu.Unlock()
		close(ended)
	}()
	select {
	case addr, ok := <-ready:
		if !ok {
			n.t.Fatalf("stoa exited before it was ready:\n%s", n.said())
		}
		n.mu.Lock()
		n.cmd, n.addr, n.ended, n.killed = cmd, addr, ended, false
		n.mu.Unlock()
	case <-time.After(patience):
		n.t.Fatalf("stoa is not ready after %s:\n%s", patience, n.said())
	}
}

// URL returns the current address of the node.
func (n *node) URL() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.addr
}

// Kill ends the node as a crash would, and waits for its end.
func (n *node) Kill() {
	n.mu.Lock()
	n.killed = true
	n.mu.Unlock()
	n.end(syscall.SIGKILL)
}

// Stop drains the node, and fails the test unless it exits 0.
func (n *node) Stop() { n.end(syscall.SIGTERM) }

func (n *node) end(sig os.Signal) {
	n.t.Helper()
	n.mu.Lock()
	cmd, ended := n.cmd, n.ended
	n.mu.Unlock()
	if err := cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		n.t.Errorf("signal %s: %v", sig, err)
	}
	select {
	case <-ended:
	case <-time.After(patience):
		n.t.Errorf("stoa did not end within %s of %s", patience, sig)
		_ = cmd.Process.Kill()
		<-ended
	}
}

func (n *node) isDown() bool {
	n.mu.Lock()
	ended := n.ended
	n.mu.Unlock()
	select {
	case <-ended:
		return true
	default:
		return false
	}
}

// said returns the last lines of the node's log.
func (n *node) said() string {
	log := n.all()
	return log[max(0, len(log)-100_000):]
}

func (n *node) all() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.log.String()
}

type writer struct{ n *node }

func (w writer) Write(b []byte) (int, error) {
	w.n.mu.Lock()
	defer w.n.mu.Unlock()
	return w.n.log.Write(b)
}

// listed is a node in the output of "stoa nodes".
type listed struct {
	ID, Address, Status string
	Alive               bool
}

func listNodes(t *testing.T, redis string) []listed {
	t.Helper()
	out, err := exec.Command(stoaBinary(t), "nodes", "--redis", redis, "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var page struct{ Nodes []listed }
	if err := json.Unmarshal(out, &page); err != nil {
		t.Fatal(err)
	}
	return page.Nodes
}

// nodeID returns the id of a node.
func nodeID(t *testing.T, redis string, n *node) string {
	t.Helper()
	all := listNodes(t, redis)
	for _, one := range all {
		if "http://"+one.Address == n.URL() && one.Status == "serving" {
			return one.ID
		}
	}
	t.Fatalf("%s is not among %v", n.URL(), all)
	return ""
}

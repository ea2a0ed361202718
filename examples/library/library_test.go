package library

import (
	"bufio"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// program is a running program.
type program struct {
	cmd   *exec.Cmd
	mu    sync.Mutex
	lines []string
}

// start starts a program with its own environment, and kills it when the test ends.
func start(t *testing.T, path string, env ...string) *program {
	t.Helper()
	p := &program{cmd: exec.Command(path)}
	p.cmd.Env = append(os.Environ(), env...)
	out, w := io.Pipe()
	p.cmd.Stdout, p.cmd.Stderr = w, w
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			p.mu.Lock()
			p.lines = append(p.lines, s.Text())
			p.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		w.Close()
		reading.Wait()
		if t.Failed() {
			t.Logf("%s said %q", filepath.Base(path), p.said())
		}
	})
	return p
}

func (p *program) said() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.lines...)
}

func build(t *testing.T, name string) string {
	t.Helper()
	_ = os.Getenv("STOA_TEST_RUN") // a new value for each run, because Go's cache of test results does not track the files of the program
	path := filepath.Join(t.TempDir(), name)
	if out, err := exec.Command("go", "build", "-o", path, "./"+name).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// freeAddress reserves a loopback address until the test ends.
func freeAddress(t *testing.T) string {
	t.Helper()
	return fmt.Sprint("127.0.0.1:", redistest.FreePort(t))
}

func TestTwoProcessesShareACache(t *testing.T) {
	t.Parallel()
	path, server := build(t, "people"), redistest.Server(t)
	file := filepath.Join(t.TempDir(), "people.db")
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE people (id TEXT PRIMARY KEY, name TEXT); INSERT INTO people VALUES ('1', 'Ada')"); err != nil {
		t.Fatal(err)
	}
	var nodes [2]*program
	var urls [2]string
	for i := range nodes {
		addr := freeAddress(t)
		urls[i] = "http://" + addr
		nodes[i] = start(t, path, "REDIS="+server.URL, "DATABASE="+file, "LISTEN="+addr)
	}
	ask := func(method, url string) string {
		req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return string(body)
	}
	for _, url := range urls {
		eventually.Equal(t, "the name", "Ada <nil>\n", func() string { return ask("GET", url+"/1") })
	}
	asked := func() (n int) {
		for _, p := range nodes {
			n += strings.Count(strings.Join(p.said(), "\n"), "asking the database for 1")
		}
		return n
	}
	// For half a second after its machine has stalled, a node loads from the database by itself.
	eventually.True(t, "200 reads for which the database is hardly asked", func() bool {
		before := asked()
		for range 100 {
			ask("GET", urls[0]+"/1")
			ask("GET", urls[1]+"/1")
		}
		return before > 0 && asked() <= before+20
	})
	if got := ask("PUT", urls[0]+"/1/Grace"); got != "Grace <nil>\n" {
		t.Errorf("changed: %q", got)
	}
	eventually.Equal(t, "the new name in the other process", "Grace <nil>\n", func() string { return ask("GET", urls[1]+"/1") })
}

func TestABoardHasSeasons(t *testing.T) {
	t.Parallel()
	path, server := build(t, "board"), redistest.Server(t)
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(path, args...)
		cmd.Env = append(os.Environ(), "REDIS="+server.URL)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	run("12", "ada", "7")
	if got := run("12", "bob", "9"); got != "1 bob 9\n2 ada 7\n" {
		t.Errorf("season 12: %q", got)
	}
	if got := run("13"); got != "" {
		t.Errorf("season 13: %q", got)
	}
	if got := run("13", "ada", "1"); got != "1 ada 1\n" {
		t.Errorf("season 13: %q", got)
	}
}

func TestOneProcessAtATimeDoesTheJob(t *testing.T) {
	t.Parallel()
	path, server := build(t, "report"), redistest.Server(t)
	nodes := map[string]*program{}
	for _, name := range []string{"one", "two"} {
		nodes[name] = start(t, path, "REDIS="+server.URL, "NODE="+name)
	}
	// turn returns the writer and its number.
	turn := func(p *program) (name string, token int64) {
		for _, line := range p.said() {
			if f := strings.Fields(line); len(f) == 7 {
				n, err := strconv.ParseInt(f[6], 10, 64)
				if err != nil {
					t.Error(err)
				}
				name, token = f[0], n
			}
		}
		return name, token
	}
	first, token := "", int64(0)
	eventually.True(t, "one to write", func() bool {
		for _, p := range nodes {
			if name, n := turn(p); name != "" {
				first, token = name, n
			}
		}
		return first != ""
	})
	other := map[string]string{"one": "two", "two": "one"}[first]
	if name, n := turn(nodes[other]); name != "" && n == token {
		t.Errorf("%s writes beside %s, with the same number", name, first)
	}
	if err := nodes[first].cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the other to take over with a greater number", func() bool {
		name, n := turn(nodes[other])
		return name == other && n > token
	})
}

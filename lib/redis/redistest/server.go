package redistest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// startTimeout bounds the start of a server; 80 ms is usual.
const startTimeout = 10 * time.Second

// An Instance is one server process.
type Instance struct {
	URL  string // redis://host:port
	Addr string // host:port
	Dir  string // its working directory

	t    testing.TB
	port int
	args []string
	file string // configuration file; empty means standard input
	mode string // extra word on the command line; the file is then written here

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{} // closed after cmd.Wait
	out   bytes.Buffer
}

// Server starts an empty redis-server for this test alone, which may kill, pause, flush and reconfigure it. Settings
// are lines of redis.conf, such as "appendonly yes". Other tests use [Shared].
func Server(t testing.TB, settings ...string) *Instance {
	t.Helper()
	i := instance(t, settings)
	i.start()
	return i
}

func instance(t testing.TB, settings []string) *Instance {
	t.Helper()
	i := at(t.TempDir(), FreePort(t))
	i.t, i.args = t, settings
	t.Cleanup(i.Kill)
	return i
}

// at returns an instance without settings that is not started.
func at(dir string, port int) *Instance {
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	return &Instance{URL: "redis://" + addr, Addr: addr, Dir: dir, port: port}
}

// Conf starts a redis-server with a configuration file, on its own port and in its own directory. Additional arguments,
// such as "--sentinel", precede those. Restart reads the file again.
func Conf(t testing.TB, file string, args ...string) *Instance {
	t.Helper()
	i := instance(t, nil)
	i.file = file
	i.args = append(append([]string{file}, args...), "--port", strconv.Itoa(i.port), "--bind", "127.0.0.1", "--dir", i.Dir)
	i.start()
	return i
}

// Settings sets the settings for the next start.
func (i *Instance) Settings(settings ...string) { i.args = settings }

func (i *Instance) start() {
	i.t.Helper()
	if err := i.run(); err != nil {
		i.t.Fatal(err)
	}
}

// run starts the process and waits until it replies.
func (i *Instance) run() error {
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		return errors.New("redis-server is not in PATH: run make deps")
	}
	conf := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %q\nsave \"\"\nrepl-diskless-sync-delay 0\n%s\n",
		i.port, i.Dir, strings.Join(i.args, "\n"))
	cmd := exec.Command(bin, "-")
	switch {
	case i.mode == "" && i.file != "":
		cmd = exec.Command(bin, i.args...)
	case i.mode == "":
		cmd.Stdin = strings.NewReader(conf)
	default:
		// A sentinel writes to its file, and a restart reads it again.
		if _, err := os.Stat(i.file); err != nil {
			conf = strings.Replace(conf, "save \"\"\nrepl-diskless-sync-delay 0\n", "", 1)
			if err := os.WriteFile(i.file, []byte(conf), 0o600); err != nil {
				return err
			}
		}
		cmd = exec.Command(bin, i.file, i.mode)
	}
	cmd.Dir = i.Dir
	i.out.Reset()
	cmd.Stdout, cmd.Stderr = &i.out, &i.out
	dieWithParent(cmd)
	started, ended := make(chan error), make(chan struct{})
	go func() {
		// The thread that starts the child must live as long as the child, and the runtime ends a thread when the
		// goroutine locked to it ends.
		runtime.LockOSThread()
		defer close(ended)
		err := cmd.Start()
		started <- err
		if err == nil {
			cmd.Wait() // end waits for it
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	i.mu.Lock()
	i.cmd, i.ended = cmd, ended
	i.mu.Unlock()
	deadline := time.Now().Add(startTimeout)
	for {
		if reply, err := i.Do("PING"); err == nil && reply[0] == "PONG" || err != nil && strings.HasPrefix(err.Error(), "NOAUTH") {
			return nil
		}
		select {
		case <-ended:
		case <-time.After(time.Millisecond):
			if time.Now().Before(deadline) {
				continue
			}
		}
		i.Kill()
		return fmt.Errorf("redis-server did not come up:\n%s", i.out.String())
	}
}

// Kill ends the process like a crash (SIGKILL) and waits for its end.
func (i *Instance) Kill() { i.end(syscall.SIGKILL) }

// Stop lets the server shut down (SIGTERM) and waits for its end.
func (i *Instance) Stop() { i.end(syscall.SIGTERM) }

func (i *Instance) end(sig os.Signal) {
	i.mu.Lock()
	cmd, ended := i.cmd, i.ended
	i.cmd = nil
	i.mu.Unlock()
	if cmd != nil {
		cmd.Process.Signal(sig)
		select {
		case <-ended:
			return
		case <-time.After(3 * startTimeout): // Redis refuses SIGTERM while it writes its first append-only file
			i.t.Errorf("redis-server at %s does not stop", i.Addr)
		}
		cmd.Process.Kill()
		<-ended
	}
}

// Pause stops the process without closing anything: connections stay open without replies. It returns when the process
// has stopped; Resume continues it.
func (i *Instance) Pause() {
	i.t.Helper()
	StandStill(i.t, i.cmd.Process)
}

// StandStill stops a process of any server that the test has started, and returns when it has stopped. SIGCONT
// continues it.
func StandStill(t testing.TB, p *os.Process) {
	t.Helper()
	poll(t, "the server stands still", func() bool {
		if err := p.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		return stopped(p.Pid)
	})
}

// Resume ends a Pause.
func (i *Instance) Resume() { i.cmd.Process.Signal(syscall.SIGCONT) }

// Restart starts the server again on its port, after a Kill if it still runs, with the data that it persisted: none by
// default.
func (i *Instance) Restart() {
	i.t.Helper()
	i.Kill()
	i.start()
}

// RestartEmpty is Restart after the loss of all persisted data.
func (i *Instance) RestartEmpty() {
	i.t.Helper()
	i.Kill()
	files, err := filepath.Glob(filepath.Join(i.Dir, "*"))
	for _, f := range files {
		if err == nil {
			err = os.RemoveAll(f)
		}
	}
	if err != nil {
		i.t.Fatal(err)
	}
	i.start()
}

// FlushAll removes every key.
func (i *Instance) FlushAll() {
	i.t.Helper()
	i.must("FLUSHALL")
}

func (i *Instance) must(args ...string) []string {
	i.t.Helper()
	reply, err := i.Do(args...)
	if err != nil {
		i.t.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
	return reply
}

// FreePort returns a port that is reserved for the test until it ends, even while no server listens on it. Otherwise a
// test of another process could start a server on the port of a killed one, and both tests would use it. The port is
// below the kernel's range of ephemeral ports: otherwise a client that keeps dialling a dead server could connect to
// itself.
func FreePort(t testing.TB) int {
	t.Helper()
	port, ours := freePort()
	if ours == nil {
		t.Fatal("no free port")
	}
	t.Cleanup(func() { ours.Close() })
	return port
}

// freePort returns a port, and the listener that reserves it until it is closed.
func freePort() (port int, ours io.Closer) {
	for range 100 {
		port = 10000 + rand.N(20000)
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		ours, err := net.ListenPacket("udp", addr) // an unused UDP port reserves it, because every caller tries it first
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp", addr)
		if err != nil {
			ours.Close()
			continue
		}
		l.Close()
		return port, ours
	}
	return 0, nil
}

// pollTimeout bounds how long several servers may take to agree: sentinels do nothing for half a minute after their
// machine has stalled for two seconds.
const pollTimeout = 5 * time.Minute

// poll waits until ok returns true, or fails the test.
func poll(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(pollTimeout)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not true after %s: %s", pollTimeout, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

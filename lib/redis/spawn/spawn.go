// Package spawn starts the redis-server in PATH for this program alone: empty at first, without persistence, on a
// socket of its own. It ends with the program, on Linux even if the program crashes, and is replaced if it ends before.
// A program imports the package for its side effect, like a driver of database/sql:
//
//	import (
//		"github.com/stoa-dev/stoa/lib/redis"
//		_ "github.com/stoa-dev/stoa/lib/redis/spawn"
//	)
//
//	db, err := redis.Open(ctx, redis.Config{URL: "spawn"})
//
// Each Open starts a server, which ends with the DB. Without the import this URL is an error.
package spawn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/lib/redis/internal/engine"
)

func init() {
	engine.Spawn = func(ctx context.Context, dir string, log *slog.Logger) (engine.Child, error) {
		c, err := spawn(ctx, dir, log)
		if err != nil {
			return nil, err
		}
		return c, nil
	}
}

// child is a redis-server that this process started for itself.
type child struct {
	bin, dir, socket string
	temporary        bool // whether Close removes dir
	log              *slog.Logger

	cmd   *exec.Cmd
	ended chan struct{} // closed after cmd.Wait
}

const (
	spawnTimeout = 5 * time.Second // bounds the start of a child; it needs 12–80 ms
	respawnEvery = time.Second     // a child that ends sooner is not replaced at once
)

func spawn(ctx context.Context, dir string, log *slog.Logger) (*child, error) {
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errors.New(`redis: "spawn" needs redis-server in PATH; install Redis or use "embedded"`)
	}
	c := &child{bin: bin, dir: dir, log: log}
	if dir == "" {
		if c.dir, err = os.MkdirTemp("", "stoa-redis-"); err != nil {
			return nil, fmt.Errorf("redis: %w", err)
		}
		c.temporary = true
	}
	if c.dir, err = filepath.Abs(c.dir); err == nil {
		err = os.MkdirAll(c.dir, 0o700)
	}
	if err == nil {
		c.socket = filepath.Join(c.dir, "redis.sock")
		err = c.start(ctx)
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("redis: spawn: %w", err)
	}
	return c, nil
}

// start runs the server and waits until it listens.
func (c *child) start(ctx context.Context) error {
	var out strings.Builder
	cmd := exec.Command(c.bin, "-")
	cmd.Dir = c.dir
	cmd.Stdin = strings.NewReader(fmt.Sprintf("port 0\nunixsocket %q\nunixsocketperm 700\n"+
		"dir %q\nsave \"\"\nappendonly no\nloglevel warning\n", c.socket, c.dir))
	cmd.Stdout, cmd.Stderr = &out, &out
	dieWithParent(cmd)
	if err := os.Remove(c.socket); err != nil && !errors.Is(err, os.ErrNotExist) { // left by a crash
		return err
	}
	started, ended := make(chan error, 1), make(chan struct{})
	go func() { // Run, or the end of this function, waits for it
		defer close(ended)
		// The kernel considers the thread that started a child its parent.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if started <- err; err == nil {
			cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	limit := time.After(spawnTimeout)
	var err error
	for err == nil {
		conn, refused := net.Dial("unix", c.socket)
		if refused == nil {
			c.cmd, c.ended = cmd, ended
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-ended:
			err = errors.New("it ended")
		case <-limit:
			err = refused
		case <-time.After(2 * time.Millisecond):
		}
	}
	cmd.Process.Kill()
	<-ended
	return fmt.Errorf("redis-server did not come up: %w: %s", err, strings.TrimSpace(out.String()))
}

// Socket returns the path where the server listens.
func (c *child) Socket() string { return c.socket }

// Run starts another child whenever one ends, until ctx ends; then it ends the last one.
func (c *child) Run(ctx context.Context) {
	for {
		began := time.Now()
		select {
		case <-ctx.Done():
			c.cmd.Process.Kill()
			<-c.ended
			return
		case <-c.ended:
		}
		c.log.Warn("redis: spawned redis-server ended", "state", c.cmd.ProcessState.String())
		wait := respawnEvery
		if time.Since(began) > respawnEvery {
			wait = 0
		}
		for again := true; again; wait = respawnEvery {
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
			err := c.start(ctx)
			if again = err != nil; again && ctx.Err() == nil {
				c.log.Error("redis: redis-server not started", "err", err)
			}
		}
	}
}

// Close removes the files of start; Run has already ended the process.
func (c *child) Close() error {
	if c.temporary {
		return os.RemoveAll(c.dir)
	}
	if err := os.Remove(c.socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

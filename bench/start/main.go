// Command start measures "stoa serve" on embedded engines, at the first start and at the second. It measures the time
// until the server prints that it is ready, and its resident memory after one log-in. Linux only: it reads /proc.
//
//	go run ./start      (in the folder bench)
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/bench/servers"
	"github.com/stoa-dev/stoa/client"
)

const (
	email    = "ann@example.org"
	password = "correct horse battery staple"
)

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "stoa-bench-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary, err := servers.Build(ctx, dir)
	if err != nil {
		return err
	}
	for i, name := range []string{"first start", "second start"} {
		took, idle, after, settled, err := start(ctx, binary, filepath.Join(dir, "data"), i == 0)
		if err != nil {
			return err
		}
		fmt.Printf("%-13s ready after %3d ms, resident %2d MB; after one log-in %2d MB, three seconds later %2d MB\n", name, took.Milliseconds(),
			idle>>10, after>>10, settled>>10)
	}
	return nil
}

func start(ctx context.Context, binary, data string, enrol bool) (took time.Duration, idle, after, settled int, err error) {
	cmd := exec.CommandContext(ctx, binary, "serve", "--addr", "127.0.0.1:0", "--data", data, "--log", "warn")
	cmd.Dir = filepath.Dir(binary)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return
	}
	began := time.Now()
	if err = cmd.Start(); err != nil {
		return
	}
	defer func() {
		err = errors.Join(err, cmd.Process.Signal(syscall.SIGTERM))
		err = errors.Join(err, cmd.Wait())
	}()
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		return 0, 0, 0, 0, errors.New("stoa said nothing")
	}
	took = time.Since(began)
	url := strings.TrimPrefix(lines.Text(), "stoa ready on ")
	go func() {
		for lines.Scan() { // the welcome
		}
	}()
	if idle, err = resident(cmd.Process.Pid); err != nil {
		return
	}
	c, err := client.New(url)
	if err != nil {
		return
	}
	if enrol {
		if err = register(ctx, c); err != nil {
			return
		}
	}
	if _, err = c.Login(ctx, api.LoginRequest{Email: email, Password: password}); err != nil {
		return
	}
	if after, err = resident(cmd.Process.Pid); err != nil {
		return
	}
	time.Sleep(3 * time.Second)
	settled, err = resident(cmd.Process.Pid)
	return
}

func register(ctx context.Context, c *client.Client) error {
	if _, err := c.RequestCode(ctx, api.CodeRequest{Email: email, Purpose: api.PurposeRegister}); err != nil {
		return err
	}
	for {
		mails, err := c.DevMails(ctx, email)
		if err != nil {
			return err
		}
		if len(mails) > 0 {
			_, err := c.Register(ctx, api.RegisterRequest{Email: email, Code: mails[0].Code, Password: password, Name: "Ann"})
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// resident returns a process's resident memory in KB.
func resident(pid int) (kb int, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, ok := strings.Cut(string(text), "VmRSS:")
	if !ok {
		return 0, errors.New("/proc has no VmRSS")
	}
	_, err = fmt.Sscan(rest, &kb)
	return kb, err
}

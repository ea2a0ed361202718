package servers

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Program is a measured child process. Linux only: it reads /proc.
type Program struct {
	Addr  string // its listening address
	cmd   *exec.Cmd
	ended chan struct{} // closed at the end of its output
}

// Start runs a command whose first line ends with its URL.
func Start(cmd *exec.Cmd) (*Program, error) {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		return nil, errors.Join(fmt.Errorf("%s said nothing", cmd.Path), cmd.Wait())
	}
	p := &Program{Addr: lines.Text()[strings.LastIndex(lines.Text(), "/")+1:], cmd: cmd, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		for lines.Scan() { // later output must not fill the pipe
		}
	}()
	return p, nil
}

// Stop ends the child, and waits for its end.
func (p *Program) Stop() error {
	err := p.cmd.Process.Signal(syscall.SIGTERM)
	<-p.ended
	return errors.Join(err, p.cmd.Wait())
}

// Processor returns the processor time of the child so far.
func (p *Program) Processor() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	f := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	user, err1 := strconv.Atoi(f[11])
	system, err2 := strconv.Atoi(f[12])
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every Linux
	return time.Duration(user+system) * tick, errors.Join(err1, err2)
}

// PID returns the id of the child.
func (p *Program) PID() int { return p.cmd.Process.Pid }

// Resident returns the child's resident memory in bytes.
func (p *Program) Resident() (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kb * 1024, err
		}
	}
	return 0, errors.New("/proc tells no VmRSS")
}

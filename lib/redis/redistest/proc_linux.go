package redistest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// childrenDie reports whether no child outlives the test.
const childrenDie = true

// dieWithParent makes the kernel kill the child when the test dies.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// outliveInterrupt protects the child from a Ctrl-C.
func outliveInterrupt(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// stopped reports whether a process is stopped. A signal only stops it when it next gets a processor.
func stopped(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && bytes.Contains(stat, []byte(") T "))
}

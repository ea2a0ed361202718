package redistest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// childrenDie says that no child outlives the test.
const childrenDie = true

// dieWithParent has the kernel end the child when the test dies.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// outliveInterrupt keeps a Ctrl-C from ending the child.
func outliveInterrupt(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// stopped reports that a process stands still. A signal stops it only once it gets a processor.
func stopped(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && bytes.Contains(stat, []byte(") T "))
}

package redistest

import (
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

package redistest

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the kernel end the child when the test dies.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

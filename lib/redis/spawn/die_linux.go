package spawn

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the kernel end the child when this process dies, however it
// dies.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

package spawn

import (
	"os/exec"
	"syscall"
)

// dieWithParent makes the kernel kill the child when this process dies for any reason.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

package sqldbtest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// dieWithParent has the kernel kill the child when the thread that starts it
// ends.
func dieWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// stopped reports that a process stands still. A signal stops it only once it gets a processor.
func stopped(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && bytes.Contains(stat, []byte(") T "))
}

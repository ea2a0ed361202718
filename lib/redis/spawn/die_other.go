//go:build !linux

package spawn

import "os/exec"

// dieWithParent is a service of Linux alone; elsewhere Close ends the child.
func dieWithParent(*exec.Cmd) {}

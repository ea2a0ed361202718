//go:build !linux

package redistest

import "os/exec"

const childrenDie = false

// dieWithParent only works on Linux; elsewhere the test's clean-up ends the child.
func dieWithParent(*exec.Cmd) {}

// outliveInterrupt is only needed for children that childrenDie allows.
func outliveInterrupt(*exec.Cmd) {}

// stopped assumes that the signal has taken effect, because there is no /proc.
func stopped(int) bool { return true }

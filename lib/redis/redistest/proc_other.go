//go:build !linux

package redistest

import "os/exec"

const childrenDie = false

// dieWithParent is a service of Linux alone; elsewhere the test's clean-up has
// to do.
func dieWithParent(*exec.Cmd) {}

// outliveInterrupt is for children that childrenDie allows.
func outliveInterrupt(*exec.Cmd) {}

// stopped trusts the signal: there is no /proc to ask.
func stopped(int) bool { return true }

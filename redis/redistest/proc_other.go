//go:build !linux

package redistest

import "os/exec"

// dieWithParent is a service of Linux alone; elsewhere the test's clean-up has
// to do.
func dieWithParent(*exec.Cmd) {}

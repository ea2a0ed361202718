//go:build !linux

package redis

import "os/exec"

// dieWithParent is a service of Linux alone; elsewhere Close ends the child.
func dieWithParent(*exec.Cmd) {}

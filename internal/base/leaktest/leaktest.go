// Package leaktest finds goroutines that still run after the tests of a package.
package leaktest

import (
	"testing"

	"go.uber.org/goleak"
)

// Main runs the tests and exits. It also fails if a goroutine has not ended, unless one of the functions of endless
// is on its stack. Call it from TestMain.
func Main(m *testing.M, endless ...string) {
	var ignored []goleak.Option
	for _, name := range endless {
		ignored = append(ignored, goleak.IgnoreAnyFunction(name))
	}
	goleak.VerifyTestMain(patient{m, ignored}, ignored...)
}

// patient waits longer for goroutines to end: goleak waits half a second, but a busy machine may pause for longer.
type patient struct {
	*testing.M
	ignored []goleak.Option
}

func (p patient) Run() int {
	code := p.M.Run()
	for range 100 {
		if code != 0 || goleak.Find(p.ignored...) == nil {
			break
		}
	}
	return code
}

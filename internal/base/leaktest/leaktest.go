// Package leaktest finds goroutines that are left when the tests of a package have ended.
package leaktest

import (
	"testing"

	"go.uber.org/goleak"
)

// Main runs the tests and ends the process. It is red, too, where a goroutine does not end, unless one of the functions of
// endless is on its stack. It is for TestMain.
func Main(m *testing.M, endless ...string) {
	var ignored []goleak.Option
	for _, name := range endless {
		ignored = append(ignored, goleak.IgnoreAnyFunction(name))
	}
	goleak.VerifyTestMain(patient{m, ignored}, ignored...)
}

// patient are tests whose connections may take their time to end: goleak waits for half a second, a machine may stand still for longer.
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

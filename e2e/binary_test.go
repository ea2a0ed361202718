package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// binary is the stoa that every test of this package runs. stoaBinary builds it at its first use, and TestMain removes
// it.
var binary struct {
	once sync.Once
	dir  string
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if chromium.stop != nil {
		chromium.stop()
	}
	if binary.dir != "" {
		_ = os.RemoveAll(binary.dir)
	}
	os.Exit(code)
}

// stoaBinary returns the path of the stoa built from this tree.
func stoaBinary(t *testing.T) string {
	t.Helper()
	_ = os.Getenv("STOA_TEST_RUN") // a new value for each run, because Go's cache of test results does not track the files of the program
	binary.once.Do(func() {
		if binary.dir, binary.err = os.MkdirTemp("", "stoa-e2e-"); binary.err != nil {
			return
		}
		build := exec.Command("go", "build", "-ldflags=-s -w", "-o", filepath.Join(binary.dir, "stoa"), "../cmd/stoa")
		if out, err := build.CombinedOutput(); err != nil {
			binary.err = errors.New("go build ../cmd/stoa: " + err.Error() + "\n" + string(out))
		}
	})
	if binary.err != nil {
		t.Fatal(binary.err)
	}
	return filepath.Join(binary.dir, "stoa")
}

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// jsClient is the folder of the JavaScript client.
const jsClient = "../clients/js"

// tooOld is a script by which node tells that it is older than package.json's engines.
const tooOld = `const [a, b] = process.versions.node.split(".").map(Number); process.exit(a === 20 && b >= 19 || a === 22 && b >= 12 || a > 22 ? 0 : 1)`

// TestTheJavaScriptClient runs the client's own tests with the stoa built from this tree.
func TestTheJavaScriptClient(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("there is no npm")
	}
	if err := exec.Command("node", "-e", tooOld).Run(); err != nil {
		t.Skip("node is too old, see clients/js/package.json")
	}
	bin := stoaBinary(t)
	if olderThan(filepath.Join(jsClient, "node_modules/.package-lock.json"), filepath.Join(jsClient, "package-lock.json")) {
		npm(t, bin, "ci", "--no-audit", "--no-fund")
	}
	npm(t, bin, "test")
}

func npm(t *testing.T, bin string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "npm", args...)
	cmd.Dir = jsClient
	cmd.Env = append(os.Environ(), "STOA_BIN="+bin)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm %v: %v\n%s", args, err, out)
	}
}

// olderThan reports whether a file is not there, or was written before another.
func olderThan(file, other string) bool {
	a, err := os.Stat(file)
	if err != nil {
		return true
	}
	b, err := os.Stat(other)
	return err == nil && a.ModTime().Before(b.ModTime())
}

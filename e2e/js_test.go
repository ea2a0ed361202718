package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// The folders of the JavaScript client and of the page.
const (
	jsClient = "../clients/js"
	jsPage   = "../web"
)

// tooOld is a script that fails if node is older than the engines of package.json.
const tooOld = `const [a, b] = process.versions.node.split(".").map(Number); process.exit(a === 20 && b >= 19 || a === 22 && b >= 12 || a > 22 ? 0 : 1)`

// TestTheJavaScriptClient runs the client's own tests with the stoa built from this tree.
func TestTheJavaScriptClient(t *testing.T) {
	t.Parallel()
	if reason := cannotRunJS(); reason != "" {
		t.Skip(reason)
	}
	installJS(t, jsClient)
	npm(t, jsClient, "test")
}

// TestThePagesState runs the unit tests of the page's state.
func TestThePagesState(t *testing.T) {
	t.Parallel()
	if reason := cannotRunJS(); reason != "" {
		t.Skip(reason)
	}
	installJS(t, jsPage)
	npm(t, jsPage, "test")
}

// jsPackages is locked while npm installs packages.
var jsPackages sync.Mutex

// cannotRunJS returns why this machine cannot run the JavaScript client, or "".
func cannotRunJS() string {
	if _, err := exec.LookPath("npm"); err != nil {
		return "npm is not installed"
	}
	if err := exec.Command("node", "-e", tooOld).Run(); err != nil {
		return "node is too old, see clients/js/package.json"
	}
	return ""
}

// installJS installs the packages of a folder.
func installJS(t *testing.T, dir string) {
	t.Helper()
	jsPackages.Lock()
	defer jsPackages.Unlock()
	if olderThan(filepath.Join(dir, "node_modules/.package-lock.json"), filepath.Join(dir, "package-lock.json")) {
		npm(t, dir, "ci", "--no-audit", "--no-fund")
	}
}

// jsFolder returns a folder with the packages of the JavaScript client for Node.
func jsFolder(t *testing.T) string {
	t.Helper()
	installJS(t, jsClient)
	packages, err := filepath.Abs(filepath.Join(jsClient, "node_modules"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(packages, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func npm(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "npm", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "STOA_BIN="+stoaBinary(t))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm %v: %v\n%s", args, err, out)
	}
}

// olderThan reports whether a file does not exist or is older than the other file.
func olderThan(file, other string) bool {
	a, err := os.Stat(file)
	if err != nil {
		return true
	}
	b, err := os.Stat(other)
	return err == nil && a.ModTime().Before(b.ModTime())
}

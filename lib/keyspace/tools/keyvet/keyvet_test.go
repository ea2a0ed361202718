package keyvet

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"
)

func TestAnalyzer_FindsPlantedFaults(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), Analyzer, "shop")
}

func TestHeadsFor_BrokenLockFileIsError(t *testing.T) {
	if _, err := headsOf("\tno pattern\n"); err == nil {
		t.Error("read")
	}
	dir := t.TempDir()
	if h, err := headsFor(dir); err != nil || len(h) != 0 {
		t.Errorf("without a lock file: %v, %v", h, err)
	}
	if err := os.Mkdir(filepath.Join(dir, lockName), 0o700); err != nil {
		t.Fatal(err)
	}
	if h, err := headsFor(dir); err == nil {
		t.Errorf("one that cannot be read: %v", h)
	}
}

// Some keys of an existing Redis begin with an argument, so every string could be the beginning of such a key.
func TestFamilyOf_PatternStartingWithArgument(t *testing.T) {
	h, err := headsOf("{tenant}:cart\n\ttype string\n\tform text\n\t{tenant} digits\n\tlife none\n\towner shop\n\tversion 1\n\nend\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "hello", "content-type", "name:"} {
		if family := h.familyOf(text); family != "" {
			t.Errorf("%q is reported as a key of %s", text, family)
		}
	}
}

// TestMain_ChangedLockFileInvalidatesCache runs go vet like a user, in a module that does not use Stoa.
func TestMain_ChangedLockFileInvalidatesCache(t *testing.T) {
	dir := t.TempDir()
	tool := filepath.Join(dir, "keyvet")
	_ = os.Getenv("STOA_TEST_RUN") // a new value for each run: Go's cache of results does not know what the program below reads
	if out, err := exec.Command("go", "build", "-o", tool, "../cmd/keyvet").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	lock := func(pattern string) string {
		return pattern + "\n\ttype string\n\tform text\n\tlife none\n\towner shop\n\tversion 1\n\nend\n"
	}
	// Each run has another text, so that no cached result is used.
	text := "cart:" + strings.ToLower(filepath.Base(filepath.Dir(dir)))
	write("go.mod", "module example.com/shop\n\ngo 1.26\n")
	write("shop.go", "package shop\n\nconst All = \""+text+":all\"\n")
	write("sub/sub.go", "package sub\n\nconst All = \""+text+":sub\"\n")
	vet := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, append(args, "./...")...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
		out, err := cmd.CombinedOutput()
		if err == nil {
			return ""
		}
		return string(out)
	}
	govet := func() string { t.Helper(); return vet("go", "vet", "-vettool="+tool) }

	if said := govet(); said != "" {
		t.Fatalf("without a lock file: %s", said)
	}
	write("keyspace.lock", lock(text+":all"))
	for _, said := range []string{govet(), vet(tool)} {
		if !strings.Contains(said, "is a key of "+text+":all") || strings.Contains(said, "sub.go") {
			t.Errorf("with one: got %q, want the key", said)
		}
	}
	write("sub/keyspace.lock", lock(text+":sub"))
	for _, said := range []string{govet(), vet(tool)} {
		if !strings.Contains(said, "is a key of "+text+":sub") {
			t.Errorf("with one further down: got %q, want both keys", said)
		}
	}
	write("keyspace.lock", lock("order:all"))
	write("sub/keyspace.lock", lock("order:sub"))
	for _, said := range []string{govet(), vet(tool)} {
		if said != "" {
			t.Errorf("with others: got %q, want nothing", said)
		}
	}
}

func TestFix_FamilyReplacesSprintf(t *testing.T) {
	analysistest.RunWithSuggestedFixes(t, analysistest.TestData(), Analyzer, "legacy")
}

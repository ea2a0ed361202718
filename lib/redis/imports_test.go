package redis

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stoa-dev/stoa/lib/redis/internal/engine"
)

// A program that uses an external Redis must not contain a server or start one: these would add 2.2 MB to 7.4.
func TestImports_NoEmbeddedServer(t *testing.T) {
	heavy := func(of string) (found []string) {
		out, err := exec.Command("go", "list", "-deps", of).Output()
		if err != nil {
			t.Fatal(err)
		}
		for dep := range strings.Lines(string(out)) {
			if strings.Contains(dep, "miniredis") || strings.Contains(dep, "gopher-lua") || dep == "os/exec\n" {
				found = append(found, strings.TrimSpace(dep))
			}
		}
		return found
	}
	if len(heavy("./embedded")) == 0 {
		t.Error("the embedded server is not found in its own package: the search is broken")
	}
	for _, of := range []string{".", "../bus", "../cache", "../lease", "../ratelimit", "../leaderboard", "../groupcommit"} {
		if found := heavy(of); len(found) > 0 {
			t.Errorf("%s depends on %s", of, strings.Join(found, ", "))
		}
	}
}

func TestOpen_MissingImportIsNamed(t *testing.T) {
	start, spawn := engine.Start, engine.Spawn
	engine.Start, engine.Spawn = nil, nil
	defer func() { engine.Start, engine.Spawn = start, spawn }()
	for url, name := range map[string]string{"": "embedded", "embedded": "embedded", "spawn": "spawn"} {
		db, err := Open(t.Context(), Config{URL: url})
		if err == nil {
			db.Close()
		}
		if err == nil || !strings.Contains(err.Error(), `import _ "github.com/stoa-dev/stoa/lib/redis/`+name+`"`) {
			t.Errorf("%q: got %v, want an error that names the import", url, err)
		}
	}
}

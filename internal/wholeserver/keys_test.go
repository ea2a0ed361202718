package wholeserver

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/keyspace/lock"
)

func TestTheKeyspaceHasNoFault(t *testing.T) {
	if err := keyspace.Lint(app.Keys()...); err != nil {
		t.Error(err)
	}
}

func TestTheLockFileIsWhatTheProgramDeclares(t *testing.T) {
	text, err := os.ReadFile("../../keyspace.lock")
	must(t, err)
	was, err := lock.Parse(string(text))
	must(t, err)
	now := lock.New(app.Keys()...)
	for _, change := range was.Diff(now) {
		t.Errorf("%s", change)
	}
	if string(text) != now.String() {
		t.Error("keyspace.lock is not what the program declares: run make generate; docs/decisions/0011-keyspace-lock.md says why")
	}
}

func TestThePageAboutCachesListsAllThatIsCached(t *testing.T) {
	text, err := os.ReadFile("../../docs/cache.md")
	must(t, err)
	_, table, _ := strings.Cut(string(text), "## What is cached\n")
	table, _, _ = strings.Cut(table, "\n## ")
	var listed, cached []string
	for row := range strings.Lines(table) {
		first, _, _ := strings.Cut(strings.TrimPrefix(row, "|"), "|")
		if cells := strings.Split(first, "`"); strings.HasPrefix(row, "| `") {
			for i := 1; i < len(cells); i += 2 {
				listed = append(listed, cells[i])
			}
		}
	}
	for _, s := range app.Keys() {
		for _, f := range s.Families() {
			if f.IsCached() {
				cached = append(cached, f.Pattern)
			}
		}
	}
	slices.Sort(listed)
	slices.Sort(cached)
	if !slices.Equal(listed, cached) || len(cached) < 8 {
		t.Errorf("docs/cache.md lists %q, and these are cached: %q", listed, cached)
	}
}

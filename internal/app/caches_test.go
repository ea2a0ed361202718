package app

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/config"
)

// whole builds every part of a node, which serves no requests.
func whole(t *testing.T, redis string) *App {
	t.Helper()
	a, err := New(t.Context(), Config{Data: t.TempDir(), Redis: redis, SQL: "sqlite", KeyPrefix: "stoa", Dev: "true"},
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

func TestEveryEventThatACachedFamilyNamesDropsIt(t *testing.T) {
	a := whole(t, "embedded")
	if err := a.caches.Check(); err != nil {
		t.Error(err)
	}
	used := a.caches.Stats()
	n := 0
	for _, s := range Keys() {
		for _, f := range s.Families() {
			if !f.IsCached() {
				continue
			}
			n++
			if _, ok := used[f.Pattern]; !ok {
				t.Errorf("%s is declared and no cache uses it", f.Pattern)
			}
			switch f.Pattern {
			case "playback:{key}": // an item's source never changes
			case "group:members:{gid}": // each change edits the cached members
			default:
				if len(f.Doc.InvalidatedBy) == 0 {
					t.Errorf("nothing drops %s", f.Pattern)
				}
			}
		}
	}
	if n == 0 || n != len(used) {
		t.Errorf("%d families and %d caches", n, len(used))
	}
}

func TestCacheSettingsThatCannotWork(t *testing.T) {
	if err := (CacheSettings{}).Validate(); err != nil {
		t.Errorf("the zero value: %v", err)
	}
	err := CacheSettings{Entries: -2, MaxStale: time.Millisecond, Budget: time.Minute, Loads: -1, Warm: MostWarm + 1}.Validate()
	if faults := config.Faults(err); len(faults) != 5 {
		t.Errorf("got %v, want five faults", faults)
	}
}

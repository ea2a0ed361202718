package audit_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/keyspace/audit"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

// names lists all keys of a Redis.
func names(t testing.TB, db *redis.DB) (all []string) {
	t.Helper()
	owners, err := db.Owners(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range owners {
		defer o.Close()
		for cursor, more := uint64(0), true; more; more = cursor != 0 {
			page, next, err := o.Scan(t.Context(), cursor, "*", 1000)
			if err != nil {
				t.Fatal(err)
			}
			all, cursor = append(all, page...), next
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func TestSweep_RemovesOnlyOnePrefix(t *testing.T) {
	for _, e := range redistest.Engines(t) {
		if e.Name == "spawn" {
			continue // the same as a standalone server
		}
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			db := e.Open(t)
			keep := []string{"old", "old2:a", "old-:a", "older:old:a", "stoa:a", "stoa:old:b", ":old:a", "xold:a"}
			var raw [][]string
			for _, k := range keep {
				raw = append(raw, []string{"SET", k, "x"})
			}
			const n = 3000
			for i := range n {
				raw = append(raw, []string{"SET", fmt.Sprintf("old:key:%d", i), "x"})
			}
			sendRaw(t, db, append(raw, []string{"SADD", "old:{set}", "a"}, []string{"SET", "old:", "x"})...)

			dry, err := audit.Sweep(t.Context(), db, "old", audit.SweepOptions{DryRun: true})
			if left := len(names(t, db)); err != nil || dry.Found < n+2 || dry.Removed != 0 || left != n+2+len(keep) {
				t.Errorf("dry run: %+v, %v, and %d keys are left; want %d found and all left", dry, err, left, n+2)
			}
			var seen []audit.Progress
			swept, err := audit.Sweep(t.Context(), db, "old", audit.SweepOptions{Progress: func(p audit.Progress) { seen = append(seen, p) }})
			if err != nil || swept.Removed != n+2 || swept.Found < swept.Removed {
				t.Errorf("got %+v, %v; want %d removed", swept, err, n+2)
			}
			if e.Name != "embedded" && (len(seen) < 2 || seen[len(seen)-1].Part > 1) {
				t.Errorf("progress: %v", seen)
			}
			slices.Sort(keep)
			if left := names(t, db); !slices.Equal(left, keep) {
				t.Errorf("left are %q, want %q", left, keep)
			}
			if again, err := audit.Sweep(t.Context(), db, "old", audit.SweepOptions{}); err != nil || again.Found != 0 {
				t.Errorf("again: %+v, %v; want nothing", again, err)
			}
		})
	}
}

// Programs may use every prefix that their connection accepts.
func TestSweep_AcceptsEveryConfigPrefix(t *testing.T) {
	s := redistest.Server(t)
	for _, prefix := range []string{"shop.v2", "2024-shop", "shop--eu_", "-", strings.Repeat("o", keyspace.MaxPrefix)} {
		db := redistest.OpenConfig(t, redis.Config{URL: s.URL, Prefix: prefix})
		send(t, db, "SET "+prefix+":a x", "SET stoa:a x")
		r, err := audit.RunRDB(t.Context(), dump(t, s), nil, audit.Options{Prefix: prefix})
		if err != nil || r.ForeignKeys != 1 {
			t.Errorf("an audit of the dump of %q: %+v, %v; want one foreign key", prefix, r, err)
		}
		swept, err := audit.Sweep(t.Context(), db, prefix, audit.SweepOptions{Own: true})
		if err != nil || swept.Removed != 1 {
			t.Errorf("a sweep of %q: %+v, %v; want one key removed", prefix, swept, err)
		}
	}
}

func TestSweep_RefusesInvalidPrefixes(t *testing.T) {
	db := redistest.Open(t, "embedded")
	send(t, db, "SET stoa:a x", "SET :a x", "SET other:a x")
	for _, prefix := range []string{"", "*", "o*", "Other", "other:a", "other:", strings.Repeat("o", 33)} {
		if _, err := audit.Sweep(t.Context(), db, prefix, audit.SweepOptions{Own: true}); err == nil {
			t.Errorf("the prefix %q: got no error", prefix)
		}
	}
	if _, err := audit.Sweep(t.Context(), db, "stoa", audit.SweepOptions{}); !errors.Is(err, audit.ErrOwnPrefix) {
		t.Errorf("db's own prefix: got %v, want ErrOwnPrefix", err)
	}
	if left := len(names(t, db)); left != 3 {
		t.Errorf("%d keys are left, want all 3", left)
	}
	if dry, err := audit.Sweep(t.Context(), db, "stoa", audit.SweepOptions{DryRun: true}); err != nil || dry.Found != 1 {
		t.Errorf("db's own prefix, dry run: %+v, %v; want 1", dry, err)
	}
	if swept, err := audit.Sweep(t.Context(), db, "stoa", audit.SweepOptions{Own: true}); err != nil || swept.Removed != 1 {
		t.Errorf("db's own prefix, allowed: %+v, %v; want 1 removed", swept, err)
	}
}

func TestSweep_Rate(t *testing.T) {
	db := redistest.Open(t, redistest.Server(t).URL)
	var raw [][]string
	for i := range 2000 {
		raw = append(raw, []string{"SET", fmt.Sprintf("old:key:%d", i), "x"})
	}
	sendRaw(t, db, raw...)
	began := time.Now()
	if _, err := audit.Sweep(t.Context(), db, "old", audit.SweepOptions{Rate: 10_000}); err != nil ||
		time.Now().Before(began.Add(100*time.Millisecond)) {
		t.Errorf("2,000 keys at 10,000 per second took %s (%v)", time.Since(began), err)
	}
}

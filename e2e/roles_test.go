package e2e

import (
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// One node acknowledges check-ins from Redis and accepts a mail, and another one writes to SQL and sends it. The second is
// killed while it has some of the check-ins. All users get responses, and in the end SQL has each check-in once, as it was acknowledged.
func TestTheWorkerTakesToSQLWhatTheAPIAnswered(t *testing.T) {
	t.Parallel()
	cfg := sqldb.Config{URL: sqldbtest.Server(t).URL}
	db := sqldbtest.Open(t, cfg)
	people := enrol(t, db, rand.New(rand.NewPCG(1, 1)), 60)
	if _, err := db.Writer().ExecContext(t.Context(), "DELETE FROM checkins"); err != nil { // a user's very first day waits for the worker
		t.Fatal(err)
	}
	env := []string{"STOA_SECRET=0123456789abcdef0123456789abcdef"}
	common := []string{"--sql", cfg.URL, "--redis", redistest.Server(t, kept...).URL, "--queue", "redis", "--checkin-mode", "redis",
		"--checkin-reconcile-every", "0", "--limits=false", "--dev=true"}
	front := newNode(t, env, append(common, "--roles", "api,gateway")...)
	back := newNode(t, env, append(common, "--roles", "worker")...)
	waitReady(t, http.DefaultClient, front)
	waitReady(t, http.DefaultClient, back)

	told := map[string]int64{}
	tap := func(some []*person) {
		t.Helper()
		for _, p := range some {
			c, err := client.New(front.URL(), client.WithTokens(api.Tokens{AccessToken: p.token}))
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.Checkin(t.Context(), api.CheckinRequest{})
			if err != nil || !got.New || got.Streak != 1 {
				t.Fatalf("a first check-in: %+v, %v", got, err)
			}
			told[p.id] = got.At.UnixMilli()
		}
	}
	// inSQL returns the users with a row; a second row for a day is impossible.
	inSQL := func() map[string]int64 {
		t.Helper()
		rows, err := db.QueryContext(t.Context(), "SELECT user_id, at FROM checkins")
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		all := map[string]int64{}
		for rows.Next() {
			var id string
			var at int64
			if err := rows.Scan(&id, &at); err != nil {
				t.Fatal(err)
			}
			all[id] = at
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		return all
	}
	persisted := func(some []*person) {
		t.Helper()
		eventually.Equal(t, "those whose check-ins SQL lacks", 0, func() (n int) {
			there := inSQL()
			for _, p := range some {
				if there[p.id] == 0 {
					n++
				}
			}
			return n
		})
	}

	before, held, away := people[:20], people[20:40], people[40:]
	tap(before)
	persisted(before)
	const handled = `stoa_queue_handled_total{outcome="done",queue="redis",topic="checkin.persist"}`
	if _, text := fetch(t, back.URL()+"/metrics"); !strings.Contains(text, handled) {
		t.Error("the worker's metrics do not show that it took check-ins to SQL")
	}

	tap(held)
	back.Kill()
	tap(away)
	guest, err := client.New(front.URL())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := guest.RequestCode(t.Context(), api.CodeRequest{Email: "ann@example.org", Purpose: api.PurposeRegister}); err != nil {
		t.Fatal(err)
	}
	// If Redis responds late, as on a slow machine, the API writes a check-in to SQL itself.
	there := inSQL()
	if !slices.ContainsFunc(away, func(p *person) bool { return there[p.id] == 0 }) {
		t.Error("SQL has all check-ins, and no worker took them there")
	}

	if mails, err := guest.DevMails(t.Context(), "ann@example.org"); err != nil || len(mails) != 0 {
		t.Errorf("without a worker: %d mails (%v), want none", len(mails), err)
	}

	back.Start()
	persisted(away)
	eventually.Equal(t, "the mails that the worker sends", 1, func() int {
		mails, err := guest.DevMails(t.Context(), "ann@example.org")
		if err != nil {
			t.Fatal(err)
		}
		return len(mails)
	})
	// Another worker takes over the dead worker's messages after a minute, or a snapshot writes them.
	snapshot(t, cfg.URL)
	persisted(people)
	if there = inSQL(); !maps.Equal(there, told) {
		t.Errorf("SQL has %v, and told was %v", there, told)
	}
	if _, text := fetch(t, front.URL()+"/metrics"); strings.Contains(text, `stoa_queue_handled_total{outcome="done"`) {
		t.Error("the API's metrics show that it handled a message")
	}
}

func fetch(t *testing.T, url string) (status int, body string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

package e2e

import (
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// One node serves the API, another one is the worker. The worker sends a mail that the API accepted, through either
// queue.
func TestTheWorkerSendsTheMailThatTheAPIPromised(t *testing.T) {
	for _, queue := range []string{"sql", "redis"} {
		t.Run(queue, func(t *testing.T) {
			t.Parallel()
			common := []string{"--sql", sqldbtest.Server(t).URL, "--redis", redistest.Server(t).URL, "--queue", queue, "--dev=true"}
			env := []string{"STOA_SECRET=0123456789abcdef0123456789abcdef"}
			front := newNode(t, env, append(common, "--roles", "api,gateway")...)
			c, err := client.New(front.URL())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.RequestCode(t.Context(), api.CodeRequest{Email: "ann@example.org", Purpose: api.PurposeRegister}); err != nil {
				t.Fatal(err)
			}
			// Wait for two polls of a consumer that should not exist.
			for end := time.Now().Add(2500 * time.Millisecond); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				if mails, err := c.DevMails(t.Context(), "ann@example.org"); err != nil || len(mails) != 0 {
					t.Fatalf("without a worker: %d mails (%v), want none", len(mails), err)
				}
			}
			back := newNode(t, env, append(common, "--roles", "worker")...)
			eventually.Equal(t, "the mails that the worker sends", 1, func() int {
				mails, err := c.DevMails(t.Context(), "ann@example.org")
				if err != nil {
					t.Fatal(err)
				}
				return len(mails)
			})

			for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 200, "/": 404, "/v1/checkin": 404,
				"/dev/mail": 404} {
				if got, _ := fetch(t, back.URL()+path); got != want {
					t.Errorf("the worker answers %d to %s, want %d", got, path, want)
				}
			}
			const handled = `stoa_queue_handled_total{outcome="done"`
			if _, text := fetch(t, back.URL()+"/metrics"); !strings.Contains(text, handled) {
				t.Error("the worker's metrics do not show that it handled a message")
			}
			if _, text := fetch(t, front.URL()+"/metrics"); strings.Contains(text, handled) {
				t.Error("the API's metrics show that it handled a message")
			}
		})
	}
}

// One node acknowledges check-ins from Redis, and another one writes them to SQL. The second is killed while it has
// some of them. All users get responses, and in the end SQL has each check-in once, as it was acknowledged.
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
	if _, text := fetch(t, front.URL()+"/metrics"); strings.Contains(text, handled) {
		t.Error("the API's metrics show that it took check-ins to SQL")
	}

	tap(held)
	back.Kill()
	tap(away)
	// If Redis responds late, as on a slow machine, the API writes a check-in to SQL itself.
	there := inSQL()
	if !slices.ContainsFunc(away, func(p *person) bool { return there[p.id] == 0 }) {
		t.Error("SQL has all check-ins, and no worker took them there")
	}

	back.Start()
	persisted(away)
	// Another worker takes over the dead worker's messages after a minute, or a snapshot writes them.
	snapshot(t, cfg.URL)
	persisted(people)
	if there = inSQL(); !maps.Equal(there, told) {
		t.Errorf("SQL has %v, and told was %v", there, told)
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

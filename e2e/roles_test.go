package e2e

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/redis/redistest"
)

// One node answers, another one works: a mail that the first was asked for is
// sent by the second, through either queue.
func TestTheWorkerSendsTheMailThatTheAPIPromised(t *testing.T) {
	for _, queue := range []string{"sql", "redis"} {
		t.Run(queue, func(t *testing.T) {
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
			// Two polls of any consumer that ought not to be there.
			for end := time.Now().Add(2500 * time.Millisecond); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				if mails, err := c.DevMails(t.Context(), "ann@example.org"); err != nil || len(mails) != 0 {
					t.Fatalf("without a worker: %d mails (%v), want none", len(mails), err)
				}
			}
			back := newNode(t, env, append(common, "--roles", "worker")...)
			for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
				mails, err := c.DevMails(t.Context(), "ann@example.org")
				if err != nil {
					t.Fatal(err)
				}
				if len(mails) == 1 {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("%d mails 20 s after the worker began, want one", len(mails))
				}
			}

			for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 200, "/": 404, "/v1/checkin": 404, "/dev/mail": 404} {
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

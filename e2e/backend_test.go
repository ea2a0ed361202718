package e2e

import (
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
)

const hookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="

// serviceKey creates a key as an operator does.
func serviceKey(t *testing.T, data, scopes string) string {
	t.Helper()
	out, err := exec.Command(stoaBinary(t), "keys-service", "create", "example", "--scope", scopes, "--data", data).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// The test runs the program and commands of examples/backend/README.md.
func TestTheExampleOfABackendSendsAMessageAndIsTold(t *testing.T) {
	t.Parallel()
	data, listen := t.TempDir(), freeAddress(t)
	n := newNode(t, []string{"STOA_WEBHOOKS_SECRET=" + hookSecret}, "--data", data, "--webhooks-after-url", "http://"+listen+"/hooks",
		"--webhooks-after-events", "message.sent")
	program := filepath.Join(t.TempDir(), "backend")
	if out, err := exec.Command("go", "build", "-o", program, "../examples/backend").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	backend := exec.CommandContext(t.Context(), program)
	backend.Env = []string{"STOA=" + n.URL(), "LISTEN=" + listen, "HOOK_SECRET=" + hookSecret,
		"SERVICE_KEY=" + serviceKey(t, data, "users:write,messages:send")}
	out, err := backend.CombinedOutput()
	if err != nil || !strings.Contains(string(out), `"type":"message.sent"`) || !strings.Contains(string(out), "Your order is on its way.") {
		t.Errorf("%v\n%s", err, out)
	}
}

// A node is killed with kill -9 before its first delivery. No message is lost, and the next node delivers it.
func TestANodeKilledBeforeItHasDeliveredAWebhookDeliversIt(t *testing.T) {
	t.Parallel()
	data, listen := t.TempDir(), freeAddress(t)
	n := newNode(t, []string{"STOA_WEBHOOKS_SECRET=" + hookSecret}, "--data", data, "--webhooks-after-url", "http://"+listen+"/hooks")
	app, err := client.New(n.URL(), client.WithServiceKey(serviceKey(t, data, "users:write")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := app.ProvideUsers(t.Context(), api.ExternalUser{ExternalID: "4711", Name: "Ada"}); err != nil {
		t.Fatal(err)
	}
	n.Kill()
	verify, err := standardwebhooks.NewWebhook(hookSecret)
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan string, 10)
	srv := &http.Server{Addr: listen, ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if err := verify.Verify(body, r.Header); err != nil {
			t.Error(err)
		}
		told <- string(body)
	})}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = srv.ListenAndServe() }()
	defer func() { _ = srv.Close(); <-ended }()
	n.Start()
	select {
	case body := <-told:
		if !strings.Contains(body, `"external_id":"4711"`) {
			t.Errorf("told %s", body)
		}
	case <-time.After(3 * patience): // a node killed during a try has its claim for a minute
		t.Error("nothing was delivered")
	}
}

package stoa

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// constant returns a duration that a Go or TypeScript file declares. TypeScript has milliseconds.
func constant(t *testing.T, file, name string) time.Duration {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if m := regexp.MustCompile(`(?m)^\s*(?:const )?` + name +
		`\s*=\s*(?:(\d+) \* )?time\.(Millisecond|Second|Minute)\b`).FindSubmatch(text); m != nil {
		n, unit := 1, map[string]time.Duration{"Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute}[string(m[2])]
		if len(m[1]) > 0 {
			n, _ = strconv.Atoi(string(m[1]))
		}
		return time.Duration(n) * unit
	}
	if m := regexp.MustCompile(`(?m)^(?:export )?const ` + name + ` = ([\d_]+);`).FindSubmatch(text); m != nil {
		n, _ := strconv.Atoi(strings.ReplaceAll(string(m[1]), "_", ""))
		return time.Duration(n) * time.Millisecond
	}
	t.Fatalf("%s declares no duration %s", file, name)
	return 0
}

// Each line has two durations that different programs or packages declare, and their minimum difference.
func TestDependentDurations_LeaveEnoughTime(t *testing.T) {
	const (
		web      = "internal/httpapi/web/"
		keys     = "internal/httpapi/idempotency/store.go"
		tokens   = "internal/accounts/sessions.go"
		goClient = "client/client.go"
	)
	at := func(file, name string) time.Duration { return constant(t, file, name) }
	for _, test := range []struct {
		what            string
		longer, shorter time.Duration
		least           time.Duration
	}{
		{"a Go client retries a busy key longer than a claim lives", at(goClient, "defaultTimeout"), at(keys, "claimTimeout"),
			at(goClient, "maxWait")},
		{"the page retries a busy key longer than a claim lives", at("web/src/api.ts", "BUSY_FOR"), at(keys, "claimTimeout"),
			time.Second},
		{"the JavaScript client retries a busy key longer than a claim lives", at("clients/js/src/errors.ts", "busyFor"),
			at(keys, "claimTimeout"), time.Second},
		{"the JavaScript client waits for the answer to a call longer than an operation runs", at("clients/js/src/client.ts", "answerTime"),
			at(web+"op.go", "opTime"), time.Second},
		{"a claim outlives the try that it is for", at(keys, "claimTimeout"), at(keys, "TryTimeout") +
			at(keys, "storeTimeout"), 0},
		{"a connection outlives the try whose answer it carries", at(web+"web.go", "answerTimeout"), at(keys, "TryTimeout"),
			at(keys, "storeTimeout")},
		{"a node is known as dead before its claims lapse", at(keys, "orphanTimeout"),
			at("internal/cluster/keys.go", "leaseLife"), time.Second},
		{"presence remembers a node longer than its lease lives", at("internal/presence/watch.go", "linger"),
			at("internal/cluster/keys.go", "leaseLife"), at("internal/cluster/service.go", "Beat")},
		{"a client notices a silent stream after several heartbeats", at("client/events.go", "maxIdle"), at(web+"stream.go", "heartbeat"),
			2 * at(web+"stream.go", "heartbeat")},
		{"a Go client repeats a renewal while its answer is repeated", at(tokens, "replayWindow"), 2 * at(goClient, "renewalTry"), time.Second},
		{"a JavaScript client repeats a renewal while its answer is repeated", at(tokens, "replayWindow"),
			2 * at("clients/js/src/tokens.ts", "tryFor"), time.Second},
	} {
		if test.longer-test.shorter < test.least {
			t.Errorf("%s: %s and %s, want a difference of %s", test.what, test.longer, test.shorter, test.least)
		}
	}
}

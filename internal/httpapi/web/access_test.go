package web

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
)

// The access log has one line for each request. The only client data in it is the request id: no query, token, body
// or name of an object.
func TestAccessLog_OneLinePerRequestWithoutSecrets(t *testing.T) {
	for _, on := range []bool{true, false} {
		s := newSite(t, func(c *Config) { c.AccessLog = on })
		s.API.log = slog.New(slog.NewTextHandler(s, nil)) // from level info on
		s.Raw("GET /page/{name}", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("page")) }))
		s.ask(t, "GET", "/v1/things/s3cret?color=s3cret", "", "X-Request-Id", "first")
		s.ask(t, "POST", "/v1/things", `{"s3cret":1}`, "X-Request-Id", "second")
		s.ask(t, "GET", "/page/s3cret", "", "X-Request-Id", "third", "Authorization", "Bearer s3cret")
		s.ask(t, "S3CRET", "/s3cret", "", "X-Request-Id", "fourth")
		log := s.logged()
		if !on {
			if log != "" {
				t.Errorf("access log off: got\n%s\nwant nothing", log)
			}
			continue
		}
		if n := strings.Count(log, "\n"); n != 4 {
			t.Errorf("%d lines, want 4:\n%s", n, log)
		}
		if strings.Contains(strings.ToLower(log), "s3cret") || strings.Contains(log, "good-ann") {
			t.Errorf("a secret is in the log:\n%s", log)
		}
		for _, want := range []string{
			`msg=request method=GET route=thing.get path=/v1/things/{name} status=200 took=`, ` network=192.0.2.1 request=first user=ann`,
			`method=POST route=thing.make path=/v1/things status=422 took=`,
			`method=GET route="GET /page/{name}" path=/page/{name} status=200 took=`, ` bytes=4 network=192.0.2.1 request=third user=""`,
			`method=other route=unmatched path="" status=404 took=`,
		} {
			if !strings.Contains(log, want) {
				t.Errorf("the log lacks %q:\n%s", want, log)
			}
		}
	}
}

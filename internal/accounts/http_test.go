package accounts

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

var update = flag.Bool("update", false, "write testdata/*.golden anew")

// A conversation records requests and responses, with varying values replaced by their names.
type conversation struct {
	*world
	handler http.Handler
	agent   string // of the client
	text    bytes.Buffer
	names   *strings.Replacer
	known   []string
}

// call returns one name per id or token, so that the golden file shows equal values.
func (c *conversation) call(value, name string) {
	c.known = append(c.known, value, name)
	c.names = strings.NewReplacer(c.known...)
}

var volatile = []struct {
	re   *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`"\d{4}-\d\d-\d\dT[0-9:.]+Z"`), `"TIME"`},
	{regexp.MustCompile(`"expires_in": (8639\d|86400)`), `"expires_in": DAY`},
	{regexp.MustCompile(`"expires_in": (17279\d|172800)`), `"expires_in": TWO-DAYS`},
	{regexp.MustCompile(`Retry-After: (179\d|1800)`), `Retry-After: HALF-AN-HOUR`},
	{regexp.MustCompile(`Retry-After: 3[56]\d\d`), `Retry-After: AN-HOUR`},
	{regexp.MustCompile(`until \d{4}-\d\d-\d\dT[0-9:]+Z`), `until TIME`},
}

// talk starts a conversation with the routes of the world.
func (w *world) talk() *conversation {
	a := web.New(web.Config{Auth: w.Service, Log: w.Service.log})
	w.Routes(a)
	return &conversation{world: w, handler: a.Handler(), names: strings.NewReplacer()}
}

// agrees compares the conversation with a golden file.
func (c *conversation) agrees(golden string) {
	c.t.Helper()
	got := c.names.Replace(c.text.String())
	for _, v := range volatile {
		got = v.re.ReplaceAllString(got, v.with)
	}
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			c.t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		c.t.Fatal(err)
	}
	if got != string(want) {
		c.t.Errorf("the conversation differs from %s (run with -update and look at the difference); got:\n%s", golden, got)
	}
}

// say sends a request and records it with its response, which it decodes into out unless nil.
func (c *conversation) say(method, path, bearer, body string, out any) {
	c.t.Helper()
	r := httptest.NewRequestWithContext(c.t.Context(), method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if bearer != "" {
		r.Header.Set("Authorization", "Bearer "+bearer)
	}
	if c.agent != "" {
		r.Header.Set("User-Agent", c.agent)
	}
	if bubble.In(c.t) {
		bubble.Sleep(time.Millisecond) // sessions are sorted by their last use
	}
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, r)
	answer, err := io.ReadAll(w.Result().Body)
	if err != nil {
		c.t.Fatal(err)
	}
	if out != nil && w.Code < 300 {
		if err := json.Unmarshal(answer, out); err != nil {
			c.t.Fatalf("%s %s: %v in %s", method, path, err, answer)
		}
	}
	if t, ok := out.(*api.Tokens); ok && t.Device != "" {
		n := strings.Count(strings.Join(c.known, " "), "ACCESS") + 1
		c.call(t.AccessToken, fmt.Sprint("ACCESS", n))
		c.call(t.RefreshToken, fmt.Sprint("REFRESH", n))
		c.call(t.Device, fmt.Sprint("DEVICE", n))
		c.call(t.User.ID, "USER")
	}
	who := ""
	if bearer != "" {
		who = " as " + bearer
	}
	fmt.Fprintf(&c.text, "> %s %s%s %s\n< %d %s", method, path, who, body, w.Code, w.Header().Get("Content-Type"))
	if v := w.Header().Get("Retry-After"); v != "" {
		fmt.Fprintf(&c.text, " Retry-After: %s", v)
	}
	var pretty bytes.Buffer
	if json.Indent(&pretty, answer, "", "  ") == nil {
		answer = pretty.Bytes()
	}
	fmt.Fprintf(&c.text, "\n%s\n\n", bytes.TrimSpace(answer))
}

func TestHTTP_Flow(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		c := w.talk()

		c.say("POST", "/v1/auth/codes", "", `{"email":"Ann@example.org","purpose":"register"}`, nil)
		c.say("POST", "/v1/auth/codes", "", `{"email":"ann","purpose":"fun"}`, nil)
		code := c.mails("Ann@example.org")[0].Code
		c.call(code, "CODE1")
		var first, second, third, fourth api.Tokens
		c.say("POST", "/v1/auth/register", "", `{"email":"ann@example.org","code":"`+otherThan(code)+`","name":"Ann"}`, nil)
		c.say("POST", "/v1/auth/register", "", `{"email":"ann@example.org","code":"`+code+`","name":"  ","zone":"Local"}`, nil)
		c.say("POST", "/v1/auth/register", "", `{"email":"ann@example.org","code":"`+code+
			`","name":"Ann","zone":"Europe/Athens","password":"correct horse","device":"phone"}`, &first)
		c.say("POST", "/v1/auth/login", "", `{"email":"ann@example.org","password":"wrong horse"}`, nil)
		c.say("POST", "/v1/auth/login", "", `{"email":"ann@example.org"}`, nil)
		c.say("POST", "/v1/auth/login", "", `{"email":"ann@example.org","password":"correct horse","device":"tablet"}`, &second)
		c.say("GET", "/v1/me", first.AccessToken, "", nil)
		c.say("GET", "/v1/me", "", "", nil)
		c.say("PATCH", "/v1/me", first.AccessToken, `{"name":"Anna","zone":"Asia/Tokyo"}`, nil)
		c.say("PATCH", "/v1/me", first.AccessToken, `{"zone":"Europe/Atlantis"}`, nil)
		c.say("POST", "/v1/auth/refresh", "", `{"refresh_token":"`+second.RefreshToken+`"}`, &third)
		c.say("GET", "/v1/me", second.AccessToken, "", nil)
		c.say("POST", "/v1/auth/refresh", "", `{"refresh_token":"`+second.RefreshToken+`"}`, nil)
		c.say("POST", "/v1/auth/refresh", "", `{"refresh_token":"nonsense"}`, nil)
		c.say("GET", "/v1/sessions", third.AccessToken, "", nil)
		c.say("POST", "/v1/auth/codes", "", `{"email":"ann@example.org","purpose":"login"}`, nil)
		code = c.mails("ann@example.org")[0].Code
		c.call(code, "CODE2")
		c.say("POST", "/v1/auth/login", "", `{"email":"ann@example.org","code":"`+code+`"}`, &fourth)
		c.say("DELETE", "/v1/sessions/"+first.Device, fourth.AccessToken, "", nil)
		c.say("DELETE", "/v1/sessions/"+first.Device, fourth.AccessToken, "", nil)
		c.say("DELETE", "/v1/sessions/x", fourth.AccessToken, "", nil)
		c.say("GET", "/v1/me", first.AccessToken, "", nil)
		c.say("POST", "/v1/auth/logout", third.AccessToken, "", nil)
		c.say("GET", "/v1/me", third.AccessToken, "", nil)
		c.say("DELETE", "/v1/sessions", fourth.AccessToken, "", nil)
		c.say("GET", "/v1/me", fourth.AccessToken, "", nil)
		for range 6 {
			c.say("POST", "/v1/auth/login", "", `{"email":"bob@example.org","password":"wrong horse"}`, nil)
		}

		c.agrees("testdata/flow.golden")
		for _, secret := range []string{"correct horse", "wrong horse", first.AccessToken[29:], first.RefreshToken[29:], code} {
			if strings.Contains(w.log.String(), secret) {
				t.Errorf("the log has the secret %q", secret)
			}
		}
	})
}

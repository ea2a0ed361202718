package accounts

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/foundation/web"
)

func TestDeletionAndBanByHTTP(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		a := web.New(web.Config{Auth: w.Service, Log: w.Service.log})
		w.Routes(a)
		c := &conversation{world: w, handler: a.Handler(), names: strings.NewReplacer()}
		user := w.join("ann@example.org", "correct horse").User.ID
		const login = `{"email":"ann@example.org","password":"correct horse"}`
		var first, second, third api.Tokens
		c.say("POST", "/v1/auth/login", "", login, &first)
		c.say("POST", "/v1/me/deletion", "", `{"password":"correct horse"}`, nil)
		c.say("POST", "/v1/me/deletion", first.AccessToken, `{"password":"wrong horse"}`, nil)
		c.say("POST", "/v1/me/deletion", first.AccessToken, `{}`, nil)
		c.say("POST", "/v1/me/deletion", first.AccessToken, `{"user":"somebody"}`, nil)
		c.say("POST", "/v1/me/deletion", first.AccessToken, `{"password":"correct horse"}`, nil)
		c.say("GET", "/v1/me", first.AccessToken, "", nil)
		c.say("POST", "/v1/auth/login", "", login, &second)
		c.say("GET", "/v1/me", second.AccessToken, "", nil)
		if err := w.Ban(t.Context(), user, w.db.Now().Add(time.Hour), "Spam"); err != nil {
			t.Fatal(err)
		}
		c.say("GET", "/v1/me", second.AccessToken, "", nil)
		c.say("POST", "/v1/auth/refresh", "", `{"refresh_token":"`+second.RefreshToken+`"}`, nil)
		c.say("POST", "/v1/auth/login", "", strings.Replace(login, "correct", "wrong", 1), nil)
		c.say("POST", "/v1/auth/login", "", login, nil)
		w.pass(time.Hour)
		c.say("POST", "/v1/auth/login", "", login, &third)

		got := c.names.Replace(c.text.String())
		for _, v := range volatile {
			got = v.re.ReplaceAllString(got, v.with)
		}
		got = regexp.MustCompile(`until \d{4}-\d\d-\d\dT[0-9:]+Z`).ReplaceAllString(got, "until TIME")
		got = regexp.MustCompile(`Retry-After: 3[56]\d\d`).ReplaceAllString(got, "Retry-After: AN-HOUR")
		const golden = "testdata/leaving.golden"
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("the conversation differs from %s (run with -update and look at the difference); got:\n%s", golden, got)
		}
	})
}

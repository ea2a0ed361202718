package accounts

import (
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
)

func TestHTTP_DeletionAndBan(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		c := w.talk()
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

		c.agrees("testdata/leaving.golden")
	})
}

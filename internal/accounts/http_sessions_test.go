package accounts

import (
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
)

func TestHTTP_Sessions(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		w.listen()
		c := w.talk()
		var phone, tablet, browser, fresh api.Tokens
		enter := func(device string, out *api.Tokens) {
			t.Helper()
			w.pass(time.Minute) // makes the order certain
			c.say("POST", "/v1/auth/login", "", `{"email":"ann@example.org","password":"correct horse","device":"`+device+`"}`, out)
		}
		c.agent = "Shop/2.1 (Phone; \u202eOS 9)"
		code := w.code("ann@example.org", "register")
		c.call(code, "CODE")
		c.say("POST", "/v1/auth/register", "", `{"email":"ann@example.org","code":"`+code+
			`","name":"Ann","password":"correct horse","device":"phone"}`, &phone)
		c.agent = ""
		enter("tablet", &tablet)
		c.agent = "Mozilla/5.0 " + strings.Repeat("x", 300)
		enter("", &browser)
		w.pass(time.Second)
		c.agent = ""
		c.say("GET", "/v1/sessions", phone.AccessToken, "", nil)
		c.say("GET", "/v1/sessions", "", "", nil)
		c.say("GET", "/v1/sessions", phone.RefreshToken, "", nil)
		c.say("POST", "/v1/auth/refresh", "", `{"refresh_token":"`+phone.RefreshToken+`"}`, &fresh)
		c.say("GET", "/v1/sessions", phone.AccessToken, "", nil)
		c.say("GET", "/v1/sessions", fresh.AccessToken, "", nil)
		c.say("DELETE", "/v1/sessions/"+tablet.Device, fresh.AccessToken, "", nil)
		c.say("GET", "/v1/sessions", tablet.AccessToken, "", nil)
		c.say("DELETE", "/v1/sessions/"+tablet.Device, fresh.AccessToken, "", nil)
		c.say("DELETE", "/v1/sessions?others=perhaps", fresh.AccessToken, "", nil)
		c.say("DELETE", "/v1/sessions?others=true", fresh.AccessToken, "", nil)
		c.say("GET", "/v1/sessions", browser.AccessToken, "", nil)
		c.say("GET", "/v1/sessions", fresh.AccessToken, "", nil)
		enter("tv", &tablet)
		c.say("POST", "/v1/auth/logout", tablet.AccessToken, "", nil)
		c.say("GET", "/v1/sessions", tablet.AccessToken, "", nil)
		c.say("DELETE", "/v1/sessions", fresh.AccessToken, "", nil)
		c.say("GET", "/v1/sessions", fresh.AccessToken, "", nil)
		c.say("POST", "/v1/auth/refresh", "", `{"refresh_token":"`+fresh.RefreshToken+`"}`, nil)

		c.agrees("testdata/sessions.golden")
	})
}

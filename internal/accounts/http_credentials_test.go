package accounts

import (
	"testing"

	"github.com/stoa-dev/stoa/api"
)

func TestHTTP_Credentials(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		c := w.talk()
		codes := 0
		code := func(to string) string {
			t.Helper()
			codes++
			m := c.mails(to)[0]
			c.call(m.Code, "CODE"+string(rune('0'+codes)))
			return m.Code
		}

		c.say("POST", "/v1/auth/codes", "", `{"email":"ann@example.org","purpose":"register"}`, nil)
		var one, two, three api.Tokens
		c.say("POST", "/v1/auth/register", "", `{"email":"ann@example.org","code":"`+code("ann@example.org")+`","name":"Ann"}`, &one)
		c.say("PUT", "/v1/me/password", one.AccessToken, `{"password":"short"}`, nil)
		c.say("PUT", "/v1/me/password", one.AccessToken, `{"password":"correct horse","id":"x"}`, nil)
		c.say("PUT", "/v1/me/password", "", `{"password":"correct horse"}`, nil)
		c.say("PUT", "/v1/me/password", one.AccessToken, `{"password":"correct horse"}`, nil)
		c.say("POST", "/v1/me/codes", one.AccessToken, `{"purpose":"register"}`, nil)
		c.say("POST", "/v1/me/codes", one.AccessToken, `{"purpose":"leave_email"}`, nil)
		c.say("POST", "/v1/me/codes", one.AccessToken, `{"purpose":"set_password"}`, nil)
		toSet := code("ann@example.org")
		c.say("PUT", "/v1/me/password", one.AccessToken, `{"password":"correct horse","code":"`+otherThan(toSet)+`"}`, nil)
		c.say("PUT", "/v1/me/password", one.AccessToken, `{"password":"correct horse","code":"`+toSet+`"}`, nil)
		c.say("POST", "/v1/auth/login", "", `{"email":"ann@example.org","password":"correct horse"}`, &two)
		c.say("PUT", "/v1/me/password", one.AccessToken, `{"password":"battery staple"}`, nil)
		c.say("PUT", "/v1/me/password", one.AccessToken, `{"current":"wrong horse","password":"battery staple"}`, nil)
		c.say("PUT", "/v1/me/password", one.AccessToken, `{"current":"correct horse","password":"battery staple"}`, nil)
		c.say("GET", "/v1/me", two.AccessToken, "", nil)
		c.say("POST", "/v1/me/email/codes", one.AccessToken, `{"email":"ann"}`, nil)
		c.say("POST", "/v1/me/email/codes", one.AccessToken, `{"email":"Bea@example.org"}`, nil)
		toBea := code("bea@example.org")
		c.say("PUT", "/v1/me/email", one.AccessToken, `{"email":"bea@example.org","code":"`+otherThan(toBea)+`","password":"battery staple"}`,
			nil)
		c.say("PUT", "/v1/me/email", one.AccessToken, `{"email":"bea@example.org","code":"`+toBea+`","password":"correct horse"}`, nil)
		c.say("PUT", "/v1/me/email", one.AccessToken, `{"email":"bea@example.org","code":"`+toBea+`","password":"battery staple"}`, nil)
		c.say("POST", "/v1/auth/codes", "", `{"email":"bea@example.org","purpose":"change_email"}`, nil)
		c.say("POST", "/v1/auth/codes", "", `{"email":"bea@example.org","purpose":"reset_password"}`, nil)
		toReset := code("bea@example.org")
		c.say("POST", "/v1/auth/password", "", `{"email":"bea@example.org","code":"`+otherThan(toReset)+`","password":"correct horse"}`, nil)
		c.say("POST", "/v1/auth/password", "", `{"email":"nobody@example.org","code":"000000","password":"correct horse"}`, nil)
		c.say("POST", "/v1/auth/password", "", `{"email":"bea@example.org","code":"`+toReset+`","password":"correct horse"}`, nil)
		c.say("GET", "/v1/me", one.AccessToken, "", nil)
		c.say("POST", "/v1/auth/login", "", `{"email":"bea@example.org","password":"correct horse"}`, &three)
		link := w.undoLink("ann@example.org")
		c.call(link, "LINK")
		c.say("POST", "/v1/auth/email/undo", "", `{"token":"su_made_up"}`, nil)
		c.say("POST", "/v1/auth/email/undo", "", `{"token":"`+link+`"}`, nil)
		c.say("POST", "/v1/auth/email/undo", "", `{"token":"`+link+`"}`, nil)
		c.say("GET", "/v1/me", three.AccessToken, "", nil)
		c.say("POST", "/v1/auth/login", "", `{"email":"ann@example.org","password":"correct horse"}`, nil)

		c.agrees("testdata/credentials.golden")
	})
}

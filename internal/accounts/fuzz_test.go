package accounts

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stoa-dev/stoa/internal/httpapi/web"
)

func FuzzParseToken(f *testing.F) {
	f.Add("sa_V1StGXR8_Z5j.V1StGXR8_Z5j.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
	f.Add("sa_V1StGXR8_Z5j.V1StGXR8_Z5j.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAé")
	f.Add("sa_V1StGXR8_Z5j.V1StGXR8_Z5j." + strings.Repeat("\n", secretLen)) // base64 ignores them
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := parseToken(accessPrefix, s)
		if ok && mint("a secret").issued(got) {
			t.Errorf("%q passes for a token of ours", s)
		}
		if ok && (got.text != s || accessPrefix+got.user.String()+"."+got.device.String()+"."+s[29:] != s || got.user.IsZero() ||
			got.device.IsZero()) {
			t.Errorf("%q was read as %+v", s, got)
		}
	})
}

// credentialRoutes lists the routes with a body, and a valid body.
var credentialRoutes = []struct{ method, path, body string }{
	{"POST", "/v1/auth/codes", `{"email":"ann@example.org","purpose":"reset_password"}`},
	{"POST", "/v1/auth/register", `{"email":"ann@example.org","code":"123456","name":"Ann","password":"correct horse","zone":"UTC","device":"x"}`},
	{"POST", "/v1/auth/login", `{"email":"ann@example.org","password":"correct horse"}`},
	{"POST", "/v1/auth/password", `{"email":"ann@example.org","code":"123456","password":"correct horse"}`},
	{"PUT", "/v1/me/password", `{"current":"wrong horse","password":"correct horse"}`},
	{"POST", "/v1/me/email/codes", `{"email":"bea@example.org"}`},
	{"POST", "/v1/me/codes", `{"purpose":"leave_email"}`},
	{"POST", "/v1/auth/email/undo", `{"token":"su_x"}`},
	{"PUT", "/v1/me/email", `{"email":"bea@example.org","code":"123456","password":"correct horse"}`},
}

// No body makes the server fail, and each error has a code.
func FuzzCredentialBodies(f *testing.F) {
	w := onSQLite(f, Settings{Limits: Limits{CodesPerMinute: 1e9, CodesPerDay: 1e9, CodesPerIP: 1e9, LoginFails: 1e9}})
	me := w.join("ann@example.org", "correct horse")
	a := web.New(web.Config{Auth: w.Service})
	w.Routes(a)
	handler := a.Handler()
	for i, r := range credentialRoutes {
		f.Add(uint8(i), []byte(r.body))
		for _, odd := range []string{`{}`, `[]`, `null`, `{"email":1}`, `{"email":"a@b","email":"c@d"}`, `{"code":"１２３４５６"}`,
			`{"current":"\u0000"}`, r.body + "x",
			strings.Replace(r.body, "{", `{"user":"V1StGXR8_Z5j",`, 1), strings.ReplaceAll(r.body, "ann", `\ud800`), strings.Repeat(`{"a":`, 1000)} {
			f.Add(uint8(i), []byte(odd))
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		route := credentialRoutes[int(which)%len(credentialRoutes)]
		r := httptest.NewRequestWithContext(t.Context(), route.method, route.path, bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+me.Access)
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, r)
		if rec.Code >= 500 || rec.Code == http.StatusNotFound {
			t.Fatalf("%s %s %q: %d %s", route.method, route.path, body, rec.Code, rec.Body)
		}
		var problem struct{ Code string }
		if rec.Code >= 400 && (json.Unmarshal(rec.Body.Bytes(), &problem) != nil || problem.Code == "") {
			t.Errorf("%s %s %q: %d without a code: %s", route.method, route.path, body, rec.Code, rec.Body)
		}
	})
}

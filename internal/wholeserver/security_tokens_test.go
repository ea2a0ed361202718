package wholeserver

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// code requests a code and returns it. It waits for exactly this mail, because an older one may already be there.
func (w *world) code(email, purpose string) string {
	w.t.Helper()
	before := len(w.mails(email))
	w.must("POST", "/v1/auth/codes", "", api.CodeRequest{Email: email, Purpose: purpose})
	return w.newestCode(email, before+1)
}

// mails returns the mails to an address, newest first.
func (w *world) mails(email string) []client.DevMail {
	w.t.Helper()
	list, err := w.Client(w.t).DevMails(w.t.Context(), email)
	must(w.t, err)
	return list
}

// behind makes loopback a trusted proxy, so that a test can send from any address.
func behind(cfg *app.Config) {
	cfg.TrustProxy = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
}

// from sends JSON as if from the n-th address of the world.
func (w *world) from(n int, path string, v any) answer {
	w.t.Helper()
	return w.send(request{method: "POST", path: path, media: "application/json", body: strings.NewReader(text(w.t, v)),
		header: http.Header{"X-Forwarded-For": {fmt.Sprintf("203.%d.%d.%d", n>>16&255, n>>8&255, n&255)}}})
}

// otherThan returns the n-th code that differs from this one.
func otherThan(code string, n int) string {
	var number int
	_, _ = fmt.Sscanf(code, "%d", &number)
	return fmt.Sprintf("%06d", (number+1+n)%1_000_000)
}

// TestACodeIsNotGuessed tries codes from a new address each time. A code allows five tries, and an address gets ten
// codes a day.
func TestACodeIsNotGuessed(t *testing.T) {
	for purpose, use := range map[string]func(email, code string) (path string, body any){
		api.PurposeRegister: func(email, code string) (string, any) {
			return "/v1/auth/register", api.RegisterRequest{Email: email, Code: code, Name: "thief"}
		},
		api.PurposeLogin: func(email, code string) (string, any) {
			return "/v1/auth/login", api.LoginRequest{Email: email, Code: code}
		},
		api.PurposeResetPassword: func(email, code string) (string, any) {
			return "/v1/auth/password", api.PasswordReset{Email: email, Code: code, Password: "battery staple"}
		},
	} {
		t.Run(purpose, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w := newWorld(t, behind, func(cfg *app.Config) {
					cfg.Accounts.Limits.CodesPerDay = 10
					cfg.Accounts.Limits.LoginFails = 1_000_000 // the lock is another protection
				})
				email, before, sent, right := "target@example.org", 0, 0, ""
				if purpose != api.PurposeRegister {
					email, before = w.signUp("target", "", "").email, 1
				}
				tries := 0
				for n := 0; ; n++ {
					if a := w.from(n, "/v1/auth/codes", api.CodeRequest{Email: email, Purpose: purpose}); a.status == http.StatusTooManyRequests {
						break
					} else if !a.ok() {
						t.Fatalf("a code: %d %s", a.status, a.body)
					}
					if sent++; sent > 10 {
						t.Fatal("there is no end of codes in a day")
					}
					right = w.newestCode(email, before+sent)
					var wrong answer
					for i := range 8 {
						path, body := use(email, otherThan(right, i))
						if wrong = w.from(1000*n+i, path, body); wrong.status/100 != 4 {
							t.Fatalf("a wrong code: got %d %s", wrong.status, wrong.body)
						}
						tries++
					}
					path, body := use(email, right)
					if a := w.from(1000*n+99, path, body); a.status != wrong.status || a.body != wrong.body {
						t.Errorf("after eight wrong tries the right code got %d %s, a wrong one %d %s", a.status, a.body, wrong.status, wrong.body)
					}
				}
				if tries != 8*10 {
					t.Errorf("tried %d codes", tries)
				}
			})
		})
	}
	t.Run("the right one within five tries", func(t *testing.T) {
		w := newWorld(t)
		target := w.signUp("target", "", "")
		right := w.code(target.email, api.PurposeLogin)
		for i := range 4 {
			w.json("POST", "/v1/auth/login", "", api.LoginRequest{Email: target.email, Code: otherThan(right, i)})
		}
		w.must("POST", "/v1/auth/login", "", api.LoginRequest{Email: target.email, Code: right})
	})
}

// newestCode waits until n mails have arrived, and returns the newest code.
func (w *world) newestCode(email string, n int) (code string) {
	w.t.Helper()
	eventually.True(w.t, fmt.Sprintf("the mail number %d to %s", n, email), func() bool {
		mails := w.mails(email)
		if len(mails) >= n {
			code = mails[0].Code
		}
		return len(mails) >= n
	})
	return code
}

func TestPasswordsAreNotGuessedFromManyAddresses(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, behind)
		w.populate()
		var last answer
		looked := 0
		for i := range 60 { // a different /64 or address for each
			last = w.from(i, "/v1/auth/login", api.LoginRequest{Email: w.ann.email, Password: fmt.Sprint("wrong horse ", i)})
			if last.ok() {
				t.Fatal("a wrong password logs in")
			}
			if last.code() == "auth.bad_credentials" {
				looked++
			}
		}
		if looked != 50 || last.code() != "auth.locked" || last.header.Get("Retry-After") == "" {
			t.Errorf("of 60 wrong passwords %d were looked at, want 50; the last got %d %s", looked, last.status, last.body)
		}
		if a := w.from(99, "/v1/auth/login", api.LoginRequest{Email: strings.ToUpper(w.ann.email),
			Password: password}); a.code() != "auth.locked" {
			t.Errorf("the address in another case: got %d %s", a.status, a.body)
		}
		// A logged-in user stays logged in, and may log in from home. Otherwise any attacker could lock out any user.
		w.must("GET", "/v1/me", w.ann.AccessToken, nil)
		w.must("POST", "/v1/auth/login", "", api.LoginRequest{Email: w.ann.email, Password: password})
	})
}

// TestAStolenRefreshTokenEndsItsDevice tests both orders of owner and thief. The server cannot distinguish them, and
// ends the session of both.
func TestAStolenRefreshTokenEndsItsDevice(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.populate()
		other := parse[api.Tokens](t, w.must("POST", "/v1/auth/login", "", api.LoginRequest{Email: w.ann.email, Password: password}))
		refresh := func(token string) answer {
			return w.json("POST", "/v1/auth/refresh", "", api.RefreshRequest{RefreshToken: token})
		}
		pair := parse[api.Tokens](t, refresh(w.ann.RefreshToken))
		if w.json("GET", "/v1/me", w.ann.AccessToken, nil).ok() {
			t.Error("the access token from before the refresh is good")
		}
		w.must("GET", "/v1/me", pair.AccessToken, nil)
		w.Clock.Set(w.Clock.Now().Add(11 * time.Second))
		if a := refresh(w.ann.RefreshToken); a.code() != "auth.refresh_reused" {
			t.Errorf("the token a second time: got %d %s", a.status, a.body)
		}
		if a := w.json("GET", "/v1/me", pair.AccessToken, nil); a.status != http.StatusUnauthorized {
			t.Errorf("the access token of who was first: got %d", a.status)
		}
		if a := refresh(pair.RefreshToken); a.status != http.StatusUnauthorized {
			t.Errorf("the refresh token of who was first: got %d", a.status)
		}
		w.must("GET", "/v1/me", other.AccessToken, nil)
	})
}

func TestARefreshTokenThatIsNotOneIsRefused(t *testing.T) {
	w := newWorld(t)
	w.populate()
	good := w.mal.RefreshToken
	for name, token := range map[string]string{
		"an access token": w.mal.AccessToken, "one as the other": "sr_" + w.mal.AccessToken[3:], "cut off": good[:len(good)-1],
		"longer":         good + "A",
		"another user's": "sr_" + w.ann.User.ID + good[15:], "another device's": good[:16] + w.ann.Device + good[28:],
		"lower case": strings.ToLower(good),
		"empty":      "", "a NUL": good[:20] + "\x00" + good[21:], "unicode": strings.Replace(good, "sr_", "ſr_", 1),
		"in another alphabet": good[:len(good)-1] + "=",
	} {
		if a := w.json("POST", "/v1/auth/refresh", "", api.RefreshRequest{RefreshToken: token}); a.status/100 != 4 {
			t.Errorf("%s: got %d %s", name, a.status, a.body)
		}
	}
	w.must("GET", "/v1/me", w.ann.AccessToken, nil) // a forged token ends no session
	w.must("POST", "/v1/auth/refresh", "", api.RefreshRequest{RefreshToken: good})
}

// TestALogInTakesNoIdentityFromTheClient tests session fixation. For any input of the client, the session's id and
// tokens are new and from the server.
func TestALogInTakesNoIdentityFromTheClient(t *testing.T) {
	w := newWorld(t)
	w.populate()
	chosen := "AAAAAAAAAAAA"
	old := w.ann.Tokens
	seen := map[string]bool{old.Device: true, chosen: true}
	for _, device := range []string{chosen, old.Device, "phone"} {
		a := w.send(request{method: "POST", path: "/v1/auth/login", media: "application/json", token: old.AccessToken,
			body: strings.NewReader(text(t, api.LoginRequest{Email: w.ann.email, Password: password, Device: device})),
			header: http.Header{"X-Device-Id": {chosen}, "X-Session-Id": {chosen}, "X-Request-Id": {chosen},
				"Cookie":          {"session=" + chosen + "; device=" + chosen},
				"Idempotency-Key": {"fixed"}}})
		got := parse[api.Tokens](t, a)
		if seen[got.Device] || seen[got.AccessToken] || got.AccessToken == old.AccessToken || strings.Contains(a.body, `"device":"`+chosen) {
			t.Errorf("logged in as %q: got the device %s", device, got.Device)
		}
		seen[got.Device], seen[got.AccessToken] = true, true
	}
	for _, field := range []string{"device_id", "session", "token", "access_token", "user", "id"} {
		a := w.send(request{method: "POST", path: "/v1/auth/login", media: "application/json",
			body: strings.NewReader(`{"email":"` + w.ann.email + `","password":"` + password + `","` + field + `":"` + chosen + `"}`)})
		if a.status != http.StatusUnprocessableEntity {
			t.Errorf("a log-in with %s: got %d %s", field, a.status, a.body)
		}
	}
}

func TestLimitsAreNotEscapedByAForgedAddress(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, func(cfg *app.Config) {
			cfg.Limits = true
			cfg.Accounts.Limits.CodesPerIP = 3
		})
		second := parse[api.Tokens](t, w.must("POST", "/v1/auth/login", "",
			api.LoginRequest{Email: w.mal.email, Code: w.code(w.mal.email, api.PurposeLogin)}))
		limited := func(a answer) bool { return a.status == http.StatusTooManyRequests }
		last := answer{}
		for i := range 5 {
			last = w.from(i, "/v1/auth/codes", api.CodeRequest{Email: fmt.Sprintf("a%d@example.org", i), Purpose: api.PurposeRegister})
		}
		if !limited(last) {
			t.Errorf("five codes, each from another forged address: got %d %s", last.status, last.body)
		}
		n := 0
		for ; n < 700; n++ {
			r := request{method: "POST", path: "/v1/auth/refresh", media: "application/json", body: strings.NewReader(`{"refresh_token":"x"}`),
				header: http.Header{}}
			for _, name := range []string{"X-Forwarded-For", "X-Real-Ip", "Forwarded", "True-Client-Ip", "Cf-Connecting-Ip", "X-Client-Ip"} {
				r.header.Set(name, fmt.Sprintf("203.0.%d.%d", n>>8, n&255))
			}
			if last = w.send(r); limited(last) {
				break
			}
		}
		if n != 600 || !limited(last) || last.header.Get("Ratelimit-Remaining") != "0" {
			t.Errorf("got %d requests through, want 600; the last answer has %v", n, last.header)
		}
		for n = 0; n < 700; n++ {
			token := w.mal.AccessToken
			if n%2 == 1 {
				token = second.AccessToken
			}
			if last = w.json("GET", "/v1/me", token, nil); limited(last) {
				break
			}
		}
		if n != 600 || !limited(last) {
			t.Errorf("with two devices of one user %d requests got through, want 600", n)
		}
	})
}

package accounts

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stoa-dev/stoa/internal/base/i18n"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
)

// in returns the context of a request with that Accept-Language header.
func (w *world) in(header string) context.Context {
	return context.WithValue(w.t.Context(), i18n.Key{}, func() string { return header })
}

const chinese = "zh-CN,zh;q=0.9"

func TestNotices_InTheAccountsLanguage(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		newest := func(to, want string) {
			t.Helper()
			if got := w.mails(to)[0].Subject; got != want {
				t.Errorf("got the mail %q, want %q", got, want)
			}
		}
		passwords := 0 // that the account had before
		password := func() string { return strings.Repeat("correct horse ", passwords+1) }
		// changed changes the password with a client that asks for a language.
		changed := func(a Tokens, header string) {
			t.Helper()
			c := PasswordChange{Current: password()}
			passwords++
			c.Password = password()
			if err := w.ChangePassword(w.in(header), a.User.ID, a.Device, c); err != nil {
				t.Fatal(err)
			}
		}
		enter := func(header string) Tokens {
			t.Helper()
			a, err := w.Login(w.in(header), Login{Email: "ann@example.org", Password: password(), IP: "192.0.2.1"})
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		const english, inChinese = "Your password was changed", "你的密码已更改"

		code := w.code("ann@example.org", "register")
		a, err := w.Register(w.in(chinese), Registration{Email: "ann@example.org", Code: code, Password: password(), Name: "Ann",
			IP: "192.0.2.1"})
		if err != nil {
			t.Fatal(err)
		}
		changed(a, "en") // for example by a thief
		newest("ann@example.org", inChinese)
		for _, nothing := range []string{"", "fr", "*;;", strings.Repeat("zh", 200)} {
			a = enter(nothing)
		}
		changed(a, "en")
		newest("ann@example.org", inChinese)
		a = enter("en-GB")
		changed(a, chinese)
		newest("ann@example.org", english)
		name := "Anna"
		if _, err := w.Update(w.in(chinese), a.User.ID, Change{Name: &name}); err != nil {
			t.Fatal(err)
		}
		changed(a, "en")
		newest("ann@example.org", inChinese)

		// An account without a language, from before the column existed, gets mails in the language of the actor.
		if _, err := w.db.ExecContext(t.Context(), "UPDATE users SET lang = '' WHERE id = ?", a.User.ID); err != nil {
			t.Fatal(err)
		}
		changed(a, chinese)
		newest("ann@example.org", inChinese)
		changed(a, "")
		newest("ann@example.org", english)
	})
}

func TestErase_RemovesTheLanguage(t *testing.T) {
	w := onSQLite(t, Settings{})
	a := w.join("ann@example.org", "correct horse")
	if _, err := w.Login(w.in(chinese), Login{Email: "ann@example.org", Password: "correct horse", IP: "192.0.2.1"}); err != nil {
		t.Fatal(err)
	}
	if found := w.stored("zh-CN"); len(found) != 1 || found[0] != "users.lang" {
		t.Fatalf("the language stands in %v, want users.lang", found)
	}
	w.pass(w.leave(a, "correct horse").Sub(w.db.Now()))
	if err := w.eraseDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	if found := w.stored("zh-CN"); len(found) != 0 {
		t.Errorf("after the erasure the language stands in %v", found)
	}
}

// A token may be checked a moment before its account is deleted. The operation's description must list that error, or
// the log reports it.
func TestDeletion_DuringARequestIsADescribedError(t *testing.T) {
	w := onSQLite(t, Settings{})
	a := w.join("ann@example.org", "correct horse")
	w.check("before", a.Access, nil)
	if _, err := w.db.ExecContext(t.Context(), "UPDATE users SET erased = ? WHERE id = ?", w.db.Now().UnixMilli()+1, a.User.ID); err != nil {
		t.Fatal(err)
	}
	api := web.New(web.Config{Auth: w.Service, AuthErrors: AuthErrors, Log: w.Service.log})
	w.Routes(api)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPatch, "/v1/me", strings.NewReader(`{"name":"Anna"}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+a.Access)
	answer := httptest.NewRecorder()
	api.Handler().ServeHTTP(answer, r)
	if answer.Code != http.StatusNotFound || !strings.Contains(answer.Body.String(), `"account.unknown"`) {
		t.Errorf("got %d %s", answer.Code, answer.Body)
	}
	if log := w.log.String(); strings.Contains(log, "lacks a refusal") {
		t.Errorf("the log complains: %s", log)
	}
}

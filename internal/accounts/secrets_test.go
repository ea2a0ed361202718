package accounts

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts/codes"
	"github.com/stoa-dev/stoa/internal/background/queue"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
	"github.com/stoa-dev/stoa/internal/mail"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// refusing is a mail server that accepts no mail.
type refusing struct{}

func (refusing) Send(context.Context, mail.Message) error {
	return fmt.Errorf("%w: 554 no such mailbox", mail.ErrRefused)
}

// consume runs a real consumer of the outbox until there are n dead letters.
func (w *world) consume(dead int) {
	w.t.Helper()
	store := queue.NewSQL(w.db)
	c, err := queue.NewConsumer(store, w.Handlers(), nil, queue.Config{Log: w.Service.log})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = c.Run(ctx) })
	defer running.Wait()
	defer cancel()
	eventually.Equal(w.t, "the number of dead letters", dead, func() int {
		letters, err := store.List(ctx, queue.Filter{Dead: true})
		if err != nil {
			w.t.Fatal(err)
		}
		return len(letters)
	})
}

func TestSecrets_NeitherLoggedNorStored(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		a := web.New(web.Config{Auth: w.Service, DB: w.db, Log: w.Service.log})
		w.Routes(a)
		ctx, stop := context.WithCancel(t.Context())
		var stored sync.WaitGroup
		stored.Go(func() { _ = a.Run(ctx) })
		defer stored.Wait()
		defer stop()
		handler := a.Handler()
		var texts []string // the outbox before its mails are sent
		secrets := []string{"a secret of exactly"}
		secret := func(s string) string {
			secrets = append(secrets, s)
			return s
		}
		key := 0
		say := func(method, path, bearer string, status int, body map[string]string) (answer api.Tokens) {
			t.Helper()
			text, err := json.Marshal(body)
			if err != nil {
				t.Fatal(err)
			}
			r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(string(text)))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Idempotency-Key", fmt.Sprint("key ", key))
			key++
			if bearer != "" {
				r.Header.Set("Authorization", "Bearer "+bearer)
			}
			rec := httptest.NewRecorder()
			handler.ServeHTTP(rec, r)
			if rec.Code != status {
				t.Fatalf("%s %s: got %d %s, want %d", method, path, rec.Code, rec.Body, status)
			}
			if status >= 400 {
				texts = append(texts, rec.Body.String())
			} else if err := json.Unmarshal(rec.Body.Bytes(), &answer); err != nil && rec.Body.Len() > 0 {
				t.Fatal(err)
			}
			if answer.AccessToken != "" {
				secret(answer.AccessToken[29:])
				secret(answer.RefreshToken[29:])
			}
			texts = append(texts, w.dump("SELECT * FROM outbox"))
			return answer
		}
		code := func(purpose string) string {
			t.Helper()
			say("POST", "/v1/auth/codes", "", http.StatusOK, map[string]string{"email": "ann@example.org", "purpose": purpose})
			return secret(w.mails("ann@example.org")[0].Code)
		}
		horse, staple, battery, wrong := secret("correct horse"), secret("staple staple"), secret("battery battery"), secret("wrong horse")
		guess := secret("271828")

		register := code("register")
		say("POST", "/v1/auth/register", "", http.StatusUnprocessableEntity,
			map[string]string{"email": "ann@example.org", "code": guess, "password": horse, "name": "Ann"})
		one := say("POST", "/v1/auth/register", "", http.StatusCreated,
			map[string]string{"email": "ann@example.org", "code": register, "password": horse, "name": "Ann"})
		say("POST", "/v1/auth/login", "", http.StatusUnauthorized, map[string]string{"email": "ann@example.org", "password": wrong})
		say("POST", "/v1/auth/login", "", http.StatusOK, map[string]string{"email": "ann@example.org", "code": code("login")})
		two := say("POST", "/v1/auth/refresh", "", http.StatusOK, map[string]string{"refresh_token": one.RefreshToken})
		altered := "0"
		if two.RefreshToken[40] == '0' {
			altered = "1"
		}
		say("POST", "/v1/auth/refresh", "", http.StatusUnauthorized,
			map[string]string{"refresh_token": two.RefreshToken[:40] + altered + two.RefreshToken[41:]})
		say("PUT", "/v1/me/password", two.AccessToken, http.StatusForbidden, map[string]string{"current": wrong, "password": staple})
		say("PUT", "/v1/me/password", two.AccessToken, http.StatusNoContent, map[string]string{"current": horse, "password": staple})
		say("POST", "/v1/me/email/codes", two.AccessToken, http.StatusOK, map[string]string{"email": "bea@example.org"})
		toBea := secret(w.mails("bea@example.org")[0].Code)
		say("PUT", "/v1/me/email", two.AccessToken, http.StatusUnprocessableEntity,
			map[string]string{"email": "bea@example.org", "code": guess, "password": staple})
		say("PUT", "/v1/me/email", two.AccessToken, http.StatusOK,
			map[string]string{"email": "bea@example.org", "code": toBea, "password": staple})
		say("PUT", "/v1/me/email", two.AccessToken, http.StatusUnprocessableEntity,
			map[string]string{"email": "not one " + wrong, "code": toBea, "password": staple})
		say("POST", "/v1/auth/codes", "", http.StatusOK, map[string]string{"email": "bea@example.org", "purpose": "reset_password"})
		reset := secret(w.mails("bea@example.org")[0].Code)
		say("POST", "/v1/auth/password", "", http.StatusUnprocessableEntity,
			map[string]string{"email": "bea@example.org", "code": guess, "password": battery})
		say("POST", "/v1/auth/password", "", http.StatusNoContent,
			map[string]string{"email": "bea@example.org", "code": reset, "password": battery})
		w.deliver()

		w.Service.mail = refusing{}
		for _, purpose := range []string{"register", "login", "reset_password"} {
			say("POST", "/v1/auth/codes", "", http.StatusOK, map[string]string{"email": "bea@example.org", "purpose": purpose})
		}
		var payload []byte
		if err := w.db.QueryRowContext(t.Context(), "SELECT payload FROM outbox WHERE topic = ? ORDER BY id LIMIT 1 OFFSET 1",
			codes.Topic).Scan(&payload); err != nil {
			t.Fatal(err)
		}
		lost := secret(w.codeOf(payload))
		w.consume(3)
		say("POST", "/v1/auth/login", "", http.StatusOK, map[string]string{"email": "bea@example.org", "code": lost}) // a valid code

		for _, table := range []string{"users", "sessions", "codes", "outbox", "idempotency_keys"} {
			text := w.dump("SELECT * FROM " + table)
			if text == "" {
				t.Errorf("table %s is empty, and nothing was looked at", table)
			}
			texts = append(texts, text)
		}
		log := w.log.String()
		for _, want := range []string{"auth.login", "me.change_password", "auth.reset_password", "message failed"} {
			if !strings.Contains(log, want) {
				t.Errorf("the log says nothing of %s, and nothing was looked at", want)
			}
		}
		for _, text := range append(texts, log) {
			for _, s := range secrets { // six digits may be part of other numbers
				if at := regexp.MustCompile(`(^|\D)` + regexp.QuoteMeta(s) + `(\D|$)`).FindStringIndex(text); at != nil {
					t.Errorf("the secret %q stands in …%s…", s, text[max(0, at[0]-200):min(len(text), at[1]+100)])
				}
			}
		}
		// A plain hash of a request with a password is also a secret.
		if kept := w.dump("SELECT scope FROM idempotency_keys"); strings.Contains(kept, "password") || strings.Contains(kept, "me.change_email") {
			t.Errorf("requests with passwords are remembered: %s", kept)
		}
		if err := w.redis.Scan(t.Context(), func(key string) error {
			if strings.Contains(key, "example") {
				t.Errorf("the key %s has an address in it", key)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
}

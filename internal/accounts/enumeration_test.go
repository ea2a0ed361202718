package accounts

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/foundation/ids"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
	"github.com/stoa-dev/stoa/internal/foundation/web"
)

// Nobody may learn from an answer, nor from how long it takes, whether an
// address has an account.
//
// Tries at known and unknown addresses take turns, so that whatever else the
// machine does falls on both alike, and their medians must be within a twentieth.
// Somebody else's load may still spoil a round; a difference that is there shows
// in all three. Passwords cost little here, which is the harder test: there is
// less work for a difference to hide behind. With -costly they cost what they cost
// outside.
func TestNeitherAnswerNorTimeTellsWhoHasAnAccount(t *testing.T) {
	tries, apart := 1000, 0.05
	if raced { // it slows the reading of a row that is there, and Argon2 hardly
		tries, apart = 200, 0.15
	}
	const each = 5 // so often a code is looked at
	w := onSQLite(t, Settings{Limits: Limits{CodesPerMinute: 1e6, CodesPerDay: 1e6, CodesPerIP: 1e6, LoginFails: 1e6}})
	a := web.New(web.Config{Auth: w.Service})
	w.Routes(a)
	handler := a.Handler()
	hash, err := w.hasher.hash(t.Context(), "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	call := func(path, body string) (*httptest.ResponseRecorder, time.Duration) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		rec := httptest.NewRecorder()
		began := time.Now()
		handler.ServeHTTP(rec, r)
		return rec, time.Since(began)
	}
	round := func(path, body, purpose string, status int) (differs float64) {
		var addresses [2][]string // unknown and known
		for i := range tries / each {
			for known := range addresses {
				addresses[known] = append(addresses[known], fmt.Sprintf("%d-%s@example.org", i, ids.New[world]()))
			}
		}
		w.accounts(addresses[1], hash)
		if purpose != "" {
			for _, email := range slices.Concat(addresses[:]...) {
				if _, err := w.RequestCode(t.Context(), email, purpose, "192.0.2.1"); err != nil {
					t.Fatal(err)
				}
			}
		}
		var took [2][]time.Duration
		for i := range tries {
			var answers [2]*httptest.ResponseRecorder
			for turn := range 2 {
				known := (i + turn) % 2 // who is first takes turns as well
				rec, d := call(path, fmt.Sprintf(body, addresses[known][i%len(addresses[known])]))
				took[known], answers[known] = append(took[known], d), rec
			}
			unknown, known := answers[0], answers[1]
			if known.Code != status || unknown.Code != status || known.Body.String() != unknown.Body.String() || !sameHeader(known.Header(), unknown.Header()) {
				t.Fatalf("%s %s\nunknown: %d %v\n%s\nknown: %d %v\n%s", path, body, unknown.Code, unknown.Header(), unknown.Body, known.Code, known.Header(), known.Body)
			}
		}
		unknown, known := median(took[0]), median(took[1])
		differs = max(float64(known)/float64(unknown), float64(unknown)/float64(known)) - 1
		t.Logf("%s: unknown %s, known %s, %.1f %% apart", body, unknown, known, 100*differs)
		return differs
	}
	for _, c := range []struct {
		name, path, body string
		asked            string // for this a code is asked for before
		status           int
	}{
		{"register code", "/v1/auth/codes", `{"email":%q,"purpose":"register"}`, "", http.StatusOK},
		{"login code", "/v1/auth/codes", `{"email":%q,"purpose":"login"}`, "", http.StatusOK},
		{"reset code", "/v1/auth/codes", `{"email":%q,"purpose":"reset_password"}`, "", http.StatusOK},
		{"password", "/v1/auth/login", `{"email":%q,"password":"wrong horse"}`, "", http.StatusUnauthorized},
		{"code", "/v1/auth/login", `{"email":%q,"code":"not one"}`, "login", http.StatusUnauthorized},
		{"reset", "/v1/auth/password", `{"email":%q,"code":"000000","password":"battery staple"}`, "reset_password", http.StatusUnprocessableEntity},
	} {
		t.Run(c.name, func(t *testing.T) {
			least := 1.0
			for range 3 {
				if least = min(least, round(c.path, c.body, c.asked, c.status)); least <= apart {
					return
				}
			}
			t.Errorf("known and unknown addresses are %.0f %% apart at least, want %.0f at most", 100*least, 100*apart)
		})
	}
}

// accounts opens accounts with one password behind the domain's back.
func (w *world) accounts(emails []string, passwordHash string) {
	w.t.Helper()
	err := w.db.Tx(w.t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		for _, email := range emails {
			u, err := NewUser(email, "Ann", "UTC")
			if err != nil {
				return err
			}
			if err := insertUser(ctx, tx, u, emailKey(email), passwordHash); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// sameHeader compares all but what is drawn for each request.
func sameHeader(a, b http.Header) bool {
	a, b = a.Clone(), b.Clone()
	a.Del("X-Request-ID")
	b.Del("X-Request-ID")
	return maps.EqualFunc(a, b, slices.Equal[[]string])
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

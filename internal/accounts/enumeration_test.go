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

	"github.com/stoa-dev/stoa/internal/accounts/emails"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// No response reveals whether an address has an account.
func TestResponses_DoNotRevealAccounts(t *testing.T) {
	for _, a := range askings {
		t.Run(a.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) { newAsker(t).ask(t, a, 20) })
		})
	}
}

// asking is a request that names an address, and the expected status.
type asking struct {
	name, path, body string
	asked            string // the purpose of a code requested before
	status           int
}

var askings = []asking{
	{"register code", "/v1/auth/codes", `{"email":%q,"purpose":"register"}`, "", http.StatusOK},
	{"login code", "/v1/auth/codes", `{"email":%q,"purpose":"login"}`, "", http.StatusOK},
	{"reset code", "/v1/auth/codes", `{"email":%q,"purpose":"reset_password"}`, "", http.StatusOK},
	{"password", "/v1/auth/login", `{"email":%q,"password":"wrong horse"}`, "", http.StatusUnauthorized},
	{"code", "/v1/auth/login", `{"email":%q,"code":"not one"}`, "login", http.StatusUnauthorized},
	{"reset", "/v1/auth/password", `{"email":%q,"code":"000000","password":"battery staple"}`, "reset_password",
		http.StatusUnprocessableEntity},
}

// asker sends requests for known and unknown addresses.
type asker struct {
	*world
	handler http.Handler
	hash    string // of the password of all accounts
}

func newAsker(t *testing.T) *asker {
	t.Helper()
	w := onSQLite(t, Settings{Limits: Limits{CodesPerMinute: 1e6, CodesPerDay: 1e6, CodesPerIP: 1e6, LoginFails: 1e6}})
	a := web.New(web.Config{Auth: w.Service})
	w.Routes(a)
	hash, err := w.hasher.Hash(t.Context(), "", "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	return &asker{w, a.Handler(), hash}
}

// ask tries unknown and known addresses in turn, requires equal responses, and returns the duration of each.
func (s *asker) ask(t *testing.T, a asking, tries int) (took [2][]time.Duration) {
	t.Helper()
	const each = 5            // number of checks of a code
	var addresses [2][]string // unknown and known
	for i := range tries / each {
		for known := range addresses {
			addresses[known] = append(addresses[known], fmt.Sprintf("%d-%s@example.org", i, ids.New[world]()))
		}
	}
	s.accounts(addresses[1], s.hash)
	if a.asked != "" {
		for _, email := range slices.Concat(addresses[:]...) {
			if _, err := s.RequestCode(t.Context(), email, a.asked, "192.0.2.1"); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range tries {
		var answers [2]*httptest.ResponseRecorder
		for turn := range 2 {
			known := (i + turn) % 2 // the first one alternates, too
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, a.path,
				strings.NewReader(fmt.Sprintf(a.body, addresses[known][i%len(addresses[known])])))
			r.Header.Set("Content-Type", "application/json")
			answers[known] = httptest.NewRecorder()
			began := time.Now()
			s.handler.ServeHTTP(answers[known], r)
			took[known] = append(took[known], time.Since(began))
		}
		unknown, known := answers[0], answers[1]
		if known.Code != a.status || unknown.Code != a.status || known.Body.String() != unknown.Body.String() ||
			!sameHeader(known.Header(), unknown.Header()) {
			t.Fatalf("%s %s\nunknown: %d %v\n%s\nknown: %d %v\n%s", a.path, a.body, unknown.Code, unknown.Header(), unknown.Body, known.Code,
				known.Header(), known.Body)
		}
	}
	return took
}

// accounts inserts accounts with one password directly into SQL.
func (w *world) accounts(addresses []string, passwordHash string) {
	w.t.Helper()
	err := w.db.Tx(w.t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		for _, email := range addresses {
			u, err := NewUser(email, "Ann", "UTC")
			if err != nil {
				return err
			}
			if err := insertUser(ctx, tx, u, emails.Key(email), passwordHash); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// sameHeader compares all headers except those that are random per request.
func sameHeader(a, b http.Header) bool {
	a, b = a.Clone(), b.Clone()
	a.Del("X-Request-ID")
	b.Del("X-Request-ID")
	return maps.EqualFunc(a, b, slices.Equal[[]string])
}

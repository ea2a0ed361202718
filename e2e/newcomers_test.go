package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/api"
)

// newcomers register, log in, refresh and log out.
type newcomers struct {
	*people
	all []*newcomer
}

// newcomer has the acknowledged actions of a newcomer.
type newcomer struct {
	email, password string
	id              string
	in              []api.Tokens
	out             []*person // logged-out devices
}

// The actions of newcomers, counted like those of people.
const (
	registers = iota
	logsIn
	refreshes
	logsOut
)

// newNewcomers lets newcomers come into a world. A new token is valid on both nodes at once, with any failure in between.
// A token of a logged-out device is refused within maxStale. A retry of a request with an unknown outcome gets the same
// response.
func newNewcomers(w *world) *newcomers {
	all := &newcomers{people: &people{world: w}}
	for i := range 3 {
		all.all = append(all.all, &newcomer{email: fmt.Sprintf("newcomer%d@example.org", i), password: "correct horse " + nanoid()})
	}
	return all
}

func (w *newcomers) begin() {
	w.work(len(w.all), 500*time.Millisecond, func(rng *rand.Rand, i int) { w.step(rng, w.all[i]) })
}

func (w *newcomers) check() {
	for _, one := range w.all {
		w.look(one)
	}
}

// step does one possible action of a user, and records its response.
func (w *newcomers) step(rng *rand.Rand, one *newcomer) {
	if len(one.in) == 0 {
		w.enter(rng, one)
		return
	}
	i := rng.IntN(len(one.in))
	switch n := rng.IntN(100); {
	case n < 20 && len(one.in) < 15 || len(one.in) == 1 && n < 50:
		w.logIn(rng, one)
	case n < 65:
		w.refresh(rng, one, i)
	case n < 75 || len(one.in) > 15: // far below the maximum of a user
		w.logOut(rng, one, i)
	default:
		w.letIn(one.in[i])
	}
}

// enter creates an account, or finds that an earlier try did.
func (w *newcomers) enter(rng *rand.Rand, one *newcomer) {
	if one.id != "" {
		w.logIn(rng, one)
		return
	}
	known := map[string]bool{}
	for unsure := false; w.t.Context().Err() == nil && !w.over.Load(); {
		if unsure { // the last try may have succeeded
			if status, text, out := w.post(rng, "/v1/auth/login", api.LoginRequest{Email: one.email, Password: one.password}); out == answered &&
				status == http.StatusOK {
				w.entered(one, text)
				return
			} else if out == answered && status != http.StatusUnauthorized {
				w.bad("%s logs in, perhaps registered: %d %s", one.email, status, text)
			} else if out != answered {
				continue
			}
		}
		status, text, out := w.post(rng, "/v1/auth/codes", api.CodeRequest{Email: one.email, Purpose: api.PurposeRegister})
		if out != answered {
			continue
		} else if status != http.StatusOK {
			w.bad("%s asks for a code: %d %s", one.email, status, text)
			return
		}
		code := w.mailed(one.email, known)
		if code == "" {
			continue
		}
		known[code] = true
		status, text, out = w.post(rng, "/v1/auth/register",
			api.RegisterRequest{Email: one.email, Code: code, Password: one.password, Name: "New"})
		switch {
		case out != answered:
			unsure = true
		case status == http.StatusCreated:
			w.entered(one, text)
			return
		case unsure && status == http.StatusConflict:
		case strings.Contains(string(text), "auth.code_wrong"): // a mail came late
		default:
			w.bad("%s registers: %d %s", one.email, status, text)
			return
		}
	}
}

// mailed waits a moment for a new code. It returns "" if none arrives.
func (w *newcomers) mailed(email string, known map[string]bool) string {
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		_, text, out := w.exchange(w.nodes[0], http.MethodGet, "/dev/mail.json?to="+url.QueryEscape(email), &person{}, "")
		var mails []struct{ Code string }
		if out != answered || json.Unmarshal(text, &mails) != nil {
			continue
		}
		for _, m := range mails { // newest first
			if m.Code != "" && !known[m.Code] {
				return m.Code
			}
		}
	}
	return ""
}

func (w *newcomers) entered(one *newcomer, text []byte) {
	var t api.Tokens
	if err := json.Unmarshal(text, &t); err != nil {
		w.bad("%s: %v in %s", one.email, err, text)
		return
	}
	w.done[registers].Add(1)
	one.id = t.User.ID
	w.handed(one, t)
}

func (w *newcomers) logIn(rng *rand.Rand, one *newcomer) {
	for w.t.Context().Err() == nil {
		status, text, out := w.post(rng, "/v1/auth/login", api.LoginRequest{Email: one.email, Password: one.password})
		if out != answered {
			continue
		}
		w.done[logsIn].Add(1)
		var t api.Tokens
		if err := json.Unmarshal(text, &t); status != http.StatusOK || err != nil || t.User.ID != one.id {
			w.bad("%s, who is %s, logs in: %d %s", one.email, one.id, status, text)
			return
		}
		w.handed(one, t)
		return
	}
}

func (w *newcomers) handed(one *newcomer, t api.Tokens) {
	one.in = append(one.in, t)
	w.letIn(t)
}

// logOut logs one device out by another, if there is one.
func (w *newcomers) logOut(rng *rand.Rand, one *newcomer, i int) {
	if len(one.in) == 1 {
		return
	}
	gone, stays := one.in[i], one.in[(i+1+rng.IntN(len(one.in)-1))%len(one.in)] // a logged-out device could not retry
	asks := &person{id: one.id, token: stays.AccessToken}
	w.do(rng, logsOut, asks, http.MethodDelete, "/v1/sessions/"+gone.Device, "", "session.unknown")
	one.in = slices.Delete(one.in, i, i+1)
	one.out = append(one.out, &person{id: one.id, token: gone.AccessToken})
	time.Sleep(maxStale)
	w.refuse(one.out[len(one.out)-1])
}

// refresh exchanges a refresh token. The same token returns the same pair again, as long as docs/people/sessions.md
// promises. Later the server must consider it stolen.
func (w *newcomers) refresh(rng *rand.Rand, one *newcomer, i int) {
	for began := time.Now(); w.t.Context().Err() == nil; {
		status, text, out := w.post(rng, "/v1/auth/refresh", api.RefreshRequest{RefreshToken: one.in[i].RefreshToken})
		if out != answered {
			continue
		}
		w.done[refreshes].Add(1)
		var fresh api.Tokens
		switch err := json.Unmarshal(text, &fresh); {
		case status == http.StatusOK && err == nil:
			one.in[i] = fresh
			w.letIn(fresh)
		case status == http.StatusUnauthorized && time.Since(began) > 9*time.Second:
			one.in = slices.Delete(one.in, i, i+1)
		default:
			w.bad("a token of %s, first sent %s ago, is not refreshed: %d %s", one.id, time.Since(began), status, text)
		}
		return
	}
}

// letIn checks that both nodes accept a token.
func (w *newcomers) letIn(t api.Tokens) {
	for i, n := range w.nodes {
		if status, text, out := w.exchange(n, http.MethodGet, "/v1/me", &person{id: t.User.ID, token: t.AccessToken}, ""); out == answered &&
			status != http.StatusOK {
			w.bad("node %d does not take a token of %s: %d %s", i, t.User.ID, status, text)
		}
	}
}

// post sends a request to a random node.
func (w *newcomers) post(rng *rand.Rand, path string, body any) (status int, text []byte, _ outcome) {
	b, err := json.Marshal(body)
	if err != nil {
		w.t.Error(err)
	}
	status, text, out := w.exchange(w.nodes[rng.IntN(len(w.nodes))], http.MethodPost, path, &person{}, string(b))
	if out != answered {
		w.again.Add(1)
		time.Sleep(20 * time.Millisecond)
	}
	return status, text, out
}

// look compares what the nodes return about a user, and the rows of SQL, with the acknowledged actions. A log-in
// without a response leaves a device.
func (w *newcomers) look(one *newcomer) {
	if one.id == "" {
		return
	}
	for _, t := range one.in {
		for i, n := range w.nodes {
			var me api.User
			w.must(n, "/v1/me", &person{id: one.id, token: t.AccessToken}, &me)
			if me.ID != one.id {
				w.bad("node %d takes a token of %s for one of %q", i, one.id, me.ID)
			}
		}
	}
	for _, d := range one.out {
		w.refuse(d)
	}
	var accounts, devices int
	err := w.db.NewRaw("SELECT (SELECT COUNT(*) FROM users WHERE email = ?), (SELECT COUNT(*) FROM sessions WHERE user_id = ?)", one.email,
		one.id).Scan(w.t.Context(), &accounts, &devices)
	if err != nil || accounts != 1 || devices < len(one.in) {
		w.bad("%s: %d accounts, %d devices (%v), want 1 and %d at least", one.email, accounts, devices, err, len(one.in))
	}
}

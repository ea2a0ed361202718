package accounts

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"testing"

	"github.com/stoa-dev/stoa/internal/accounts/codes"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

func TestRequestCode_MailsTheOwnersSpelling(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		w.join("Ann@example.org", "correct horse")
		for _, purpose := range []string{"login", "reset_password", "register"} {
			if _, err := w.RequestCode(t.Context(), "aNN@EXAMPLE.org", purpose, "192.0.2.9"); err != nil {
				t.Fatal(err)
			}
			if to := w.mails("")[0].To; to != "Ann@example.org" {
				t.Errorf("the mail to %s went to %s, want the owner's own spelling", purpose, to)
			}
		}
	})
}

func TestCode_RefusedForAnotherPurpose(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{Limits: Limits{LoginFails: 1000}})
		a := w.join("ann@example.org", "correct horse")
		uses := map[string]func(code string) error{
			"register": func(code string) error {
				_, err := w.Register(t.Context(), Registration{Email: "new@example.org", Code: code, Name: "New"})
				return err
			},
			"login": func(code string) error {
				_, err := w.Login(t.Context(), Login{Email: "ann@example.org", Code: code})
				return err
			},
			"reset_password": func(code string) error {
				return w.ResetPassword(t.Context(), Reset{Email: "ann@example.org", Code: code, Password: "battery staple"})
			},
			"change_email": func(code string) error {
				_, err := w.ChangeEmail(t.Context(), a.User.ID, a.Device, EmailChange{Email: "new@example.org", Code: code, Password: "correct horse"})
				return err
			},
		}
		mailed := map[string]string{"register": w.code("new@example.org", "register"), "login": w.code("ann@example.org", "login"),
			"reset_password": w.code("ann@example.org", "reset_password"), "change_email": w.emailCode(a.User.ID, "new@example.org")}
		for purpose, code := range mailed {
			for use, try := range uses {
				if use == purpose {
					continue
				}
				if err := try(code); !errors.Is(err, codes.ErrWrong) && !errors.Is(err, ErrCredentials) {
					t.Errorf("a code to %s, used to %s: got %v, want it refused", purpose, use, err)
				}
			}
		}
		for _, purpose := range []string{"login", "change_email"} { // their addresses are unchanged
			if err := uses[purpose](mailed[purpose]); err != nil {
				t.Errorf("a code to %s, after three wrong tries of it: %v", purpose, err)
			}
		}
	})
}

// emailCode requests a code at the user's new address and returns the mailed one, or "" if the mail has none.
func (w *world) emailCode(user ID, email string) string {
	w.t.Helper()
	ip := fmt.Sprintf("10.1.%d.%d", w.ips.Add(1)/250, w.ips.Load()%250)
	if _, err := w.RequestEmailCode(w.t.Context(), user, email, ip); err != nil {
		w.t.Fatal(err)
	}
	return w.mails(email)[0].Code
}

func TestCode_BoundToItsUser(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		a, b := w.join("ann@example.org", ""), w.join("bob@example.org", "")
		code := w.emailCode(a.User.ID, "new@example.org")
		bobs := w.emailCode(b.User.ID, "new@example.org") // a separate row
		change := func(x Tokens, code string) error {
			err := w.move(x, "new@example.org", code, "")
			return err
		}
		for range 6 {
			wrong := code
			if wrong == bobs {
				wrong = otherThan(bobs)
			}
			if err := change(b, wrong); !errors.Is(err, codes.ErrWrong) {
				t.Errorf("Ann's code used by Bob: got %v, want codes.ErrWrong", err)
			}
		}
		if err := change(a, code); err != nil {
			t.Errorf("Ann's code, after six wrong tries by Bob: %v", err)
		}
	})
}

func TestCode_SurvivesFlushAll(t *testing.T) {
	onMemory(t, Settings{}, func(t *testing.T, w *world, server *redistest.Memory) {
		w.join("ann@example.org", "correct horse")
		for i, wrong := range []int{4, 5} {
			code := w.code("ann@example.org", "reset_password")
			reset := func(code string) error {
				return w.ResetPassword(t.Context(), Reset{Email: "ann@example.org", Code: code, Password: "battery staple"})
			}
			for n := range wrong {
				if n == 2 {
					server.FlushAll()
				}
				if err := reset(otherThan(code)); !errors.Is(err, codes.ErrWrong) {
					t.Fatalf("a wrong code: got %v, want codes.ErrWrong", err)
				}
			}
			if err := reset(code); errors.Is(err, codes.ErrWrong) != (i == 1) || i == 0 && err != nil {
				t.Errorf("the right code after %d wrong ones with Redis emptied in between: got %v", wrong, err)
			}
		}
	})
}

// codeOf returns the code of a message in the outbox, as a holder of the server's secret can.
func (w *world) codeOf(payload []byte) string {
	w.t.Helper()
	var n codes.Notice
	if err := json.Unmarshal(payload, &n); err != nil {
		w.t.Fatal(err)
	}
	n.Known = true // otherwise its mail has no code
	m, _, err := w.codes.Message(n)
	if err != nil {
		w.t.Fatal(err)
	}
	return regexp.MustCompile(`\b[0-9]{6}\b`).FindString(m.Text)
}

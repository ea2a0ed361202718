package accounts

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"time"

	"github.com/stoa-dev/stoa/internal/accounts/emails"
	"github.com/stoa-dev/stoa/internal/foundation/texts"
	"github.com/stoa-dev/stoa/lib/redis/redistest"

	"github.com/stoa-dev/stoa/internal/foundation/ids"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

func TestAChangeOfAddressIsNoPublicPurpose(t *testing.T) {
	for in, want := range map[string]Purpose{"register": ForRegister, "login": ForLogin, "reset_password": ForResetPassword, "change_email": 0, "": 0} {
		got, err := ParsePurpose(in)
		if got != want || errors.Is(err, ErrPurpose) != (want == 0) {
			t.Errorf("ParsePurpose(%q): got %d, %v, want %d", in, got, err, want)
		}
	}
}

func TestACodeIsBoundToWhatItProves(t *testing.T) {
	m := mint("0123456789abcdef0123456789abcdef")
	ann, bob := emails.Address{Key: "ann@example.org"}, emails.Address{Key: "bob@example.org"}
	one := proof{email: ann, purpose: ForChangeEmail, user: ids.New[User]()}
	for _, other := range []proof{
		{bob, one.purpose, one.user}, {ann, ForLogin, one.user}, {ann, one.purpose, ids.New[User]()}, {ann, one.purpose, ID{}},
	} {
		if m.codeHash(one, "123456") == m.codeHash(other, "123456") || m.emailHash(one) == m.emailHash(other) {
			t.Errorf("%+v and %+v have one hash", one, other)
		}
		if m.code(one, "a") == m.code(other, "a") && m.code(one, "b") == m.code(other, "b") {
			t.Errorf("%+v and %+v have one code", one, other)
		}
	}
	if m.codeHash(one, "123456") == m.codeHash(one, "123457") {
		t.Error("two codes have one hash")
	}
	if one.segment("") == (proof{email: ann, purpose: ForChangeEmail, user: ids.New[User]()}).segment("") {
		t.Error("two users' tries are counted together")
	}
}

func TestAMailWithoutACodeHasNone(t *testing.T) {
	for _, tt := range []struct {
		p      Purpose
		known  bool
		isCode bool
	}{
		{ForRegister, false, true}, {ForRegister, true, false}, {ForLogin, true, true}, {ForLogin, false, false},
		{ForResetPassword, true, true}, {ForResetPassword, false, false}, {ForChangeEmail, false, true}, {ForChangeEmail, true, false},
	} {
		m := codeMail(texts.English, tt.p, tt.known, "042917", 5*time.Minute)
		if got := strings.Contains(m.Text, "042917"); got != tt.isCode || strings.Contains(m.Subject, "042917") || m.Subject == "" {
			t.Errorf("purpose %d, known %t: the code is in %+v: %t, want %t", tt.p, tt.known, m, got, tt.isCode)
		}
	}
}

func TestACodeForAnAccountGoesWhereItsOwnerReads(t *testing.T) {
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

func TestACodeIsNotForAnotherPurpose(t *testing.T) {
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
		codes := map[string]string{"register": w.code("new@example.org", "register"), "login": w.code("ann@example.org", "login"),
			"reset_password": w.code("ann@example.org", "reset_password"), "change_email": w.emailCode(a.User.ID, "new@example.org")}
		for purpose, code := range codes {
			for use, try := range uses {
				if use == purpose {
					continue
				}
				if err := try(code); !errors.Is(err, ErrCode) && !errors.Is(err, ErrCredentials) {
					t.Errorf("a code to %s, used to %s: got %v, want it refused", purpose, use, err)
				}
			}
		}
		for _, purpose := range []string{"login", "change_email"} { // whose addresses nobody has changed yet
			if err := uses[purpose](codes[purpose]); err != nil {
				t.Errorf("a code to %s, after three wrong tries of it: %v", purpose, err)
			}
		}
	})
}

// emailCode asks for a code at the address that is to be the user's, and returns
// it as mailed; "" when the mail has none.
func (w *world) emailCode(user ID, email string) string {
	w.t.Helper()
	ip := fmt.Sprintf("10.1.%d.%d", w.ips.Add(1)/250, w.ips.Load()%250)
	if _, err := w.RequestEmailCode(w.t.Context(), user, email, ip); err != nil {
		w.t.Fatal(err)
	}
	return w.mails(email)[0].Code
}

func TestAnotherUserCanNeitherUseNorVoidACode(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		a, b := w.join("ann@example.org", ""), w.join("bob@example.org", "")
		code := w.emailCode(a.User.ID, "new@example.org")
		bobs := w.emailCode(b.User.ID, "new@example.org") // a row of its own
		change := func(x Tokens, code string) error {
			err := w.move(x, "new@example.org", code, "")
			return err
		}
		for range 6 {
			wrong := code
			if wrong == bobs {
				wrong = otherThan(bobs)
			}
			if err := change(b, wrong); !errors.Is(err, ErrCode) {
				t.Errorf("Ann's code used by Bob: got %v, want ErrCode", err)
			}
		}
		if err := change(a, code); err != nil {
			t.Errorf("Ann's code, after six wrong tries by Bob: %v", err)
		}
	})
}

func TestACodeOutlivesAnEmptiedRedisAndItsTriesDoToo(t *testing.T) {
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
				if err := reset(otherThan(code)); !errors.Is(err, ErrCode) {
					t.Fatalf("a wrong code: got %v, want ErrCode", err)
				}
			}
			if err := reset(code); errors.Is(err, ErrCode) != (i == 1) || i == 0 && err != nil {
				t.Errorf("the right code after %d wrong ones with Redis emptied in between: got %v", wrong, err)
			}
		}
	})
}

// Between the look at a code and the transaction of what it is for, it may have
// been used, replaced, or have expired.
func TestACodeIsLookedAtAgainWhereItIsSpent(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		p := proof{email: emails.Address{Given: "ann@example.org", Key: "ann@example.org"}, purpose: ForRegister}
		looked := func() codeRow {
			t.Helper()
			c, err := w.checkCode(t.Context(), p, w.code("ann@example.org", "register"), "192.0.2.1")
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		spend := func(what string, c codeRow, want error) {
			t.Helper()
			if err := w.db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { return consumeCode(ctx, tx, c) }); !errors.Is(err, want) {
				t.Errorf("%s: got %v, want %v", what, err, want)
			}
		}
		used, replaced := looked(), looked()
		spend("one that was replaced", used, ErrCode)
		spend("the one in force", replaced, nil)
		spend("one that was used", replaced, ErrCode)
		expired := looked()
		w.pass(w.cfg.CodeLife)
		spend("one that has expired", expired, ErrCode)
		if hash, err := tryCode(t.Context(), w.db, expired, "192.0.2.1"); hash != "" || err != nil {
			t.Errorf("one that has expired is compared with %q, %v", hash, err)
		}
	})
}

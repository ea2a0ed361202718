package accounts

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts/codes"
	"github.com/stoa-dev/stoa/internal/accounts/trail"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// undoLink returns the token of the newest link that the address was mailed.
func (w *world) undoLink(email string) string {
	w.t.Helper()
	for _, m := range w.mails(email) {
		if found := regexp.MustCompile(`https://stoa\.example\.org/#/undo/(su_[\w-]{43})\n`).FindStringSubmatch(m.Text); found != nil {
			return found[1]
		}
	}
	w.t.Fatalf("%s was mailed no link", email)
	return ""
}

func (w *world) undo(token string) error { return w.UndoEmail(w.t.Context(), token, "192.0.2.1") }

// emailOf returns the address that the user has.
func (w *world) emailOf(user ID) string {
	w.t.Helper()
	u, err := w.User(w.t.Context(), user)
	if err != nil {
		w.t.Fatal(err)
	}
	return u.Email
}

// A thief has an access token of an account without a password, and another mailbox than the owner.
func TestUndo_StolenTokenCannotTakeOverAnAccount(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		a := w.join("ann@example.org", "")
		w.join("eve@example.org", "")
		toEve := w.emailCode(a.User.ID, "eve2@example.org")
		login := w.code("ann@example.org", "login") // for another purpose
		before := w.dump("SELECT * FROM users ORDER BY id") + w.dump("SELECT user_id FROM sessions ORDER BY device_id")
		setPassword := func(code string) error {
			return w.ChangePassword(t.Context(), a.User.ID, a.Device, PasswordChange{Code: code, Password: "battery staple"})
		}
		leave := func(code string) error {
			_, err := w.ChangeEmail(t.Context(), a.User.ID, a.Device, EmailChange{Email: "eve2@example.org", Code: toEve, OldCode: code})
			return err
		}
		toSet, toLeave := w.ownCode(a.User.ID, api.PurposeSetPassword), w.ownCode(a.User.ID, api.PurposeLeaveEmail)
		for what, got := range map[string]error{
			"a password, no code":                 setPassword(""),
			"a password, a wrong code":            setPassword(otherThan(toSet)),
			"a password, a code of another kind":  setPassword(login),
			"a password, the code for an address": setPassword(toLeave),
			"a password, the thief's own code":    setPassword(toEve),
			"an address, no code":                 leave(""),
			"an address, a wrong code":            leave(otherThan(toLeave)),
			"an address, the code for a password": leave(toSet),
			"an address, the new address's code":  leave(toEve),
			"an address, a code of another kind":  leave(login),
		} {
			if !errors.Is(got, codes.ErrWrong) {
				t.Errorf("%s: got %v, want codes.ErrWrong", what, got)
			}
		}
		if after := w.dump("SELECT * FROM users ORDER BY id") + w.dump("SELECT user_id FROM sessions ORDER BY device_id"); after != before {
			t.Errorf("before:\n%s\nafter:\n%s", before, after)
		}
		if err := leave(toLeave); err != nil {
			t.Errorf("the owner: %v", err)
		}
		if err := leave(toLeave); !errors.Is(err, codes.ErrWrong) {
			t.Errorf("the same code again: got %v, want codes.ErrWrong", err)
		}
		if err := setPassword(toSet); !errors.Is(err, codes.ErrWrong) {
			t.Errorf("the code to an address that was left: got %v, want codes.ErrWrong", err)
		}
		if err := setPassword(w.ownCode(a.User.ID, api.PurposeSetPassword)); err != nil {
			t.Errorf("the owner: %v", err)
		}
	})
}

// A code to the user's own address has the same limits as other codes.
func TestRequestOwnCode_IsLimited(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		a := w.join("ann@example.org", "")
		for _, purpose := range []string{api.PurposeRegister, api.PurposeChangeEmail, ""} {
			if _, err := w.RequestOwnCode(t.Context(), a.User.ID, purpose, "10.9.9.9"); !errors.Is(err, codes.ErrPurpose) {
				t.Errorf("%q: got %v, want codes.ErrPurpose", purpose, err)
			}
		}
		code := w.ownCode(a.User.ID, api.PurposeSetPassword)
		set := func(code string) error {
			return w.ChangePassword(t.Context(), a.User.ID, a.Device, PasswordChange{Code: code, Password: "battery staple"})
		}
		for range 5 {
			if err := set(otherThan(code)); !errors.Is(err, codes.ErrWrong) {
				t.Fatalf("a wrong code: got %v, want codes.ErrWrong", err)
			}
		}
		if err := set(code); !errors.Is(err, codes.ErrWrong) {
			t.Errorf("the right code after five wrong ones: got %v, want codes.ErrWrong", err)
		}
		for range 9 {
			code = w.ownCode(a.User.ID, api.PurposeSetPassword)
		}
		if _, err := w.RequestOwnCode(t.Context(), a.User.ID, api.PurposeSetPassword, "10.9.9.9"); !errors.Is(err, codes.ErrTooMany) {
			t.Errorf("the eleventh code of a day: got %v, want codes.ErrTooMany", err)
		}
		w.pass(w.cfg.CodeLife)
		if err := set(code); !errors.Is(err, codes.ErrWrong) {
			t.Errorf("an expired code: got %v, want codes.ErrWrong", err)
		}
	})
}

func TestUndo_RestoresTheOldAddress(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		a := w.join("Ann@example.org", "correct horse")
		b := w.enter("ann@example.org", "correct horse")
		if err := w.move(a, "eve@example.org", w.emailCode(a.User.ID, "eve@example.org"), "correct horse"); err != nil {
			t.Fatal(err)
		}
		if err := w.change(a, "correct horse", "battery staple"); err != nil {
			t.Fatal(err)
		}
		link := w.undoLink("Ann@example.org")
		if w.emailOf(a.User.ID) != "eve@example.org" {
			t.Fatal("the address is unchanged")
		}
		w.check("before", a.Access, nil)
		for _, wrong := range []string{"", "su_", link[:len(link)-1], strings.ToUpper(link), hash(link)} {
			if err := w.undo(wrong); !errors.Is(err, ErrUndo) {
				t.Errorf("%q: got %v, want ErrUndo", wrong, err)
			}
		}
		w.pass(undoLife - time.Second)
		thief := w.enter("eve@example.org", "battery staple")
		w.check("the thief before", thief.Access, nil)
		if err := w.undo(link); err != nil {
			t.Fatal(err)
		}
		if got := w.emailOf(a.User.ID); got != "Ann@example.org" {
			t.Errorf("the address is %s, want the old one as it was written", got)
		}
		for _, old := range []Tokens{a, b, thief} {
			w.check("after", old.Access, ErrToken)
		}
		for _, password := range []string{"correct horse", "battery staple"} {
			if err := w.login("ann@example.org", password); !errors.Is(err, ErrCredentials) {
				t.Errorf("by password: got %v, want ErrCredentials", err)
			}
		}
		if _, err := w.Login(t.Context(), Login{Email: "ann@example.org", Code: w.code("ann@example.org", "login"),
			IP: "192.0.2.1"}); err != nil {
			t.Errorf("the owner, by code: %v", err)
		}
		if _, err := w.Login(t.Context(), Login{Email: "eve@example.org", Code: "000000", IP: "192.0.2.7"}); !errors.Is(err, ErrCredentials) {
			t.Errorf("the thief: got %v, want ErrCredentials", err)
		}
		if err := w.undo(link); !errors.Is(err, ErrUndo) {
			t.Errorf("a second time: got %v, want ErrUndo", err)
		}
		for _, to := range []string{"Ann@example.org", "eve@example.org"} {
			if all := w.mails(to); !strings.Contains(all[0].Subject+all[1].Subject, "A change of address was taken back") {
				t.Errorf("%s was mailed %+v", to, all[0])
			}
		}
		events, _, err := trail.Page(t.Context(), w.db, a.User.ID.String(), "", 10)
		if err != nil || !slices.ContainsFunc(events, func(e trail.Event) bool {
			return e.Kind == trail.EmailUndone && e.ClientNet == "192.0.2.1"
		}) {
			t.Errorf("kept: %+v, %v", events, err)
		}
	})
}

// After Ann → Bea → Eve the link to Ann undoes both changes and invalidates the link to Bea, who may be the thief. In
// the other order the link to Bea undoes her change, and the link to Ann the rest.
func TestUndo_UndoesLaterChanges(t *testing.T) {
	for name, order := range map[string][]struct {
		link, want string
		err        error
	}{
		"the first link":      {{"ann", "ann", nil}, {"bea", "ann", ErrUndo}},
		"one after the other": {{"bea", "bea", nil}, {"ann", "ann", nil}},
	} {
		t.Run(name, func(t *testing.T) {
			eachEngine(t, Settings{}, func(t *testing.T, w *world) {
				a := w.join("ann@example.org", "correct horse")
				links := map[string]string{}
				for _, hop := range [][2]string{{"ann", "bea"}, {"bea", "eve"}} {
					w.pass(time.Second)
					to := hop[1] + "@example.org"
					if err := w.move(a, to, w.emailCode(a.User.ID, to), "correct horse"); err != nil {
						t.Fatal(err)
					}
					links[hop[0]] = w.undoLink(hop[0] + "@example.org")
				}
				for _, step := range order {
					if err := w.undo(links[step.link]); !errors.Is(err, step.err) {
						t.Errorf("the link to %s: got %v, want %v", step.link, err, step.err)
					}
					if got := w.emailOf(a.User.ID); got != step.want+"@example.org" {
						t.Errorf("the address is %s, want %s", got, step.want)
					}
				}
			})
		})
	}
}

func TestUndo_WorksOnce(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		a := w.join("ann@example.org", "correct horse")
		if err := w.move(a, "eve@example.org", w.emailCode(a.User.ID, "eve@example.org"), "correct horse"); err != nil {
			t.Fatal(err)
		}
		link := w.undoLink("ann@example.org")
		var done atomic.Int64
		together(8, func(int) {
			if err := w.undo(link); err == nil {
				done.Add(1)
			} else if !errors.Is(err, ErrUndo) {
				t.Error(err)
			}
		})
		if done.Load() != 1 {
			t.Errorf("%d happened, want one", done.Load())
		}
	})
}

func TestUndo_Expires(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		a := w.join("ann@example.org", "correct horse")
		if err := w.move(a, "eve@example.org", w.emailCode(a.User.ID, "eve@example.org"), "correct horse"); err != nil {
			t.Fatal(err)
		}
		link := w.undoLink("ann@example.org")
		b := w.join("ann@example.org", "")
		if err := w.undo(link); !errors.Is(err, ErrEmailTaken) {
			t.Errorf("where another account has the address: got %v, want ErrEmailTaken", err)
		}
		if w.emailOf(a.User.ID) != "eve@example.org" || w.emailOf(b.User.ID) != "ann@example.org" {
			t.Error("an undo that was refused has changed an address")
		}
		w.check("and has ended nothing", b.Access, nil)
		w.pass(undoLife)
		if err := w.undo(link); !errors.Is(err, ErrUndo) {
			t.Errorf("after three days: got %v, want ErrUndo", err)
		}
		if err := w.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if rows := w.dump("SELECT * FROM email_undos"); rows != "" {
			t.Errorf("after the sweep there is %s", rows)
		}
	})
}

// A thief deletes the account: the link still undoes the change of address, and a log-in cancels the deletion. After
// the erasure no data remains, not even the old address.
func TestUndo_AfterADeletion(t *testing.T) {
	eachEngine(t, Settings{Grace: time.Hour}, func(t *testing.T, w *world) {
		stolen := func(email, to string) (Tokens, string) {
			a := w.join(email, "correct horse")
			if err := w.move(a, to, w.emailCode(a.User.ID, to), "correct horse"); err != nil {
				t.Fatal(err)
			}
			link := w.undoLink(email)
			if _, err := w.Delete(t.Context(), a.User.ID, a.Device, "correct horse"); err != nil {
				t.Fatal(err)
			}
			return a, link
		}
		a, link := stolen("ann@example.org", "eve@example.org")
		if err := w.undo(link); err != nil {
			t.Fatal(err)
		}
		back, err := w.Login(t.Context(), Login{Email: "ann@example.org", Code: w.code("ann@example.org", "login"), IP: "192.0.2.1"})
		if err != nil || back.User.ID != a.User.ID || !back.Restored {
			t.Errorf("the owner's log-in: %+v, %v", back, err)
		}
		_, link = stolen("bob@example.org", "mal@example.org")
		w.pass(2 * time.Hour)
		if err := w.undo(link); !errors.Is(err, ErrUndo) {
			t.Errorf("once it is due: got %v, want ErrUndo", err)
		}
		if err := w.eraseDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		if rows := w.dump("SELECT * FROM email_undos"); rows != "" {
			t.Errorf("after the erasure there is %s", rows)
		}
	})
}

// The token of the link is only in the mail: a reader of SQL, including the queue, can undo nothing.
func TestUndo_TokenIsNotStored(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		a := w.join("ann@example.org", "correct horse")
		if err := w.move(a, "eve@example.org", w.emailCode(a.User.ID, "eve@example.org"), "correct horse"); err != nil {
			t.Fatal(err)
		}
		stored := w.dump("SELECT * FROM outbox") + w.dump("SELECT * FROM email_undos")
		link := w.undoLink("ann@example.org")
		if strings.Contains(stored, link) || !strings.Contains(stored, hash(link)) {
			t.Errorf("stored is %s, and the link's token is %s", stored, link)
		}
		if strings.Contains(w.log.String(), link) {
			t.Error("the token is in the log")
		}
		var seeds []string
		for _, m := range regexp.MustCompile(`"seed":"([^"]+)"`).FindAllStringSubmatch(stored, -1) {
			seeds = append(seeds, m[1])
		}
		other := mint("another secret of thirty-two byt")
		for _, seed := range seeds {
			if other.undoToken(a.User.ID, seed) == link || w.mint.undoToken(ID{}, seed) == link {
				t.Error("the token follows from the seed alone")
			}
		}
	})
}

package accounts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts/codes"
	"github.com/stoa-dev/stoa/internal/accounts/emails"
	"github.com/stoa-dev/stoa/internal/accounts/trail"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// login tries a password and returns the error.
func (w *world) login(email, password string) error {
	_, err := w.Login(w.t.Context(), Login{Email: email, Password: password, IP: "192.0.2.2"})
	return err
}

// lock tries wrong passwords until the address is locked.
func (w *world) lock(email string) {
	w.t.Helper()
	for range 5 {
		if err := w.login(email, "wrong horse"); !errors.Is(err, ErrCredentials) {
			w.t.Fatalf("a wrong password: got %v, want ErrCredentials", err)
		}
	}
	if err := w.login(email, "wrong horse"); !errors.Is(err, ErrLocked) {
		w.t.Fatalf("the sixth wrong password: got %v, want ErrLocked", err)
	}
}

func (w *world) change(t Tokens, current, password string) error {
	return w.ChangePassword(w.t.Context(), t.User.ID, t.Device, PasswordChange{Current: current, Password: password})
}

// ownCode requests a code at the user's own address and returns it, or "" if there is no such user.
func (w *world) ownCode(user ID, purpose string) string {
	w.t.Helper()
	u, err := selectUser(w.t.Context(), w.db, user)
	if errors.Is(err, ErrNoUser) {
		return ""
	}
	if err == nil {
		_, err = w.RequestOwnCode(w.t.Context(), user, purpose, fmt.Sprintf("10.2.%d.%d", w.ips.Add(1)/250, w.ips.Load()%250))
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return w.mails(u.Email)[0].Code
}

// move changes the address of a user with a password, or without one.
func (w *world) move(t Tokens, email, code, password string) error {
	c := EmailChange{Email: email, Code: code, Password: password}
	if password == "" {
		c.OldCode = w.ownCode(t.User.ID, api.PurposeLeaveEmail)
	}
	_, err := w.ChangeEmail(w.t.Context(), t.User.ID, t.Device, c)
	return err
}

// heard returns the received events after one of each type, and the data of the notice.
func (w *world) heard(sub *events.Subscription, types ...string) (notice api.AccountNotice) {
	w.t.Helper()
	missing := map[string]bool{}
	for _, typ := range types {
		missing[typ] = true
	}
	timeout := time.After(patience)
	for len(missing) > 0 {
		select {
		case e, ok := <-sub.C:
			if !ok {
				w.t.Fatalf("the subscription was cut off while %v were waited for", types)
			}
			delete(missing, e.Type)
			if e.Type == api.EventAccountNotice {
				if err := json.Unmarshal(e.Data, &notice); err != nil {
					w.t.Fatal(err)
				}
			}
		case <-timeout:
			w.t.Fatalf("no event %v was heard", missing)
		}
	}
	return notice
}

func TestResetPassword_LogsOutAllDevices(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		a, b := w.join("ann@example.org", "correct horse"), w.enter("ann@example.org", "correct horse")
		w.check("before", a.Access, nil)
		w.lock("ann@example.org")
		code := w.code("ann@example.org", "reset_password")
		if err := w.ResetPassword(t.Context(), Reset{"Ann@example.org", otherThan(code), "battery staple", "192.0.2.1"}); !errors.Is(err,
			codes.ErrWrong) {
			t.Errorf("a wrong code: got %v, want codes.ErrWrong", err)
		}
		w.check("after a wrong code", a.Access, nil)
		if err := w.ResetPassword(t.Context(), Reset{"Ann@example.org", code, "battery staple", "192.0.2.1"}); err != nil {
			t.Fatal(err)
		}
		for _, old := range []Tokens{a, b} {
			w.check("after the reset", old.Access, ErrToken)
			if _, err := w.Refresh(t.Context(), old.Refresh); !errors.Is(err, ErrRefresh) && !errors.Is(err, ErrReused) {
				t.Errorf("a refresh after the reset: got %v, want it refused", err)
			}
		}
		if err := w.login("ann@example.org", "correct horse"); !errors.Is(err, ErrCredentials) {
			t.Errorf("the old password: got %v, want ErrCredentials", err)
		}
		w.enter("ann@example.org", "battery staple")
		if m := w.mails("ann@example.org")[0]; m.Subject != "Your password was changed" || m.Code != "" {
			t.Errorf("the last mail is %+v, want a notice", m)
		}
		if err := w.ResetPassword(t.Context(), Reset{"ann@example.org", code, "correct horse", "192.0.2.1"}); !errors.Is(err, codes.ErrWrong) {
			t.Errorf("the same code again: got %v, want codes.ErrWrong", err)
		}
	})
}

func TestResetPassword_OneOfManyWins(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		w.join("ann@example.org", "correct horse")
		code := w.code("ann@example.org", "reset_password")
		var won atomic.Int64
		passwords := [4]string{"password one", "password two", "password three", "password four"}
		together(len(passwords), func(i int) {
			if err := w.ResetPassword(t.Context(), Reset{"ann@example.org", code, passwords[i], "192.0.2.1"}); err == nil {
				won.Add(1)
			} else if !errors.Is(err, codes.ErrWrong) {
				t.Error(err)
			}
		})
		if won.Load() != 1 {
			t.Errorf("%d resets with one code, want one", won.Load())
		}
	})
}

func TestChangePassword_LogsOutOtherDevices(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		w.listen()
		a, b := w.join("ann@example.org", "correct horse"), w.enter("ann@example.org", "correct horse")
		w.check("before", b.Access, nil)
		sub := w.bus.Subscribe(t.Context(), a.User.ID.String())
		defer sub.Close()
		if err := w.change(a, "correct horse", "battery staple"); err != nil {
			t.Fatal(err)
		}
		w.check("the device that changed it", a.Access, nil)
		w.check("another one", b.Access, ErrToken)
		if err := w.login("ann@example.org", "correct horse"); !errors.Is(err, ErrCredentials) {
			t.Errorf("the old password: got %v, want ErrCredentials", err)
		}
		w.enter("ann@example.org", "battery staple")
		if n := w.heard(sub, api.EventAccountNotice); n.Kind != api.NoticePasswordChanged || n.Device != a.Device.String() {
			t.Errorf("the devices received %+v", n)
		}
		if m := w.mails("ann@example.org")[0]; m.Subject != "Your password was changed" {
			t.Errorf("the last mail is %+v, want a notice", m)
		}
	})
}

// The response was lost, and the client sends the same request again.
func TestCredentials_RetriesChangeNothing(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		a := w.join("ann@example.org", "correct horse")
		one, other := ids.New[trail.Event](), ids.New[trail.Event]()
		set := func(event ids.ID[trail.Event], current, password string) error {
			return w.ChangePassword(t.Context(), a.User.ID, a.Device, PasswordChange{Current: current, Password: password, Event: event})
		}
		for range 8 { // more often than wrong ones are allowed
			if err := set(one, "correct horse", "battery staple"); err != nil {
				t.Fatal(err)
			}
		}
		for what, err := range map[string]error{
			"another request":     set(other, "correct horse", "battery staple"),
			"another password":    set(one, "correct horse", "staple battery"),
			"no present password": set(other, "", "battery staple"),
		} {
			if !errors.Is(err, ErrPasswordWrong) {
				t.Errorf("%s: got %v, want ErrPasswordWrong", what, err)
			}
		}
		if err := set(one, "battery staple", "correct horse"); err != nil { // the key was used for another request
			t.Fatal(err)
		}
		w.enter("ann@example.org", "correct horse")
		code := w.emailCode(a.User.ID, "bea@example.org")
		for range 3 {
			u, err := w.ChangeEmail(t.Context(), a.User.ID, a.Device,
				EmailChange{Email: "bea@example.org", Code: code, Password: "correct horse", Event: other})
			if err != nil || u.Email != "bea@example.org" {
				t.Fatalf("got %+v, %v", u, err)
			}
		}
		if err := w.move(a, "bea@example.org", code, "correct horse"); !errors.Is(err, codes.ErrWrong) {
			t.Errorf("the code by another request: got %v, want codes.ErrWrong", err)
		}
		n := map[trail.Kind]int{}
		for _, kind := range w.kinds(a.User.ID) {
			n[kind]++
		}
		if n[trail.PasswordSet] != 2 || n[trail.EmailSet] != 1 || n[trail.PasswordWrong] != 2 {
			t.Errorf("the trail has %v, want 2 changes of the password, 1 of the address, 2 wrong passwords", n)
		}
	})
}

func TestChangePassword_SetsTheFirst(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		w.listen()
		a := w.join("ann@example.org", "")
		if u, err := w.User(t.Context(), a.User.ID); err != nil || u.HasPassword {
			t.Fatalf("got %+v, %v", u, err)
		}
		if err := w.change(a, "made up", "battery staple"); !errors.Is(err, ErrPasswordWrong) {
			t.Errorf("a current password where there is none: got %v, want ErrPasswordWrong", err)
		}
		sub := w.bus.Subscribe(t.Context(), a.User.ID.String())
		defer sub.Close()
		if err := w.ChangePassword(t.Context(), a.User.ID, a.Device,
			PasswordChange{Code: w.ownCode(a.User.ID, api.PurposeSetPassword), Password: "battery staple"}); err != nil {
			t.Fatal(err)
		}
		w.heard(sub, api.EventAccountNotice, api.EventAccountUpdated)
		if u, err := w.User(t.Context(), a.User.ID); err != nil || !u.HasPassword {
			t.Errorf("got %+v, %v, want one with a password", u, err)
		}
		w.enter("ann@example.org", "battery staple")
		b := w.join("bob@example.org", "")
		if u, err := w.User(t.Context(), b.User.ID); err != nil || u.HasPassword {
			t.Fatalf("got %+v, %v", u, err)
		}
		if err := w.ResetPassword(t.Context(), Reset{"bob@example.org", w.code("bob@example.org", "reset_password"), "battery staple",
			"192.0.2.1"}); err != nil {
			t.Fatal(err)
		}
		if u, err := w.User(t.Context(), b.User.ID); err != nil || !u.HasPassword {
			t.Errorf("after a reset: got %+v, %v, want one with a password", u, err)
		}
		if err := w.change(a, "", "correct horse"); !errors.Is(err, ErrPasswordWrong) {
			t.Errorf("without the current password: got %v, want ErrPasswordWrong", err)
		}
	})
}

func TestCredentials_ErrorsChangeNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		a := w.join("ann@example.org", "correct horse")
		code := w.emailCode(a.User.ID, "new@example.org")
		w.deliver()
		before := w.dump("SELECT * FROM users") + w.dump("SELECT * FROM sessions") + w.dump("SELECT * FROM outbox")
		for what, tt := range map[string]struct{ got, want error }{
			"a short password":      {w.change(a, "correct horse", "short"), ErrPassword},
			"a wrong password":      {w.change(a, "wrong horse", "battery staple"), ErrPasswordWrong},
			"a short reset":         {w.ResetPassword(t.Context(), Reset{"ann@example.org", "000000", "short", "192.0.2.1"}), ErrPassword},
			"a reset of no address": {w.ResetPassword(t.Context(), Reset{"ann", "000000", "battery staple", "192.0.2.1"}), emails.ErrInvalid},
			"a reset without a code": {w.ResetPassword(t.Context(), Reset{"ann@example.org", "000000", "battery staple", "192.0.2.1"}),
				codes.ErrWrong},
			"a reset of a stranger": {w.ResetPassword(t.Context(), Reset{"nobody@example.org", "000000", "battery staple", "192.0.2.1"}),
				codes.ErrWrong},
			"an address that is none":  {w.move(a, "ann", code, "correct horse"), emails.ErrInvalid},
			"an address, no password":  {w.move(a, "new@example.org", code, ""), ErrPasswordWrong},
			"an address, another code": {w.move(a, "new@example.org", otherThan(code), "correct horse"), codes.ErrWrong},
			"a code for elsewhere":     {w.move(a, "newer@example.org", code, "correct horse"), codes.ErrWrong},
		} {
			if !errors.Is(tt.got, tt.want) {
				t.Errorf("%s: got %v, want %v", what, tt.got, tt.want)
			}
		}
		if after := w.dump("SELECT * FROM users") + w.dump("SELECT * FROM sessions") + w.dump("SELECT * FROM outbox"); after != before {
			t.Errorf("before:\n%s\nafter:\n%s", before, after)
		}
		if err := w.move(a, "new@example.org", code, "correct horse"); err != nil {
			t.Errorf("the right code at last: %v", err)
		}
	})
}

// A thief with a token cannot guess the password with it, and locks neither log-in nor the owner's other devices.
func TestConfirm_CountsFailuresPerDevice(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		a := w.join("ann@example.org", "correct horse")
		wrong := []func() error{
			func() error { return w.change(a, "wrong horse", "battery staple") },
			func() error { return w.move(a, "new@example.org", "000000", "wrong horse") },
		}
		for i := range 5 {
			if err := wrong[i%2](); !errors.Is(err, ErrPasswordWrong) {
				t.Fatalf("try %d: got %v", i, err)
			}
		}
		for i, try := range []func() error{
			func() error { return w.change(a, "correct horse", "battery staple") },
			func() error { return w.move(a, "new@example.org", "000000", "correct horse") },
			func() error { _, err := w.Delete(t.Context(), a.User.ID, a.Device, "correct horse"); return err },
		} {
			if err := try(); !errors.Is(err, ErrLocked) {
				t.Errorf("the right password once locked, way %d: got %v, want ErrLocked", i, err)
			}
		}
		b := w.enter("ann@example.org", "correct horse")
		if err := w.change(b, "correct horse", "battery staple"); err != nil {
			t.Errorf("on another device: %v", err)
		}
		w.lock("ann@example.org")
		if err := w.ResetPassword(t.Context(), Reset{"ann@example.org", w.code("ann@example.org", "reset_password"), "battery staple",
			"192.0.2.1"}); err != nil {
			t.Fatal(err)
		}
		w.enter("ann@example.org", "battery staple") // the reset opened the lock
	})
}

func TestConfirm_SuccessResetsTheCount(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		a := w.join("ann@example.org", "correct horse")
		for range 3 {
			for range 4 {
				if err := w.change(a, "wrong horse", "correct horse"); !errors.Is(err, ErrPasswordWrong) {
					t.Fatalf("got %v, want ErrPasswordWrong", err)
				}
			}
			if err := w.change(a, "correct horse", "correct horse"); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestChangeEmail_MailsTheOldAddress(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		w.listen()
		a, b := w.join("ann@example.org", "correct horse"), w.enter("ann@example.org", "correct horse")
		if u, err := w.User(t.Context(), a.User.ID); err != nil || u.Email != "ann@example.org" {
			t.Fatalf("got %+v, %v", u, err)
		}
		sub := w.bus.Subscribe(t.Context(), a.User.ID.String())
		defer sub.Close()
		code := w.emailCode(a.User.ID, "Bea@example.org")
		if err := w.move(a, "bea@example.org", code, "correct horse"); err != nil {
			t.Fatal(err)
		}
		if n := w.heard(sub, api.EventAccountNotice, api.EventAccountUpdated); n.Kind != api.NoticeEmailChanged || n.Device != a.Device.String() {
			t.Errorf("the devices received %+v", n)
		}
		if u, err := w.User(t.Context(), a.User.ID); err != nil || u.Email != "bea@example.org" {
			t.Errorf("got %+v, %v, want the new address", u, err)
		}
		w.check("the device that changed it", a.Access, nil)
		w.check("another one", b.Access, nil)
		w.enter("BEA@example.org", "correct horse")
		if err := w.login("ann@example.org", "correct horse"); !errors.Is(err, ErrCredentials) {
			t.Errorf("by the old address: got %v, want ErrCredentials", err)
		}
		if m := w.mails("ann@example.org")[0]; m.Subject != "Your address was changed" || strings.Contains(m.Text, "bea@") {
			t.Errorf("the old address got %+v, want a notice without the new one", m)
		}
		if err := w.move(a, "bea@example.org", code, "correct horse"); !errors.Is(err, codes.ErrWrong) {
			t.Errorf("the code again: got %v, want codes.ErrWrong", err)
		}
		w.join("ann@example.org", "") // free for another user
	})
}

func TestChangeEmail_AcceptsAnotherSpelling(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		a := w.join("ann@example.org", "")
		if err := w.move(a, "ANN@example.org", w.emailCode(a.User.ID, "ANN@example.org"), ""); err != nil {
			t.Fatal(err)
		}
		if u, err := w.User(t.Context(), a.User.ID); err != nil || u.Email != "ANN@example.org" {
			t.Errorf("got %+v, %v", u, err)
		}
	})
}

func TestChangeEmail_RevealsTakenAddressOnlyWithProof(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		a := w.join("ann@example.org", "")
		free := w.emailCode(a.User.ID, "bob@example.org")
		w.join("bob@example.org", "") // between the code and the change
		if err := w.move(a, "bob@example.org", otherThan(free), ""); !errors.Is(err, codes.ErrWrong) {
			t.Errorf("a taken address without its code: got %v, want codes.ErrWrong", err)
		}
		if err := w.move(a, "bob@example.org", free, ""); !errors.Is(err, ErrEmailTaken) {
			t.Errorf("a taken address with its code: got %v, want ErrEmailTaken", err)
		}
		if code := w.emailCode(a.User.ID, "bob@example.org"); code != "" {
			t.Errorf("a taken address was mailed the code %s", code)
		}
		if m := w.mails("bob@example.org")[0]; m.Subject != "This address has an account already" {
			t.Errorf("a taken address got %+v", m)
		}
		if u, err := w.User(t.Context(), a.User.ID); err != nil || u.Email != "ann@example.org" {
			t.Errorf("got %+v, %v, want the old address", u, err)
		}
	})
}

func TestChangeEmail_OneOfTwoWins(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		who := [2]Tokens{w.join("ann@example.org", ""), w.join("bob@example.org", "")}
		codes := [2]string{w.emailCode(who[0].User.ID, "new@example.org"), w.emailCode(who[1].User.ID, "new@example.org")}
		var won atomic.Int64
		together(2, func(i int) {
			if err := w.move(who[i], "new@example.org", codes[i], ""); err == nil {
				won.Add(1)
			} else if !errors.Is(err, ErrEmailTaken) {
				t.Error(err)
			}
		})
		if won.Load() != 1 {
			t.Errorf("%d got the address, want one", won.Load())
		}
	})
}

// enterBy opens a session with previously read data of an account.
func (w *world) enterBy(c credential) (Tokens, error) {
	return w.openSession(w.t.Context(), c.ID, Session{}, c.admit, trail.LoggedIn)
}

func TestLogin_OldPasswordFailsAfterAChange(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		a := w.join("ann@example.org", "correct horse")
		old, err := selectCredential(t.Context(), w.db, "ann@example.org")
		if err != nil {
			t.Fatal(err)
		}
		seen, err := w.confirm(t.Context(), a.User.ID, a.Device, "correct horse", "body.current")
		if err != nil {
			t.Fatal(err)
		}
		if err := w.ResetPassword(t.Context(), Reset{"ann@example.org", w.code("ann@example.org", "reset_password"), "battery staple",
			"192.0.2.1"}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.enterBy(old); !errors.Is(err, ErrCredentials) {
			t.Errorf("a log-in that was under way: got %v, want ErrCredentials", err)
		}
		if old, err = selectCredential(t.Context(), w.db, "ann@example.org"); err != nil {
			t.Fatal(err)
		}
		b, err := w.enterBy(old)
		if err != nil {
			t.Fatalf("by the new password: %v", err)
		}
		unchanged := func(seen credential, device DeviceID) error {
			return w.db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { return unchanged(ctx, tx, seen, device) })
		}
		if err := unchanged(seen, b.Device); !errors.Is(err, ErrPasswordWrong) {
			t.Errorf("a change that was under way: got %v, want ErrPasswordWrong", err)
		}
		if seen, err = credentialOf(t.Context(), w.db, a.User.ID); err != nil {
			t.Fatal(err)
		}
		if err := unchanged(seen, a.Device); !errors.Is(err, ErrToken) {
			t.Errorf("a change by a device that is logged out: got %v, want ErrToken", err)
		}
		if err := unchanged(seen, b.Device); err != nil {
			t.Error(err)
		}
		w.exec("UPDATE users SET email = 'eve@example.org', email_key = 'eve@example.org' WHERE id = ?", a.User.ID)
		if err := unchanged(seen, b.Device); !errors.Is(err, ErrPasswordWrong) {
			t.Errorf("a change that was under way when the address changed: got %v, want ErrPasswordWrong", err)
		}
	})
}

func TestCredentials_UnknownUser(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		ghost := Tokens{User: User{ID: ids.New[User]()}, Device: ids.New[Session]()}
		if err := w.change(ghost, "", "battery staple"); !errors.Is(err, ErrNoUser) {
			t.Errorf("a password: got %v, want ErrNoUser", err)
		}
		if err := w.move(ghost, "new@example.org", "000000", ""); !errors.Is(err, ErrNoUser) {
			t.Errorf("an address: got %v, want ErrNoUser", err)
		}
	})
}

func TestLogin_DoesNotCountWithoutSQL(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		a := w.join("ann@example.org", "correct horse")
		if err := w.db.Close(); err != nil {
			t.Fatal(err)
		}
		for range 6 {
			if err := w.login("ann@example.org", "correct horse"); err == nil || errors.Is(err, ErrLocked) {
				t.Fatalf("log in: got %v, want that SQL is away", err)
			}
			if err := w.change(a, "correct horse", "battery staple"); err == nil || errors.Is(err, ErrLocked) {
				t.Fatalf("change: got %v, want that SQL is away", err)
			}
		}
	})
}

func TestRedisOutage_CredentialsChangeAndLocksHold(t *testing.T) {
	onMemory(t, Settings{}, func(t *testing.T, w *world, server *redistest.Memory) {
		a := w.join("ann@example.org", "correct horse")
		server.Kill()
		for range 5 {
			if err := w.change(a, "wrong horse", "battery staple"); !errors.Is(err, ErrPasswordWrong) {
				t.Fatalf("a wrong password: got %v, want ErrPasswordWrong", err)
			}
		}
		if err := w.change(a, "correct horse", "battery staple"); !errors.Is(err, ErrLocked) {
			t.Errorf("the right password after five wrong ones: got %v, want ErrLocked", err)
		}
		code := w.code("ann@example.org", "reset_password")
		for range 4 {
			if err := w.ResetPassword(t.Context(), Reset{"ann@example.org", otherThan(code), "battery staple", "192.0.2.1"}); !errors.Is(err,
				codes.ErrWrong) {
				t.Fatalf("a wrong code: got %v, want codes.ErrWrong", err)
			}
		}
		if err := w.ResetPassword(t.Context(), Reset{"ann@example.org", code, "battery staple", "192.0.2.1"}); err != nil {
			t.Fatal(err)
		}
		w.check("after the reset", a.Access, ErrToken)
		a = w.enter("ann@example.org", "battery staple") // the lock is open
		b := w.enter("ann@example.org", "battery staple")
		if err := w.change(a, "battery staple", "correct horse"); err != nil {
			t.Fatal(err)
		}
		w.check("another device", b.Access, ErrToken)
		code = w.emailCode(a.User.ID, "new@example.org")
		for range 5 {
			if err := w.move(a, "new@example.org", otherThan(code), "correct horse"); !errors.Is(err, codes.ErrWrong) {
				t.Fatalf("a wrong code: got %v, want codes.ErrWrong", err)
			}
		}
		if err := w.move(a, "new@example.org", code, "correct horse"); !errors.Is(err, codes.ErrWrong) {
			t.Errorf("the right code after five wrong ones: got %v, want codes.ErrWrong", err)
		}
		if err := w.move(a, "new@example.org", w.emailCode(a.User.ID, "new@example.org"), "correct horse"); err != nil {
			t.Fatal(err)
		}
		w.enter("new@example.org", "correct horse")
	})
}

func TestFlushAll_OnlyOpensLocks(t *testing.T) {
	onMemory(t, Settings{}, func(t *testing.T, w *world, server *redistest.Memory) {
		w.join("ann@example.org", "correct horse")
		w.lock("ann@example.org")
		server.FlushAll()
		w.lock("ann@example.org") // five more and then locked
		server.FlushAll()
		w.enter("ann@example.org", "correct horse")
	})
}

// The caller guessed a code that was never mailed, or derived it from the outbox and the server's secret.
func TestResetPassword_CodeWithoutAccountSetsNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		if _, err := w.RequestCode(t.Context(), "ann@example.org", "reset_password", "192.0.2.1"); err != nil {
			t.Fatal(err)
		}
		code := w.codeOf([]byte(w.dump("SELECT payload FROM outbox")))
		if err := w.ResetPassword(t.Context(), Reset{"ann@example.org", code, "battery staple", "192.0.2.1"}); !errors.Is(err, codes.ErrWrong) {
			t.Errorf("got %v, want codes.ErrWrong", err)
		}
	})
}

// A device whose token is still cached for a moment can no longer change anything.
func TestCredentials_LoggedOutDeviceChangesNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		a := w.join("ann@example.org", "correct horse")
		if err := w.Revoke(t.Context(), a.User.ID, a.Device); err != nil {
			t.Fatal(err)
		}
		before := w.dump("SELECT email, password_hash, erased FROM users")
		_, deletion := w.Delete(t.Context(), a.User.ID, a.Device, "correct horse")
		for what, err := range map[string]error{
			"password": w.change(a, "correct horse", "battery staple"),
			"address":  w.move(a, "bob@example.org", w.emailCode(a.User.ID, "bob@example.org"), "correct horse"),
			"deletion": deletion,
		} {
			if !errors.Is(err, ErrToken) {
				t.Errorf("%s: got %v, want ErrToken", what, err)
			}
		}
		if after := w.dump("SELECT email, password_hash, erased FROM users"); after != before {
			t.Errorf("the account is %s, want %s", after, before)
		}
	})
}

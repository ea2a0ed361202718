package accounts

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts/codes"
	"github.com/stoa-dev/stoa/internal/accounts/trail"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// from tries to log in from a client network.
func (w *world) from(ip, email, password string) error {
	_, err := w.Login(w.t.Context(), Login{Email: email, Password: password, IP: ip})
	return err
}

// guess tries wrong passwords until the address is locked there, and returns the number of checked ones.
func (w *world) guess(ip, email string) (looked int) {
	w.t.Helper()
	for {
		switch err := w.from(ip, email, "wrong horse"); {
		case errors.Is(err, ErrCredentials):
			looked++
		case errors.Is(err, ErrLocked):
			return looked
		default:
			w.t.Fatal(err)
		}
	}
}

// An attacker who knows an address cannot lock out its owner at home or a logged-in device.
func TestLock_UnknownNetworksLockOnlyThemselves(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		a := w.join("ann@example.org", "correct horse")
		home := w.enter("ann@example.org", "correct horse") // from 192.0.2.2
		if n := w.guess("203.0.113.1", "ann@example.org"); n != 5 {
			t.Errorf("a stranger had %d tries, want 5", n)
		}
		if err := w.from("203.0.113.2", "ann@example.org", "correct horse"); err != nil {
			t.Errorf("the owner at a new place, after one stranger: %v", err)
		}
		total := 5
		for i := range 20 { // the client network above is known now
			total += w.guess(fmt.Sprintf("2001:db8:%x::1", i), "ann@example.org")
		}
		if total != 50 {
			t.Errorf("strangers had %d tries from everywhere, want 50", total)
		}
		if err := w.from("203.0.113.3", "ann@example.org", "correct horse"); !errors.Is(err, ErrLocked) {
			t.Errorf("from one more new place: got %v, want ErrLocked", err)
		}
		w.enter("ann@example.org", "correct horse")
		if err := w.change(a, "correct horse", "battery staple"); err != nil {
			t.Errorf("a device that is logged in: %v", err)
		}
		w.check("another device after the change", home.Access, ErrToken)
	})
}

// All addresses of an IPv6 client network count as one.
func TestLock_CountsIPv6NetworkAsOne(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		w.join("ann@example.org", "correct horse")
		w.guess("2001:db8:1:1::1", "ann@example.org")
		if err := w.from("2001:db8:1:1:ffff::9", "ann@example.org", "correct horse"); !errors.Is(err, ErrLocked) {
			t.Errorf("another address of the /64: got %v, want ErrLocked", err)
		}
		if err := w.from("2001:db8:1:2::1", "ann@example.org", "correct horse"); err != nil {
			t.Errorf("another /64: %v", err)
		}
	})
}

func TestLogin_RightPasswordsThatWaitDoNotCount(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{Hashers: 1, Limits: Limits{LoginFails: 2, ClientNetFails: 2}})
		w.join("ann@example.org", "correct horse")
		together(12, func(int) {
			if err := w.from("203.0.113.1", "ann@example.org", "correct horse"); err != nil {
				t.Errorf("one of a crowd: %v", err)
			}
		})
	})
}

// A client network that tries one password with many addresses is stopped, and a successful log-in in between does not
// reset the count.
func TestLock_ClientNetworkLimitForAllAddresses(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{Limits: Limits{ClientNetFails: 20}})
		w.join("eve@example.org", "correct horse")
		looked := 0
		for i := range 30 {
			if err := w.from("203.0.113.1", fmt.Sprint(i, "@example.org"), "correct horse"); errors.Is(err, ErrCredentials) {
				looked++
			} else if !errors.Is(err, ErrLocked) {
				t.Fatal(err)
			}
			if err := w.from("203.0.113.1", "eve@example.org", "correct horse"); looked < 20 && err != nil {
				t.Fatalf("a right password after %d wrong ones: %v", looked, err)
			}
		}
		if looked != 20 {
			t.Errorf("%d passwords were looked at, want 20", looked)
		}
		time.Sleep(clientNetLife)
		if err := w.from("203.0.113.1", "eve@example.org", "correct horse"); err != nil {
			t.Errorf("an hour later: %v", err)
		}
	})
}

// Strangers can neither use up the tries of the owner's code, nor replace it, nor use up the owner's mails.
func TestCode_StrangersCannotVoidIt(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		w.join("ann@example.org", "correct horse") // from 192.0.2.1
		code := w.codeTo("ann@example.org", "reset_password", "192.0.2.1")
		for i := range 20 {
			stranger := fmt.Sprintf("2001:db8:%x::/64", i)
			if err := w.ResetPassword(t.Context(), Reset{"ann@example.org", otherThan(code), "battery staple", stranger}); !errors.Is(err,
				codes.ErrWrong) {
				t.Fatalf("a guess: got %v, want codes.ErrWrong", err)
			}
			_, err := w.RequestCode(t.Context(), "ann@example.org", "reset_password", stranger)
			if want := w.cfg.Limits.CodesPerDay; i < want && err != nil || i >= want && !errors.Is(err, codes.ErrTooMany) {
				t.Errorf("a stranger's request %d: %v", i, err)
			}
		}
		if m := w.mails("ann@example.org"); m[0].Code != code {
			t.Errorf("the last mail has the code %s, want %s: strangers had one mailed", m[0].Code, code)
		}
		if err := w.ResetPassword(t.Context(), Reset{"ann@example.org", code, "battery staple", "203.0.113.77"}); !errors.Is(err,
			codes.ErrWrong) {
			t.Errorf("the right code from elsewhere, after all tries from there: got %v, want codes.ErrWrong", err)
		}
		again := w.codeTo("ann@example.org", "reset_password", "192.0.2.1")
		if again == code {
			t.Error("the owner's second request brought the same code")
		}
		if err := w.ResetPassword(t.Context(), Reset{"ann@example.org", again, "battery staple", "192.0.2.1"}); err != nil {
			t.Errorf("the owner at home: %v", err)
		}
	})
}

func TestCodes_DeploymentLimits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{Limits: Limits{Codes: 8, WrongCodes: 6}})
		for i := range 10 {
			_, err := w.RequestCode(t.Context(), fmt.Sprint(i, "@example.org"), "register", fmt.Sprintf("192.0.%d.1", i))
			if i < 8 && err != nil || i >= 8 && !errors.Is(err, codes.ErrTooMany) {
				t.Errorf("code %d: %v", i, err)
			}
		}
		register := func(i int, code string) error {
			_, err := w.Register(t.Context(), Registration{Email: fmt.Sprint(i, "@example.org"), Code: code, Name: "Ann",
				IP: fmt.Sprintf("192.0.%d.1", i)})
			return err
		}
		for i := range 20 { // there are no codes to guess
			if err := register(100+i, "000000"); !errors.Is(err, codes.ErrWrong) {
				t.Fatal(err)
			}
		}
		for i := range 7 {
			if err := register(i, otherThan(w.mails(fmt.Sprint(i, "@example.org"))[0].Code)); !errors.Is(err, codes.ErrWrong) {
				t.Fatalf("wrong code %d: %v", i, err)
			}
		}
		right := w.mails("7@example.org")[0].Code
		if err := register(7, right); !errors.Is(err, codes.ErrSuspended) {
			t.Errorf("a code after too many wrong ones: got %v, want codes.ErrSuspended", err)
		}
		time.Sleep(time.Hour)
		if err := register(7, right); errors.Is(err, codes.ErrSuspended) {
			t.Errorf("an hour later: %v", err)
		}
	})
}

// kinds returns the security events of a user, oldest first.
func (w *world) kinds(user ID) (kinds []trail.Kind) {
	w.t.Helper()
	if err := w.notes.Flush(w.t.Context(), w.db); err != nil {
		w.t.Fatal(err)
	}
	for cursor := ""; ; {
		page, next, err := trail.Page(w.t.Context(), w.db, user.String(), cursor, 3)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, e := range page {
			kinds = append(kinds, e.Kind)
		}
		if cursor = next; next == "" {
			slices.Reverse(kinds)
			return kinds
		}
	}
}

func TestTrail_RecordsEvents(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		a := w.join("ann@example.org", "correct horse")
		user := a.User.ID
		var want []trail.Kind
		step := func(kind trail.Kind, err error) {
			t.Helper()
			want = append(want, kind)
			if err != nil {
				t.Errorf("%s: %v", kind, err)
			}
			w.pass(time.Minute) // events are sorted by time
		}
		refused := func(kind trail.Kind, err, refusal error) {
			t.Helper()
			if !errors.Is(err, refusal) {
				t.Errorf("%s: got %v, want %v", kind, err, refusal)
			}
			step(kind, nil)
		}
		step(trail.Registered, nil)
		step(trail.LoggedIn, w.login("ann@example.org", "correct horse"))
		for range 5 {
			refused(trail.LoginFailed, w.from("203.0.113.1", "ann@example.org", "wrong horse"), ErrCredentials)
		}
		refused(trail.LoginLocked, w.from("203.0.113.1", "ann@example.org", "wrong horse"), ErrLocked)
		refused(trail.PasswordWrong, w.change(a, "wrong horse", "battery staple"), ErrPasswordWrong)
		step(trail.PasswordSet, w.change(a, "correct horse", "battery staple"))
		step(trail.EmailSet, w.move(a, "new@example.org", w.emailCode(user, "new@example.org"), "battery staple"))
		step(trail.PasswordReset, w.ResetPassword(t.Context(),
			Reset{"new@example.org", w.code("new@example.org", "reset_password"), "correct horse", ""}))
		b := w.enter("new@example.org", "correct horse")
		step(trail.LoggedIn, nil)
		step(trail.LoggedOutAll, w.RevokeAll(t.Context(), user, b.Device))
		step(trail.LoggedOut, w.Revoke(t.Context(), user, b.Device))
		c := w.enter("new@example.org", "correct horse")
		step(trail.LoggedIn, nil)
		for range 2 {
			if _, err := w.Refresh(t.Context(), c.Refresh); err != nil {
				t.Fatal(err)
			}
		}
		w.pass(replayWindow)
		_, err := w.Refresh(t.Context(), c.Refresh)
		refused(trail.RefreshReused, err, ErrReused)
		d := NewDirectory(w.db)
		step(trail.Banned, d.Ban(t.Context(), user, w.db.Now().Add(time.Hour), "spam"))
		step(trail.Unbanned, d.Unban(t.Context(), user))
		step(trail.LoggedIn, w.login("new@example.org", "correct horse"))
		_, err = d.Kick(t.Context(), user, DeviceID{})
		step(trail.OperatorKicked, err)
		_, err = d.Delete(t.Context(), user, time.Hour)
		step(trail.OperatorDeleted, err)
		step(trail.OperatorRestored, d.Restore(t.Context(), user))
		renamed := "Anna"
		_, err = w.Update(trail.By(t.Context(), "crm"), user, Change{Name: &renamed})
		step(trail.ProfileSet, err)
		e := w.enter("new@example.org", "correct horse")
		step(trail.LoggedIn, nil)
		_, err = w.Delete(t.Context(), user, e.Device, "correct horse")
		step(trail.Deleted, err)
		step(trail.Restored, w.login("new@example.org", "correct horse"))
		want = append(want, trail.LoggedIn) // at the same time
		got := w.kinds(user)
		if n := len(got); n > 1 && got[n-1] == trail.Restored {
			got[n-1], got[n-2] = got[n-2], got[n-1]
		}
		if !slices.Equal(got, want) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
		for _, k := range trail.Kinds {
			if !slices.Contains(want, k) && k != trail.EmailUndone {
				t.Errorf("nothing here is a %s", k)
			}
		}
		w.pass(trail.Kept)
		if err := w.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := w.kinds(user); len(got) != 0 {
			t.Errorf("after 90 days: %v", got)
		}
	})
}

// Tries at addresses without an account leave no data.
func TestTrail_FailuresWithoutAccountAreNotStored(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		w.guess("203.0.113.1", "nobody@example.org")
		if err := w.notes.Flush(t.Context(), w.db); err != nil {
			t.Fatal(err)
		}
		if rows := w.dump("SELECT * FROM security_events"); rows != "" {
			t.Errorf("kept: %s", rows)
		}
	})
}

// A try that the count of all unknown client networks refuses was not checked: it counts neither for the address from
// that client network nor for the client network.
func TestLock_RefusedTryCountsNowhere(t *testing.T) {
	eachEngine(t, Settings{Limits: Limits{LoginLock: time.Hour}}, func(t *testing.T, w *world) {
		w.join("ann@example.org", "correct horse")
		w.join("bob@example.org", "correct horse")
		for i := range 10 { // use up the tries of all unknown client networks
			w.guess(fmt.Sprintf("2001:db8:%x::1", i), "ann@example.org")
		}
		counts := func() (all []string) {
			e, from := keyspace.Hashed{S: "ann@example.org " + w.passwordOf("ann@example.org")}, keyspace.Hashed{S: "203.0.113.9"}
			for _, key := range []keyspace.Key{loginFailFromKeys.At(e, from).Key, clientNetFailKeys.At(from).Key} {
				text, _, err := w.redis.Do(t.Context(), keyspace.Cmd{Name: "GET", Key: key}).Text()
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, text)
			}
			return all
		}
		if err := w.from("203.0.113.9", "bob@example.org", "wrong horse"); !errors.Is(err, ErrCredentials) {
			t.Fatal(err)
		}
		want := []string{"", "1"}
		for range 20 {
			if err := w.from("203.0.113.9", "ann@example.org", "correct horse"); !errors.Is(err, ErrLocked) {
				t.Fatalf("from an unknown client network: got %v, want ErrLocked", err)
			}
			if got := counts(); !slices.Equal(got, want) {
				t.Fatalf("counted %q, want %q", got, want)
			}
		}
	})
}

// passwordOf returns the password hash of an address, which is part of its counters.
func (w *world) passwordOf(email string) string {
	w.t.Helper()
	c, err := selectCredential(w.t.Context(), w.db, email)
	if err != nil {
		w.t.Fatal(err)
	}
	return c.passwordHash
}

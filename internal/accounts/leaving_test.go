package accounts

import (
	"context"
	"errors"
	"fmt"
	"image/color"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// leave deletes the account of a device.
func (w *world) leave(t Tokens, password string) (erased time.Time) {
	w.t.Helper()
	erased, err := w.Delete(w.t.Context(), t.User.ID, t.Device, password)
	if err != nil {
		w.t.Fatal(err)
	}
	return erased
}

// byCode logs in with a mailed code.
func (w *world) byCode(email string) (Tokens, error) {
	return w.Login(w.t.Context(), Login{Email: email, Code: w.code(email, "login"), IP: "192.0.2.3"})
}

// stored returns "table.column" for each text in the database that contains word.
func (w *world) stored(word string) (found []string) {
	w.t.Helper()
	query := "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
	if w.db.Dialect() != sqldb.SQLite {
		query = "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()"
	}
	var tables []string
	if err := w.db.NewRaw(query).Scan(w.t.Context(), &tables); err != nil {
		w.t.Fatal(err)
	}
	for _, table := range tables {
		rows, err := w.db.QueryContext(w.t.Context(), "SELECT * FROM "+table)
		if err != nil {
			w.t.Fatal(err)
		}
		columns, err := rows.Columns()
		if err != nil {
			w.t.Fatal(err)
		}
		for rows.Next() {
			values := make([]any, len(columns))
			for i := range values {
				values[i] = new(any)
			}
			if err := rows.Scan(values...); err != nil {
				w.t.Fatal(err)
			}
			for i, v := range values {
				text := fmt.Sprint(*v.(*any))
				if b, ok := (*v.(*any)).([]byte); ok {
					text = string(b)
				}
				if strings.Contains(text, word) {
					found = append(found, table+"."+columns[i])
				}
			}
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			w.t.Fatal(err)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func TestDelete_LoginRestoresTheAccount(t *testing.T) {
	eachEngine(t, Settings{Grace: 48 * time.Hour}, func(t *testing.T, w *world) {
		w.listen()
		a := w.join("ann@example.org", "correct horse")
		b := w.enter("ann@example.org", "correct horse")
		for _, wrong := range []string{"", "wrong horse"} {
			if _, err := w.Delete(t.Context(), a.User.ID, a.Device, wrong); !errors.Is(err, ErrPasswordWrong) {
				t.Errorf("with the password %q: got %v, want ErrPasswordWrong", wrong, err)
			}
		}
		w.check("before", a.Access, nil)
		if _, err := w.User(t.Context(), a.User.ID); err != nil { // creates a cache entry
			t.Fatal(err)
		}

		sub := w.bus.Subscribe(t.Context(), a.User.ID.String())
		defer sub.Close()
		began := w.db.Now()
		if erased := w.leave(a, "correct horse"); erased.Before(began.Add(48*time.Hour)) || erased.After(w.db.Now().Add(48*time.Hour)) {
			t.Errorf("erased on %s, want two days from %s", erased, began)
		}
		if n := w.heard(sub, api.EventAccountNotice); n.Kind != api.NoticeDeletion || n.Device != a.Device.String() {
			t.Errorf("the devices received %+v", n)
		}
		w.check("the device that asked", a.Access, ErrToken)
		w.check("the other one", b.Access, ErrToken)
		if err := w.erase(t.Context(), a.User.ID); err != nil { // the account is not due
			t.Fatal(err)
		}
		if _, err := w.Refresh(t.Context(), b.Refresh); !errors.Is(err, ErrRefresh) {
			t.Errorf("a refresh: got %v, want ErrRefresh", err)
		}
		if u, err := w.User(t.Context(), a.User.ID); err != nil || !u.Deleted() {
			t.Errorf("others see %+v, %v, want a deleted user", u, err)
		}
		if names, err := w.Profiles(t.Context(), []ID{a.User.ID}); err != nil || names[a.User.ID].Name != "" {
			t.Errorf("the name is still returned: %v, %v", names, err)
		}
		name := "Late"
		if _, err := w.Update(t.Context(), a.User.ID, Change{Name: &name}); !errors.Is(err, ErrNoUser) {
			t.Errorf("a change that came late: got %v, want ErrNoUser", err)
		}
		if _, err := w.Delete(t.Context(), a.User.ID, b.Device, "correct horse"); !errors.Is(err, ErrToken) {
			t.Errorf("deleting again: got %v, want ErrToken", err)
		}
		if m := w.mails("ann@example.org")[0]; m.Subject != "Your account was deleted" ||
			!strings.Contains(m.Text, began.Add(48*time.Hour).Format("2006-01-02")) {
			t.Errorf("the mail: %+v", m)
		}
		if m := w.mails("ann@example.org"); w.code("ann@example.org", "register") != "" || len(m) == 0 {
			t.Error("who registers with the address is mailed a code")
		}

		w.pass(47 * time.Hour)
		if err := w.eraseDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Login(t.Context(), Login{Email: "ann@example.org", Password: "wrong horse"}); !errors.Is(err, ErrCredentials) {
			t.Errorf("a wrong password: got %v", err)
		}
		if u, err := w.User(t.Context(), a.User.ID); err != nil || !u.Deleted() { // creates a cache entry
			t.Errorf("others see %+v, %v, want a deleted user", u, err)
		}
		c := w.enter("ann@example.org", "correct horse")
		if !c.Restored || c.User.ID != a.User.ID || c.User.Deleted() {
			t.Errorf("logged in as %+v, want the account back", c)
		}
		if u, err := w.User(t.Context(), a.User.ID); err != nil || u.Deleted() || u.Name != "Ann" {
			t.Errorf("others see %+v, %v, want Ann", u, err)
		}
		if n := w.heard(sub, api.EventAccountNotice); n.Kind != api.NoticeRestored {
			t.Errorf("the devices received %+v", n)
		}
		if waiting, _, err := NewDirectory(w.db).Unapplied(t.Context(), a.User.ID); waiting != 1 || err != nil {
			t.Errorf("%d messages wait for the others, %v, want one, should this node die here", waiting, err)
		}
		if m := w.mails("ann@example.org")[0]; m.Subject != "Your account is back" {
			t.Errorf("the mail: %+v", m)
		}
		w.pass(48 * time.Hour)
		if err := w.eraseDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		d := w.enter("ann@example.org", "correct horse")
		if d.Restored {
			t.Error("it was brought back twice")
		}

		w.leave(d, "correct horse")
		if e, err := w.byCode("ann@example.org"); err != nil || !e.Restored {
			t.Errorf("by code: got %+v, %v, want the account back", e, err)
		}
	})
}

func TestErase_LeavesOnlyTheID(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		w.listen()
		a := w.join("Ann@example.org", "")
		other := w.join("bob@example.org", "correct horse")
		card, err := w.DrawCard(t.Context(), a.User.ID)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.SetAvatar(t.Context(), a.User.ID, square(t, color.White)); err != nil {
			t.Fatal(err)
		}
		erased := w.leave(a, "")
		if _, err := w.RequestCode(t.Context(), "ann@example.org", "login", "192.0.2.9"); err != nil { // its mail is waiting
			t.Fatal(err)
		}
		w.pass(erased.Sub(w.db.Now()))
		for what, err := range map[string]error{"Ban": w.Ban(t.Context(), a.User.ID, Forever, ""), "Unban": w.Unban(t.Context(), a.User.ID),
			"KickAll": w.KickAll(t.Context(), a.User.ID), "Restore": NewDirectory(w.db).Restore(t.Context(), a.User.ID)} {
			if !errors.Is(err, ErrNoUser) {
				t.Errorf("%s when it is due: got %v, want ErrNoUser", what, err)
			}
		}
		code := w.code("ann@example.org", "login")
		if _, err := w.Login(t.Context(), Login{Email: "ann@example.org", Code: code}); !errors.Is(err, ErrCredentials) {
			t.Errorf("a log-in when it is due: got %v, want ErrCredentials", err)
		}
		if _, err := w.RequestCode(t.Context(), "ann@example.org", "register", "192.0.2.9"); err != nil {
			t.Fatal(err)
		}
		if _, err := w.RequestCode(t.Context(), "ann@example.org", "reset_password", "192.0.2.9"); err != nil {
			t.Fatal(err)
		}
		if _, err := w.User(t.Context(), a.User.ID); err != nil { // creates cache entries
			t.Fatal(err)
		}
		if _, err := w.db.ExecContext(t.Context(), "DELETE FROM dev_mails"); err != nil { // sent mails are not stored
			t.Fatal(err)
		}

		if err := w.db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { // a waiting mail
			return notify(ctx, tx, a.User.ID, "ann@example.org", api.NoticePasswordChanged)
		}); err != nil {
			t.Fatal(err)
		}

		var all sync.WaitGroup
		for range 4 { // two nodes without leases, and more
			all.Go(func() {
				if err := w.eraseDue(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for _, word := range []string{"ann@example.org", "Ann@example.org"} {
			if found := w.stored(word); len(found) > 0 {
				t.Errorf("%q is still in %v", word, found)
			}
		}
		if n := w.count("codes"); n != 0 {
			t.Errorf("%d codes are left", n)
		}
		if u, err := w.User(t.Context(), a.User.ID); err != nil || u.Email != "" || u.Name != "" {
			t.Errorf("others read %+v, %v", u, err)
		}
		if got, want := fmt.Sprint(w.stored(a.User.ID.String())), "[outbox.msg_key outbox.payload users.email_key users.id]"; got != want {
			t.Errorf("the id is in %s, want %s", got, want)
		}
		var messages int
		if err := w.db.NewRaw("SELECT COUNT(*) FROM outbox WHERE topic = ?", TopicErased).Scan(t.Context(), &messages); err != nil ||
			messages != 1 {
			t.Errorf("%d messages, %v, want one", messages, err)
		}
		if _, err := w.CardOwner(t.Context(), w.CardToken(card)); !errors.Is(err, ErrNoCard) {
			t.Errorf("its card: got %v, want ErrNoCard", err)
		}
		name := "Late"
		_, lateCard := w.DrawCard(t.Context(), a.User.ID)
		_, lateAvatar := w.SetAvatar(t.Context(), a.User.ID, square(t, color.White))
		_, lateName := w.Update(t.Context(), a.User.ID, Change{Name: &name})
		for _, err := range []error{lateCard, lateAvatar, lateName} {
			if !errors.Is(err, ErrNoUser) {
				t.Errorf("what came late: got %v, want ErrNoUser", err)
			}
		}
		u, err := selectUser(t.Context(), w.db, a.User.ID)
		want := User{ID: a.User.ID, Clock: a.User.Clock, Created: a.User.Created, Erased: erased, Version: 1}
		if err != nil || u != want {
			t.Errorf("left is %+v, %v, want %+v", u, err, want)
		}
		if gone, err := w.Erased(t.Context(), []ID{a.User.ID, other.User.ID, ids.New[User]()}); err != nil || len(gone) != 1 ||
			gone[0] != a.User.ID {
			t.Errorf("Erased: got %v, %v", gone, err)
		}
		if clocks, err := NewDirectory(w.db).Clocks(t.Context(), []ID{a.User.ID, other.User.ID}); err != nil || len(clocks) != 1 {
			t.Errorf("an import finds %v, %v, want the other alone", clocks, err)
		}

		// The domains erase a second time a minute later, and not a third time.
		for _, e := range []Erasure{{User: a.User.ID}, {User: a.User.ID, Late: true}} {
			if err := w.ErasedEverywhere(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		var due []int64
		if err := w.db.NewRaw("SELECT due FROM outbox WHERE topic = ? ORDER BY due", TopicErased).Scan(t.Context(), &due); err != nil ||
			len(due) != 2 {
			t.Fatalf("%v, %v, want two messages", due, err)
		}
		if wait := time.Duration(due[1]-due[0]) * time.Millisecond; wait < lateAfter {
			t.Errorf("the second comes %s after the first", wait)
		}
		if u, err := selectUser(t.Context(), w.db, a.User.ID); err != nil || u.Clock.Zone != "UTC" {
			t.Errorf("the zone is %q, %v", u.Clock.Zone, err)
		}

		// Erasing, banning and restoring return ErrNoUser now.
		d := NewDirectory(w.db)
		if _, err := d.Delete(t.Context(), a.User.ID, 0); !errors.Is(err, ErrNoUser) {
			t.Errorf("Delete: got %v", err)
		}
		if err := d.Restore(t.Context(), a.User.ID); !errors.Is(err, ErrNoUser) {
			t.Errorf("Restore: got %v", err)
		}
		if err := w.Ban(t.Context(), a.User.ID, Forever, ""); !errors.Is(err, ErrNoUser) {
			t.Errorf("Ban: got %v", err)
		}
		if err := w.KickAll(t.Context(), a.User.ID); !errors.Is(err, ErrNoUser) {
			t.Errorf("KickAll: got %v", err)
		}
		again := w.join("ann@example.org", "")
		if again.User.ID == a.User.ID || again.Restored {
			t.Errorf("the address registered as %+v, want a new account", again.User)
		}
		if err := w.eraseDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.check("the new one", again.Access, nil)
		if _, err := w.Refresh(t.Context(), other.Refresh); err != nil {
			t.Errorf("the other one: %v", err)
		}
	})
}

// Failures wait in memory until they are written, which may be after the erasure.
func TestErase_RemovesLateEvents(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		a := w.join("ann@example.org", "correct horse")
		w.pass(w.leave(a, "correct horse").Sub(w.db.Now()))
		if err := w.from("203.0.113.1", "ann@example.org", "wrong horse"); !errors.Is(err, ErrCredentials) {
			t.Fatal(err)
		}
		if err := w.eraseDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, e := range []Erasure{{User: a.User.ID}, {User: a.User.ID, Late: true}} {
			if err := w.notes.Flush(t.Context(), w.db); err != nil {
				t.Fatal(err)
			}
			if err := w.ErasedEverywhere(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		if found := w.stored("203.0.113.1"); len(found) > 0 {
			t.Errorf("from where an erased account was tried is still in %v", found)
		}
	})
}

func TestErase_RetriesAfterAFailure(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		a := w.join("ann@example.org", "")
		w.pass(w.leave(a, "").Sub(w.db.Now()))
		exec := func(query string) {
			t.Helper()
			if _, err := w.db.ExecContext(t.Context(), query); err != nil {
				t.Fatal(err)
			}
		}
		exec("ALTER TABLE outbox RENAME TO lost") // the last table that an erasure writes to
		if err := w.eraseDue(t.Context()); err == nil {
			t.Error("erased without telling the domains")
		}
		if u, err := selectUser(t.Context(), w.db, a.User.ID); err != nil || u.Email == "" {
			t.Errorf("half of it was done: %+v, %v", u, err)
		}
		exec("ALTER TABLE lost RENAME TO outbox")
		if err := w.eraseDue(t.Context()); err != nil {
			t.Error(err)
		}
		if u, err := selectUser(t.Context(), w.db, a.User.ID); err != nil || u.Email != "" {
			t.Errorf("it was not done: %+v, %v", u, err)
		}
	})
}

func TestBan_ShownOnlyWithValidCredentials(t *testing.T) {
	eachEngine(t, Settings{Limits: Limits{LoginFails: 100}}, func(t *testing.T, w *world) {
		w.listen()
		a := w.join("ann@example.org", "correct horse")
		if _, err := w.User(t.Context(), a.User.ID); err != nil {
			t.Fatal(err)
		}
		until := w.db.Now().Add(72 * time.Hour)
		for _, bad := range []error{
			w.Ban(t.Context(), a.User.ID, w.db.Now().Add(-time.Second), ""),
			w.Ban(t.Context(), a.User.ID, until, strings.Repeat("x", 201)),
			w.Ban(t.Context(), a.User.ID, until, "two\nlines"),
			w.Ban(t.Context(), a.User.ID, Forever.Add(time.Second), ""),
		} {
			if !errors.Is(bad, ErrBan) {
				t.Errorf("a bad ban: got %v, want ErrBan", bad)
			}
		}
		if err := w.Ban(t.Context(), ids.New[User](), until, ""); !errors.Is(err, ErrNoUser) {
			t.Errorf("nobody: got %v, want ErrNoUser", err)
		}
		w.check("not banned yet", a.Access, nil)

		if err := w.Ban(t.Context(), a.User.ID, until, "Spam."); err != nil {
			t.Fatal(err)
		}
		w.check("banned", a.Access, ErrToken)
		if u, err := w.User(t.Context(), a.User.ID); err != nil || u.Name != "Ann" || !u.Banned.Equal(until) {
			t.Errorf("others see %+v, %v, want Ann, banned until %s", u, err, until)
		}
		login := func(l Login) error {
			l.Email = "ann@example.org"
			_, err := w.Login(t.Context(), l)
			return err
		}
		code := w.code("ann@example.org", "login")
		for what, err := range map[string]error{"password": login(Login{Password: "wrong horse"}), "code": login(Login{Code: otherThan(code)})} {
			if !errors.Is(err, ErrCredentials) {
				t.Errorf("a wrong %s: got %v, want ErrCredentials", what, err)
			}
		}
		want := "This account is banned until " + until.Format(time.RFC3339) + ": Spam."
		for what, err := range map[string]error{"password": login(Login{Password: "correct horse"}), "code": login(Login{Code: code})} {
			refusal, ok := errors.AsType[*errs.Error](err)
			if !errors.Is(err, ErrBanned) || !ok || refusal.Text != want || refusal.After < 71*time.Hour || refusal.After > 72*time.Hour {
				t.Errorf("the right %s: got %v (%+v), want %q", what, err, refusal, want)
			}
		}
		if _, err := w.Refresh(t.Context(), a.Refresh); !errors.Is(err, ErrBanned) {
			t.Errorf("a refresh: got %v, want ErrBanned", err)
		}
		_, guess := mint("the secret of an impostor, 32 B.").pair(a.User.ID, a.Device, "", "")
		if _, err := w.Refresh(t.Context(), guess); !errors.Is(err, ErrRefresh) {
			t.Errorf("a refresh token that was never issued: got %v, want ErrRefresh", err)
		}

		w.pass(72 * time.Hour)
		w.enter("ann@example.org", "correct horse")
		if err := w.Ban(t.Context(), a.User.ID, Forever, ""); err != nil {
			t.Fatal(err)
		}
		refusal, _ := errors.AsType[*errs.Error](login(Login{Password: "correct horse"}))
		if refusal == nil || refusal.Text != "This account is banned." || refusal.After != 0 {
			t.Errorf("for ever: got %+v", refusal)
		}
		if u, err := w.User(t.Context(), a.User.ID); err != nil || !u.Banned.Equal(Forever) { // creates a cache entry
			t.Errorf("for ever: %+v, %v", u, err)
		}
		for range 2 {
			if err := w.Unban(t.Context(), a.User.ID); err != nil {
				t.Fatal(err)
			}
		}
		w.enter("ann@example.org", "correct horse")
		if u, err := w.User(t.Context(), a.User.ID); err != nil || !u.Banned.IsZero() {
			t.Errorf("not banned any more: %+v, %v", u, err)
		}
	})
}

func TestBan_PreventsRestoringADeletedAccount(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		a, d := w.join("ann@example.org", "correct horse"), NewDirectory(w.db)
		if err := w.Ban(t.Context(), a.User.ID, w.db.Now().Add(time.Hour), ""); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Delete(t.Context(), a.User.ID, 48*time.Hour); err != nil {
			t.Fatal(err)
		}
		if err := w.login("ann@example.org", "correct horse"); !errors.Is(err, ErrBanned) {
			t.Errorf("banned and deleted: got %v, want ErrBanned", err)
		}
		if u, err := selectUser(t.Context(), w.db, a.User.ID); err != nil || !u.Deleted() {
			t.Errorf("got %+v, %v, want it deleted still", u, err)
		}
		w.pass(time.Hour)
		if b := w.enter("ann@example.org", "correct horse"); !b.Restored {
			t.Errorf("once the ban is over: got %+v, want the account back", b)
		}
	})
}

// An account whose erasure fails delays no other, and the error is returned.
func TestErase_OneFailureDelaysNoOther(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		left := func(want int) {
			t.Helper()
			var n int
			if err := w.db.NewRaw("SELECT COUNT(*) FROM users WHERE erased > 0").Scan(t.Context(), &n); err != nil || n != want {
				t.Errorf("%d are left, %v, want %d", n, err, want)
			}
		}
		w.people(eraseChunk + 20)
		w.exec("UPDATE users SET erased = 1")
		if err := w.eraseDue(t.Context()); err != nil {
			t.Error(err)
		}
		left(0)
		stuck := w.people(3)[0]
		w.exec("UPDATE users SET erased = 2 WHERE erased = 0")
		w.exec("UPDATE users SET erased = 1 WHERE id = ?", stuck) // the first one
		w.exec("CREATE TRIGGER stuck BEFORE UPDATE ON users WHEN OLD.id = '" + stuck.String() + "' BEGIN SELECT RAISE(ABORT, 'stuck'); END")
		if err := w.eraseDue(t.Context()); err == nil || !strings.Contains(err.Error(), stuck.String()) {
			t.Errorf("got %v, want it to name %s", err, stuck)
		}
		left(1)
	})
}

func TestBan_StopsConcurrentLoginsAndRefreshes(t *testing.T) {
	eachEngine(t, Settings{Limits: Limits{LoginFails: 1000}}, func(t *testing.T, w *world) {
		a := w.join("ann@example.org", "")
		enter := func() (Tokens, error) { // runs after a correct password
			return w.openSessionAs(t.Context(), a.User.ID, Login{}, func(ctx context.Context, tx *sqldb.Tx) (User, error) {
				return lockUser(ctx, tx, a.User.ID)
			})
		}
		for round := range 10 {
			b, err := enter()
			if err != nil {
				t.Fatal(err)
			}
			var all sync.WaitGroup
			for _, i := range rand.Perm(8) {
				all.Go(func() {
					var err error
					switch i {
					case 0:
						err = w.Ban(t.Context(), a.User.ID, Forever, "")
					case 1:
						_, err = w.Refresh(t.Context(), b.Refresh)
					default:
						_, err = enter()
					}
					if err != nil && !errors.Is(err, ErrBanned) {
						t.Errorf("round %d: %v", round, err)
					}
				})
			}
			all.Wait()
			if list, err := w.Sessions(t.Context(), a.User.ID); err != nil || len(list) != 0 {
				t.Fatalf("round %d: banned and logged in on %+v, %v", round, list, err)
			}
			if err := w.Unban(t.Context(), a.User.ID); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestDirectory_FindsAccounts(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		d := NewDirectory(w.db)
		var all []ID
		for _, name := range []string{"Ann", "Joanna", "Bob", "50%_off"} {
			all = append(all, w.join(strings.Trim(strings.ToLower(name), "%")+"@example.org", "").User.ID)
			if _, err := w.Update(t.Context(), all[len(all)-1], Change{Name: &name}); err != nil {
				t.Fatal(err)
			}
		}
		w.leave(w.mustByCode("bob@example.org"), "")
		names := func(list []Account, err error) string {
			t.Helper()
			var out []string
			for _, a := range list {
				out = append(out, a.Name)
			}
			slices.Sort(out)
			return fmt.Sprint(out, err)
		}
		for text, want := range map[string]string{
			"ANN": "[Ann Joanna] <nil>", "ann@ex": "[Ann] <nil>", "oann": "[Joanna] <nil>", "%": "[50%_off] <nil>", "_": "[50%_off] <nil>",
			"bob@example.org": "[Bob] <nil>", all[1].String(): "[Joanna] <nil>", "nobody": "[] <nil>", "deleted:": "[] <nil>",
		} {
			if got := names(d.Search(t.Context(), text, ID{}, 10)); got != want {
				t.Errorf("Search(%q): got %s, want %s", text, got, want)
			}
		}
		var walked []ID
		for after := (ID{}); ; {
			page, err := d.List(t.Context(), after, 3)
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range page {
				walked, after = append(walked, a.ID), a.ID
			}
			if len(page) < 3 {
				break
			}
		}
		slices.SortFunc(all, func(a, b ID) int { return strings.Compare(a.String(), b.String()) })
		if !slices.Equal(walked, all) {
			t.Errorf("two pages: got %v, want %v", walked, all)
		}
		for _, who := range []string{"ANN@example.org", "ann@example.org"} {
			if a, err := d.Find(t.Context(), who); err != nil || a.Name != "Ann" || a.Sessions != 1 {
				t.Errorf("Find(%s): got %+v, %v", who, a, err)
			}
		}
		if _, err := d.Find(t.Context(), "nobody@example.org"); !errors.Is(err, ErrNoUser) {
			t.Errorf("Find: got %v, want ErrNoUser", err)
		}
		w.pass(w.cfg.RefreshLife)
		if a, err := d.Find(t.Context(), "ann@example.org"); err != nil || a.Sessions != 0 {
			t.Errorf("Find: got %+v, %v, want no logged-in device", a, err)
		}
		if err := w.eraseDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := names(d.Search(t.Context(), "deleted:", ID{}, 10)); got != "[] <nil>" {
			t.Errorf("Search finds %s among the erased", got)
		}
	})
}

func (w *world) mustByCode(email string) Tokens {
	w.t.Helper()
	t, err := w.byCode(email)
	if err != nil {
		w.t.Fatal(err)
	}
	return t
}

// A server applies an operator's changes in SQL everywhere: here w.
func TestDirectory_ServerAppliesChanges(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		w.listen()
		d, ctx := NewDirectory(w.db), t.Context()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		followed := func() {
			t.Helper()
			w.deliver()
		}
		a := w.join("ann@example.org", "correct horse")
		id := a.User.ID
		sub := w.bus.Subscribe(t.Context(), id.String())
		defer sub.Close()
		b, c := w.enter("ann@example.org", "correct horse"), w.enter("ann@example.org", "correct horse")
		warm := func(all ...Tokens) {
			t.Helper()
			for _, one := range all {
				w.check("warm", one.Access, nil)
			}
			_, err := w.User(ctx, id)
			must(err)
		}
		warm(a, b, c)
		n, err := d.Kick(ctx, id, b.Device)
		must(err)
		if waiting, dead, err := d.Unapplied(ctx, id); n != 1 || waiting != 1 || dead != 0 || err != nil {
			t.Errorf("one kicked: %d, and %d, %d, %v wait", n, waiting, dead, err)
		}
		w.exec("UPDATE outbox SET dead = 1")
		if waiting, dead, err := d.Unapplied(ctx, id); waiting != 0 || dead != 1 || err != nil {
			t.Errorf("given up: %d wait, %d do not, %v", waiting, dead, err)
		}
		w.exec("UPDATE outbox SET dead = 0")
		followed()
		w.heard(sub, api.EventSessionEnded)
		w.check("kicked", b.Access, ErrToken)
		w.check("not kicked", a.Access, nil)
		if waiting, _, err := d.Unapplied(ctx, id); waiting != 0 || err != nil {
			t.Errorf("%d wait, %v", waiting, err)
		}
		if _, err := d.Kick(ctx, id, b.Device); !errors.Is(err, ErrNoSession) {
			t.Errorf("kicked again: got %v, want ErrNoSession", err)
		}
		if _, err := d.Kick(ctx, ids.New[User](), DeviceID{}); !errors.Is(err, ErrNoUser) {
			t.Errorf("nobody kicked: got %v, want ErrNoUser", err)
		}
		if n, err := d.Kick(ctx, id, DeviceID{}); n != 2 || err != nil {
			t.Errorf("all kicked: %d, %v", n, err)
		}
		followed()
		w.check("all kicked", a.Access, ErrToken)

		a = w.enter("ann@example.org", "correct horse")
		warm(a)
		must(d.Ban(ctx, id, w.db.Now().Add(time.Hour), "Spam"))
		followed()
		w.check("banned", a.Access, ErrToken)
		if acc, err := d.Find(ctx, id.String()); err != nil || acc.Reason != "Spam" || acc.Banned.IsZero() || acc.Sessions != 0 {
			t.Errorf("Find: %+v, %v", acc, err)
		}
		if u, err := w.User(ctx, id); err != nil || u.Banned.IsZero() {
			t.Errorf("the servers have %+v, %v, want a ban", u, err)
		}
		must(d.Unban(ctx, id))
		followed()

		a = w.enter("ann@example.org", "correct horse")
		warm(a)
		if err := d.Restore(ctx, id); !errors.Is(err, ErrNotDeleted) {
			t.Errorf("Restore: got %v, want ErrNotDeleted", err)
		}
		late, err := d.Delete(ctx, id, 48*time.Hour)
		must(err)
		followed()
		if n := w.heard(sub, api.EventAccountNotice); n.Kind != api.NoticeDeletion {
			t.Errorf("the devices received %+v", n)
		}
		w.check("deleted", a.Access, ErrToken)
		if u, err := w.User(ctx, id); err != nil || !u.Deleted() {
			t.Errorf("the servers have %+v, %v, want it deleted", u, err)
		}
		if m := w.mails("ann@example.org")[0]; m.Subject != "Your account was deleted" {
			t.Errorf("the mail: %+v", m)
		}
		if again, err := d.Delete(ctx, id, 96*time.Hour); err != nil || !again.Equal(late) {
			t.Errorf("deleted again, later: %s, %v, want %s still", again, err, late)
		}
		mails := func() (n int) {
			t.Helper()
			must(w.db.NewRaw("SELECT COUNT(*) FROM outbox WHERE topic = ?", TopicNotice).Scan(ctx, &n))
			return n
		}
		if sooner, err := d.Delete(ctx, id, time.Hour); err != nil || !sooner.Before(late) || mails() != 0 {
			t.Errorf("deleted again, sooner: %s, %v, and %d mails, want it before %s and no second mail", sooner, err, mails(), late)
		}
		must(d.Restore(ctx, id))
		followed()
		for _, want := range []string{api.NoticeDeletion, api.NoticeRestored} {
			if n := w.heard(sub, api.EventAccountNotice); n.Kind != want {
				t.Errorf("the devices received %+v, want %s", n, want)
			}
		}
		if u, err := w.User(ctx, id); err != nil || u.Deleted() {
			t.Errorf("the servers have %+v, %v, want it back", u, err)
		}
		if _, err := d.Delete(ctx, id, 0); err != nil || mails() != 0 {
			t.Fatalf("got %v and %d mails, want none: it would come too late", err, mails())
		}
		must(w.eraseDue(ctx))
		if gone, err := w.Erased(ctx, []ID{id}); len(gone) != 1 || err != nil {
			t.Errorf("erased now: %v, %v", gone, err)
		}
	})
}

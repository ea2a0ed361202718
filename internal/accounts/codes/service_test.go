package codes

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stoa-dev/stoa/internal/base/clientnet"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// Between the check of a code and its transaction, the code may be used, replaced or expire.
func TestConsume_RechecksTheCode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, plenty)
		p := to("ann@example.org", ForRegister)
		looked := func() Code {
			t.Helper()
			c, err := w.Check(t.Context(), p, w.ask(p, "192.0.2.1"), "192.0.2.1")
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		spend := func(what string, c Code, want error) {
			t.Helper()
			if err := w.db.Tx(t.Context(), c.Consume); !errors.Is(err, want) {
				t.Errorf("%s: got %v, want %v", what, err, want)
			}
		}
		used, replaced := looked(), looked()
		spend("one that was replaced", used, ErrWrong)
		spend("the one in force", replaced, nil)
		spend("one that was used", replaced, ErrWrong)
		expired := looked()
		w.pass(w.life)
		spend("one that has expired", expired, ErrWrong)
		if hash, err := try(t.Context(), w.db, expired, "192.0.2.1"); hash != "" || err != nil {
			t.Errorf("one that has expired is compared with %q, %v", hash, err)
		}
	})
}

func TestCheck_KnownNetworkHasItsOwnTries(t *testing.T) {
	eachEngine(t, func(t *testing.T, w *world) {
		const home, elsewhere = "192.0.2.1", "203.0.113.1"
		p := to("ann@example.org", ForResetPassword)
		w.known[p.Email.Key] = home
		for _, spent := range []string{home, elsewhere} {
			other := map[string]string{home: elsewhere, elsewhere: home}[spent]
			c := w.storedCode(p, w.ask(p, home))
			for i := range 8 {
				if hash, err := try(t.Context(), w.db, c, spent); err != nil || (hash != "") != (i < 5) {
					t.Errorf("try %d from %s: %q, %v", i, spent, hash, err)
				}
			}
			if hash, err := try(t.Context(), w.db, c, other); hash == "" || err != nil {
				t.Errorf("from %s after the tries of %s: %q, %v", other, spent, hash, err)
			}
		}
	})
}

// An erased account leaves neither codes nor their mails. Other addresses keep theirs.
func TestForget(t *testing.T) {
	eachEngine(t, func(t *testing.T, w *world) {
		const user = "V1StGXR8_Z5j"
		own := func(p Purpose) Proof {
			proof := to("ann@example.org", p)
			proof.User = user
			return proof
		}
		other := to("bob@example.org", ForLogin)
		for _, p := range []Proof{to("ann@example.org", ForRegister), to("ann@example.org", ForLogin), to("ann@example.org", ForResetPassword),
			own(ForSetPassword), own(ForLeaveEmail), other} {
			w.ask(p, "192.0.2.1")
		}
		if err := w.db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			return w.Forget(ctx, tx, other.Email, user)
		}); err != nil {
			t.Fatal(err)
		}
		count := func(table string) (n int) {
			t.Helper()
			if err := w.db.NewRaw("SELECT COUNT(*) FROM "+table).Scan(t.Context(), &n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		if codes, mails := count("codes"), count("outbox"); codes != 5 || mails != 5 {
			t.Errorf("without Bob's there are %d codes and %d mails, want 5 of each", codes, mails)
		}
		if err := w.db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			return w.Forget(ctx, tx, own(ForSetPassword).Email, user)
		}); err != nil {
			t.Fatal(err)
		}
		if codes, mails := count("codes"), count("outbox"); codes != 0 || mails != 0 {
			t.Errorf("%d codes and %d mails are left", codes, mails)
		}
	})
}

// A network has a tenth of the deployment's limit, so that one network cannot suspend codes for all. The known client
// networks of an account are not suspended, except for a new address: otherwise an attacker with many accounts could
// continue to guess.
func TestLimits_NetworkHasATenth(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Limits{PerMinute: 100, PerDay: 100, PerClientNet: 3, All: 100, Wrong: 40})
		from := func(network, of int) string { return clientnet.Parse(fmt.Sprintf("2001:db8:%x:%x::1", network, of)) }
		who := func(name string) Proof { return to(name+"@example.org", ForRegister) }
		check := func(p Proof, code, from string) error {
			_, err := w.Check(t.Context(), p, code, from)
			return err
		}
		for i := range 11 {
			err := w.Send(t.Context(), who(fmt.Sprint("a", i)), from(1, i))
			if i < 10 && err != nil || i == 10 && !errors.Is(err, ErrTooMany) {
				t.Errorf("code %d of a network: %v", i, err)
			}
		}
		ann, home := who("ann"), from(2, 1)
		if err := check(ann, w.ask(ann, home), home); err != nil {
			t.Fatalf("from another network: %v", err)
		}
		for i := range 5 {
			p := who(fmt.Sprint("a", i))
			if err := check(p, otherThan(w.mailed(p)), from(1, i)); !errors.Is(err, ErrWrong) {
				t.Fatalf("wrong code %d of a network: %v", i, err)
			}
		}
		if err := check(who("a7"), w.mailed(who("a7")), from(1, 7)); !errors.Is(err, ErrSuspended) {
			t.Errorf("a code from a network with too many wrong ones: got %v, want ErrSuspended", err)
		}
		if err := check(who("a8"), w.mailed(who("a8")), from(3, 8)); err != nil {
			t.Errorf("from another network: %v", err)
		}

		// All are suspended now, but for those of client networks that an account knows.
		for i := range 41 {
			w.wrong(t.Context(), fmt.Sprintf("10.0.%d.0/24", i))
		}
		bob := who("bob")
		if err := check(bob, w.ask(bob, from(4, 1)), from(4, 1)); !errors.Is(err, ErrSuspended) {
			t.Errorf("after too many wrong ones: got %v, want ErrSuspended", err)
		}
		w.known[ann.Email.Key] = home
		code := w.ask(ann, home)
		if err := check(ann, code, home); err != nil {
			t.Errorf("from a client network that the account knows: %v", err)
		}
		if err := check(ann, code, from(5, 1)); !errors.Is(err, ErrSuspended) {
			t.Errorf("from a client network that the account does not know: got %v, want ErrSuspended", err)
		}
		moving := Proof{who("anna").Email, ForChangeEmail, "V1StGXR8_Z5j"}
		if err := check(moving, w.ask(moving, home), home); !errors.Is(err, ErrSuspended) {
			t.Errorf("for an address that is to be an account's, from a client network that the account knows: got %v, want ErrSuspended", err)
		}
	})
}

// A limit that allows a client network many codes, such as a school, also allows it as many mistakes.
func TestLimits_WiderNetworkAllowsAtLeastOneClientNetwork(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Limits{PerMinute: 100, PerDay: 100, PerClientNet: 50, All: 10_000, Wrong: 100})
		for i, want := range []error{nil, ErrSuspended} {
			for range 50 {
				w.wrong(t.Context(), clientnet.Network("192.0.2.0"))
			}
			p, from := to(fmt.Sprint(i, "@example.org"), ForRegister), fmt.Sprint("192.0.2.", i)
			if _, err := w.Check(t.Context(), p, w.ask(p, from), from); !errors.Is(err, want) {
				t.Errorf("after %d wrong codes of a network: got %v, want %v", 50*(i+1), err, want)
			}
		}
	})
}

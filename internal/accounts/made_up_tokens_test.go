package accounts

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/base/clientnet"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// TestVerify_UnknownTokensAreLimitedPerClientNetwork checks that a valid token of the same client network still works.
func TestVerify_UnknownTokensAreLimitedPerClientNetwork(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		w.listen()
		ann := w.join("ann@example.org", "")
		from := func(ip, token string) error {
			ctx := context.WithValue(t.Context(), clientnet.Key{}, func() string { return clientnet.Parse(ip) })
			_, err := w.Verify(ctx, token)
			return err
		}
		madeUp := func() string {
			return accessPrefix + ids.New[User]().String() + "." + ids.New[Session]().String() + "." + strings.Repeat("A", secretLen)
		}
		const near, school, elsewhere = "10.0.0.1", "2001:db8::1", "192.0.2.1"
		w.pass(time.Minute - time.Duration(w.db.Now().UnixNano()%int64(time.Minute))) // all requests are within one minute

		if err := from(elsewhere, ann.Access); err != nil { // this node has a cache entry
			t.Fatal(err)
		}
		for _, ip := range []string{near, school} {
			for i := range maxStrays {
				if err := from(ip, madeUp()); !errors.Is(err, ErrToken) {
					t.Fatalf("made-up token %d from %s: got %v, want ErrToken", i, ip, err)
				}
			}
		}
		if err := from(school, madeUp()); !errors.Is(err, errStrays) {
			t.Errorf("one more: got %v, want errStrays", err)
		}
		if err := from(school, ann.Access[:len(ann.Access)-secretLen]+strings.Repeat("A", secretLen)); !errors.Is(err, errStrays) {
			t.Errorf("another secret for a session that there is: got %v, want errStrays", err)
		}
		for _, ip := range []string{near, elsewhere} {
			if err := from(ip, madeUp()); !errors.Is(err, ErrToken) {
				t.Errorf("one more from %s: got %v, want ErrToken", ip, err)
			}
		}
		w.checks.Clear()
		if err := from(school, ann.Access); err != nil {
			t.Errorf("a token that this server has made: %v", err)
		}

		parsed, _ := parseToken(accessPrefix, ann.Access)
		former := accessPrefix + parsed.user.String() + "." + parsed.device.String() + "." + strings.Repeat("B", secretLen)
		if _, err := w.db.ExecContext(t.Context(), "UPDATE sessions SET access_hash = ? WHERE device_id = ?", hash(former),
			parsed.device); err != nil {
			t.Fatal(err)
		}
		if _, err := w.checks.Refresh(t.Context(), sessionKey{A: parsed.user, B: parsed.device}); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(from(elsewhere, former), from(school, former)); err != nil {
			t.Errorf("a token of a former version, of which this node has a copy: %v", err)
		}
		w.checks.Clear()
		if err := from(school, former); !errors.Is(err, errStrays) {
			t.Errorf("a token of a former version, of which this node has no copy: got %v, want errStrays", err)
		}
		time.Sleep(time.Minute)
		if err := errors.Join(from(school, former), from(school, ann.Access)); !errors.Is(err, ErrToken) || errors.Is(err, errStrays) {
			t.Errorf("a minute later: got %v", err)
		}
	})
}

func TestStrays_AreSafeForConcurrentUse(t *testing.T) {
	var s strays
	now := time.Now()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range maxStrays / 4 {
				if err := s.tooMany("here", now); err != nil {
					t.Error(err)
				}
				s.count("here", now)
			}
		})
	}
	all.Wait()
	if err := s.tooMany("here", now); !errors.Is(err, errStrays) {
		t.Errorf("after %d tokens: got %v, want errStrays", maxStrays, err)
	}
}

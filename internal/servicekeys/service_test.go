package servicekeys

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

func TestAdmin_CreatesAndListsKeys(t *testing.T) {
	for _, e := range sqldbtest.Engines(t) {
		t.Run(e.Name, func(t *testing.T) {
			db, ctx := e.Open(t), t.Context()
			d := NewAdmin(db)
			k, token, err := d.Create(ctx, " shop ", []Scope{ChatsRead, UsersRead}, 60, time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			list, err := d.List(ctx)
			if err != nil || len(list) != 1 || list[0].ID != k.ID || list[0].Name != "shop" || len(list[0].Scopes) != 2 || list[0].Rate != 60 ||
				!list[0].Expires.Equal(k.Created.Add(time.Hour)) || !list[0].Used.IsZero() {
				t.Errorf("got %+v, %v", list, err)
			}
			if _, _, err := d.Create(ctx, "shop", nil, 60, 0); !errors.Is(err, ErrTaken) {
				t.Errorf("the same name: %v", err)
			}
			if _, _, err := d.Create(ctx, "a\nb", nil, 60, 0); !errors.Is(err, ErrName) {
				t.Errorf("two lines: %v", err)
			}
			s := New(db, nil, slog.New(slog.DiscardHandler))
			if c, err := s.Authenticate(ctx, token); err != nil || c.UserID() != k.ID.String() {
				t.Errorf("the key: %+v, %v", c, err)
			}
			for _, wrong := range []string{token[:len(token)-1], token + "A", Prefix, "sk_" + k.ID.String() + ".", "sk_x.y", "sa_" + token[3:]} {
				if _, err := s.Authenticate(ctx, wrong); !errors.Is(err, ErrKey) {
					t.Errorf("%q: %v", wrong, err)
				}
			}
			if err := s.flush(ctx); err != nil {
				t.Fatal(err)
			}
			second, until, err := d.Rotate(ctx, "shop", time.Hour)
			if err != nil || second == token || !until.After(db.Now()) {
				t.Errorf("rotated: %v %v", until, err)
			}
			list, err = d.List(ctx)
			if err != nil || list[0].Used.IsZero() || !list[0].good(hashOf(token), db.Now()) || !list[0].good(hashOf(second), db.Now()) ||
				list[0].good(hashOf(token), until) {
				t.Errorf("after the rotation: %+v, %v", list, err)
			}
			// The answer of that rotation got lost: the operator rotates again, and the backend still has the first secret.
			third, _, err := d.Rotate(ctx, "shop", 2*time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			list, err = d.List(ctx)
			for name, secret := range map[string]string{"first": token, "second": second, "third": third} {
				if err != nil || !list[0].good(hashOf(secret), db.Now()) {
					t.Errorf("the %s secret after another rotation: %+v, %v", name, list, err)
				}
			}
			if list[0].good(hashOf(token), until) {
				t.Error("the first secret is good for longer than was said")
			}
			if third, _, err = d.Rotate(ctx, "shop", 0); err != nil {
				t.Fatal(err)
			}
			if list, err = d.List(ctx); err != nil || list[0].good(hashOf(second), db.Now()) || list[0].good(hashOf(token), db.Now()) ||
				!list[0].good(hashOf(third), db.Now()) {
				t.Errorf("without an overlap: %+v, %v", list, err)
			}
			if err := errors.Join(d.Revoke(ctx, "shop")); err != nil {
				t.Fatal(err)
			}
			if err := d.Revoke(ctx, "shop"); !errors.Is(err, ErrUnknown) {
				t.Errorf("revoked twice: %v", err)
			}
		})
	}
}

// Callers who come while SQL takes its time, or does not answer, wait for one look at it and not
// each for their own.
func TestKeys_ConcurrentCallersShareOneRead(t *testing.T) {
	for name, fault := range map[string]error{"slow": nil, "away": ErrStore} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				s, looks := New(sqldbtest.SQLite(t), nil, slog.New(slog.DiscardHandler)), 0
				k := Key{ID: ids.New[Key]()}
				token, hash := newToken(k.ID)
				k.hash = hash
				s.load = func(context.Context) ([]Key, error) {
					looks++
					time.Sleep(2 * maxAge)
					return []Key{k}, fault
				}
				var all sync.WaitGroup
				for range 50 {
					all.Go(func() {
						if _, err := s.Authenticate(t.Context(), token); !errors.Is(err, fault) {
							t.Errorf("got %v, want %v", err, fault)
						}
					})
				}
				all.Wait()
				if looks > 2 {
					t.Errorf("SQL was asked %d times", looks)
				}
			})
		})
	}
}

func TestAuthenticate_HangingSQLIsUnavailable(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := New(sqldbtest.SQLite(t), nil, slog.New(slog.DiscardHandler))
		s.load = func(ctx context.Context) ([]Key, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		token, _ := newToken(ids.New[Key]())
		if _, err := s.Authenticate(t.Context(), token); !errors.Is(err, ErrStore) {
			t.Errorf("got %v, want %v", err, ErrStore)
		}
	})
}

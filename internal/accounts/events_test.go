package accounts

import (
	"context"
	"encoding/json"
	"image/color"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// hear waits for an event of that type and decodes it.
func hear(t *testing.T, sub *events.Subscription, typ string, data any) {
	t.Helper()
	for timeout := time.After(patience); ; {
		select {
		case e, ok := <-sub.C:
			if !ok {
				t.Fatalf("the subscription was cut off while %s was waited for", typ)
			}
			if e.Type != typ {
				continue
			}
			if err := json.Unmarshal(e.Data, data); err != nil {
				t.Fatal(err)
			}
			return
		case <-timeout:
			t.Fatalf("another node heard of no %s", typ)
		}
	}
}

func TestEvents_PublishedAfterTheCommit(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		w.listen()
		other := w.neighbour()
		ann := w.join("ann@example.org", "").User.ID
		sub := other.bus.Subscribe(t.Context(), ann.String())
		defer sub.Close()
		// At most once, because the other node may not be subscribed yet at the first one.
		names := []string{"Bea", "Eve", "Kim", "Zoe"}
		for i, name := range names {
			w.rename(ann, name)
			for timeout := time.After(patience / 5); ; {
				var u api.User
				select {
				case e := <-sub.C:
					if e.Type != api.EventAccountUpdated {
						continue
					}
					if err := json.Unmarshal(e.Data, &u); err != nil || !slices.Contains(names[:i+1], u.Name) {
						t.Errorf("got %+v, %v, want the new name, %s", u, err, name)
					}
					return
				case <-timeout:
				}
				break
			}
		}
		t.Error("another node heard of no change")
	})
}

// Other programs receive it from Redis.
func TestEvents_OnTheUsersChannel(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		w.listen()
		ann := w.join("ann@example.org", "").User.ID
		got, on := make(chan events.Event, 8), make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		var listening sync.WaitGroup
		listening.Go(func() {
			_ = w.redis.Subscribe(ctx, notifications.At(ann).Channel, redis.Handler{
				Subscribed: func() { close(on) },
				Message: func(payload string) {
					e, err := notifications.At(ann).Decode(payload)
					if err != nil || notifications.Carries[e.Type] == nil {
						t.Errorf("%v in %s", err, payload)
					}
					got <- e
				},
			})
		})
		t.Cleanup(func() { cancel(); listening.Wait() })
		<-on
		w.rename(ann, "Bea")
		for timeout := time.After(patience); ; {
			select {
			case e := <-got:
				if e.Type == api.EventAccountUpdated {
					return
				}
			case <-timeout:
				t.Fatalf("heard of no %s", api.EventAccountUpdated)
			}
		}
	})
}

// A device ignores an event or a response with a lower version than the last one.
func TestUser_EachChangeIncrementsTheVersion(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		w.listen()
		ann := w.join("ann@example.org", "").User.ID
		sub := w.bus.Subscribe(t.Context(), ann.String())
		defer sub.Close()
		last := int64(-1)
		grows := func(what string) {
			t.Helper()
			var u api.User
			hear(t, sub, api.EventAccountUpdated, &u)
			if u.Version <= last {
				t.Errorf("%s: version %d after %d", what, u.Version, last)
			}
			last = u.Version
			if stored, err := selectUser(t.Context(), w.db, ann); err != nil || stored.Version != last {
				t.Errorf("%s: the event has version %d, SQL %d, %v", what, last, stored.Version, err)
			}
		}
		w.rename(ann, "Bea")
		grows("a name")
		if _, err := w.SetAvatar(t.Context(), ann, square(t, color.White)); err != nil {
			t.Fatal(err)
		}
		grows("a picture")
		if err := w.RemoveAvatar(t.Context(), ann); err != nil {
			t.Fatal(err)
		}
		grows("no picture")
		w.rename(ann, "Eve")
		grows("another name")
	})
}

package social

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// eventRecorder collects the events of a user's devices on a node, in short form.
type eventRecorder struct {
	*world
	sub      *events.Subscription
	versions map[string]int64 // of the last event of each thing
}

func (w *world) listen(user accounts.ID) eventRecorder {
	h := eventRecorder{w, w.bus.Subscribe(w.t.Context(), user.String()), map[string]int64{}}
	w.t.Cleanup(h.sub.Close)
	from := events.New("from here", user.String(), time.Now(), []byte("1"))
	w.bus.Publish([]events.Event{from}) // earlier events may still be on their way
	for e := range h.sub.C {
		if e.ID == from.ID {
			return h
		}
	}
	w.t.Fatal("the subscription was cut off")
	return h
}

// expect waits for the wanted events and compares them as type and main data.
func (h eventRecorder) expect(want ...string) {
	h.t.Helper()
	var got []string
	for len(got) < len(want) {
		select {
		case e := <-h.sub.C:
			got = append(got, short(h.t, e))
			h.newer(e)
		case <-time.After(patience):
			h.t.Fatalf("got %v, want %v", got, want)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		h.t.Errorf("got %v, want %v", got, want)
	}
}

// newer expects a higher version than that of the last event about the same thing.
func (h eventRecorder) newer(e events.Event) {
	h.t.Helper()
	var data struct {
		User    json.RawMessage
		Version int64
	}
	h.must(json.Unmarshal(e.Data, &data))
	kind, _, _ := strings.Cut(e.Type, ".")
	switch e.Type {
	case api.EventFriendRequested, api.EventFriendRequestClosed: // a closed request stays closed
		return
	case api.EventFriendUnread:
		kind = e.Type
	case api.EventFriendAdded, api.EventFriendUpdated:
		var p api.Profile
		h.must(json.Unmarshal(data.User, &p))
		data.User = []byte(`"` + p.ID + `"`)
	}
	thing := kind + string(data.User)
	if data.Version <= h.versions[thing] {
		h.t.Errorf("%s %s has version %d after %d", e.Type, e.Data, data.Version, h.versions[thing])
	}
	h.versions[thing] = data.Version
}

func short(t testing.TB, e events.Event) string {
	t.Helper()
	var data struct {
		State, Remark string
		From, To      api.Profile
		Unread        int
		User          json.RawMessage
	}
	if err := json.Unmarshal(e.Data, &data); err != nil {
		t.Fatalf("%s: %v in %s", e.Type, err, e.Data)
	}
	name := strings.TrimPrefix(strings.TrimPrefix(e.Type, "friend."), "block.")
	switch e.Type {
	case api.EventFriendUnread:
		return fmt.Sprintf("%s %d", name, data.Unread)
	case api.EventFriendRequested, api.EventFriendRequestClosed:
		return fmt.Sprintf("%s %s %s to %s", name, data.State, data.From.Name, data.To.Name)
	case api.EventFriendAdded, api.EventFriendUpdated:
		var p api.Profile
		if err := json.Unmarshal(data.User, &p); err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(fmt.Sprintf("%s %s %s", name, p.Name, data.Remark))
	}
	return fmt.Sprintf("%s %s", e.Type, data.User)
}

func TestEvents_BothSides(t *testing.T) {
	eachEngine(t, Settings{RequestLife: time.Hour}, func(t *testing.T, w *world) {
		// On one node, because another node may not subscribe yet and would miss events.
		ctx := t.Context()
		who := w.join(3)
		ann, bob, eve := who[0], who[1], who[2]
		a, b, e := w.listen(ann), w.listen(bob), w.listen(eve)
		r, _, err := w.SendRequest(ctx, ann, RequestDraft{User: bob, Remark: "B"})
		w.must(err)
		a.expect("requested pending user 0 to user 1")
		b.expect("requested pending user 0 to user 1", "unread 1")
		w.sendRequest(ann, bob) // nothing new
		w.must(w.Seen(ctx, bob))
		b.expect("unread 0")
		w.must(w.Seen(ctx, bob)) // nothing new
		_, err = w.Accept(ctx, bob, r.ID, "A", "")
		w.must(err)
		a.expect("request_closed accepted user 0 to user 1", "added user 1 B")
		b.expect("request_closed accepted user 0 to user 1", "added user 0 A", "unread 0")
		remark := "Bee"
		_, err = w.UpdateFriend(ctx, ann, bob, FriendUpdate{Remark: &remark})
		w.must(err)
		a.expect("updated user 1 Bee")
		_, err = w.UpdateFriend(ctx, ann, bob, FriendUpdate{Remark: &remark}) // nothing new
		w.must(err)

		// A blocked user gets only the end of the friendship, or a refusal.
		w.sendRequest(eve, bob)
		b.expect("requested pending user 2 to user 1", "unread 1")
		e.expect("requested pending user 2 to user 1")
		w.must(w.Block(ctx, bob, ann))
		w.must(w.Block(ctx, bob, eve))
		w.must(w.Block(ctx, bob, eve)) // nothing new
		a.expect(`friend.removed "` + bob.String() + `"`)
		e.expect("request_closed refused user 2 to user 1")
		b.expect(`friend.removed "`+ann.String()+`"`, `block.added "`+ann.String()+`"`, `block.added "`+eve.String()+`"`,
			"request_closed refused user 2 to user 1", "unread 0")
		w.must(w.Unblock(ctx, bob, ann))
		b.expect(`block.removed "` + ann.String() + `"`)

		w.must(w.Withdraw(ctx, bob, w.sendRequest(bob, ann).ID))
		for _, h := range []eventRecorder{a, b} {
			want := []string{"requested pending user 1 to user 0", "request_closed withdrawn user 1 to user 0"}
			if h.sub == a.sub {
				want = append(want, "unread 1", "unread 0")
			}
			h.expect(want...)
		}
		w.sendRequest(ann, eve)
		a.expect("requested pending user 0 to user 2")
		e.expect("requested pending user 0 to user 2", "unread 1")
		w.pass(time.Hour + time.Second)
		w.must(w.expire(ctx))
		a.expect("request_closed expired user 0 to user 2")
		e.expect("request_closed expired user 0 to user 2", "unread 0")
		for name, h := range map[string]eventRecorder{"Ann": a, "Bob": b, "Eve": e} {
			select {
			case e := <-h.sub.C:
				t.Errorf("%s also got %s", name, short(t, e))
			default:
			}
		}
	})
}

// Only the end of a request that the receiver has not seen changes the unread count.
func TestEvents_AcceptCountsUnseenRequests(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		ctx, who := t.Context(), w.join(3)
		ann, bob, eve := who[0], who[1], who[2]
		b := w.listen(bob)
		seen := w.sendRequest(eve, bob)
		b.expect("requested pending user 2 to user 1", "unread 1")
		w.pass(time.Second)
		w.must(w.Seen(ctx, bob))
		b.expect("unread 0")
		unseen := w.sendRequest(ann, bob)
		b.expect("requested pending user 0 to user 1", "unread 1")
		_, err := w.Accept(ctx, bob, seen.ID, "E", "")
		w.must(err)
		b.expect("request_closed accepted user 2 to user 1", "added user 2 E", "unread 1")
		_, err = w.Accept(ctx, bob, unseen.ID, "A", "")
		w.must(err)
		b.expect("request_closed accepted user 0 to user 1", "added user 0 A", "unread 0")
	})
}

// A list that is not locked has unknown values, and storing it would lose the old ones.
func TestChange_RefusesAListThatIsNotLocked(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		who := w.join(2)
		defer func() {
			if recover() == nil {
				t.Error("a list without a lock was changed")
			}
		}()
		var d changeSet
		err := w.change(t.Context(), &d, nil, func(ctx context.Context, tx *sqldb.Tx) error {
			d.unread = map[accounts.ID]int{who[1]: 1}
			return d.lock(ctx, tx, who[0])
		})
		t.Errorf("the change was made: %v", err)
	})
}

func TestEvents_MutualRequests(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		who := w.join(2)
		a, b := w.listen(who[0]), w.listen(who[1])
		w.sendRequest(who[0], who[1])
		a.expect("requested pending user 0 to user 1")
		b.expect("requested pending user 0 to user 1", "unread 1")
		w.sendRequest(who[1], who[0])
		a.expect("request_closed accepted user 0 to user 1", "added user 1")
		b.expect("request_closed accepted user 0 to user 1", "added user 0", "unread 0")
	})
}

func TestEvents_Erasure(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		who := w.join(5)
		ann, bob, eve, dan, kim := who[0], who[1], who[2], who[3], who[4]
		w.sendRequest(ann, bob)
		w.sendRequest(eve, ann)
		w.must(w.Refuse(t.Context(), dan, w.sendRequest(ann, dan).ID))
		w.befriends(kim, ann)
		b, e, d, k := w.listen(bob), w.listen(eve), w.listen(dan), w.listen(kim)
		w.must(w.Erase(t.Context(), ann))
		b.expect("request_closed withdrawn user 0 to user 1", "unread 0")
		e.expect("request_closed refused user 2 to user 0")
		k.expect(`friend.removed "` + ann.String() + `"`)
		w.sendRequest(dan, eve)
		d.expect("requested pending user 3 to user 2", "unread 0") // and no event about his earlier refusal
	})
}

// Events are published even if the caller disconnects or names cannot be read.
func TestPublish_WithoutNames(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		who := w.join(4)
		tell := func(ctx context.Context, from, to accounts.ID) api.FriendRequest {
			t.Helper()
			h := w.listen(to)
			w.publish(ctx, &changeSet{at: w.db.Now(), opened: []Request{{ID: ids.New[Request](), From: from, To: to}}})
			select {
			case e := <-h.sub.C:
				var r api.FriendRequest
				w.must(json.Unmarshal(e.Data, &r))
				return r
			case <-time.After(patience):
				t.Fatal("no event arrived")
				return api.FriendRequest{}
			}
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if r := tell(gone, who[0], who[1]); r.From.Name != "user 0" || r.To.Name != "user 1" {
			t.Errorf("got %+v, want both names", r)
		}
		w.exec("ALTER TABLE users RENAME TO lost")
		if r := tell(t.Context(), who[2], who[3]); r.From != (api.Profile{ID: who[2].String()}) || r.To != (api.Profile{ID: who[3].String()}) {
			t.Errorf("got %+v, want the ids, and no user shown as deleted", r)
		}
		w.exec("ALTER TABLE lost RENAME TO users")
	})
}

// Programs next to the server receive the events through Redis.
func TestPublish_UsersChannel(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		who := w.join(2)
		got, on := make(chan string, 2), make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		var listening sync.WaitGroup
		listening.Go(func() {
			_ = w.redis.Subscribe(ctx, requestsChannel.At(who[1]).Channel, redis.Handler{
				Subscribed: func() { close(on) },
				Message: func(payload string) {
					e, err := requestsChannel.At(who[1]).Decode(payload)
					if err != nil || requestsChannel.Carries[e.Type] == nil {
						t.Errorf("%v in %s", err, payload)
					}
					got <- short(t, e)
				},
			})
		})
		t.Cleanup(func() { cancel(); listening.Wait() })
		<-on
		w.sendRequest(who[0], who[1])
		for _, want := range []string{"requested pending user 0 to user 1", "unread 1"} {
			select {
			case e := <-got:
				if e != want {
					t.Errorf("got %s, want %s", e, want)
				}
			case <-time.After(patience):
				t.Fatalf("got nothing, want %s", want)
			}
		}
	})
}

package social

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

func (w *world) setAcceptsRequests(user accounts.ID, yes bool) {
	w.t.Helper()
	_, err := w.accounts.Update(w.t.Context(), user, accounts.Change{Requests: &yes})
	w.must(err)
}

func TestAsk_Refusals(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		who := w.join(4)
		ann, bob, shy, gone := who[0], who[1], who[2], who[3]
		w.setAcceptsRequests(shy, false)
		w.exec("UPDATE users SET erased = 1 WHERE id = ?", gone)
		w.must(w.Block(ctx, bob, ann))
		for what, c := range map[string]struct {
			a    RequestDraft
			want error
		}{
			"oneself":            {RequestDraft{User: ann}, ErrSelf},
			"oneself by card":    {RequestDraft{Card: w.card(ann)}, ErrSelf},
			"nobody":             {RequestDraft{}, ErrWhom},
			"user and card":      {RequestDraft{User: bob, Card: w.card(bob)}, ErrWhom},
			"an unknown card":    {RequestDraft{Card: "x"}, accounts.ErrNoCard},
			"an unknown user":    {RequestDraft{User: ids.New[accounts.User]()}, accounts.ErrNoUser},
			"a deleted user":     {RequestDraft{User: gone}, accounts.ErrNoUser},
			"accepts none":       {RequestDraft{User: shy}, ErrNotAccepting},
			"accepts none, card": {RequestDraft{Card: w.card(shy)}, ErrNotAccepting},
			"user who blocks":    {RequestDraft{User: bob}, ErrNotAccepting},
			"with a bad text":    {RequestDraft{User: bob, Message: "\u202e"}, ErrText},
			"with a bad tag":     {RequestDraft{User: bob, Tag: "\n\x00"}, ErrText},
			"with a bad source":  {RequestDraft{User: bob, Source: "A B"}, ErrSource},
		} {
			_, _, err := w.SendRequest(ctx, ann, c.a)
			w.fails(what, err, c.want)
		}
		_, _, err := w.SendRequest(ctx, bob, RequestDraft{User: ann})
		w.fails("whom one blocks", err, ErrYouBlock)
		var rows int
		w.must(w.db.QueryRowContext(ctx, "SELECT (SELECT COUNT(*) FROM friend_requests) + (SELECT COUNT(*) FROM friend_lists WHERE user_id "+
			"NOT IN (SELECT id FROM users))").Scan(&rows))
		if rows != 0 || w.unreadOf(shy)+w.unreadOf(bob) != 0 {
			t.Errorf("%d rows are left of what was refused", rows)
		}
	})
}

func TestAsk_MutualRequestsMakeFriends(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		other := w.neighbour()
		who := w.join(2)
		ann, bob := who[0], who[1]
		for round := range 8 {
			first, second := RequestDraft{User: bob, Source: "search", Remark: "B"}, RequestDraft{Card: w.card(ann), Remark: "A"}
			var results [2]Request
			if round%2 == 0 {
				var all sync.WaitGroup
				all.Go(func() { results[0], _, _ = w.SendRequest(t.Context(), ann, first) })
				all.Go(func() { results[1], _, _ = other.SendRequest(t.Context(), bob, second) })
				all.Wait()
			} else {
				results[0], _, _ = w.SendRequest(t.Context(), ann, first)
				w.setAcceptsRequests(ann, false) // Bob has a request already, so the setting does not apply to him
				results[1], _, _ = other.SendRequest(t.Context(), bob, second)
				w.setAcceptsRequests(ann, true)
			}
			accepted := slices.IndexFunc(results[:], func(r Request) bool { return r.State == Accepted })
			if accepted < 0 || results[0].ID != results[1].ID {
				t.Fatalf("round %d: got %+v, want one request, accepted", round, results)
			}
			f, err := w.Friend(t.Context(), ann, bob)
			g, err2 := w.Friend(t.Context(), bob, ann)
			if err != nil || err2 != nil || f.Remark != "B" || g.Remark != "A" || f.Since != g.Since || f.Source != results[0].Source ||
				g.Source != f.Source {
				t.Fatalf("round %d: got %+v, %v and %+v, %v", round, f, err, g, err2)
			}
			agree(t, who, w, other)
			w.must(w.Unfriend(t.Context(), bob, ann))
		}
	})
}

func TestBlock_EndsRelationsForGood(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		who := w.join(4)
		ann, bob, eve, dan := who[0], who[1], who[2], who[3]
		w.befriends(ann, bob)
		mine, theirs := w.sendRequest(ann, eve), w.sendRequest(dan, ann)
		agree(t, who, w)
		for _, u := range []accounts.ID{bob, eve, dan} {
			w.must(w.Block(ctx, ann, u))
			w.must(w.Block(ctx, ann, u)) // nothing more
		}
		for id, want := range map[RequestID]State{mine.ID: Withdrawn, theirs.ID: Refused} {
			if r, err := selectRequest(ctx, w.db, id); err != nil || r.State != want {
				t.Errorf("the request is %s, %v, want %s", r.State, err, want)
			}
		}
		if w.isFriend(bob, ann) || w.isFriend(ann, bob) || w.unreadOf(ann)+w.unreadOf(eve) != 0 {
			t.Error("something outlived the block")
		}
		rel, err := w.Relations(ctx, ann, who)
		if err != nil || !slices.Equal(rel, []Relation{{}, {Blocked: true}, {Blocked: true}, {Blocked: true}}) {
			t.Errorf("got %v, %v", rel, err)
		}
		if yes, err := w.IsBlocked(ctx, ann, bob); err != nil || !yes {
			t.Errorf("Bob is not blocked: %v", err)
		}
		if yes, err := w.IsBlocked(ctx, bob, ann); err != nil || yes {
			t.Errorf("Ann is blocked: %v", err)
		}
		blocks := allPages(w, ann, 2, w.Blocks)
		if got := usersOf(blocks, func(b Block) accounts.ID { return b.User }); len(got) != 3 || len(blocks) != 3 {
			t.Errorf("the list has %v", blocks)
		}
		agree(t, who, w)
		w.must(w.Unblock(ctx, ann, bob))
		w.must(w.Unblock(ctx, ann, bob)) // repeated after a lost response
		if w.isFriend(ann, bob) {
			t.Error("friends again")
		}
		w.sendRequest(bob, ann)
		w.fails("oneself", w.Block(ctx, ann, ann), ErrSelf)
		w.fails("nobody", w.Block(ctx, ann, ids.New[accounts.User]()), accounts.ErrNoUser)
		agree(t, who, w)
	})
}

func TestLimits_AreEnforced(t *testing.T) {
	eachEngine(t, Settings{Friends: 2, RequestsOut: 2, RequestsIn: 3, Blocks: 2}, func(t *testing.T, w *world) {
		ctx := t.Context()
		who := w.join(8)
		ann := who[0]
		w.befriends(ann, who[1], who[2])
		r := w.sendRequest(who[3], ann)
		_, err := w.Accept(ctx, ann, r.ID, "", "")
		w.fails("a third friend", err, ErrFull)
		_, _, err = w.SendRequest(ctx, ann, RequestDraft{User: who[3]})
		w.fails("a third friend", err, ErrFull)
		if got := w.received(ann, 10); len(got) != 1 || got[0].ID != r.ID {
			t.Errorf("the request does not wait any more: %v", got)
		}
		r = w.sendRequest(ann, who[4])
		_, err = w.Accept(ctx, who[4], r.ID, "", "")
		w.fails("a third friend of the other", err, ErrOtherFull)
		w.sendRequest(ann, who[5])
		_, _, err = w.SendRequest(ctx, ann, RequestDraft{User: who[6]})
		w.fails("a third request", err, ErrOutFull)
		w.must(w.Withdraw(ctx, ann, r.ID))
		w.sendRequest(ann, who[6])

		w.sendRequest(who[4], ann)
		w.sendRequest(who[7], ann)
		_, _, err = w.SendRequest(ctx, who[6], RequestDraft{User: who[0]}) // Ann has sent a request
		w.fails("receiver", err, ErrOtherFull)
		extra := w.join(1)[0]
		_, _, err = w.SendRequest(ctx, extra, RequestDraft{User: ann})
		w.fails("a fourth one that waits", err, ErrNotAccepting)

		w.must(w.Block(ctx, ann, who[6]))
		w.must(w.Block(ctx, ann, who[7]))
		w.fails("a third block", w.Block(ctx, ann, who[4]), ErrBlocksFull)
		w.must(w.Unblock(ctx, ann, who[7]))
		w.must(w.Block(ctx, ann, who[4]))
		agree(t, append(who, extra), w)
	})
}

// A count without a lock would allow several at once.
func TestLimits_HoldForConcurrentCalls(t *testing.T) {
	eachEngine(t, Settings{Friends: 1, RequestsOut: 1, RequestsIn: 1, Blocks: 1}, func(t *testing.T, w *world) {
		ctx, other := t.Context(), w.neighbour()
		who := w.join(6)
		ann, others := who[0], who[1:]
		one := func(what string, full error, do func(on *world, with accounts.ID) error) {
			t.Helper()
			var all sync.WaitGroup
			results := make([]error, len(others))
			for i, o := range others {
				all.Go(func() { results[i] = do([]*world{w, other}[i%2], o) })
			}
			all.Wait()
			succeeded := 0
			for _, err := range results {
				if err == nil {
					succeeded++
				} else if !errors.Is(err, full) {
					t.Errorf("%s: got %v, want %v", what, err, full)
				}
			}
			if succeeded != 1 {
				t.Errorf("%s: %d did, want one", what, succeeded)
			}
		}
		for range 3 {
			one("block", ErrBlocksFull, func(on *world, o accounts.ID) error { return on.Block(ctx, ann, o) })
			w.exec("DELETE FROM blocks")
			one("ask", ErrOutFull, func(on *world, o accounts.ID) error {
				_, _, err := on.SendRequest(ctx, ann, RequestDraft{User: o})
				return err
			})
			w.exec("DELETE FROM friend_requests")
			one("be asked", ErrNotAccepting, func(on *world, o accounts.ID) error {
				_, _, err := on.SendRequest(ctx, o, RequestDraft{User: ann})
				return err
			})
			w.exec("DELETE FROM friend_requests")
			requests := map[accounts.ID]RequestID{}
			for _, o := range others { // more than may be pending: otherwise only one could be accepted
				r := Request{ID: ids.New[Request](), From: o, To: ann, Created: w.db.Now().Add(time.Duration(len(requests)) * time.Millisecond),
					Expires: w.db.Now().Add(time.Hour)}
				w.must(w.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return insertRequest(ctx, tx, r) }))
				requests[o] = r.ID
			}
			one("accept", ErrFull, func(on *world, o accounts.ID) error { _, err := on.Accept(ctx, ann, requests[o], "", ""); return err })
			w.exec("DELETE FROM friend_requests")
			w.exec("DELETE FROM friends")
			w.exec("DELETE FROM friend_lists")
		}
	})
}

func TestUpdateFriend_ConcurrentFieldsAllStay(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		other := w.neighbour()
		who := w.join(2)
		w.befriends(who[0], who[1])
		for round := range 5 {
			text, order := strings.Repeat("x", round+1), round+1
			var all sync.WaitGroup
			for i, n := range []FriendUpdate{{Remark: &text}, {Tag: &text}, {Order: &order}} {
				all.Go(func() {
					if _, err := []*world{w, other}[i%2].UpdateFriend(t.Context(), who[0], who[1], n); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if f, err := selectFriend(t.Context(), w.db, who[0], who[1]); err != nil || f.Remark != text || f.Tag != text || f.Order != order {
				t.Fatalf("round %d: got %+v, %v, want all three notes", round, f, err)
			}
		}
	})
}

// An expired request disappears before the job closes it.
func TestPendingBetween_BothDirections(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		who := w.join(5)
		ann, bob, eve, dan := who[0], who[1], who[2], who[3]
		w.befriends(ann, dan)
		in, out := w.sendRequest(bob, ann), w.sendRequest(ann, eve)
		w.sendRequest(bob, eve)
		waiting := func() map[accounts.ID]RequestID {
			t.Helper()
			relations, err := w.Relations(t.Context(), ann, who)
			w.must(err)
			found, err := w.PendingBetween(t.Context(), ann, who, relations)
			w.must(err)
			by := map[accounts.ID]RequestID{}
			for other, r := range found {
				by[other] = r.ID
			}
			return by
		}
		if got := waiting(); !maps.Equal(got, map[accounts.ID]RequestID{bob: in.ID, eve: out.ID}) {
			t.Errorf("between Ann and others wait %v, want Bob's %s and Eve's %s", got, in.ID, out.ID)
		}
		w.must(w.Refuse(t.Context(), ann, in.ID))
		w.pass(w.cfg.RequestLife + time.Second)
		if got := waiting(); len(got) != 0 {
			t.Errorf("after an answer and the other's end wait %v", got)
		}
	})
}

func TestExpiredRequest_CountsForNothing(t *testing.T) {
	eachEngine(t, Settings{RequestLife: time.Hour, RequestsOut: 1, RequestsIn: 1}, func(t *testing.T, w *world) {
		who := w.join(4)
		ann, bob := who[0], who[1]
		w.sendRequest(ann, bob)
		agree(t, who, w) // all caches are loaded
		w.pass(time.Hour + time.Second)
		if got := w.received(bob, 10); len(got) != 0 {
			t.Errorf("by a copy of before Bob can answer %+v", got)
		}
		w.must(w.caches.Drop(t.Context(), RequestsChanged.Of(w.caches.Runtime, ann, bob)...))
		if waits, err := allPending(t.Context(), w.db, bob); len(waits) != 0 || err != nil {
			t.Errorf("for Bob wait %v, %v", waits, err)
		}
		if in, out, n := w.received(bob, 10), w.sent(ann, 10), w.unreadOf(bob); len(in)+len(out)+n != 0 {
			t.Errorf("Bob has %+v and %d unread, Ann sent %+v, want none", in, n, out)
		}
		w.totals("sender", ann, Totals{})
		w.totals("receiver", bob, Totals{})
		w.sendRequest(ann, who[2])
		w.sendRequest(who[3], bob)
	})
}

// A stale cache names the sender. In the meantime the direction may have changed.
func TestReceived_OmitsOwnRequest(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		who := w.join(2)
		w.sendRequest(who[0], who[1])
		if got := w.received(who[1], 10); len(got) != 1 {
			t.Fatalf("got %+v, want the request", got)
		}
		w.exec("UPDATE friend_requests SET from_id = ?, to_id = ?", who[1], who[0])
		if got := w.received(who[1], 10); len(got) != 0 {
			t.Errorf("got %+v, want none", got)
		}
	})
}

func TestExpire_ClosesRequests(t *testing.T) {
	eachEngine(t, Settings{RequestLife: 2 * time.Hour}, func(t *testing.T, w *world) {
		ctx, other := t.Context(), w.neighbour()
		who := w.join(5)
		ann, bob := who[0], who[1]
		r := w.sendRequest(ann, bob)
		w.sendRequest(who[3], bob)
		w.sendRequest(who[4], who[3])
		if got := w.unreadOf(bob); got != 2 {
			t.Errorf("%d unread, want 2", got)
		}
		w.pass(time.Hour)
		late := w.sendRequest(who[2], bob)
		w.must(w.expire(ctx))
		if got := w.received(bob, 1); len(got) != 3 {
			t.Errorf("%d requests after an hour, want 3", len(got))
		}
		agree(t, who, w, other) // all caches are loaded
		w.pass(time.Hour + time.Second)
		_, err := w.Accept(ctx, bob, r.ID, "", "")
		w.fails("accepted too late", err, ErrClosed)
		w.fails("withdrawn too late", w.Withdraw(ctx, ann, r.ID), ErrClosed)
		if got := w.sent(ann, 10); len(got) != 0 {
			t.Errorf("still pending for the sender: %v", got)
		}
		again := w.sendRequest(ann, bob) // before the old one is closed
		if again.ID == r.ID {
			t.Error("the old one again")
		}
		w.must(other.expire(ctx))
		if old, err := selectRequest(ctx, w.db, r.ID); err != nil || old.State != Expired {
			t.Errorf("the old one is %s, %v", old.State, err)
		}
		if got := w.received(bob, 1); len(got) != 2 || got[0].ID != again.ID || got[1].ID != late.ID {
			t.Errorf("Bob has %+v, want the new one and the late one", got)
		}
		agree(t, who, w, other)
		var waits int
		w.must(w.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM friend_requests WHERE state = 0").Scan(&waits))
		if waits != 2 {
			t.Errorf("%d wait in SQL, want 2", waits)
		}
		w.pass(retention + 4*time.Hour)
		w.must(w.expire(ctx))
		w.must(w.prune(ctx))
		w.must(w.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM friend_requests").Scan(&waits))
		if waits != 0 {
			t.Errorf("%d requests after 90 days, want none", waits)
		}
	})
}

func TestExpire_WorksInBatches(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{RequestLife: time.Hour, RequestsOut: 1000})
		who := w.join(sweepBatch + 21)
		for _, to := range who[1:] {
			w.sendRequest(who[0], to)
		}
		w.pass(time.Hour + time.Second)
		w.must(w.expire(t.Context()))
		var n int
		w.must(w.db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM friend_requests WHERE state <> 4").Scan(&n))
		if n != 0 {
			t.Errorf("%d did not expire", n)
		}
		w.sound()
	})
}

func TestUnread_RedDot(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		ctx, other := t.Context(), w.neighbour()
		who := w.join(6)
		ann := who[0]
		w.must(w.Seen(ctx, ann)) // a user without requests
		dot := func(want int) {
			t.Helper()
			if n, err := w.Unread(ctx, ann); n != want || err != nil {
				t.Errorf("%d unread, %v, want %d", n, err, want)
			}
			agree(t, []accounts.ID{ann}, w, other)
		}
		dot(0)
		w.sendRequest(who[1], ann)
		dot(1)
		w.sendRequest(who[1], ann) // the same request
		dot(1)
		r := w.sendRequest(who[2], ann)
		dot(2)
		w.must(w.Withdraw(ctx, who[2], r.ID))
		dot(1)
		w.must(other.Seen(ctx, ann))
		agree(t, []accounts.ID{ann}, w) // a change on another node takes a moment
		dot(0)
		r = w.sendRequest(who[3], ann)
		dot(1)
		w.must(w.Refuse(ctx, ann, w.received(ann, 10)[1].ID)) // a request that was seen
		dot(1)
		w.must(w.Seen(ctx, ann))
		w.must(w.Seen(ctx, ann))
		dot(0)
		_, err := w.Accept(ctx, ann, r.ID, "", "")
		w.must(err)
		dot(0)
		w.sendRequest(who[4], ann)
		w.sendRequest(who[5], ann)
		dot(2)
	})
}

// Clocks of nodes differ and move back. A request after the last look is unread.
func TestUnread_RequestAfterSeenDespiteClock(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		who := w.join(3)
		w.sendRequest(who[1], who[0])
		w.must(w.Seen(t.Context(), who[0]))
		w.pass(-time.Hour)
		w.sendRequest(who[2], who[0])
		if n := w.unreadOf(who[0]); n != 1 {
			t.Errorf("%d unread, want 1", n)
		}
		if got := w.received(who[0], 10); len(got) != 2 || got[0].From != who[2] {
			t.Errorf("got %+v, want the later one first", got)
		}
	})
}

func TestFriends_Pages(t *testing.T) {
	eachEngine(t, Settings{RequestsOut: 1000}, func(t *testing.T, w *world) {
		ctx := t.Context()
		who := w.join(24)
		ann := who[0]
		w.befriends(ann, who[1:]...)
		order := func(i, n int, tag string) {
			t.Helper()
			_, err := w.UpdateFriend(ctx, ann, who[i], FriendUpdate{Order: &n, Tag: &tag})
			w.must(err)
		}
		order(5, -3, "best")
		order(9, 7, "best")
		order(12, -3, "best")
		w.exec("UPDATE friends SET since = 1700000000000 WHERE friend_id IN (?, ?, ?)", who[2], who[3], who[4]) // all at one time
		want, _ := w.list(ann, 100)
		less := func(a, b Friend) int {
			switch {
			case a.Order != b.Order:
				return a.Order - b.Order
			case !a.Since.Equal(b.Since):
				return b.Since.Compare(a.Since)
			}
			return slices.Compare([]byte(a.User.String()), []byte(b.User.String()))
		}
		if len(want) != 23 || !slices.IsSortedFunc(want, less) || want[0].Order != -3 || want[22].Order != 7 {
			t.Fatalf("the list is %+v", want)
		}
		for _, limit := range []int{1, 2, 3, 7, 22, 23} {
			if got, _ := w.list(ann, limit); !slices.Equal(got, want) {
				t.Errorf("by %d: got %d friends, want the same as at once", limit, len(got))
			}
		}
		got, next, _, err := w.Friends(ctx, ann, "best", "", 2)
		if err != nil || len(got) != 2 || next == "" {
			t.Fatalf("got %+v, %q, %v", got, next, err)
		}
		more, next, _, err := w.Friends(ctx, ann, "best", next, 2)
		if err != nil || next != "" || len(more) != 1 || more[0].User != who[9] {
			t.Errorf("got %+v, %q, %v, want the last of three", more, next, err)
		}
		for _, bad := range []string{"x", "'; DROP TABLE friends; --"} {
			_, _, _, err = w.Friends(ctx, ann, "", bad, 2)
			w.fails("friends", err, ErrCursor)
			_, _, err = w.Blocks(ctx, ann, bad, 2)
			w.fails("blocks", err, ErrCursor)
			_, _, err = w.Sent(ctx, ann, bad, 2)
			w.fails("sent", err, ErrCursor)
			_, _, err = w.Received(ctx, ann, bad, 2)
			w.fails("received", err, ErrCursor)
		}

		bob, others := who[1], w.join(7)
		for _, o := range others {
			w.sendRequest(bob, o)
			w.sendRequest(o, ann)
		}
		w.must(w.Withdraw(ctx, bob, w.sendRequest(bob, w.join(1)[0]).ID)) // it is no longer in any list
		for _, limit := range []int{1, 3, 7, 8} {
			out, in := w.sent(bob, limit), w.received(ann, limit)
			if len(out) != 7 || len(in) != 7 {
				t.Fatalf("by %d: %d sent and %d received, want 7", limit, len(out), len(in))
			}
			for i := range 7 {
				if out[i].To != others[6-i] || in[i].From != others[6-i] {
					if !out[i].Created.Equal(out[6-i].Created) || in[i].From != others[6-i] {
						t.Errorf("by %d: number %d is %s and %s, want the newest first", limit, i, out[i].To, in[i].From)
					}
				}
			}
		}

		// Pages also end between rows with the same time.
		for i, o := range others {
			w.must(w.Block(ctx, ann, o))
			w.exec("UPDATE blocks SET since = ? WHERE blocked_id = ?", 1_700_000_000_000+i/3, o)
			w.exec("UPDATE friend_requests SET created = ? WHERE from_id = ? AND to_id = ?", 1_700_000_000_000+i/3, bob, o)
		}
		want7 := slices.Clone(others)
		slices.SortFunc(want7, func(a, b accounts.ID) int {
			return cmp.Or(cmp.Compare(slices.Index(others, b)/3, slices.Index(others, a)/3), cmp.Compare(a.String(), b.String()))
		})
		for limit := range 8 {
			var sent, blocked []accounts.ID
			for _, r := range w.sent(bob, limit+1) {
				sent = append(sent, r.To)
			}
			for _, b := range allPages(w, ann, limit+1, w.Blocks) {
				blocked = append(blocked, b.User)
			}
			if !slices.Equal(sent, want7) || !slices.Equal(blocked, want7) {
				t.Errorf("by %d: sent to %v, blocked %v, want %v", limit+1, sent, blocked, want7)
			}
		}
	})
}

// A device is a client that keeps a list up to date by its changes.
type device struct {
	*world
	user    accounts.ID
	version int64
	list    map[accounts.ID]Friend
}

// sync updates the list, in pages. It returns the number of changes, or -1 if it read the whole list.
func (d *device) sync(limit int) (n int) {
	d.t.Helper()
	for {
		c, err := d.Changes(d.t.Context(), d.user, d.version, limit)
		d.must(err)
		if c.Reset {
			d.list = map[accounts.ID]Friend{}
			all, version := d.world.list(d.user, 7)
			for _, f := range all {
				d.list[f.User] = f
			}
			d.version, n = version, -1
			continue
		}
		if c.Version < d.version {
			d.t.Fatalf("version %d after %d", c.Version, d.version)
		}
		for _, f := range c.Changed {
			d.list[f.User] = f
		}
		for _, u := range c.Removed {
			delete(d.list, u)
		}
		d.version = c.Version
		if n >= 0 {
			n += len(c.Changed) + len(c.Removed)
		}
		if !c.More {
			return n
		}
	}
}

// same compares the list with that of the server.
func (d *device) same() {
	d.t.Helper()
	all, version := d.world.list(d.user, 50)
	if version != d.version || len(all) != len(d.list) {
		d.t.Errorf("the device has %d friends at %d, want %d at %d", len(d.list), d.version, len(all), version)
	}
	for _, f := range all {
		if d.list[f.User] != f {
			d.t.Errorf("the device has %+v, want %+v", d.list[f.User], f)
		}
	}
}

func TestChanges_OnlyThoseSinceVersion(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		who := w.join(8)
		ann := who[0]
		d := &device{w, ann, 0, map[accounts.ID]Friend{}}
		if n := d.sync(2); n != 0 {
			t.Errorf("%d changes of nothing", n)
		}
		w.befriends(ann, who[1:6]...)
		if n := d.sync(2); n != 5 {
			t.Errorf("%d changes, want 5", n)
		}
		d.same()
		remark := "Bee"
		w.pass(time.Minute)
		f, err := w.UpdateFriend(ctx, ann, who[2], FriendUpdate{Remark: &remark})
		if err != nil || f.Remark != "Bee" || f.Updated.Sub(f.Since) < time.Minute {
			t.Errorf("got %+v, %v, want it noted a minute after they met", f, err)
		}
		same, err := w.UpdateFriend(ctx, ann, who[2], FriendUpdate{Remark: &remark})
		if err != nil || same != f {
			t.Errorf("the same again: got %+v, %v, want %+v", same, err, f)
		}
		_, err = w.UpdateFriend(ctx, ann, who[7], FriendUpdate{Remark: &remark})
		w.fails("no user", err, ErrNoFriend)
		w.must(w.Unfriend(ctx, ann, who[1]))
		w.must(w.Unfriend(ctx, who[3], ann))
		w.must(w.Block(ctx, who[4], ann))
		if n := d.sync(1); n != 4 {
			t.Errorf("%d changes, want 4", n)
		}
		d.same()
		w.befriends(who[1], ann)
		if n := d.sync(100); n != 1 {
			t.Errorf("%d changes, want 1", n)
		}
		d.same()

		// Removals are deleted after 90 days, and not earlier.
		old := &device{w, ann, d.version, map[accounts.ID]Friend{}}
		for u, f := range d.list {
			old.list[u] = f
		}
		older := &device{w, ann, 1, map[accounts.ID]Friend{who[1]: {}}}
		w.must(w.Unfriend(ctx, ann, who[5]))
		w.pass(retention - time.Hour)
		w.must(w.prune(ctx))
		if n := old.sync(100); n != 1 {
			t.Errorf("%d changes after a long time, want 1", n)
		}
		w.pass(2 * time.Hour)
		w.must(w.prune(ctx))
		var n int
		w.must(w.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM friends WHERE gone > 0").Scan(&n))
		if n != 0 {
			t.Errorf("%d removals are remembered", n)
		}
		if n := older.sync(100); n != -1 {
			t.Errorf("a device that was offline too long got %d changes, want a reset", n)
		}
		older.same()
		if n := old.sync(100); n != 0 {
			t.Errorf("%d changes, want none", n)
		}
		old.same()
		ahead := &device{w, ann, 1000, map[accounts.ID]Friend{}}
		if n := ahead.sync(100); n != -1 {
			t.Errorf("a version from the future got %d changes, want a reset", n)
		}
		ahead.same()
	})
}

func TestUnfriend_DeletesContentOfRow(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		who := w.join(2)
		r, _, err := w.SendRequest(t.Context(), who[0], RequestDraft{User: who[1], Source: "search", Remark: "Bobby", Tag: "school"})
		w.must(err)
		_, err = w.Accept(t.Context(), who[1], r.ID, "Annie", "work")
		w.must(err)
		order := 7
		_, err = w.UpdateFriend(t.Context(), who[0], who[1], FriendUpdate{Order: &order})
		w.must(err)
		w.must(w.Unfriend(t.Context(), who[0], who[1]))
		var rows, empty int
		w.must(w.db.QueryRowContext(t.Context(), "SELECT COUNT(*), SUM(remark = '' AND tag = '' AND source = '' AND sort = 0) FROM friends "+
			"WHERE gone > 0").Scan(&rows, &empty))
		if rows != 2 || empty != 2 {
			t.Errorf("%d of %d rows are empty, want two", empty, rows)
		}
	})
}

func TestPrune_DeletesOldRowsInBatches(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		ctx, who := t.Context(), w.join(2)
		const old = 2*sweepBatch + 5
		long, lately := w.db.Now().Add(-retention-time.Hour).UnixMilli(), w.db.Now().Add(-retention+time.Hour).UnixMilli()
		w.must(w.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			if _, err := lockLists(ctx, tx, who[0]); err != nil {
				return err
			}
			for i := range old + 1 {
				at, state := long, 1+i%4
				if i == old {
					at = lately
				}
				_, err := tx.ExecContext(ctx, "INSERT INTO friends (user_id, "+friendColumns+
					", version, gone) VALUES (?, ?, '', '', '', 0, 1, 1, ?, ?)", who[0], ids.New[accounts.User](), i+1, at)
				_, err2 := tx.ExecContext(ctx, "INSERT INTO friend_requests ("+requestColumns+", pair) VALUES (?, ?, ?, '', '', '', '', ?, ?, ?, NULL)",
					ids.New[Request](), who[0], ids.New[accounts.User](), state, 1, at)
				if err := errors.Join(err, err2); err != nil {
					return err
				}
			}
			_, err := tx.ExecContext(ctx, "UPDATE friend_lists SET version = ?", old+1)
			return err
		}))
		w.sendRequest(who[0], who[1])
		w.exec("UPDATE friend_requests SET expires = ? WHERE state = 0", long) // it is not closed yet
		w.must(w.prune(ctx))
		var friends, requests, waiting int
		w.must(w.db.QueryRowContext(ctx, "SELECT (SELECT COUNT(*) FROM friends), (SELECT COUNT(*) FROM friend_requests WHERE state > 0), "+
			"(SELECT COUNT(*) FROM friend_requests WHERE state = 0)").
			Scan(&friends, &requests, &waiting))
		if friends != 1 || requests != 1 || waiting != 1 {
			t.Errorf("%d removals, %d closed requests and %d that wait are left, want one of each", friends, requests, waiting)
		}
		if l, err := readList(ctx, w.db, who[0]); err != nil || l.pruned != old {
			t.Errorf("removals are forgotten up to %d, %v, want %d", l.pruned, err, old)
		}
	})
}

func TestErase_LeavesNothing(t *testing.T) {
	eachEngine(t, Settings{RequestsOut: 1000}, func(t *testing.T, w *world) {
		ctx, other := t.Context(), w.neighbour()
		who := w.join(12)
		ann := who[0]
		w.befriends(ann, who[1], who[2])
		w.must(w.Unfriend(ctx, ann, who[2]))
		w.befriends(who[1], who[2])
		w.sendRequest(ann, who[3])
		w.sendRequest(who[4], ann)
		w.must(w.Refuse(ctx, who[6], w.sendRequest(ann, who[6]).ID))
		w.must(w.Block(ctx, ann, who[7]))
		w.must(w.Block(ctx, who[8], ann))
		bob := &device{w, who[1], 0, map[accounts.ID]Friend{}}
		bob.sync(10)
		agree(t, who, w, other)

		w.exec("UPDATE users SET erased = 1 WHERE id = ?", ann)
		if !w.isFriend(who[1], ann) {
			t.Error("gone before the time")
		}
		_, err := w.Accept(ctx, ann, w.received(ann, 1)[0].ID, "", "") // from a device that is not logged out yet
		w.must(err)
		_, err = w.Accept(ctx, who[3], w.received(who[3], 1)[0].ID, "", "")
		w.fails("accept of an erased user", err, accounts.ErrNoUser)
		agree(t, who, w, other) // all caches are loaded

		w.must(w.Erase(ctx, ann))
		w.must(w.Erase(ctx, ann))
		for what, query := range map[string]string{
			"rows of friends":  "SELECT COUNT(*) FROM friends WHERE user_id = ? OR (friend_id = ? AND gone = 0)",
			"rows of requests": "SELECT COUNT(*) FROM friend_requests WHERE from_id = ? OR to_id = ?",
			"rows of blocks":   "SELECT COUNT(*) FROM blocks WHERE user_id = ? OR blocked_id = ?",
			"rows of lists":    "SELECT COUNT(*) FROM friend_lists WHERE user_id = ? OR user_id = ?",
		} {
			var n int
			w.must(w.db.QueryRowContext(ctx, query, ann, ann).Scan(&n))
			if n != 0 {
				t.Errorf("%d %s are left", n, what)
			}
		}
		if n := bob.sync(10); n != 1 || bob.list[ann] != (Friend{}) {
			t.Errorf("Bob's device got %d changes and has %+v, want one: Ann is gone", n, bob.list)
		}
		bob.same()
		agree(t, who, w, other)
	})
}

func TestErase_WorksInBatches(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{RequestsOut: 1000, RequestsIn: 1000})
		who := w.join(sweepBatch + 12)
		ann := who[0]
		w.befriends(ann, who[1:]...)
		more := w.join(2*sweepBatch + 5)
		for _, u := range more[:sweepBatch+3] {
			w.sendRequest(u, ann)
		}
		for _, u := range more[sweepBatch+3:] {
			w.must(w.Block(t.Context(), u, ann))
		}
		sub := w.listen(who[1]).sub
		defer sub.Close()
		w.must(w.Erase(t.Context(), ann))
		var n int
		w.must(w.db.QueryRowContext(t.Context(), "SELECT (SELECT COUNT(*) FROM friends WHERE gone = 0) + (SELECT COUNT(*) FROM "+
			"friend_requests) + (SELECT COUNT(*) FROM blocks)").Scan(&n))
		if n != 0 {
			t.Errorf("%d rows are left", n)
		}
		w.sound()
		select {
		case e := <-sub.C:
			if e.Type != "friend.removed" {
				t.Errorf("got %+v", e)
			}
		case <-time.After(patience):
			t.Error("a friend got no event")
		}
	})
}

func TestAsk_Cooldown(t *testing.T) {
	eachEngine(t, Settings{CooldownRefused: 24 * time.Hour, CooldownWithdrawn: 10 * time.Minute}, func(t *testing.T, w *world) {
		who := w.join(3)
		ann, bob, eve := who[0], who[1], who[2]
		again := func(want error) {
			t.Helper()
			_, _, err := w.SendRequest(t.Context(), ann, RequestDraft{User: bob})
			w.fails("asking again", err, want)
		}
		w.must(w.Withdraw(t.Context(), ann, w.sendRequest(ann, bob).ID))
		again(ErrTooSoon)
		w.sendRequest(ann, eve) // the cooldown is for one pair
		w.sendRequest(bob, ann)
		again(nil) // Bob has sent a request, so they are friends at once
		w.must(w.Unfriend(t.Context(), ann, bob))
		w.pass(10 * time.Minute)
		r := w.sendRequest(ann, bob)
		w.must(w.Refuse(t.Context(), bob, r.ID))
		w.pass(24*time.Hour - time.Second)
		again(ErrTooSoon)
		w.must(w.Block(t.Context(), bob, ann))
		again(ErrTooSoon) // as if there were no block
		w.must(w.Unblock(t.Context(), bob, ann))
		if _, _, err := w.SendRequest(t.Context(), ann, RequestDraft{Card: w.card(bob)}); err != nil {
			t.Errorf("by the card that Bob shows: %v", err)
		}
		w.must(w.Withdraw(t.Context(), ann, w.sent(ann, 10)[0].ID))
		w.pass(24 * time.Hour)
		w.sendRequest(ann, bob)
	})
}

package social

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
)

func TestPairState_AskResult(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	me, them := ids.New[accounts.User](), ids.New[accounts.User]()
	limits := Settings{RequestsOut: 3, RequestsIn: 5}
	waits := func(from accounts.ID, expires time.Duration) Request {
		return Request{ID: ids.New[Request](), From: from, Expires: now.Add(expires)}
	}
	good := pairState{exists: true, accepts: true}
	with := func(change func(*pairState)) pairState { b := good; change(&b); return b }
	for _, c := range []struct {
		what string
		b    pairState
		want requestResult
		err  error
	}{
		{"nothing is in the way", good, resultNew, nil},
		{"no account", pairState{accepts: true}, 0, accounts.ErrNoUser},
		{"no account, and a pending request", pairState{pending: waits(them, time.Hour)}, 0, accounts.ErrNoUser},
		{"they are friends", with(func(b *pairState) { b.friends = true }), 0, ErrAlready},
		{"they are friends, and no requests are taken", with(func(b *pairState) { b.friends, b.accepts = true, false }), 0, ErrAlready},
		{"asked already", with(func(b *pairState) { b.pending = waits(me, time.Millisecond) }), resultPending, nil},
		{"asked already, and no requests are taken any more", with(func(b *pairState) {
			b.pending, b.accepts = waits(me, 1), false
		}), resultPending, nil},
		{"asked already, and out of requests", with(func(b *pairState) { b.pending, b.out = waits(me, 1), 3 }), resultPending, nil},
		{"asked long ago", with(func(b *pairState) { b.pending = waits(me, 0) }), resultNew, nil},
		{"the other has asked", with(func(b *pairState) { b.pending = waits(them, time.Millisecond) }), resultMutual, nil},
		{"the other has asked and takes no requests", with(func(b *pairState) { b.pending, b.accepts = waits(them, 1), false }), resultMutual,
			nil},
		{"the other has asked, out of requests", with(func(b *pairState) { b.pending, b.out, b.in = waits(them, 1), 3, 5 }), resultMutual, nil},
		{"the other asked long ago", with(func(b *pairState) { b.pending = waits(them, 0) }), resultNew, nil},
		{"they block", with(func(b *pairState) { b.theyBlock = true }), 0, ErrNotAccepting},
		{"no requests are taken", with(func(b *pairState) { b.accepts = false }), 0, ErrNotAccepting},
		{"too many wait for them", with(func(b *pairState) { b.in = 5 }), 0, ErrNotAccepting},
		{"they block, and out of requests", with(func(b *pairState) { b.theyBlock, b.out = true, 3 }), 0, ErrNotAccepting},
		{"I block", with(func(b *pairState) { b.youBlock = true }), 0, ErrYouBlock},
		{"both block", with(func(b *pairState) { b.youBlock, b.theyBlock = true, true }), 0, ErrYouBlock},
		{"one request left on both sides", with(func(b *pairState) { b.out, b.in = 2, 4 }), resultNew, nil},
		{"out of requests", with(func(b *pairState) { b.out = 3 }), 0, ErrOutFull},
	} {
		if got, err := c.b.checkRequest(me, now, limits); got != c.want || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%s: got %d, %v, want %d, %v", c.what, got, err, c.want, c.err)
		}
	}
}

func TestCheckRoom(t *testing.T) {
	for _, c := range []struct {
		mine, theirs int
		want         error
	}{{0, 0, nil}, {9, 9, nil}, {10, 9, ErrFull}, {9, 10, ErrOtherFull}, {10, 10, ErrFull}} {
		if err := checkRoom(c.mine, c.theirs, Settings{Friends: 10}); err != c.want {
			t.Errorf("%d and %d of 10: got %v, want %v", c.mine, c.theirs, err, c.want)
		}
	}
}

func TestStateAfterBlock_EqualsNormalEnd(t *testing.T) {
	ann, bob := ids.New[accounts.User](), ids.New[accounts.User]()
	r := Request{From: ann, To: bob}
	if got := r.stateAfterBlock(ann); got != Withdrawn {
		t.Errorf("sender blocks: %s", got)
	}
	if got := r.stateAfterBlock(bob); got != Refused {
		t.Errorf("receiver blocks: %s", got)
	}
}

func TestUsersOf_OmitsDuplicates(t *testing.T) {
	a, b := ids.New[accounts.User](), ids.New[accounts.User]()
	got := usersOf([]edge{{a, b}, {b, a}, {a, b}, {b, a}}, func(m edge) accounts.ID { return m.user })
	if len(got) != 2 || got[0] == got[1] {
		t.Errorf("got %v, want both once", got)
	}
}

func TestPairOf_IgnoresOrder(t *testing.T) {
	a, b := ids.New[accounts.User](), ids.New[accounts.User]()
	if pairOf(a, b) != pairOf(b, a) || pairOf(a, b) == pairOf(a, a) || len(pairOf(a, b)) != 24 {
		t.Errorf("got %q and %q", pairOf(a, b), pairOf(b, a))
	}
}

func TestFriendUpdate_CleanTrimsAndValidates(t *testing.T) {
	str := func(s string) *string { return &s }
	num := func(n int) *int { return &n }
	n, err := FriendUpdate{Remark: str("  Bobby "), Order: num(-1_000_000)}.clean()
	if err != nil || *n.Remark != "Bobby" || n.Tag != nil || *n.Order != -1_000_000 {
		t.Errorf("got %+v, %v", n, err)
	}
	for what, c := range map[string]struct {
		n    FriendUpdate
		want error
	}{
		"a long remark":  {FriendUpdate{Remark: str(strings.Repeat("é", 41))}, ErrText},
		"a long tag":     {FriendUpdate{Tag: str(strings.Repeat("é", 21))}, ErrText},
		"two lines":      {FriendUpdate{Tag: str("a\nb")}, ErrText},
		"turned around":  {FriendUpdate{Remark: str("a\u202eb")}, ErrText},
		"not UTF-8":      {FriendUpdate{Remark: str("a\xff")}, ErrText},
		"nothing to see": {FriendUpdate{Remark: str("\u200d")}, ErrText},
		"far up":         {FriendUpdate{Order: num(1_000_001)}, ErrOrder},
		"far down":       {FriendUpdate{Order: num(-1_000_001)}, ErrOrder},
	} {
		if _, err := c.n.clean(); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", what, err, c.want)
		}
	}
	if _, err := (FriendUpdate{Remark: str(strings.Repeat("é", 40)), Tag: str("")}).clean(); err != nil {
		t.Errorf("forty letters: %v", err)
	}
	for s, good := range map[string]bool{"": true, "room_7": true, "Room": false, "a-b": false, strings.Repeat("a", 21): false, "é": false} {
		if _, err := cleanSource(s); (err == nil) != good {
			t.Errorf("the source %q: %v", s, err)
		}
	}
}

func TestSettings_ValidateNamesAllFaults(t *testing.T) {
	if err := (Settings{}).Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	err := Settings{RequestLife: time.Minute, Friends: -1, RequestsOut: 10_001, RequestsIn: -5, Blocks: 1 << 20}.Validate()
	for _, key := range []string{"request_life", "friends", "requests_out", "requests_in", "blocks"} {
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s is not named in %v", key, err)
		}
	}
	most := Settings{RequestLife: 366 * 24 * time.Hour, Friends: 10_000, RequestsOut: 10_000, RequestsIn: 10_000, Blocks: 10_000}
	if err := most.Validate(); err != nil {
		t.Errorf("as much as can be: %v", err)
	}
	if err := (Settings{RequestLife: time.Hour, Friends: 1, RequestsOut: 1, RequestsIn: 1, Blocks: 1}).Validate(); err != nil {
		t.Errorf("as little as can be: %v", err)
	}
	if most.RequestLife++; most.Validate() == nil {
		t.Errorf("%s passes for a year", most.RequestLife)
	}
	if _, err := New(Config{Settings: Settings{Friends: -1}}); err == nil {
		t.Error("New takes settings that are out of bounds")
	}
}

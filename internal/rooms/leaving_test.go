package rooms

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/rooms/playback"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

func TestChange_RemovesGuestsOnEveryNode(t *testing.T) {
	for name, u := range map[string]Update{"guests off": {Guests: to(false)}, "invited only": {Access: to(Invited)}} {
		t.Run(name, func(t *testing.T) {
			eachEngine(t, Settings{}, func(t *testing.T, w *world) {
				other := w.newNode()
				ctx := t.Context()
				users := w.newUsers(2)
				id := w.newRoom(users[0], users[1])
				_, guest, token, err := w.JoinAsGuest(ctx, "here", id, "Visitor", Admission{})
				w.must(err)
				elsewhere := w.newGuest(w.newRoom(users[0]))
				try := map[string]func() error{
					"verify":    func() error { _, err := other.Verify(ctx, token); return err },
					"subscribe": func() error { return other.MaySubscribe(ctx, guest.User.String(), api.RoomChannel(id.String())) },
					"say":       func() error { _, err := other.SendLine(ctx, guest.User, id, ids.New[Line](), "Hi"); return err },
				}
				for name, f := range try {
					w.wantErr(name+" before", f(), nil)
				}
				_, _, err = w.Update(ctx, ParticipantID(users[0]), id, u)
				w.must(err)
				if _, err := w.Verify(ctx, token); !errors.Is(err, accounts.ErrToken) {
					t.Fatalf("the guest's token after the change: %v", err)
				}
				want := map[string]error{"verify": accounts.ErrToken, "subscribe": ErrRoom, "say": ErrRoom}
				for name, f := range try {
					eventually.Equal(t, name, true, func() bool { return f() != nil })
					w.wantErr(name, f(), want[name])
				}
				_, err = other.SendLine(ctx, ParticipantID(users[1]), id, ids.New[Line](), "Hi")
				w.wantErr("a member", err, nil)
				w.wantErr("a guest of another room", other.MaySubscribe(ctx, elsewhere.String(), api.RoomChannel(id.String())), ErrRoom)
				if r, err := selectRoom(ctx, w.db, id, ""); err != nil || r.members != 2 {
					t.Errorf("the room has %d members, %v, want 2", r.members, err)
				}
			})
		})
	}
}

// A guest who joins after the guests were listed is removed as well.
func TestChange_RemovesGuestsWhoJustJoined(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := singleNode(t, Settings{})
		users := w.newUsers(1)
		id := w.newRoom(users[0])
		w.newGuest(id)
		d, err := w.change(t.Context(), id, ParticipantID(users[0]), configure, nil, func(ctx context.Context, tx *sqldb.Tx, d *changeSet) error {
			return d.removeGuests(ctx, tx, nil)
		})
		w.wantErr("an unexpected guest", err, errOtherMember)
		if len(d.left) != 0 {
			t.Errorf("%d guests left, want none", len(d.left))
		}
	})
}

// heldRoom is a room that waits for a viewer's player.
type heldRoom struct {
	*world
	id             ID
	owner, waiting ParticipantID
}

func newHeldRoom(t *testing.T, w *world, guest bool) heldRoom {
	t.Helper()
	ctx := t.Context()
	users := w.newUsers(2)
	h := heldRoom{w, w.newRoom(users[0], users[1]), ParticipantID(users[0]), ParticipantID(users[1])}
	if guest {
		h.waiting = w.newGuest(h.id)
	}
	_, _, err := w.Update(ctx, h.owner, h.id, Update{Hold: to(true)})
	w.must(err)
	h.command(playback.Play)
	return h
}

func (h heldRoom) command(verb playback.Verb) {
	h.t.Helper()
	s, err := h.Playback(h.t.Context(), h.owner, h.id)
	h.must(err)
	_, err = h.Command(h.t.Context(), h.owner, h.id, playback.Command{Generation: s.Generation, Version: s.Version, Verb: verb})
	h.must(err)
}

func (h heldRoom) startBuffering(n *world) {
	h.t.Helper()
	h.must(n.Buffering(h.t.Context(), h.waiting, h.id, true))
}

func (h heldRoom) checkHeld(want bool) {
	h.t.Helper()
	s, err := h.Playback(h.t.Context(), h.owner, h.id)
	if h.must(err); s.Held != want || s.Paused != want {
		h.t.Errorf("held %t, paused %t, want %t", s.Held, s.Paused, want)
	}
}

func TestHold_EndsWithItsViewersStay(t *testing.T) {
	for name, end := range map[string]func(ctx context.Context, h heldRoom) error{
		"leaves":     func(ctx context.Context, h heldRoom) error { return h.Leave(ctx, h.waiting, h.id) },
		"is kicked":  func(ctx context.Context, h heldRoom) error { return h.Kick(ctx, h.owner, h.id, h.waiting) },
		"is banned":  func(ctx context.Context, h heldRoom) error { return h.Ban(ctx, h.owner, h.id, h.waiting) },
		"is deleted": func(ctx context.Context, h heldRoom) error { return h.Erase(ctx, accounts.ID(h.waiting)) },
		"no hold": func(ctx context.Context, h heldRoom) error {
			_, _, err := h.Update(ctx, h.owner, h.id, Update{Hold: to(false)})
			return err
		},
		"no guests": func(ctx context.Context, h heldRoom) error {
			_, _, err := h.Update(ctx, h.owner, h.id, Update{Guests: to(false)})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				h := newHeldRoom(t, singleNode(t, Settings{}), name == "no guests")
				h.Subscribed(h.waiting.String(), "1", api.RoomChannel(h.id.String()))
				h.startBuffering(h.world)
				h.checkHeld(true)
				h.must(end(t.Context(), h))
				h.checkHeld(false)
			})
		})
	}
}

func TestHold_EndsWithItsViewersConnection(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := newHeldRoom(t, singleNode(t, Settings{}), true)
		channel := api.RoomChannel(h.id.String())
		h.Subscribed(h.owner.String(), "1", channel)
		h.Subscribed(h.waiting.String(), "2", channel)
		bubble.Sleep(2 * beatEvery)
		h.startBuffering(h.world)
		h.checkHeld(true)
		h.Unsubscribed(h.waiting.String(), "2", channel)
		bubble.Sleep(2 * beatEvery)
		h.checkHeld(false)
	})
}

func TestBuffering_CountsWithARoomsChannelOnly(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := singleNode(t, Settings{})
		other := w.newNode()
		h := newHeldRoom(t, w, true)
		h.startBuffering(w)
		h.checkHeld(false)
		other.Subscribed(h.waiting.String(), "1", api.RoomChannel(h.id.String()))
		bubble.Sleep(2 * beatEvery)
		h.startBuffering(w) // on a node without the connection
		h.checkHeld(true)
	})
}

func TestHold_LastsAMinuteForEachViewer(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := newHeldRoom(t, singleNode(t, Settings{}), true)
		h.Subscribed(h.waiting.String(), "1", api.RoomChannel(h.id.String()))
		for range 14 {
			h.startBuffering(h.world)
			h.checkHeld(true)
			bubble.Sleep(4 * time.Second)
		}
		bubble.Sleep(5 * time.Second)
		for range 5 {
			h.startBuffering(h.world)
			h.checkHeld(false)
			bubble.Sleep(4 * time.Second)
		}
	})
}

func TestPlay_ContinuesWithoutWaitingViewers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := newHeldRoom(t, singleNode(t, Settings{}), true)
		h.Subscribed(h.waiting.String(), "1", api.RoomChannel(h.id.String()))
		h.startBuffering(h.world)
		h.checkHeld(true)
		h.command(playback.Play)
		bubble.Sleep(3 * time.Second)
		h.startBuffering(h.world) // still the same wait
		h.checkHeld(false)
		h.must(h.Buffering(t.Context(), h.waiting, h.id, false))
		h.startBuffering(h.world) // a new wait
		h.checkHeld(true)
	})
}

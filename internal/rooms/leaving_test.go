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

func TestChange_PutsGuestsOutOnEveryNode(t *testing.T) {
	for what, u := range map[string]Update{"guests off": {Guests: to(false)}, "invited only": {Access: to(Invited)}} {
		t.Run(what, func(t *testing.T) {
			eachEngine(t, Settings{}, func(t *testing.T, w *world) {
				other := w.neighbour()
				ctx := t.Context()
				who := w.people(2)
				id := w.open(who[0], who[1])
				_, guest, token, err := w.Visit(ctx, "here", id, "Visitor", Key{})
				w.must(err)
				elsewhere := w.guest(w.open(who[0]))
				try := map[string]func() error{
					"verify":    func() error { _, err := other.Verify(ctx, token); return err },
					"subscribe": func() error { return other.MaySubscribe(ctx, guest.User.String(), api.RoomChannel(id.String())) },
					"say":       func() error { _, err := other.Say(ctx, guest.User, id, ids.New[Line](), "Hi"); return err },
				}
				for what, f := range try {
					w.fails(what+" before", f(), nil)
				}
				_, _, err = w.Change(ctx, ViewerID(who[0]), id, u)
				w.must(err)
				if _, err := w.Verify(ctx, token); !errors.Is(err, accounts.ErrToken) {
					t.Fatalf("the guest's token after the change: %v", err)
				}
				want := map[string]error{"verify": accounts.ErrToken, "subscribe": ErrRoom, "say": ErrRoom}
				for what, f := range try {
					eventually.Equal(t, what, true, func() bool { return f() != nil })
					w.fails(what, f(), want[what])
				}
				_, err = other.Say(ctx, ViewerID(who[1]), id, ids.New[Line](), "Hi")
				w.fails("a member", err, nil)
				w.fails("a guest of another room", other.MaySubscribe(ctx, elsewhere.String(), api.RoomChannel(id.String())), ErrRoom)
				if r, err := selectRoom(ctx, w.db, id, ""); err != nil || r.members != 2 {
					t.Errorf("the room has %d members, %v, want 2", r.members, err)
				}
			})
		})
	}
}

// A guest who joins after the guests were listed is removed as well.
func TestChange_PutsOutGuestsWhoJustJoined(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := single(t, Settings{})
		who := w.people(1)
		id := w.open(who[0])
		w.guest(id)
		d, err := w.change(t.Context(), id, ViewerID(who[0]), configure, nil, func(ctx context.Context, tx *sqldb.Tx, d *changeSet) error {
			return d.putOutGuests(ctx, tx, nil)
		})
		w.fails("an unexpected guest", err, errOther)
		if len(d.left) != 0 {
			t.Errorf("%d guests left, want none", len(d.left))
		}
	})
}

// held is a room that waits for a viewer's player.
type held struct {
	*world
	id             ID
	owner, waiting ViewerID
}

func holdRoom(t *testing.T, w *world, guest bool) held {
	t.Helper()
	ctx := t.Context()
	who := w.people(2)
	h := held{w, w.open(who[0], who[1]), ViewerID(who[0]), ViewerID(who[1])}
	if guest {
		h.waiting = w.guest(h.id)
	}
	_, _, err := w.Change(ctx, h.owner, h.id, Update{Hold: to(true)})
	w.must(err)
	h.command(playback.Play)
	return h
}

func (h held) command(verb playback.Verb) {
	h.t.Helper()
	s, err := h.Playback(h.t.Context(), h.owner, h.id)
	h.must(err)
	_, err = h.Command(h.t.Context(), h.owner, h.id, playback.Command{Generation: s.Generation, Version: s.Version, Verb: verb})
	h.must(err)
}

func (h held) buffers(n *world) {
	h.t.Helper()
	h.must(n.Buffering(h.t.Context(), h.waiting, h.id, true))
}

func (h held) is(want bool) {
	h.t.Helper()
	s, err := h.Playback(h.t.Context(), h.owner, h.id)
	if h.must(err); s.Held != want || s.Paused != want {
		h.t.Errorf("held %t, paused %t, want %t", s.Held, s.Paused, want)
	}
}

func TestHold_EndsWithItsViewersStay(t *testing.T) {
	for what, end := range map[string]func(ctx context.Context, h held) error{
		"leaves":     func(ctx context.Context, h held) error { return h.Leave(ctx, h.waiting, h.id) },
		"is kicked":  func(ctx context.Context, h held) error { return h.Kick(ctx, h.owner, h.id, h.waiting) },
		"is banned":  func(ctx context.Context, h held) error { return h.Ban(ctx, h.owner, h.id, h.waiting) },
		"is deleted": func(ctx context.Context, h held) error { return h.Erase(ctx, accounts.ID(h.waiting)) },
		"no hold": func(ctx context.Context, h held) error {
			_, _, err := h.Change(ctx, h.owner, h.id, Update{Hold: to(false)})
			return err
		},
		"no guests": func(ctx context.Context, h held) error {
			_, _, err := h.Change(ctx, h.owner, h.id, Update{Guests: to(false)})
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				h := holdRoom(t, single(t, Settings{}), what == "no guests")
				h.Subscribed(h.waiting.String(), "1", api.RoomChannel(h.id.String()))
				h.buffers(h.world)
				h.is(true)
				h.must(end(t.Context(), h))
				h.is(false)
			})
		})
	}
}

func TestHold_EndsWithItsViewersConnection(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := holdRoom(t, single(t, Settings{}), true)
		channel := api.RoomChannel(h.id.String())
		h.Subscribed(h.owner.String(), "1", channel)
		h.Subscribed(h.waiting.String(), "2", channel)
		bubble.Sleep(2 * beatEvery)
		h.buffers(h.world)
		h.is(true)
		h.Unsubscribed(h.waiting.String(), "2", channel)
		bubble.Sleep(2 * beatEvery)
		h.is(false)
	})
}

func TestBuffering_CountsWithARoomsChannelOnly(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := single(t, Settings{})
		other := w.neighbour()
		h := holdRoom(t, w, true)
		h.buffers(w)
		h.is(false)
		other.Subscribed(h.waiting.String(), "1", api.RoomChannel(h.id.String()))
		bubble.Sleep(2 * beatEvery)
		h.buffers(w) // on a node without the connection
		h.is(true)
	})
}

func TestHold_LastsAMinuteForEachViewer(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := holdRoom(t, single(t, Settings{}), true)
		h.Subscribed(h.waiting.String(), "1", api.RoomChannel(h.id.String()))
		for range 14 {
			h.buffers(h.world)
			h.is(true)
			bubble.Sleep(4 * time.Second)
		}
		bubble.Sleep(5 * time.Second)
		for range 5 {
			h.buffers(h.world)
			h.is(false)
			bubble.Sleep(4 * time.Second)
		}
	})
}

func TestPlay_ContinuesWithoutWaitingViewers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := holdRoom(t, single(t, Settings{}), true)
		h.Subscribed(h.waiting.String(), "1", api.RoomChannel(h.id.String()))
		h.buffers(h.world)
		h.is(true)
		h.command(playback.Play)
		bubble.Sleep(3 * time.Second)
		h.buffers(h.world) // still the same wait
		h.is(false)
		h.must(h.Buffering(t.Context(), h.waiting, h.id, false))
		h.buffers(h.world) // a new wait
		h.is(true)
	})
}

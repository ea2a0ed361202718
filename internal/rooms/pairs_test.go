package rooms

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/rooms/playback"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// furnished is a room with one of each thing that an operation can name.
type furnished struct {
	id      ID
	item    ItemID
	after   ItemID
	link    LinkID
	member  ViewerID
	guest   ViewerID
	banned  ViewerID
	line    ids.ID[Line]
	comment ids.ID[Comment]
}

func (w *world) furnish(owner accounts.ID) furnished {
	w.t.Helper()
	ctx, me, who := w.t.Context(), ViewerID(owner), w.people(2)
	f := furnished{id: w.open(owner, who[0]), link: ids.New[Link](), member: ViewerID(who[0]), banned: ViewerID(who[1]), line: ids.New[Line](), comment: ids.New[Comment]()}
	f.guest = w.guest(f.id)
	for _, to := range []*ItemID{&f.item, &f.after} {
		it, err := w.Add(ctx, me, f.id, Item{Source: "https://example.org/film.mp4"})
		w.must(err)
		*to = it.ID
	}
	_, err := w.NewLink(ctx, me, f.id, f.link, time.Hour, 0)
	w.must(err)
	w.must(w.Ban(ctx, me, f.id, f.banned))
	_, err = w.Say(ctx, me, f.id, f.line, "Hi")
	w.must(err)
	_, err = w.Shoot(ctx, me, f.id, Comment{ID: f.comment, Text: "Wow"})
	w.must(err)
	_, err = w.Source(ctx, me, accounts.DeviceID{}, f.id, f.item) // also caches a source
	w.must(err)
	return f
}

// An owner calls each operation that names a thing in a room, with three pairs: the own room with a foreign thing, a
// foreign room with an own thing, and a foreign room with its thing.
func TestOperations_RefusePairsOfForeignIDs(t *testing.T) {
	type try func(ctx context.Context, w *world, me ViewerID, room ID, of furnished) error
	for what, c := range map[string]struct {
		try  try
		want error // for the caller's own room with a foreign thing
	}{
		"source": {func(ctx context.Context, w *world, me ViewerID, room ID, of furnished) error {
			_, err := w.Source(ctx, me, accounts.DeviceID{}, room, of.item)
			return err
		}, ErrItem},
		"remove": {func(ctx context.Context, w *world, me ViewerID, room ID, of furnished) error {
			return w.Remove(ctx, me, room, of.item)
		}, ErrItem},
		"move": {func(ctx context.Context, w *world, me ViewerID, room ID, of furnished) error {
			return w.Move(ctx, me, room, of.after, of.item)
		}, ErrItem},
		"put on": {func(ctx context.Context, w *world, me ViewerID, room ID, of furnished) error {
			s, err := w.state(ctx, of.id)
			if err == nil {
				_, err = w.Command(ctx, me, room, playback.Command{Generation: s.Generation, Version: s.Version, Verb: playback.Load, Item: of.item.String()})
			}
			return err
		}, ErrItem},
		"revoke": {func(ctx context.Context, w *world, me ViewerID, room ID, of furnished) error {
			return w.Revoke(ctx, me, room, of.link)
		}, ErrLink},
		"join by a link": {func(ctx context.Context, w *world, _ ViewerID, room ID, of furnished) error {
			_, _, err := w.Join(ctx, w.people(1)[0], room, Key{Link: &of.link})
			return err
		}, ErrLink},
		"visit by a link": {func(ctx context.Context, w *world, _ ViewerID, room ID, of furnished) error {
			_, _, _, err := w.Visit(ctx, "here", room, "Visitor", Key{Link: &of.link})
			return err
		}, ErrLink},
		"kick": {func(ctx context.Context, w *world, me ViewerID, room ID, of furnished) error {
			return w.Kick(ctx, me, room, of.member)
		}, ErrMember},
		"kick a guest": {func(ctx context.Context, w *world, me ViewerID, room ID, of furnished) error {
			return w.Kick(ctx, me, room, of.guest)
		}, ErrMember},
		"mute": {func(ctx context.Context, w *world, me ViewerID, room ID, of furnished) error {
			_, _, err := w.SetMember(ctx, me, room, of.guest, MemberUpdate{MutedUntil: to(w.db.Now().Add(time.Hour))})
			return err
		}, ErrMember},
		"appoint": {func(ctx context.Context, w *world, me ViewerID, room ID, of furnished) error {
			_, _, err := w.SetMember(ctx, me, room, of.member, MemberUpdate{Role: to(Admin)})
			return err
		}, ErrMember},
		"transfer": {func(ctx context.Context, w *world, me ViewerID, room ID, of furnished) error {
			_, _, err := w.Transfer(ctx, me, room, of.member)
			return err
		}, ErrMember},
		"unban": {func(ctx context.Context, w *world, me ViewerID, room ID, of furnished) error {
			return w.Unban(ctx, me, room, of.banned)
		}, ErrNoBan},
		"say again": {func(ctx context.Context, w *world, me ViewerID, room ID, of furnished) error {
			_, err := w.Say(ctx, me, room, of.line, "Hi")
			return err
		}, ErrRoom},
		"shoot again": {func(ctx context.Context, w *world, me ViewerID, room ID, of furnished) error {
			_, err := w.Shoot(ctx, me, room, Comment{ID: of.comment, Text: "Wow"})
			return err
		}, ErrRoom},
	} {
		t.Run(what, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w := single(t, Settings{})
				ctx := t.Context()
				who := w.people(2)
				me := ViewerID(who[0])
				mine, foreign := w.furnish(who[0]), w.furnish(who[1])
				byLink := what == "join by a link" || what == "visit by a link" // the link's creator does not matter
				for _, pair := range []struct {
					what string
					room ID
					of   furnished
					want error
				}{
					{"own room, foreign thing", mine.id, foreign, c.want},
					{"foreign room, own thing", foreign.id, mine, map[bool]error{false: ErrRoom, true: ErrLink}[byLink]},
					{"foreign room, foreign thing", foreign.id, foreign, map[bool]error{false: ErrRoom, true: nil}[byLink]},
				} {
					_, err := w.state(ctx, pair.of.id)
					w.must(err)
					before := w.dump()
					w.fails(pair.what, c.try(ctx, w, me, pair.room, pair.of), pair.want)
					if after := w.dump(); pair.want != nil && before != after {
						t.Errorf("%s: refused, and changed\n%s\nto\n%s", pair.what, before, after)
					}
				}
				w.fails("own room, own thing", c.try(ctx, w, me, mine.id, mine), nil)
				w.sound()
			})
		})
	}
}

func TestSetMember_GivesOnlyWhatTheCallerHas(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := single(t, Settings{})
		ctx := t.Context()
		who := w.people(2)
		id, owner, me := w.open(who[0], who[1]), ViewerID(who[0]), ViewerID(who[1])
		guest := w.guest(id)
		_, _, err := w.Change(ctx, owner, id, Update{GuestMay: to(Permission(0))})
		w.must(err)
		for _, has := range []Permission{0, Chat, Shoot, Chat | Shoot} {
			_, _, err := w.SetMember(ctx, owner, id, me, MemberUpdate{May: to(Configure | has)})
			w.must(err)
			for _, gives := range []Permission{0, Chat, Shoot, Chat | Shoot} {
				want := error(nil)
				if gives&^has != 0 {
					want = ErrMay
				}
				what := fmt.Sprint(has.names(), " gives ", gives.names())
				before := w.dump()
				r, m, err := w.SetMember(ctx, me, id, guest, MemberUpdate{May: to(gives)})
				w.fails(what, err, want)
				if want != nil && w.dump() != before {
					t.Errorf("%s: refused, and changed", what)
				}
				if want == nil && m.may(r) != gives {
					t.Errorf("%s: the guest may %q", what, m.may(r).names())
				}
			}
		}
	})
}

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

// fullRoom is a room with one of each thing that an operation can name.
type fullRoom struct {
	id      ID
	item    ItemID
	after   ItemID
	link    LinkID
	member  ParticipantID
	guest   ParticipantID
	banned  ParticipantID
	line    ids.ID[Line]
	comment ids.ID[Comment]
}

func (w *world) newFullRoom(owner accounts.ID) fullRoom {
	w.t.Helper()
	ctx, me, users := w.t.Context(), ParticipantID(owner), w.newUsers(2)
	f := fullRoom{id: w.newRoom(owner, users[0]), link: ids.New[Link](), member: ParticipantID(users[0]), banned: ParticipantID(users[1]),
		line: ids.New[Line](), comment: ids.New[Comment]()}
	f.guest = w.newGuest(f.id)
	for _, to := range []*ItemID{&f.item, &f.after} {
		it, err := w.Add(ctx, me, f.id, Item{Source: "https://example.org/film.mp4"})
		w.must(err)
		*to = it.ID
	}
	_, err := w.NewLink(ctx, me, f.id, f.link, time.Hour, 0)
	w.must(err)
	w.must(w.Ban(ctx, me, f.id, f.banned))
	_, err = w.SendLine(ctx, me, f.id, f.line, "Hi")
	w.must(err)
	_, err = w.SendDanmaku(ctx, me, f.id, Comment{ID: f.comment, Text: "Wow"})
	w.must(err)
	_, err = w.Source(ctx, me, accounts.DeviceID{}, f.id, f.item) // also caches a source
	w.must(err)
	return f
}

// An owner calls each operation that names a thing in a room, with three pairs: their own room with a foreign thing, a
// foreign room with their own thing, and a foreign room with its own thing.
func TestOperations_RefusePairsOfForeignIDs(t *testing.T) {
	type try func(ctx context.Context, w *world, me ParticipantID, room ID, of fullRoom) error
	for name, c := range map[string]struct {
		try  try
		want error // for the caller's own room with a foreign thing
	}{
		"source": {func(ctx context.Context, w *world, me ParticipantID, room ID, of fullRoom) error {
			_, err := w.Source(ctx, me, accounts.DeviceID{}, room, of.item)
			return err
		}, ErrItem},
		"remove": {func(ctx context.Context, w *world, me ParticipantID, room ID, of fullRoom) error {
			return w.Remove(ctx, me, room, of.item)
		}, ErrItem},
		"move": {func(ctx context.Context, w *world, me ParticipantID, room ID, of fullRoom) error {
			return w.Move(ctx, me, room, of.after, of.item)
		}, ErrItem},
		"put on": {func(ctx context.Context, w *world, me ParticipantID, room ID, of fullRoom) error {
			s, err := w.state(ctx, of.id)
			if err == nil {
				_, err = w.Command(ctx, me, room, playback.Command{Generation: s.Generation, Version: s.Version, Verb: playback.Load,
					Item: of.item.String()})
			}
			return err
		}, ErrItem},
		"revoke": {func(ctx context.Context, w *world, me ParticipantID, room ID, of fullRoom) error {
			return w.Revoke(ctx, me, room, of.link)
		}, ErrLink},
		"join by a link": {func(ctx context.Context, w *world, _ ParticipantID, room ID, of fullRoom) error {
			_, _, err := w.Join(ctx, w.newUsers(1)[0], room, Admission{Link: &of.link})
			return err
		}, ErrLink},
		"visit by a link": {func(ctx context.Context, w *world, _ ParticipantID, room ID, of fullRoom) error {
			_, _, _, err := w.JoinAsGuest(ctx, "here", room, "Visitor", Admission{Link: &of.link})
			return err
		}, ErrLink},
		"kick": {func(ctx context.Context, w *world, me ParticipantID, room ID, of fullRoom) error {
			return w.Kick(ctx, me, room, of.member)
		}, ErrMember},
		"kick a guest": {func(ctx context.Context, w *world, me ParticipantID, room ID, of fullRoom) error {
			return w.Kick(ctx, me, room, of.guest)
		}, ErrMember},
		"mute": {func(ctx context.Context, w *world, me ParticipantID, room ID, of fullRoom) error {
			_, _, err := w.SetMember(ctx, me, room, of.guest, MemberUpdate{MutedUntil: to(w.db.Now().Add(time.Hour))})
			return err
		}, ErrMember},
		"appoint": {func(ctx context.Context, w *world, me ParticipantID, room ID, of fullRoom) error {
			_, _, err := w.SetMember(ctx, me, room, of.member, MemberUpdate{Role: to(Admin)})
			return err
		}, ErrMember},
		"transfer": {func(ctx context.Context, w *world, me ParticipantID, room ID, of fullRoom) error {
			_, _, err := w.Transfer(ctx, me, room, of.member)
			return err
		}, ErrMember},
		"unban": {func(ctx context.Context, w *world, me ParticipantID, room ID, of fullRoom) error {
			return w.Unban(ctx, me, room, of.banned)
		}, ErrNoBan},
		"say again": {func(ctx context.Context, w *world, me ParticipantID, room ID, of fullRoom) error {
			_, err := w.SendLine(ctx, me, room, of.line, "Hi")
			return err
		}, ErrRoom},
		"shoot again": {func(ctx context.Context, w *world, me ParticipantID, room ID, of fullRoom) error {
			_, err := w.SendDanmaku(ctx, me, room, Comment{ID: of.comment, Text: "Wow"})
			return err
		}, ErrRoom},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w := singleNode(t, Settings{})
				ctx := t.Context()
				users := w.newUsers(2)
				me := ParticipantID(users[0])
				mine, foreign := w.newFullRoom(users[0]), w.newFullRoom(users[1])
				byLink := name == "join by a link" || name == "visit by a link" // the link's creator does not matter
				for _, pair := range []struct {
					name string
					room ID
					of   fullRoom
					want error
				}{
					{"own room, foreign thing", mine.id, foreign, c.want},
					{"foreign room, own thing", foreign.id, mine, map[bool]error{false: ErrRoom, true: ErrLink}[byLink]},
					{"foreign room, foreign thing", foreign.id, foreign, map[bool]error{false: ErrRoom, true: nil}[byLink]},
				} {
					_, err := w.state(ctx, pair.of.id)
					w.must(err)
					before := w.dump()
					w.wantErr(pair.name, c.try(ctx, w, me, pair.room, pair.of), pair.want)
					if after := w.dump(); pair.want != nil && before != after {
						t.Errorf("%s: refused, and changed\n%s\nto\n%s", pair.name, before, after)
					}
				}
				w.wantErr("own room, own thing", c.try(ctx, w, me, mine.id, mine), nil)
				w.checkInvariants()
			})
		})
	}
}

func TestSetMember_GrantsOnlyTheCallersPermissions(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := singleNode(t, Settings{})
		ctx := t.Context()
		users := w.newUsers(2)
		id, owner, me := w.newRoom(users[0], users[1]), ParticipantID(users[0]), ParticipantID(users[1])
		guest := w.newGuest(id)
		_, _, err := w.Update(ctx, owner, id, Update{GuestMay: to(Permission(0))})
		w.must(err)
		for _, has := range []Permission{0, Chat, Danmaku, Chat | Danmaku} {
			_, _, err := w.SetMember(ctx, owner, id, me, MemberUpdate{May: to(Configure | has)})
			w.must(err)
			for _, gives := range []Permission{0, Chat, Danmaku, Chat | Danmaku} {
				want := error(nil)
				if gives&^has != 0 {
					want = ErrMay
				}
				name := fmt.Sprint(has.names(), " gives ", gives.names())
				before := w.dump()
				r, m, err := w.SetMember(ctx, me, id, guest, MemberUpdate{May: to(gives)})
				w.wantErr(name, err, want)
				if want != nil && w.dump() != before {
					t.Errorf("%s: refused, and changed", name)
				}
				if want == nil && m.may(r) != gives {
					t.Errorf("%s: the guest may %q", name, m.may(r).names())
				}
			}
		}
	})
}

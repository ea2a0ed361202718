package rooms

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/rooms/playback"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

func TestRemove_PlayingItemKeepsItsPlace(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		users := w.newUsers(2)
		id, owner, ann := w.newRoom(users[0], users[1]), ParticipantID(users[0]), ParticipantID(users[1])
		var items [4]ItemID
		for i := range items {
			it, err := w.Add(ctx, owner, id, Item{Source: "https://example.org/film.mp4"})
			w.must(err)
			items[i] = it.ID
		}
		s, err := w.Playback(ctx, owner, id)
		w.must(err)
		load := func(item ItemID) error {
			next, err := w.Command(ctx, owner, id, playback.Command{Generation: s.Generation, Version: s.Version, Verb: playback.Load,
				Item: item.String()})
			if err == nil {
				s = next
			}
			return err
		}
		source := func(item ItemID) error { _, err := w.Source(ctx, ann, accounts.DeviceID{}, id, item); return err }
		w.must(load(items[1]))
		w.must(w.Remove(ctx, owner, id, items[1]))
		list, err := w.Playlist(ctx, ann, id)
		if w.must(err); len(list) != 3 || indexOf(list, items[1]) >= 0 {
			t.Errorf("the playlist has %d items, want 3", len(list))
		}
		if scene, err := w.Scene(ctx, ann, id); err != nil || len(scene.Playlist) != 3 {
			t.Errorf("the scene has %d items, %v, want 3", len(scene.Playlist), err)
		}
		w.wantErr("the source of the playing item", source(items[1]), nil)
		w.wantErr("remove it again", w.Remove(ctx, owner, id, items[1]), ErrItem)
		w.wantErr("move it", w.Move(ctx, owner, id, items[1], ItemID{}), ErrItem)
		w.wantErr("move another one behind it", w.Move(ctx, owner, id, items[0], items[1]), ErrItem)
		w.wantErr("load it again", load(items[1]), ErrItem)
		w.must(w.Remove(ctx, owner, id, items[0])) // not playing
		w.wantErr("the source of another removed item", source(items[0]), ErrItem)
		added, err := w.Add(ctx, owner, id, Item{Source: "https://example.org/film.mp4"})
		w.must(err)
		for _, want := range []ItemID{items[2], items[3], added.ID} {
			if s, err = w.Ended(ctx, owner, id, s.Generation, s.Version); err != nil || itemOf(s) != want {
				t.Errorf("the next item: got %s, %v, want %s", s.Item, err, want)
			}
		}
		w.wantErr("the source of an item that has ended", source(items[1]), ErrItem)
		w.must(w.Remove(ctx, owner, id, items[2]))
		rows, err := itemsOf(ctx, w.db, id)
		if w.must(err); len(rows) != 3 { // with the last of the removed items
			t.Errorf("%d rows are left, want 3", len(rows))
		}
	})
}

// lostFile is a file that no longer exists when deleted is true.
type lostFile struct{ deleted *atomic.Bool }

func (lostFile) ForViewer(url, _, _ string) (string, error) { return url, nil }

func (f lostFile) RoomFile(context.Context, accounts.ID, string) (string, time.Time, error) {
	if f.deleted.Load() {
		return "", time.Time{}, ErrItem
	}
	return "/v1/files/link", time.Now().Add(5 * time.Minute), nil
}

func TestSource_OfADeletedFileIsUnknown(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := singleNode(t, Settings{})
		users := w.newUsers(1)
		id, owner := w.newRoom(users[0]), ParticipantID(users[0])
		var deleted atomic.Bool
		w.cfg.Files = lostFile{&deleted}
		it, err := w.Add(t.Context(), owner, id, Item{Kind: File, Source: ids.New[Item]().String()})
		w.must(err)
		_, err = w.Source(t.Context(), owner, accounts.DeviceID{}, id, it.ID)
		w.must(err)
		deleted.Store(true)
		bubble.Sleep(2 * time.Second)
		_, err = w.Source(t.Context(), owner, accounts.DeviceID{}, id, it.ID)
		w.wantErr("the source of a deleted file", err, ErrItem)
	})
}

func TestJoinAsGuest_RefusesTheNamesOfStaff(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := singleNode(t, Settings{})
		users := w.newUsers(3)
		id := w.newRoom(users[0], users[1], users[2])
		w.appoint(id, users[0], users[1])
		for name, want := range map[string]error{"USER 0": ErrName, "user 1": ErrName, "User 2": nil, "Visitor": nil} {
			_, _, _, err := w.JoinAsGuest(t.Context(), "here", id, name, Admission{})
			w.wantErr(name, err, want)
		}
	})
}

func TestSendLine_MarksGuests(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		users := w.newUsers(1)
		id, owner := w.newRoom(users[0]), ParticipantID(users[0])
		for user, want := range map[ParticipantID]bool{owner: false, w.newGuest(id): true} {
			line := ids.New[Line]()
			for range 2 { // a retry returns the stored line
				if l, err := w.SendLine(ctx, user, id, line, "Hi"); err != nil || l.Guest != want || l.wire(id).Guest != want {
					t.Errorf("%+v, %v, want guest %t", l, err, want)
				}
			}
		}
		lines, _, err := w.Lines(ctx, owner, id, 0, 10)
		if w.must(err); len(lines) != 2 || lines[0].Guest == lines[1].Guest {
			t.Errorf("read %+v", lines)
		}
	})
}

func TestSetMember_RefusesPermissionsOutsideTheRole(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := singleNode(t, Settings{})
		ctx := t.Context()
		users := w.newUsers(2)
		id, owner, admin := w.newRoom(users[0], users[1]), ParticipantID(users[0]), ParticipantID(users[1])
		w.appoint(id, users[0], users[1])
		guest := w.newGuest(id)
		set := func(user ParticipantID, may Permission) error {
			_, m, err := w.SetMember(ctx, owner, id, user, MemberUpdate{May: to(may)})
			if r, roomErr := w.room(ctx, id); err == nil && (roomErr != nil || m.may(r) != may) {
				t.Errorf("%v: got permissions %q, %v, want %q", m.Role, m.may(r).names(), roomErr, may.names())
			}
			return err
		}
		w.wantErr("a guest, to control", set(guest, Chat|Control), ErrGuest)
		w.wantErr("a guest, to chat", set(guest, Chat), nil)
		w.wantErr("an admin, less", set(admin, Chat), ErrAdmin)
		w.wantErr("an admin, everything", set(admin, everything), nil)
		_, _, err := w.Update(ctx, owner, id, Update{GuestMay: to(Chat | Control)})
		w.wantErr("all guests, to control", err, ErrPermission)
	})
}

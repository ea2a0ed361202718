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

func TestRemove_WhatIsOnKeepsItsPlace(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		who := w.people(2)
		id, owner, ann := w.open(who[0], who[1]), ViewerID(who[0]), ViewerID(who[1])
		var items [4]ItemID
		for i := range items {
			it, err := w.Add(ctx, owner, id, Item{Source: "https://example.org/film.mp4"})
			w.must(err)
			items[i] = it.ID
		}
		s, err := w.Playback(ctx, owner, id)
		w.must(err)
		load := func(item ItemID) error {
			next, err := w.Command(ctx, owner, id, playback.Command{Generation: s.Generation, Version: s.Version, Verb: playback.Load, Item: item.String()})
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
		w.fails("the source of what is on", source(items[1]), nil)
		w.fails("remove it again", w.Remove(ctx, owner, id, items[1]), ErrItem)
		w.fails("move it", w.Move(ctx, owner, id, items[1], ItemID{}), ErrItem)
		w.fails("move another one behind it", w.Move(ctx, owner, id, items[0], items[1]), ErrItem)
		w.fails("put it on again", load(items[1]), ErrItem)
		w.must(w.Remove(ctx, owner, id, items[0])) // not playing
		w.fails("the source of what is not on", source(items[0]), ErrItem)
		added, err := w.Add(ctx, owner, id, Item{Source: "https://example.org/film.mp4"})
		w.must(err)
		for _, want := range []ItemID{items[2], items[3], added.ID} {
			if s, err = w.Ended(ctx, owner, id, s.Generation, s.Version); err != nil || itemOf(s) != want {
				t.Errorf("then follows %s, %v, want %s", s.Item, err, want)
			}
		}
		w.fails("the source of what has ended", source(items[1]), ErrItem)
		w.must(w.Remove(ctx, owner, id, items[2]))
		rows, err := itemsOf(ctx, w.db, id)
		if w.must(err); len(rows) != 3 { // with the last of the removed items
			t.Errorf("%d rows are left, want 3", len(rows))
		}
	})
}

// lostFile is a file that is deleted once gone is set.
type lostFile struct{ gone *atomic.Bool }

func (lostFile) ForViewer(url, _, _ string) (string, error) { return url, nil }

func (f lostFile) RoomFile(context.Context, accounts.ID, string) (string, time.Time, error) {
	if f.gone.Load() {
		return "", time.Time{}, ErrItem
	}
	return "/v1/files/link", time.Now().Add(5 * time.Minute), nil
}

func TestSource_OfADeletedFileIsUnknown(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := single(t, Settings{})
		who := w.people(1)
		id, owner := w.open(who[0]), ViewerID(who[0])
		var gone atomic.Bool
		w.cfg.Files = lostFile{&gone}
		it, err := w.Add(t.Context(), owner, id, Item{Kind: File, Source: ids.New[Item]().String()})
		w.must(err)
		_, err = w.Source(t.Context(), owner, accounts.DeviceID{}, id, it.ID)
		w.must(err)
		gone.Store(true)
		bubble.Sleep(2 * time.Second)
		_, err = w.Source(t.Context(), owner, accounts.DeviceID{}, id, it.ID)
		w.fails("the source of a deleted file", err, ErrItem)
	})
}

func TestVisit_RefusesTheNamesOfStaff(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := single(t, Settings{})
		who := w.people(3)
		id := w.open(who[0], who[1], who[2])
		w.appoint(id, who[0], who[1])
		for name, want := range map[string]error{"USER 0": ErrName, "user 1": ErrName, "User 2": nil, "Visitor": nil} {
			_, _, _, err := w.Visit(t.Context(), "here", id, name, Key{})
			w.fails(name, err, want)
		}
	})
}

func TestSay_MarksGuests(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		who := w.people(1)
		id, owner := w.open(who[0]), ViewerID(who[0])
		for user, want := range map[ViewerID]bool{owner: false, w.guest(id): true} {
			line := ids.New[Line]()
			for range 2 { // a retry returns the stored line
				if l, err := w.Say(ctx, user, id, line, "Hi"); err != nil || l.Guest != want || l.wire(id).Guest != want {
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

func TestMay_RefusesWhatItWouldDrop(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := single(t, Settings{})
		ctx := t.Context()
		who := w.people(2)
		id, owner, admin := w.open(who[0], who[1]), ViewerID(who[0]), ViewerID(who[1])
		w.appoint(id, who[0], who[1])
		guest := w.guest(id)
		set := func(user ViewerID, may Permission) error {
			_, m, err := w.SetMember(ctx, owner, id, user, MemberUpdate{May: to(may)})
			if r, roomErr := w.room(ctx, id); err == nil && (roomErr != nil || m.may(r) != may) {
				t.Errorf("%v got %q of %q, %v", m.Role, m.may(r).names(), may.names(), roomErr)
			}
			return err
		}
		w.fails("a guest, to control", set(guest, Chat|Control), ErrGuest)
		w.fails("a guest, to chat", set(guest, Chat), nil)
		w.fails("an admin, less", set(admin, Chat), ErrAdmin)
		w.fails("an admin, everything", set(admin, everything), nil)
		_, _, err := w.Change(ctx, owner, id, Update{GuestMay: to(Chat | Control)})
		w.fails("all guests, to control", err, ErrPermission)
	})
}

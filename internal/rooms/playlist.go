package rooms

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/rooms/playback"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/cache"
)

// maxItems is the largest number of items in a playlist.
const maxItems = 200

// Playlist returns a room's playlist in its order. It returns ErrRoom.
func (s *Service) Playlist(ctx context.Context, user ParticipantID, id ID) (_ []Item, err error) {
	defer errs.Wrap(&err, "rooms.Playlist %s", id)
	if _, _, err := s.roomAndMember(ctx, id, user); err != nil {
		return nil, err
	}
	list, err := s.copies.playlists.Get(ctx, id)
	return withoutRemoved(list), asKind(ctx, err)
}

// withoutRemoved returns the items of a list that are not removed.
func withoutRemoved(list []Item) []Item {
	return slices.DeleteFunc(slices.Clone(list), func(it Item) bool { return it.Removed > 0 })
}

// arrange changes the playlist of a room. It returns ErrRoom or ErrMay.
func (s *Service) arrange(ctx context.Context, user ParticipantID, id ID,
	fn func(ctx context.Context, tx *sqldb.Tx, d *changeSet, list []Item) error) error {
	_, err := s.change(ctx, id, user, arrange, PlaylistChanged.Of(s.caches.Runtime, id),
		func(ctx context.Context, tx *sqldb.Tx, d *changeSet) error {
			list, err := itemsOf(ctx, tx, id)
			if err != nil {
				return err
			}
			d.addEvent(api.EventRoomPlaylist, api.RoomRef{Room: id.String()})
			return fn(ctx, tx, d, list)
		})
	return err
}

// Add appends an item to a playlist. The caller chooses the item's id and uses it again for each retry of a request:
// Add then returns the item of the earlier try. A zero id is replaced by a new one. It returns ErrRoom, ErrMay,
// ErrText, ErrSource or ErrItems.
func (s *Service) Add(ctx context.Context, user ParticipantID, id ID, it Item) (_ Item, err error) {
	defer errs.Wrap(&err, "rooms.Add %s", id)
	if err := s.may(ctx, user, id, arrange); err != nil {
		return Item{}, err
	}
	if it.Source, err = checkSource(it.Kind, it.Source); err != nil {
		return Item{}, err
	}
	if it.Title, err = line("body.title", it.Title, 0, 200); err != nil {
		return Item{}, err
	}
	it.By = accounts.ID(user)
	if it.ID.IsZero() {
		it.ID = ids.New[Item]()
	}
	if it.Kind == File { // only the caller's own files
		if _, _, err := s.cfg.Files.RoomFile(ctx, it.By, it.Source); err != nil {
			return Item{}, fileError(err)
		}
	}
	if it.Kind == Live { // only streams that the caller may watch
		if _, _, _, err := s.cfg.Streams.Ticket(ctx, it.By, it.Source, id.String(), user.String(), accounts.DeviceID{}); err != nil {
			return Item{}, streamError(err)
		}
	}
	err = s.arrange(ctx, user, id, func(ctx context.Context, tx *sqldb.Tx, d *changeSet, list []Item) error {
		if i := indexOf(list, it.ID); i >= 0 && list[i].By == it.By {
			it, d.events = list[i], nil
			return nil
		}
		if len(withoutRemoved(list)) >= maxItems {
			return ErrItems
		}
		it.Added = d.at.UnixMilli()
		return insertItem(ctx, tx, id, len(list), it)
	})
	return it, err
}

// fileError returns ErrSource for a file that the user may not use, and all other errors unchanged.
func fileError(err error) error {
	if kind := errs.KindOf(err); kind == errs.NotFound || kind == errs.Conflict {
		return ErrSource.On("body.source", "is not a file that you may use")
	}
	return err
}

// streamError returns ErrSource for a stream that the user may not watch, and all other errors unchanged.
func streamError(err error) error {
	if errs.KindOf(err) == errs.NotFound {
		return ErrSource.On("body.source", "is not a live stream that you may watch")
	}
	return err
}

// Move moves an item behind another one, or to the front if after is zero. It returns ErrRoom, ErrMay or ErrItem.
func (s *Service) Move(ctx context.Context, user ParticipantID, id ID, item, after ItemID) (err error) {
	defer errs.Wrap(&err, "rooms.Move %s", id)
	return s.arrange(ctx, user, id, func(ctx context.Context, tx *sqldb.Tx, _ *changeSet, list []Item) error {
		at := indexOf(list, item)
		if at < 0 || list[at].Removed > 0 {
			return ErrItem
		}
		moved := list[at]
		list = slices.Delete(list, at, at+1)
		to := 0
		if !after.IsZero() {
			if to = indexOf(list, after) + 1; to == 0 || list[to-1].Removed > 0 {
				return ErrItem
			}
		}
		return arrangeItems(ctx, tx, id, slices.Insert(list, to, moved))
	})
}

func indexOf(list []Item, id ItemID) int {
	return slices.IndexFunc(list, func(it Item) bool { return it.ID == id })
}

// Remove removes an item from the playlist. If the item is playing, it plays to its end, and then the next item
// follows. For this, its row remains at its place until another item is removed. Remove returns ErrRoom, ErrMay or
// ErrItem.
func (s *Service) Remove(ctx context.Context, user ParticipantID, id ID, item ItemID) (err error) {
	defer errs.Wrap(&err, "rooms.Remove %s", id)
	if err := s.may(ctx, user, id, arrange); err != nil {
		return err
	}
	playing, err := s.state(ctx, id)
	if err != nil {
		return err
	}
	return s.arrange(ctx, user, id, func(ctx context.Context, tx *sqldb.Tx, d *changeSet, list []Item) error {
		at := indexOf(list, item)
		if at < 0 || list[at].Removed > 0 {
			return ErrItem
		}
		var finished []ItemID // removed earlier, and no longer playing
		remaining := slices.DeleteFunc(list, func(it Item) bool {
			ended := it.Removed > 0 && it.ID != itemOf(playing)
			if ended {
				finished = append(finished, it.ID)
			}
			return ended
		})
		if err := deleteItems(ctx, tx, finished); err != nil {
			return err
		}
		if err := markRemoved(ctx, tx, item, d.at); err != nil {
			return err
		}
		return arrangeItems(ctx, tx, id, remaining)
	})
}

// Source states how an item is fetched. The device is the user's session, or zero for a guest. It returns ErrRoom or
// ErrItem.
func (s *Service) Source(ctx context.Context, user ParticipantID, device accounts.DeviceID, id ID, item ItemID) (_ Source, err error) {
	defer errs.Wrap(&err, "rooms.Source %s", id)
	if _, _, err := s.roomAndMember(ctx, id, user); err != nil {
		return Source{}, err
	}
	list, err := s.copies.playlists.Get(ctx, id)
	if err != nil {
		return Source{}, asKind(ctx, err)
	}
	at := indexOf(list, item)
	if at < 0 {
		return Source{}, ErrItem
	}
	it := list[at]
	if it.Removed > 0 { // a removed live stream gives no new tickets; other items remain available while they play
		switch playing, err := s.state(ctx, id); {
		case err != nil:
			return Source{}, err
		case it.Kind == Live || itemOf(playing) != item:
			return Source{}, ErrItem
		}
	}
	if it.Kind == Live { // each ticket is for one viewer, so tickets are not cached
		path, token, until, err := s.cfg.Streams.Ticket(ctx, it.By, it.Source, id.String(), user.String(), device)
		if errs.KindOf(err) == errs.NotFound {
			return Source{}, ErrItem
		}
		return Source{Room: id, Kind: Live, URL: path, Expires: until.UnixMilli(), Token: token}, err
	}
	if it.Kind != File {
		return Source{Room: id, Kind: it.Kind, URL: it.Source}, nil
	}
	src, err := s.copies.sources.GetFresh(ctx, item, sourceAge)
	if err == nil && src.Room == id {
		src.URL, err = s.cfg.Files.ForViewer(src.URL, id.String(), user.String())
	}
	if kind := errs.KindOf(err); errors.Is(err, cache.ErrNotFound) || kind == errs.NotFound || err == nil && src.Room != id {
		return Source{}, ErrItem
	}
	return src, asKind(ctx, err)
}

// sourceAge is the largest age of a cached link to a file, because the file may have been deleted since.
const sourceAge = time.Second

// loadSource loads the source of a file item for the cache.
func (s *Service) loadSource(ctx context.Context, item ItemID) (Source, error) {
	it, id, err := selectItem(ctx, s.db, item)
	if err != nil {
		return Source{}, missing(err, ErrItem)
	}
	url, until, err := s.cfg.Files.RoomFile(ctx, it.By, it.Source)
	if kind := errs.KindOf(err); kind == errs.NotFound || kind == errs.Conflict {
		return Source{}, cache.ErrNotFound
	} else if err != nil {
		return Source{}, err
	}
	return Source{Room: id, Kind: it.Kind, URL: url, Expires: until.UnixMilli()}, nil
}

// nextCommand returns the command that loads the item after now, by the loop setting. The list has a removed item at
// its former place.
func nextCommand(list []Item, now string, loop Loop) playback.Command {
	next := playback.Command{Verb: playback.Load}
	at := slices.IndexFunc(list, func(it Item) bool { return it.ID.String() == now })
	if loop == LoopItem && at >= 0 && list[at].Removed == 0 {
		next.Item = now
		return next
	}
	var rest []Item
	if at >= 0 {
		rest = withoutRemoved(list[at+1:])
	}
	if len(rest) == 0 && loop == LoopList {
		rest = withoutRemoved(list)
	}
	if len(rest) > 0 {
		next.Item = rest[0].ID.String()
	}
	return next
}

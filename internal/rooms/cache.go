package rooms

import (
	"context"
	"errors"
	"time"

	"github.com/stoa-dev/stoa/internal/rooms/playback"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// Cache events of rooms.
var (
	SettingsChanged    = cache.NewEvent[ID]("room settings changed")
	RoomUpdated        = cache.NewEvent[ID]("room updated") // its owner
	RoomDeleted        = cache.NewEvent[ID]("room deleted")
	PermissionsChanged = cache.NewEvent[MemberKey]("room member permissions changed")
	MemberKicked       = cache.NewEvent[MemberKey]("room member kicked") // also: joined or left
	PlaylistChanged    = cache.NewEvent[ID]("room playlist changed")
)

// MemberKey is the pair of room and participant that identifies a member in caches.
type MemberKey = keyspace.Args2[ID, ParticipantID]

// checkpoint is a register as stored in SQL and cached in Redis; see keyspace.Doc.Version before you change it.
type checkpoint struct {
	Stamp    int64  `json:"stamp"`
	Item     string `json:"item,omitempty"`
	Position int64  `json:"position"`
	Time     int64  `json:"time"`
	Rate     int64  `json:"rate"`
	Paused   bool   `json:"paused"`
}

func (c checkpoint) state() playback.State {
	s := playback.Stamped(c.Stamp)
	s.Item, s.Position, s.Time, s.Rate, s.Paused = c.Item, c.Position, c.Time, c.Rate, c.Paused
	return s
}

// Source states how an item is fetched; see keyspace.Doc.Version of sourceKeys before you change it.
type Source struct {
	Room    ID     `json:"room"` // the room of its playlist
	Kind    Kind   `json:"kind,omitempty"`
	URL     string `json:"url,omitempty"`
	Expires int64  `json:"expires,omitempty"` // Unix ms; 0: never
	Token   string `json:"-"`                 // of a live stream, whose source is not cached
}

// copies are the caches of rooms. Changes continue while Redis is unavailable ([cache.Proceed]), because no rule of
// this package depends on the caches.
type copies struct {
	rooms       *cache.Cache[ID, Room]
	members     *cache.Cache[MemberKey, Member]
	playlists   *cache.Cache[ID, []Item]
	checkpoints *cache.Cache[ID, checkpoint]
	sources     *cache.Cache[ItemID, Source]
}

func missing(err, target error) error {
	if errors.Is(err, target) {
		return cache.ErrNotFound
	}
	return err
}

func (s *Service) newCopies(rt *cache.Runtime, p cache.Policy) copies {
	p.Unfenced = cache.Proceed
	db := s.db
	c := copies{
		rooms: cache.New(rt, roomKeys, p, cache.Source[ID, Room]{
			Load: func(ctx context.Context, id ID) (Room, error) {
				r, err := selectRoom(ctx, db, id, "")
				return r, missing(err, ErrRoom)
			},
			LoadMany: func(ctx context.Context, list []ID) (map[ID]Room, error) { return selectRooms(ctx, db, list) },
		}),
		members: cache.New2(rt, memberKeys, p, cache.Source[MemberKey, Member]{
			Load: func(ctx context.Context, at MemberKey) (Member, error) {
				m, err := selectMember(ctx, db, at.A, at.B)
				return m, missing(err, ErrMember)
			},
			Life: func(m Member) time.Duration {
				if m.Expires == 0 {
					return 0
				}
				return max(time.Second, min(10*time.Minute, time.UnixMilli(m.Expires).Sub(db.Now())))
			},
		}),
		playlists: cache.New(rt, playlistKeys, p, cache.Source[ID, []Item]{
			Load:     func(ctx context.Context, id ID) ([]Item, error) { return itemsOf(ctx, db, id) },
			LoadMany: func(ctx context.Context, list []ID) (map[ID][]Item, error) { return playlistsOf(ctx, db, list) },
		}),
		checkpoints: cache.New(rt, checkpointKeys, p, cache.Source[ID, checkpoint]{
			Load: func(ctx context.Context, id ID) (checkpoint, error) { return loadCheckpoint(ctx, db, id) },
		}),
		sources: cache.New(rt, sourceKeys, p, cache.Source[ItemID, Source]{
			Load: s.loadSource,
			Life: func(src Source) time.Duration {
				return max(time.Second, min(time.Hour, time.UnixMilli(src.Expires).Sub(db.Now())/2)) // the other half of the time is for the player
			},
		}),
	}
	cache.Drops(rt, SettingsChanged, c.rooms)
	cache.Drops(rt, RoomUpdated, c.rooms)
	cache.Drops[ID](rt, RoomDeleted, c.rooms, c.playlists, c.checkpoints)
	cache.Drops(rt, PermissionsChanged, c.members)
	cache.Drops(rt, MemberKicked, c.members)
	cache.Drops(rt, PlaylistChanged, c.playlists)
	return c
}

func loadCheckpoint(ctx context.Context, db *sqldb.DB, id ID) (checkpoint, error) {
	s, err := selectCheckpoint(ctx, db, id)
	return checkpoint{s.Stamp(), s.Item, s.Position, s.Time, s.Rate, s.Paused}, missing(err, ErrRoom)
}

// room returns a room from the cache, or ErrRoom.
func (s *Service) room(ctx context.Context, id ID) (Room, error) {
	r, err := s.copies.rooms.Get(ctx, id)
	if errors.Is(err, cache.ErrNotFound) {
		return Room{}, ErrRoom
	}
	return r, asKind(ctx, err)
}

// member returns a member of a room from the cache, or ErrMember.
func (s *Service) member(ctx context.Context, id ID, user ParticipantID) (Member, error) {
	m, err := s.copies.members.Get(ctx, MemberKey{A: id, B: user})
	if errors.Is(err, cache.ErrNotFound) || err == nil && m.Expires > 0 && m.Expires <= s.db.Now().UnixMilli() {
		return Member{}, ErrMember
	}
	return m, asKind(ctx, err)
}

// roomAndMember returns a room and a member of it from the caches, for reads. It returns ErrRoom if the user is not a
// member.
func (s *Service) roomAndMember(ctx context.Context, id ID, user ParticipantID) (Room, Member, error) {
	m, err := s.member(ctx, id, user)
	if errors.Is(err, ErrMember) {
		err = ErrRoom
	}
	if err != nil {
		return Room{}, Member{}, err
	}
	r, err := s.room(ctx, id)
	return r, m, err
}

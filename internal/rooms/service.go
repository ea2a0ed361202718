package rooms

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/accounts/attempts"
	"github.com/stoa-dev/stoa/internal/accounts/password"
	"github.com/stoa-dev/stoa/internal/aggregate"
	"github.com/stoa-dev/stoa/internal/base/cursor"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/config"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/groupcommit"
	"github.com/stoa-dev/stoa/lib/ratelimit"
	"github.com/stoa-dev/stoa/lib/redis"
)

// People is the part of accounts that this package needs; *accounts.Service implements it.
type People interface {
	// Profiles returns the profiles of ids that exist or existed.
	Profiles(ctx context.Context, ids []accounts.ID) (accounts.Profiles, error)
	// ProfilesOrNone is Profiles for events about a committed change. It returns none if they cannot be loaded.
	ProfilesOrNone(ctx context.Context, ids ...accounts.ID) accounts.Profiles
}

// Blocks is the part of social that this package needs; *social.Service implements it.
type Blocks interface {
	// Blocked returns the users of the list that the user by blocks.
	Blocked(ctx context.Context, by accounts.ID, whom []accounts.ID) (map[accounts.ID]bool, error)
	// BlockedIDs returns all users whom a user blocks.
	BlockedIDs(ctx context.Context, user accounts.ID) ([]accounts.ID, error)
}

// Files is the part of transfers that this package needs.
type Files interface {
	// RoomFile returns the URL of a user's own file and its expiry.
	RoomFile(ctx context.Context, user accounts.ID, file string) (url string, until time.Time, err error)
	// ForViewer returns such a URL for a viewer in a room. It ends when the viewer leaves the room.
	ForViewer(url, room, viewer string) (string, error)
}

// Streams is the part of live streams that this package needs.
type Streams interface {
	// Ticket returns the path of a stream that the user by may watch, a token for a viewer in a room, and its expiry.
	// The device is the viewer's session, or zero for a guest. The token ends when the viewer leaves the room.
	Ticket(ctx context.Context, by accounts.ID, stream, room, viewer string, device accounts.DeviceID) (path, token string, until time.Time,
		err error)
}

// Config has the dependencies and settings of a Service.
type Config struct {
	DB        *sqldb.DB
	Redis     *redis.DB
	Caches    *cache.Runtime
	Cache     cache.Policy // policy of the caches; this package sets Unfenced
	Bus       *events.Bus  // publishes events after the commit
	Node      string       // id of this process among all that share Redis
	Nodes     func(ctx context.Context) ([]string, error)
	People    People
	Blocks    Blocks
	Files     Files
	Streams   Streams
	Passwords *password.Hasher
	Limiter   *ratelimit.Limiter // for guests who join; nil: no limits
	Metrics   prometheus.Registerer
	Log       *slog.Logger

	Settings
}

// Service implements rooms. It is safe for concurrent use.
type Service struct {
	db      *sqldb.DB
	redis   *redisStore
	caches  *aggregate.Caches
	copies  copies
	entries *groupcommit.Committer[pendingEntry, entryResult]
	locks   *sqldb.Locks[ID, *lockedRoom]
	tries   *attempts.Counter // of passwords
	watched watched
	tidied  time.Time // all rooms are within their limits for lines and danmaku up to this time; only the job sets it
	metrics *metrics
	cfg     Config
	log     *slog.Logger
}

// New returns a Service. Work after a commit has the values of ctx. The error has all faults of the settings.
func New(ctx context.Context, cfg Config) (*Service, error) {
	config.Defaults(&cfg.Settings)
	if err := cfg.Settings.Validate(); err != nil {
		return nil, fmt.Errorf("rooms: %w", err)
	}
	s := &Service{db: cfg.DB, redis: &redisStore{cfg.Redis}, caches: aggregate.New(cfg.DB, cfg.Caches),
		cfg: cfg, log: cfg.Log, metrics: newMetrics(cfg.Metrics)}
	s.copies = s.newCopies(cfg.Caches, cfg.Cache)
	s.entries = newCommitter(s)
	s.tries = attempts.New(cfg.Redis, cfg.Log)
	s.locks = sqldb.NewLocks(lockRooms, lockFreeRooms)
	return s, nil
}

// Run warms the caches, commits lines and danmaku, and does the regular work for rooms with viewers, until ctx ends.
func (s *Service) Run(ctx context.Context, ready func()) error {
	ready()
	var parts sync.WaitGroup
	parts.Go(func() { _ = s.entries.Run(ctx) })
	parts.Go(func() { s.watch(ctx) })
	parts.Go(func() { s.warm(ctx) })
	parts.Wait()
	return nil
}

// A changeSet is the changes of a room in one transaction, under the room's lock. The work after the commit is derived
// from it.
type changeSet struct {
	at     time.Time
	before Room
	room   Room
	me     Member          // the caller; the zero Member if the caller is not in the room
	left   []ParticipantID // members who left the room
	events []pendingEvent
}

// pendingEvent is an event that is published after the commit, on the room's channel or to a participant's devices.
type pendingEvent struct {
	to   ParticipantID // zero: to the room's channel
	typ  string
	data any // a Member or a Room is encoded after the commit, with its version then
}

// versioned reports whether the event has the room's version. Hints and the end of a room have none.
func (n pendingEvent) versioned() bool {
	switch v := n.data.(type) {
	case Room, Member:
		return true
	case api.RoomGone:
		return v.User != ""
	}
	return false
}

func (d *changeSet) addEvent(typ string, data any) {
	d.events = append(d.events, pendingEvent{typ: typ, data: data})
}

// maxFanOut is the largest number of members of a room that publishes each join and leave to all of them. In a larger
// room, the number of events would grow with the square of the audience.
const maxFanOut = 200

// removeMembers removes members from a locked room that stays open. All such removals use it, so that the members' holds
// end after the commit, by changeSet.left. Both the members and the room get events; a large room gets them only for a
// single member who was kicked or banned.
func (d *changeSet) removeMembers(ctx context.Context, tx *sqldb.Tx, reason string, users ...ParticipantID) error {
	d.room.members -= len(users)
	d.left = append(d.left, users...)
	toRoom := d.before.members <= maxFanOut || len(users) == 1 && (reason == api.RoomKicked || reason == api.RoomBanned)
	for _, user := range users {
		data := api.RoomGone{Room: d.room.ID.String(), User: user.String(), Why: reason}
		d.events = append(d.events, pendingEvent{user, api.EventRoomGone, data})
		if toRoom {
			d.addEvent(api.EventRoomGone, data)
		}
	}
	return deleteMembers(ctx, tx, d.room.ID, users)
}

// change runs fn in a transaction under the lock of a room, if the user is a member who may do v. Then it writes the
// room, drops the cache entries that targets name, publishes the events, and returns the change set. It returns ErrRoom
// if the room does not exist or the user is not a member. It also returns ErrMay, ErrMuted or ErrOwner.
func (s *Service) change(ctx context.Context, id ID, user ParticipantID, v verb, targets []cache.Target,
	fn func(ctx context.Context, tx *sqldb.Tx, d *changeSet) error) (changeSet, error) {
	return s.changeUnchecked(ctx, id, targets, func(ctx context.Context, tx *sqldb.Tx, d *changeSet) (err error) {
		d.me, err = selectMember(ctx, tx, id, user)
		if errors.Is(err, ErrMember) {
			err = ErrRoom
		}
		if err == nil {
			err = d.me.mayDo(v, d.room, d.at)
		}
		if err != nil {
			return err
		}
		return fn(ctx, tx, d)
	})
}

// changeUnchecked is [Service.change] for users who may not be members.
func (s *Service) changeUnchecked(ctx context.Context, id ID, targets []cache.Target,
	fn func(ctx context.Context, tx *sqldb.Tx, d *changeSet) error) (changeSet, error) {
	var d changeSet
	err := s.db.InTurn(ctx, id, func(ctx context.Context) error {
		return s.caches.Change(ctx, targets, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			d = changeSet{at: tx.Now()} // a transaction may run more than once
			if d.room, err = selectRoom(ctx, tx, id, tx.Dialect().ForUpdate()); err != nil {
				return err
			}
			d.before = d.room
			d.before.Words = slices.Clone(d.room.Words)
			if err := fn(ctx, tx, &d); err != nil {
				return err
			}
			if slices.ContainsFunc(d.events, pendingEvent.versioned) {
				d.room.Version++
			}
			if d.room.equal(d.before) {
				return nil
			}
			return updateRoom(ctx, tx, d.room)
		})
	})
	if err != nil {
		return changeSet{}, asKind(ctx, err)
	}
	s.publish(ctx, d)
	s.endHolds(ctx, d)
	return d, nil
}

// memberTargets returns the targets of MemberKicked for participants of a room.
func (s *Service) memberTargets(id ID, users ...ParticipantID) []cache.Target {
	list := make([]MemberKey, len(users))
	for i, u := range users {
		list[i] = MemberKey{A: id, B: u}
	}
	return MemberKicked.Of(s.caches.Runtime, list...)
}

// Update has the changes of a room's settings. A nil field changes nothing.
type Update struct {
	Name      *string
	Password  *string // empty: no password
	Access    *Access
	Listed    *bool
	Guests    *bool
	MemberMay *Permission
	GuestMay  *Permission
	Hold      *bool
	Drift     *int
	Jump      *int
	Loop      *Loop
	Words     *[]string
}

// clean returns u with its texts in their stored form. It returns ErrText or ErrPermission.
func (u Update) clean() (Update, error) {
	if u.Name != nil {
		name, err := line("body.name", *u.Name, 1, 60)
		if err != nil {
			return Update{}, err
		}
		u.Name = &name
	}
	if u.Words != nil {
		var words []string
		for i, w := range *u.Words {
			w, err := line(fmt.Sprintf("body.words[%d]", i), w, 1, 40)
			if err != nil {
				return Update{}, err
			}
			words = append(words, fold(w))
		}
		slices.Sort(words)
		words = slices.Compact(words)
		u.Words = &words
	}
	if u.GuestMay != nil && *u.GuestMay&^forGuests != 0 {
		return Update{}, ErrPermission.On("body.guest_may", "is not one of chat, danmaku")
	}
	return u, nil
}

// on returns r with the update applied. hash is the hash of the new password.
func (u Update) on(r Room, hash string) Room {
	aggregate.Set(&r.Name, u.Name)
	aggregate.Set(&r.Access, u.Access)
	aggregate.Set(&r.Listed, u.Listed)
	aggregate.Set(&r.Guests, u.Guests)
	aggregate.Set(&r.MemberMay, u.MemberMay)
	aggregate.Set(&r.GuestMay, u.GuestMay)
	aggregate.Set(&r.Hold, u.Hold)
	aggregate.Set(&r.Drift, u.Drift)
	aggregate.Set(&r.Jump, u.Jump)
	aggregate.Set(&r.Loop, u.Loop)
	aggregate.Set(&r.Words, u.Words)
	if u.Password != nil {
		r.hash = hash
		r.Password = hash != ""
	}
	return r
}

// hash returns the hash of a room's password, or "" for none. It returns ErrText or ErrBusy.
func (s *Service) hash(ctx context.Context, user ParticipantID, given *string) (string, error) {
	if given == nil || *given == "" {
		return "", nil
	}
	text, err := password.Normalize(*given)
	if err != nil {
		return "", ErrText.On("body.password", "has control characters")
	}
	hash, err := s.cfg.Passwords.Hash(ctx, user.String(), text)
	return hash, busy(err)
}

func busy(err error) error {
	if errors.Is(err, password.ErrBusy) {
		return ErrBusy
	}
	return err
}

// Create creates a room with the user as its owner. The caller chooses the id and uses it again for each retry of a
// request: Create then returns the room of the earlier try as it is now. It returns ErrText, ErrRooms, ErrBusy or
// accounts.ErrNoUser. It returns ErrRoom if the earlier try's room is closed or the user has left it.
func (s *Service) Create(ctx context.Context, owner accounts.ID, id ID, u Update) (_ Room, me Member, err error) {
	defer errs.Wrap(&err, "rooms.Create %s", owner)
	if u, err = u.clean(); err != nil {
		return Room{}, Member{}, err
	}
	user := ParticipantID(owner)
	hash, err := s.hash(ctx, user, u.Password)
	if err != nil {
		return Room{}, Member{}, err
	}
	var r Room
	err = s.caches.Change(ctx, s.memberTargets(id, user), func(ctx context.Context, tx *sqldb.Tx) error {
		now := tx.Now().UnixMilli()
		if err := checkAccount(ctx, tx, owner); err != nil {
			return err
		}
		r = u.on(Room{ID: id, MemberMay: forMembers, GuestMay: forGuests, Drift: defaultDrift, Jump: defaultJump, Created: now, members: 1}, hash)
		err := insertRoom(ctx, tx, r) // first, so that two tries conflict here
		if sqldb.IsDuplicate(err) {
			r, me, err = selectEarlier(ctx, tx, id, user)
			return err
		}
		if err != nil {
			return err
		}
		if n, err := countOwned(ctx, tx, user); err != nil {
			return err
		} else if n >= s.cfg.Owned { // counted without a lock: concurrent calls may exceed the limit
			return ErrRooms
		}
		me = Member{User: user, Role: Owner, Joined: now}
		return insertMember(ctx, tx, id, me)
	})
	return r, me, asKind(ctx, err)
}

// selectEarlier returns the room of an earlier try and the user's membership. It returns ErrRoom if the room is closed
// or the user has left it.
func selectEarlier(ctx context.Context, tx *sqldb.Tx, id ID, user ParticipantID) (r Room, me Member, err error) {
	if r, err = selectRoom(ctx, tx, id, tx.Dialect().ForUpdate()); err != nil {
		return r, me, err
	}
	if me, err = selectMember(ctx, tx, id, user); errors.Is(err, ErrMember) {
		err = ErrRoom
	}
	return r, me, err
}

// Room returns a room and the user's membership, or nil for a user who is not in it. It returns ErrRoom unless the
// user is a member or the room is open.
func (s *Service) Room(ctx context.Context, user ParticipantID, id ID) (_ Room, me *Member, err error) {
	defer errs.Wrap(&err, "rooms.Room %s", id)
	r, err := s.room(ctx, id)
	if err != nil {
		return Room{}, nil, err
	}
	m, err := s.member(ctx, id, user)
	switch {
	case err == nil:
		return r, &m, nil
	case !errors.Is(err, ErrMember):
		return Room{}, nil, err
	case r.Access != Open:
		return Room{}, nil, ErrRoom
	}
	return r, nil, nil
}

// Rooms returns at most limit of a user's rooms after the cursor, and the user's membership in each. The room that the
// user joined last is first. It returns ErrCursor.
func (s *Service) Rooms(ctx context.Context, user ParticipantID, after string,
	limit int) (_ []Room, mine []Member, next string, err error) {
	defer errs.Wrap(&err, "rooms.Rooms %s", user)
	from, err := cursor.ParsePlace(after, cursor.Place{Primary: math.MaxInt64}, ErrCursor)
	if err != nil {
		return nil, nil, "", err
	}
	list, mine, err := roomsOf(ctx, s.db, user, from, limit+1)
	if err != nil {
		return nil, nil, "", asKind(ctx, err)
	}
	if len(list) > limit {
		list, mine = list[:limit], mine[:limit]
		next = cursor.Place{Primary: mine[limit-1].Joined, ID: list[limit-1].ID.String()}.String()
	}
	return list, mine, next, nil
}

// maxListed is the largest number of matching rooms for a page of the public list. The most recently active ones are
// used.
const maxListed = 1000

// Sort is an order of the public list.
type Sort string

// The values of Sort.
const (
	ByViewers Sort = "viewers" // most viewers first
	ByNew     Sort = "new"     // newest first
)

// Listed is a room of the public list.
type Listed struct {
	Room
	Viewers int
}

// List returns a page of the public list, in an order. It has the most recently active of the rooms whose name contains
// a text. It returns ErrCursor.
func (s *Service) List(ctx context.Context, text string, by Sort, after string, limit int) (_ []Listed, next string, err error) {
	defer errs.Wrap(&err, "rooms.List")
	from, err := cursor.ParsePlace(after, cursor.Place{Primary: 1 << 62}, ErrCursor)
	if err != nil {
		return nil, "", err
	}
	found, err := searchRooms(ctx, s.db, text, maxListed)
	if err != nil {
		return nil, "", asKind(ctx, err)
	}
	list := make([]ID, len(found))
	for i, l := range found {
		list[i] = l.room.ID
	}
	viewers := s.viewers(ctx, list)
	at := func(r Room) cursor.Place {
		if by == ByNew {
			return cursor.Place{Primary: r.Created, ID: r.ID.String()}
		}
		return cursor.Place{Primary: int64(viewers[r.ID]), Secondary: r.Created, ID: r.ID.String()}
	}
	slices.SortFunc(found, func(a, b listed) int { return compare(at(a.room), at(b.room)) })
	var out []Listed
	for _, l := range found {
		if compare(at(l.room), from) > 0 {
			if len(out) == limit {
				last := out[limit-1].Room
				return out, at(last).String(), nil
			}
			out = append(out, Listed{l.room, viewers[l.room.ID]})
		}
	}
	return out, "", nil
}

// compare orders places by descending numbers, then by id.
func compare(a, b cursor.Place) int {
	return cmp.Or(cmp.Compare(b.Primary, a.Primary), cmp.Compare(b.Secondary, a.Secondary), cmp.Compare(a.ID, b.ID))
}

// Update updates a room's settings. It returns ErrRoom, ErrMay, ErrText, ErrPermission or ErrBusy.
func (s *Service) Update(ctx context.Context, user ParticipantID, id ID, u Update) (_ Room, me Member, err error) {
	defer errs.Wrap(&err, "rooms.Update %s", id)
	if u, err = u.clean(); err != nil {
		return Room{}, Member{}, err
	}
	if err := s.may(ctx, user, id, configure); err != nil { // before the cost of hashing a password
		return Room{}, Member{}, err
	}
	hash, err := s.hash(ctx, user, u.Password)
	if err != nil {
		return Room{}, Member{}, err
	}
	for {
		var guests []ParticipantID // read before the change, because the change drops their cache entries
		if u.mayRemoveGuests() {
			if guests, err = guestsOf(ctx, s.db, id); err != nil {
				return Room{}, Member{}, asKind(ctx, err)
			}
		}
		d, err := s.change(ctx, id, user, configure, append(SettingsChanged.Of(s.caches.Runtime, id), s.memberTargets(id, guests...)...),
			func(ctx context.Context, tx *sqldb.Tx, d *changeSet) error {
				d.room = u.on(d.room, hash)
				// members cannot grant permissions that they lack
				if given := d.room.MemberMay&^d.before.MemberMay | d.room.GuestMay&^d.before.GuestMay; given&^d.me.may(d.before) != 0 {
					return ErrMay
				}
				if !d.room.equal(d.before) {
					d.addEvent(api.EventRoomChanged, d.room)
				}
				if d.before.Guests && !d.room.Guests || d.before.Access == Open && d.room.Access == Invited {
					return d.removeGuests(ctx, tx, guests)
				}
				return nil
			})
		if !errors.Is(err, errOtherMember) {
			return d.room, d.me, err
		}
	}
}

// mayRemoveGuests reports whether the update may remove guests.
func (u Update) mayRemoveGuests() bool {
	return u.Guests != nil && !*u.Guests || u.Access != nil && *u.Access == Invited
}

// removeGuests removes all guests from a locked room. It returns errOtherMember if one of them is not in expected.
func (d *changeSet) removeGuests(ctx context.Context, tx *sqldb.Tx, expected []ParticipantID) error {
	guests, err := guestsOf(ctx, tx, d.room.ID)
	if err != nil || len(guests) == 0 {
		return err
	}
	slices.SortFunc(expected, ParticipantID.Compare)
	for _, g := range guests {
		if _, found := slices.BinarySearchFunc(expected, g, ParticipantID.Compare); !found {
			return errOtherMember
		}
	}
	return d.removeMembers(ctx, tx, api.RoomKicked, guests...)
}

// may checks in SQL, before the work for a change, whether the user may do v. It returns ErrRoom or ErrMay.
func (s *Service) may(ctx context.Context, user ParticipantID, id ID, v verb) error {
	r, err := selectRoom(ctx, s.db, id, "")
	if err != nil {
		return asKind(ctx, err)
	}
	m, err := selectMember(ctx, s.db, id, user)
	switch {
	case errors.Is(err, ErrMember):
		return ErrRoom
	case err != nil:
		return asKind(ctx, err)
	}
	return m.mayDo(v, r, s.db.Now())
}

// Close closes a room for all members. It returns ErrRoom or ErrMay.
func (s *Service) Close(ctx context.Context, user ParticipantID, id ID) (err error) {
	defer errs.Wrap(&err, "rooms.Close %s", id)
	_, err = s.change(ctx, id, user, endRoom, RoomDeleted.Of(s.caches.Runtime, id), s.closeLocked)
	s.deleteKeys(ctx, id, err)
	return err
}

// CloseFor closes a room for an operator. It does nothing if the room is closed already.
func (s *Service) CloseFor(ctx context.Context, id ID) (err error) {
	defer errs.Wrap(&err, "rooms.CloseFor %s", id)
	_, err = s.changeUnchecked(ctx, id, RoomDeleted.Of(s.caches.Runtime, id), s.closeLocked)
	if errors.Is(err, ErrRoom) {
		return nil
	}
	s.deleteKeys(ctx, id, err)
	return err
}

// closeLocked closes a locked room.
func (s *Service) closeLocked(ctx context.Context, tx *sqldb.Tx, d *changeSet) error {
	d.addEvent(api.EventRoomGone, api.RoomGone{Room: d.room.ID.String(), Why: api.RoomClosed})
	d.room = d.before // no other change of the room is written
	return closeRoom(ctx, tx, d.room.ID)
}

// deleteKeys deletes a closed room's keys from Redis. While Redis is unavailable, they remain until their TTL ends.
func (s *Service) deleteKeys(ctx context.Context, id ID, err error) {
	if err != nil {
		return
	}
	if err := s.redis.forget(context.WithoutCancel(ctx), id); err != nil {
		s.log.Info("rooms: keys of a closed room not deleted", "room", id, "err", err)
	}
}

// Transfer transfers a room to another member; the former owner becomes an admin. It returns ErrRoom, ErrMay,
// ErrMember, ErrSelf or ErrGuest.
func (s *Service) Transfer(ctx context.Context, user ParticipantID, id ID, to ParticipantID) (_ Room, me Member, err error) {
	defer errs.Wrap(&err, "rooms.Transfer %s", id)
	targets := append(RoomUpdated.Of(s.caches.Runtime, id), PermissionsChanged.Of(s.caches.Runtime, MemberKey{A: id, B: user},
		MemberKey{A: id, B: to})...)
	d, err := s.change(ctx, id, user, transfer, targets, func(ctx context.Context, tx *sqldb.Tx, d *changeSet) error {
		next, err := selectMember(ctx, tx, id, to)
		switch {
		case err != nil:
			return err
		case to == user:
			return ErrSelf
		case next.Role == Guest:
			return ErrGuest
		}
		d.me.Role = Admin
		return s.makeOwner(ctx, tx, d, next, d.me)
	})
	return d.room, d.me, err
}

// makeOwner makes a member the owner, and stores other changed members with it.
func (s *Service) makeOwner(ctx context.Context, tx *sqldb.Tx, d *changeSet, next Member, others ...Member) error {
	next.Role, next.MutedUntil, next.More, next.Less = Owner, 0, 0, 0
	for _, m := range append(others, next) {
		if err := updateMember(ctx, tx, d.room.ID, m); err != nil {
			return err
		}
		d.addEvent(api.EventRoomMember, m)
	}
	return nil
}

package rooms

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/accounts/attempts"
	"github.com/stoa-dev/stoa/internal/accounts/password"
	"github.com/stoa-dev/stoa/internal/aggregate"
	"github.com/stoa-dev/stoa/internal/base/clientnet"
	"github.com/stoa-dev/stoa/internal/base/cursor"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/membership"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/ratelimit"
)

// Admission admits a user to a room: by a password or a link.
type Admission struct {
	Password string
	Link     *LinkID // nil: none

	identity string // the identity that the password queue counts
	guest    bool
}

// Join adds a user to a room. It changes nothing for a user who is already a member. A user who returns is still muted,
// and still lacks the permissions that were taken away. It returns ErrRoom, ErrPassword, ErrTries, ErrLink, ErrBanned,
// ErrFull, ErrBusy or accounts.ErrNoUser.
func (s *Service) Join(ctx context.Context, user accounts.ID, id ID, key Admission) (_ Room, me Member, err error) {
	defer errs.Wrap(&err, "rooms.Join %s", id)
	participant := ParticipantID(user)
	key.identity = user.String()
	if key.Password != "" { // a member needs no password, and the given one may be outdated
		if _, err := selectMember(ctx, s.db, id, participant); err == nil {
			key.Password = ""
		}
	}
	d, err := s.admit(ctx, id, participant, key, func(ctx context.Context, tx *sqldb.Tx, d *changeSet) (Member, error) {
		if err := checkAccount(ctx, tx, user); err != nil {
			return Member{}, err
		}
		muted, less, err := selectRestrictions(ctx, tx, id, participant)
		return Member{User: participant, Role: Ordinary, Joined: d.at.UnixMilli(), MutedUntil: muted, Less: less}, err
	})
	return d.room, d.me, err
}

// checkAccount returns accounts.ErrNoUser for a user whose account is deleted or does not exist.
func checkAccount(ctx context.Context, tx *sqldb.Tx, user accounts.ID) error {
	standings, err := accounts.Standings(ctx, tx, user)
	if standing, ok := standings[user]; err == nil && (!ok || standing.Deleted) {
		err = accounts.ErrNoUser
	}
	return err
}

// admit adds a participant to a room by a key. It compares the password before the transaction, which then verifies that the
// room's password has not changed.
func (s *Service) admit(ctx context.Context, id ID, user ParticipantID, key Admission,
	fn func(ctx context.Context, tx *sqldb.Tx, d *changeSet) (Member, error)) (changeSet, error) {
	matched, err := s.checkPassword(ctx, id, key)
	if err == nil && key.guest {
		err = s.allowGuest(ctx, id)
	}
	if err != nil {
		return changeSet{}, err
	}
	return s.changeUnchecked(ctx, id, s.memberTargets(id, user), func(ctx context.Context, tx *sqldb.Tx, d *changeSet) (err error) {
		if d.me, err = selectMember(ctx, tx, id, user); !errors.Is(err, ErrMember) {
			return err
		}
		if err := s.checkJoin(ctx, tx, d, user, key, matched); err != nil {
			return err
		}
		if d.me, err = fn(ctx, tx, d); err != nil {
			return err
		}
		if d.room.members++; d.room.members <= maxFanOut {
			d.addEvent(api.EventRoomMember, d.me)
		}
		return insertMember(ctx, tx, id, d.me)
	})
}

// checkPassword returns the hash of the room's password if the key has the right password. It returns "" if no password
// was compared.
func (s *Service) checkPassword(ctx context.Context, id ID, key Admission) (string, error) {
	if key.Link != nil || key.Password == "" {
		return "", nil
	}
	r, err := selectRoom(ctx, s.db, id, "")
	if err != nil {
		return "", asKind(ctx, err)
	}
	if r.hash == "" || r.Access != Open {
		return "", nil
	}
	given, err := password.Normalize(key.Password)
	if err != nil {
		return "", ErrPassword
	}
	// a running try counts as wrong until it is settled; a try that waits for a slot does not count
	err = s.cfg.Passwords.Do(ctx, key.identity, func() error {
		tries := passwordTries(ctx, id)
		switch allowed, left, err := s.tries.Count(ctx, tries, s.db.Now()); {
		case err != nil:
			return err
		case !allowed:
			return ErrTries.Retry(left)
		}
		ok, err := s.cfg.Passwords.Matches(given, r.hash)
		if err == nil && !ok {
			return ErrPassword
		}
		s.tries.Settle(ctx, nil, tries) // the password was right, or was not compared
		return err
	})
	return r.hash, busy(err)
}

const (
	// maxWrong is the largest number of wrong passwords of a room within passwordLock.
	maxWrong = 100
	// maxWrongFrom is the part of maxWrong for one network, so that it cannot lock out other networks.
	maxWrongFrom = 20
)

// passwordTries returns the counters for a try of a room's password.
func passwordTries(ctx context.Context, id ID) []attempts.Meter {
	meters := []attempts.Meter{{Key: passwordFailKeys.At(id, keyspace.Hashed{S: "all"}).Key, Cap: maxWrong, Life: passwordLock}}
	if network := clientnet.Network(clientnet.FromFar(ctx)); network != "" {
		meters = append(meters, attempts.Meter{Key: passwordFailKeys.At(id, keyspace.Hashed{S: network}).Key, Cap: maxWrongFrom,
			Life: passwordLock})
	}
	return meters
}

// Limits for guests who join a room. One network can have many addresses. These limits let it fill only a part of the
// guests' places before idle guests are removed.
var (
	guestRate        = ratelimit.Limit{Max: 600, Window: time.Minute}
	siteGuestRate    = ratelimit.Limit{Max: 30, Window: time.Hour}
	networkGuestRate = ratelimit.Limit{Max: 100, Window: time.Hour}
)

// allowGuest counts a guest who wants to join. It returns ErrGuestRate.
func (s *Service) allowGuest(ctx context.Context, id ID) error {
	if s.cfg.Limiter == nil {
		return nil
	}
	limits := []ratelimit.Ask{{Key: guestRateKeys.At(id, keyspace.Hashed{S: "all"}), Limit: guestRate}}
	if from := clientnet.FromFar(ctx); from != "" {
		limits = append(limits, ratelimit.Ask{Key: guestRateKeys.At(id, keyspace.Hashed{S: clientnet.Site(from)}), Limit: siteGuestRate},
			ratelimit.Ask{Key: guestRateKeys.At(id, keyspace.Hashed{S: clientnet.Network(from)}), Limit: networkGuestRate})
	}
	res, err := s.cfg.Limiter.AllowAll(ctx, limits)
	if err == nil && !res.Allowed {
		err = ErrGuestRate.Retry(res.Reset)
	}
	return err
}

// checkJoin returns an error if the user may not join a locked room. It returns ErrRoom, ErrPassword, ErrLink,
// ErrBanned or ErrFull.
func (s *Service) checkJoin(ctx context.Context, tx *sqldb.Tx, d *changeSet, user ParticipantID, key Admission, matched string) error {
	id := d.room.ID
	switch {
	case key.Link != nil:
		l, err := links.Get(ctx, tx, *key.Link)
		if err == nil && l.Parent != id {
			err = ErrLink
		}
		if err == nil {
			err = links.Check(ctx, tx, l, d.room.inviters)
		}
		if err == nil {
			err = links.Use(ctx, tx, l.ID)
		}
		if err != nil {
			return err
		}
	case d.room.Access != Open:
		return ErrRoom
	case d.room.hash != "" && d.room.hash != matched:
		return ErrPassword
	}
	err := bans.Check(ctx, tx, id, ErrBanned, accounts.ID(user))
	if err == nil && d.room.members >= s.cfg.Members {
		err = ErrFull
	}
	return err
}

// GuestPrefix is the prefix of guest tokens.
const GuestPrefix = "stoa_guest_"

// secretLen is the length of 24 random bytes in base64.
const secretLen = 32

// GuestCaller is a guest as the caller of a request.
type GuestCaller struct {
	User    ParticipantID
	Room    ID
	Expires time.Time // of the token
}

// UserID implements web.Caller. Rate limits count by it.
func (v GuestCaller) UserID() string { return v.User.String() }

// DeviceID implements gateway.Caller.
func (v GuestCaller) DeviceID() string { return v.User.String() }

// ExpiresAt implements gateway.Caller.
func (v GuestCaller) ExpiresAt() time.Time { return v.Expires }

// JoinAsGuest adds a guest to a room. The returned token is valid only for this room. identity is the identity that the
// password queue counts. It returns ErrText, ErrRoom, ErrGuests, ErrName, ErrPassword, ErrTries, ErrLink, ErrGuestRate,
// ErrFull or ErrBusy.
func (s *Service) JoinAsGuest(ctx context.Context, identity string, id ID, name string,
	key Admission) (_ Room, me Member, token string, err error) {
	defer errs.Wrap(&err, "rooms.JoinAsGuest %s", id)
	if name, err = line("body.name", name, 1, 40); err != nil {
		return Room{}, Member{}, "", err
	}
	var secret [secretLen / 4 * 3]byte
	_, _ = rand.Read(secret[:]) // never fails
	user := ids.New[Participant]()
	token = GuestPrefix + id.String() + user.String() + base64.RawURLEncoding.EncodeToString(secret[:])
	key.identity, key.guest = identity, true
	taken, err := s.staffNames(ctx, id)
	if err != nil {
		return Room{}, Member{}, "", err
	}
	d, err := s.admit(ctx, id, user, key, func(ctx context.Context, tx *sqldb.Tx, d *changeSet) (Member, error) {
		if !d.room.Guests {
			return Member{}, ErrGuests
		}
		if slices.Contains(taken, fold(name)) {
			return Member{}, ErrName
		}
		if n, err := countGuests(ctx, tx, id); err != nil {
			return Member{}, err
		} else if n >= s.cfg.Members/2 {
			return Member{}, ErrFull
		}
		return Member{User: user, Role: Guest, Name: name, Joined: d.at.UnixMilli(), Expires: d.at.Add(s.cfg.GuestLife).UnixMilli(),
			Secret: hashed(token)}, nil
	})
	if err != nil {
		return Room{}, Member{}, "", err
	}
	return d.room, d.me, token, nil
}

// staffNames returns the case-folded names of a room's owner and admins.
func (s *Service) staffNames(ctx context.Context, id ID) (names []string, err error) {
	staff, err := staffOf(ctx, s.db, id)
	if err != nil {
		return nil, asKind(ctx, err)
	}
	profiles, err := s.cfg.People.Profiles(ctx, staff)
	for _, p := range profiles {
		names = append(names, fold(p.Name))
	}
	return names, err
}

func hashed(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Verify returns the guest of a token, or accounts.ErrToken if the guest is not in the room. It needs no I/O if the
// cache entries are in this process.
func (s *Service) Verify(ctx context.Context, token string) (_ GuestCaller, err error) {
	defer errs.Wrap(&err, "rooms.Verify")
	text, ok := strings.CutPrefix(token, GuestPrefix)
	if !ok || len(text) != 2*ids.Len+secretLen {
		return GuestCaller{}, accounts.ErrToken
	}
	id, idErr := ids.Parse[Room](text[:ids.Len])
	user, userErr := ids.Parse[Participant](text[ids.Len : 2*ids.Len])
	if idErr != nil || userErr != nil {
		return GuestCaller{}, accounts.ErrToken
	}
	m, err := s.guest(ctx, id, user)
	if err == nil && subtle.ConstantTimeCompare([]byte(m.Secret), []byte(hashed(token))) != 1 {
		err = accounts.ErrToken
	}
	if err != nil {
		return GuestCaller{}, err
	}
	return GuestCaller{user, id, sqldb.Time(m.Expires)}, nil
}

// Continues returns the guest's present state, or accounts.ErrToken if the guest is no longer in the room.
func (s *Service) Continues(ctx context.Context, v GuestCaller) (_ GuestCaller, err error) {
	defer errs.Wrap(&err, "rooms.Continues")
	_, err = s.guest(ctx, v.Room, v.User)
	return v, err
}

// guest returns the membership of a guest in a room that is not closed. It returns accounts.ErrToken if there is
// none.
func (s *Service) guest(ctx context.Context, id ID, user ParticipantID) (Member, error) {
	_, m, err := s.roomAndMember(ctx, id, user)
	if errors.Is(err, ErrRoom) || err == nil && m.Role != Guest {
		return Member{}, accounts.ErrToken
	}
	return m, err
}

// Leave removes the caller from a room. It returns ErrRoom or ErrOwner.
func (s *Service) Leave(ctx context.Context, user ParticipantID, id ID) (err error) {
	defer errs.Wrap(&err, "rooms.Leave %s", id)
	_, err = s.change(ctx, id, user, leave, s.memberTargets(id, user), func(ctx context.Context, tx *sqldb.Tx, d *changeSet) error {
		return d.removeMember(ctx, tx, d.me, api.RoomLeft)
	})
	return err
}

// removeMember removes a member from a locked room. It deletes the member's links, and stores a user's restrictions for
// a later return.
func (d *changeSet) removeMember(ctx context.Context, tx *sqldb.Tx, m Member, reason string) error {
	if err := links.DeleteOf(ctx, tx, d.room.ID, accounts.ID(m.User)); err != nil {
		return err
	}
	if m.Role != Guest {
		if err := storeRestrictions(ctx, tx, d.room.ID, m); err != nil {
			return err
		}
	}
	return d.removeMembers(ctx, tx, reason, m.User)
}

// changeMember runs fn on another member, who must have a lower role. It returns ErrMember or ErrRank.
func (s *Service) changeMember(ctx context.Context, user ParticipantID, id ID, other ParticipantID, v verb, e cache.Event[MemberKey],
	fn func(ctx context.Context, tx *sqldb.Tx, d *changeSet, other Member) error) error {
	_, err := s.change(ctx, id, user, v, e.Of(s.caches.Runtime, MemberKey{A: id, B: other}),
		func(ctx context.Context, tx *sqldb.Tx, d *changeSet) error {
			m, err := selectMember(ctx, tx, id, other)
			if err == nil {
				err = d.me.Role.checkAbove(m.Role)
			}
			if err != nil {
				return err
			}
			return fn(ctx, tx, d, m)
		})
	return err
}

// Kick removes another member. A user may join again. It returns ErrRoom, ErrMember, ErrMay or ErrRank.
func (s *Service) Kick(ctx context.Context, user ParticipantID, id ID, other ParticipantID) (err error) {
	defer errs.Wrap(&err, "rooms.Kick %s", id)
	return s.changeMember(ctx, user, id, other, moderate, MemberKicked, func(ctx context.Context, tx *sqldb.Tx, d *changeSet, m Member) error {
		return d.removeMember(ctx, tx, m, api.RoomKicked)
	})
}

// MemberUpdate has the changes of a member. A nil field changes nothing.
type MemberUpdate struct {
	Role       *Role       // Ordinary or Admin
	May        *Permission // replaces the permissions of the role
	MutedUntil *time.Time
}

// verbs returns the verbs that an update needs.
func (u MemberUpdate) verbs() (all []verb) {
	if u.Role != nil {
		all = append(all, appoint)
	}
	if u.May != nil {
		all = append(all, permit)
	}
	if u.MutedUntil != nil || len(all) == 0 {
		all = append(all, moderate)
	}
	return all
}

// SetMember updates another member and returns the result. It returns ErrRoom, ErrMember, ErrMay, ErrRank, ErrGuest,
// ErrAdmin or ErrUntil.
func (s *Service) SetMember(ctx context.Context, user ParticipantID, id ID, other ParticipantID,
	u MemberUpdate) (r Room, m Member, err error) {
	defer errs.Wrap(&err, "rooms.SetMember %s", id)
	verbs := u.verbs()
	err = s.changeMember(ctx, user, id, other, verbs[0], PermissionsChanged,
		func(ctx context.Context, tx *sqldb.Tx, d *changeSet, before Member) error {
			for _, v := range verbs[1:] {
				if err := d.me.mayDo(v, d.room, d.at); err != nil {
					return err
				}
			}
			r, m = d.room, before
			if u.Role != nil && m.Role == Guest {
				return ErrGuest
			}
			if aggregate.Set(&m.Role, u.Role); m.Role != before.Role {
				m.More, m.Less = 0, 0
			}
			if u.May != nil {
				switch {
				case *u.May&^d.me.may(d.room) != 0: // members cannot grant permissions that they lack
					return ErrMay
				case m.Role == Guest && *u.May&^forGuests != 0:
					return ErrGuest.On("body.may", "may contain only chat and danmaku for a guest")
				case m.Role == Admin && *u.May != everything:
					return ErrAdmin
				}
				m.permit(d.room, *u.May)
			}
			if u.MutedUntil != nil {
				var err error
				if m.MutedUntil, err = membership.MuteEnd(*u.MutedUntil, d.at, ErrUntil); err != nil {
					return err
				}
			}
			if m == before {
				return nil
			}
			d.addEvent(api.EventRoomMember, m)
			return updateMember(ctx, tx, id, m)
		})
	return r, m, err
}

// permit gives a member exactly the permissions p in this room.
func (m *Member) permit(r Room, p Permission) {
	m.More, m.Less = 0, 0
	base := m.may(r)
	m.More, m.Less = p&^base, base&^p
}

// Members returns at most limit members of a room after the cursor, higher roles first. It returns ErrRoom or
// ErrCursor.
func (s *Service) Members(ctx context.Context, user ParticipantID, id ID, after string,
	limit int) (_ []Member, next string, r Room, err error) {
	defer errs.Wrap(&err, "rooms.Members %s", id)
	from, err := cursor.ParsePlace(after, cursor.Place{Primary: int64(Owner) + 1}, ErrCursor)
	if err != nil {
		return nil, "", Room{}, err
	}
	if r, _, err = s.roomAndMember(ctx, id, user); err != nil {
		return nil, "", Room{}, err
	}
	list, err := pageMembers(ctx, s.db, id, from, limit+1)
	list, next = cursor.Page(list, limit, func(m Member) cursor.Place {
		return cursor.Place{Primary: int64(m.Role), Secondary: m.Joined, ID: m.User.String()}
	})
	return list, next, r, asKind(ctx, err)
}

// Ban bans a user, and removes the user if present. A guest is only removed: the room's settings decide whether guests
// may join. It returns ErrRoom, ErrMay, ErrRank, ErrSelf or accounts.ErrNoUser.
func (s *Service) Ban(ctx context.Context, user ParticipantID, id ID, other ParticipantID) (err error) {
	defer errs.Wrap(&err, "rooms.Ban %s", id)
	_, err = s.change(ctx, id, user, moderate, s.memberTargets(id, other), func(ctx context.Context, tx *sqldb.Tx, d *changeSet) error {
		if other == user {
			return ErrSelf
		}
		m, err := selectMember(ctx, tx, id, other)
		switch {
		case err == nil:
			if err := d.me.Role.checkAbove(m.Role); err != nil {
				return err
			}
			if err := d.removeMember(ctx, tx, m, api.RoomBanned); err != nil || m.Role == Guest {
				return err
			}
		case !errors.Is(err, ErrMember):
			return err
		default:
			if err := checkAccount(ctx, tx, accounts.ID(other)); err != nil {
				return err
			}
		}
		return bans.Add(ctx, tx, id, Ban{User: accounts.ID(other), By: accounts.ID(user), At: d.at.UnixMilli()})
	})
	return err
}

// Unban deletes a ban. It returns ErrRoom, ErrMay or ErrNoBan.
func (s *Service) Unban(ctx context.Context, user ParticipantID, id ID, other ParticipantID) (err error) {
	defer errs.Wrap(&err, "rooms.Unban %s", id)
	_, err = s.change(ctx, id, user, moderate, nil, func(ctx context.Context, tx *sqldb.Tx, _ *changeSet) error {
		return bans.Delete(ctx, tx, id, accounts.ID(other))
	})
	return err
}

// Bans returns a page of a room's bans, the latest first. It returns ErrRoom, ErrMay or ErrCursor.
func (s *Service) Bans(ctx context.Context, user ParticipantID, id ID, after string, limit int) (_ []Ban, next string, err error) {
	defer errs.Wrap(&err, "rooms.Bans %s", id)
	from, err := cursor.ParsePlace(after, membership.FirstBan, ErrCursor)
	if err == nil {
		err = s.may(ctx, user, id, moderate)
	}
	if err != nil {
		return nil, "", err
	}
	list, next, err := bans.List(ctx, s.db, id, from, limit)
	return list, next, asKind(ctx, err)
}

var bans = membership.Bans[Room]{Table: "room_bans", Column: "room_id", ErrNoBan: ErrNoBan}

// maxOwnLinks is the largest number of open links of a member without the moderate permission.
const maxOwnLinks = 10

var links = membership.Links[Room]{Table: "room_links", Column: "room_id", ErrLink: ErrLink, ErrLinks: ErrLinks, ErrMay: ErrMay}

// inviters returns the members among users who may invite.
func (r Room) inviters(ctx context.Context, q sqldb.Querier, users []accounts.ID) ([]accounts.ID, error) {
	keys := make([]MemberKey, len(users))
	for i, u := range users {
		keys[i] = MemberKey{A: r.ID, B: ParticipantID(u)}
	}
	members, err := membersAt(ctx, q, keys)
	return slices.DeleteFunc(users, func(u accounts.ID) bool {
		return members[MemberKey{A: r.ID, B: ParticipantID(u)}].mayDo(invite, r, q.Now()) != nil
	}), err
}

// NewLink creates a link that expires after life. maxUses is the largest number of its uses, or 0 for no limit. The
// caller chooses the link's id, as in [Service.Create]. It returns ErrRoom, ErrMay or ErrLinks.
func (s *Service) NewLink(ctx context.Context, user ParticipantID, id ID, link LinkID, life time.Duration,
	maxUses int) (l Link, err error) {
	defer errs.Wrap(&err, "rooms.NewLink %s", id)
	_, err = s.change(ctx, id, user, invite, nil, func(ctx context.Context, tx *sqldb.Tx, d *changeSet) (err error) {
		maxOwn := maxOwnLinks
		if d.me.may(d.room)&Moderate != 0 {
			maxOwn = membership.MaxLinks
		}
		l = Link{ID: link, Parent: id, By: accounts.ID(user), MaxUses: maxUses}
		l, err = links.Create(ctx, tx, l, life, maxOwn, d.room.inviters)
		return err
	})
	return l, err
}

// Links returns a room's open links: all of them to a member who may moderate, and the caller's own to other members.
// It returns ErrRoom.
func (s *Service) Links(ctx context.Context, user ParticipantID, id ID) (_ []Link, err error) {
	defer errs.Wrap(&err, "rooms.Links %s", id)
	r, m, err := s.roomAndMember(ctx, id, user)
	if err != nil {
		return nil, err
	}
	all, err := links.Open(ctx, s.db, id, r.inviters)
	return slices.DeleteFunc(all, func(l Link) bool { return m.may(r)&Moderate == 0 && l.By != accounts.ID(user) }), asKind(ctx, err)
}

// Revoke revokes a link. Members may revoke their own links; members who may moderate may revoke all. It returns
// ErrRoom, ErrLink or ErrMay.
func (s *Service) Revoke(ctx context.Context, user ParticipantID, id ID, link LinkID) (err error) {
	defer errs.Wrap(&err, "rooms.Revoke %s", id)
	_, err = s.change(ctx, id, user, view, nil, func(ctx context.Context, tx *sqldb.Tx, d *changeSet) error {
		return links.Revoke(ctx, tx, id, link, accounts.ID(user), d.me.may(d.room)&Moderate != 0)
	})
	return err
}

// RoomOfLink returns the room of a link, or ErrLink.
func (s *Service) RoomOfLink(ctx context.Context, link LinkID) (_ Room, err error) {
	defer errs.Wrap(&err, "rooms.RoomOfLink")
	l, err := links.Get(ctx, s.db, link)
	if err != nil {
		return Room{}, asKind(ctx, err)
	}
	r, err := s.room(ctx, l.Parent)
	if errors.Is(err, ErrRoom) {
		err = ErrLink
	}
	if err == nil {
		err = links.Check(ctx, s.db, l, r.inviters)
	}
	return r, asKind(ctx, err)
}

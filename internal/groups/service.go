package groups

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/aggregate"
	"github.com/stoa-dev/stoa/internal/base/cursor"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/words"
	"github.com/stoa-dev/stoa/internal/config"
	"github.com/stoa-dev/stoa/internal/membership"
	"github.com/stoa-dev/stoa/internal/notices"
	"github.com/stoa-dev/stoa/internal/picture"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/webhooks"
	"github.com/stoa-dev/stoa/lib/cache"
)

// People is the part of accounts that this domain uses; *accounts.Service implements it.
type People interface {
	// Profiles returns the profiles of the users in ids that exist or existed.
	Profiles(ctx context.Context, ids []accounts.ID) (accounts.Profiles, error)
	// ProfilesOrNone is Profiles for events of a committed change. It returns none if they cannot be read.
	ProfilesOrNone(ctx context.Context, ids ...accounts.ID) accounts.Profiles
}

// Friends is the part of social that this domain uses; *social.Service implements it.
type Friends interface {
	AreFriends(ctx context.Context, user accounts.ID, others []accounts.ID) (map[accounts.ID]bool, error)

	// Remarks returns the user's remarks for those of others who are friends and have one.
	Remarks(ctx context.Context, user accounts.ID, others []accounts.ID) (map[accounts.ID]string, error)
}

// Config has the dependencies and settings of a Service.
type Config struct {
	DB      *sqldb.DB
	Caches  *cache.Runtime
	Cache   cache.Policy // of copies; this domain sets Unfenced
	Bus     *events.Bus  // receives the events, after the commit
	People  People
	Friends Friends
	Studio  *picture.Studio   // encodes pictures of groups; nil: a new one
	Hooks   *webhooks.Service // after-hooks of each change of a group; nil: none
	Log     *slog.Logger
	// Notices stores the notices of new and former members, and those of requests to join. Nil: users get events only.
	Notices *notices.Service

	Settings
}

// Service implements groups. It is safe for concurrent use.
type Service struct {
	db       *sqldb.DB
	caches   *aggregate.Caches
	copies   copies
	bus      *events.Bus
	people   People
	friends  Friends
	notices  *notices.Service
	studio   *picture.Studio
	follower Follower // nil: none
	hooks    *webhooks.Service
	cfg      Settings
	log      *slog.Logger
}

// New returns a Service. The error has all faults of the settings.
func New(cfg Config) (*Service, error) {
	config.Defaults(&cfg.Settings)
	if err := cfg.Settings.Validate(); err != nil {
		return nil, fmt.Errorf("groups: %w", err)
	}
	if cfg.Studio == nil {
		cfg.Studio = picture.New(0)
	}
	return &Service{db: cfg.DB, caches: aggregate.New(cfg.DB, cfg.Caches), copies: newCopies(cfg.DB, cfg.Caches, cfg.Cache), bus: cfg.Bus,
		people: cfg.People, friends: cfg.Friends, notices: cfg.Notices, studio: cfg.Studio, hooks: cfg.Hooks, cfg: cfg.Settings,
		log: cfg.Log}, nil
}

// leaver is a former member, with the reason for leaving.
type leaver struct {
	user   accounts.ID
	reason string
	role   Role // before
}

// A changeSet has the changes of a group in one transaction, under the group's lock. Cache updates and events after the
// commit are computed from it.
type changeSet struct {
	at            time.Time
	by            accounts.ID                // the user who changes the group
	byBackend     bool                       // the backend changes it, in the owner's name
	silent        bool                       // the chat gets no system message
	before        Group                      // the group before the change; zero for a new one
	membersBefore map[accounts.ID]Membership // changed members, before
	group         Group
	joined        []Membership
	changed       []Membership // with changes that all members see
	left          []leaver
	own           *Membership // with changes that only the member sees
	opened        *Request
	closed        []Request
}

// withNextVersion increases the group's version, and returns m with it.
func (d *changeSet) withNextVersion(m Membership) Membership {
	d.group.Version++
	m.version = d.group.Version
	return m
}

// change runs fn in a transaction under the lock of a group, for a member whose role allows verbs. Then it writes the
// group, updates the copies, publishes the changes and returns the group. It returns ErrGroup if the group does not
// exist or the user is not a member. If the role does not allow a verb, it returns ErrMay or ErrOwner.
func (s *Service) change(ctx context.Context, id ID, user accounts.ID, verbs []verb,
	fn func(ctx context.Context, tx *sqldb.Tx, d *changeSet, me Membership) error) (Group, error) {
	return s.changeUnchecked(ctx, id, user, func(ctx context.Context, tx *sqldb.Tx, d *changeSet) error {
		me, err := selectMember(ctx, tx, id, user)
		if errors.Is(err, ErrMember) {
			return ErrGroup
		}
		for _, v := range verbs {
			err = cmp.Or(err, me.Role.may(v, d.group))
		}
		if err != nil {
			return err
		}
		return fn(ctx, tx, d, me)
	})
}

// changeUnchecked is [Service.change] for users who need not be members.
func (s *Service) changeUnchecked(ctx context.Context, id ID, user accounts.ID,
	fn func(ctx context.Context, tx *sqldb.Tx, d *changeSet) error) (Group, error) {
	var d changeSet
	err := s.withFollower(ctx, id, func(ctx context.Context, record Record) error {
		return s.caches.Change(ctx, s.copies.targets(id, &d), func(ctx context.Context, tx *sqldb.Tx) (err error) {
			d = changeSet{at: tx.Now(), by: user} // a transaction may run again
			if d.group, err = selectGroup(ctx, tx, id, tx.Dialect().ForUpdate()); err != nil {
				return err
			}
			d.before = d.group
			if err := fn(ctx, tx, &d); err != nil {
				return err
			}
			return s.finish(ctx, tx, &d, record)
		})
	})
	if err != nil {
		return Group{}, asKind(ctx, err)
	}
	s.publish(ctx, &d)
	return d.group, nil
}

// finish ends a transaction with the changes d. It records them for the follower, the webhooks and the notices, and
// writes the group.
func (s *Service) finish(ctx context.Context, tx *sqldb.Tx, d *changeSet, record Record) error {
	if d.group == d.before {
		return s.recordNotices(ctx, tx, d)
	}
	if !d.touched() {
		d.group.Version++ // the change concerns only the group itself
	}
	if c := d.difference(); !c.empty() {
		if err := record(ctx, tx, c); err != nil {
			return err
		}
	}
	if err := s.enqueueHooks(ctx, tx, d); err != nil {
		return err
	}
	if err := updateGroup(ctx, tx, d.group); err != nil {
		return err
	}
	return s.recordNotices(ctx, tx, d)
}

// admit adds users who are not members to a locked group, and closes their requests. A former member who was muted is
// still muted. It returns ErrFull, ErrGroups or accounts.ErrNoUser.
func (s *Service) admit(ctx context.Context, tx *sqldb.Tx, d *changeSet, inviter accounts.ID, role Role, users ...accounts.ID) error {
	if d.group.Members+len(users) > s.cfg.Members {
		return ErrFull
	}
	for chunk := range slices.Chunk(users, admitBatch) {
		if err := s.admitChunk(ctx, tx, d, inviter, role, chunk); err != nil {
			return err
		}
	}
	return nil
}

// admitBatch is the number of users that one statement names.
const admitBatch = 500

func (s *Service) admitChunk(ctx context.Context, tx *sqldb.Tx, d *changeSet, inviter accounts.ID, role Role, users []accounts.ID) error {
	standings, err := accounts.Standings(ctx, tx, users...)
	if err != nil {
		return err
	}
	groupCounts, err := countGroups(ctx, tx, users)
	if err != nil {
		return err
	}
	former, err := selectFormer(ctx, tx, d.group.ID, users)
	if err != nil {
		return err
	}
	requests, err := unclosedRequests(ctx, tx, d.group.ID, users)
	if err != nil {
		return err
	}
	for _, r := range requests {
		if err := d.close(ctx, tx, r, Withdrawn); err != nil {
			return err
		}
	}
	now := d.at.UnixMilli()
	list := make([]Membership, len(users))
	for i, u := range users {
		if standing, ok := standings[u]; !ok || standing.Deleted {
			return accounts.ErrNoUser
		}
		if groupCounts[u] >= s.cfg.Groups { // counted without a lock: a concurrent change may add the user to one more group
			return ErrGroups
		}
		muted := former[u].MutedUntil
		if muted <= now {
			muted = 0
		}
		list[i] = d.withNextVersion(Membership{User: u, Role: role, MutedUntil: muted, Joined: now, Inviter: inviter,
			// now, because the former row, and its version, may be gone
			own: own{Seen: d.group.Announced, ownVersion: max(former[u].ownVersion+1, now)}})
	}
	d.group.Members += len(list)
	d.joined = append(d.joined, list...)
	return insertMembers(ctx, tx, d.group.ID, list)
}

// removeMember removes a member from a locked group, and deletes the member's links.
func (d *changeSet) removeMember(ctx context.Context, tx *sqldb.Tx, m Membership, reason string) error {
	d.left = append(d.left, leaver{m.User, reason, m.Role})
	m = d.withNextVersion(Membership{User: m.User, MutedUntil: m.MutedUntil, Joined: m.Joined, own: own{ownVersion: m.ownVersion},
		gone: d.at.UnixMilli()})
	d.group.Members--
	if err := links.DeleteOf(ctx, tx, d.group.ID, m.User); err != nil {
		return err
	}
	return updateMember(ctx, tx, d.group.ID, m)
}

// updateMember writes changes of a member that are visible to all members.
func (d *changeSet) updateMember(ctx context.Context, tx *sqldb.Tx, before, m Membership) error {
	if m = d.withNextVersion(m); d.membersBefore == nil {
		d.membersBefore = map[accounts.ID]Membership{}
	}
	d.membersBefore[m.User] = before
	d.changed = append(d.changed, m)
	return updateMember(ctx, tx, d.group.ID, m)
}

// close ends a pending request.
func (d *changeSet) close(ctx context.Context, tx *sqldb.Tx, r Request, state State) error {
	r.State = state
	d.closed = append(d.closed, r)
	return closeRequest(ctx, tx, r.ID, state)
}

// Create creates a group of a user and friends. The caller chooses the id and uses it again for each retry of a
// request: Create then returns the group of the earlier try as it is now. It returns ErrGroup if the earlier try's
// group is dissolved or the user is no longer a member of it. The other errors are ErrText, ErrNotFriend, ErrFull,
// ErrGroups and accounts.ErrNoUser.
func (s *Service) Create(ctx context.Context, owner accounts.ID, id ID, name string,
	members []accounts.ID) (_ Group, _ Membership, err error) {
	defer errs.Wrap(&err, "groups.Create %s", owner)
	if name, err = line("body.name", name, 1, 60); err != nil {
		return Group{}, Membership{}, err
	}
	members = others(owner, members)
	if err := s.areFriends(ctx, owner, members); err != nil {
		return Group{}, Membership{}, err
	}
	return s.create(ctx, owner, id, name, members, false)
}

// create creates a group, after the checks of Create or CreateFor.
func (s *Service) create(ctx context.Context, owner accounts.ID, id ID, name string, members []accounts.ID,
	byBackend bool) (g Group, me Membership, err error) {
	var d changeSet
	var exists bool // an earlier try has created the group
	err = s.withFollower(ctx, id, func(ctx context.Context, record Record) error {
		return s.caches.Change(ctx, s.copies.targets(id, &d), func(ctx context.Context, tx *sqldb.Tx) error {
			d = changeSet{at: tx.Now(), by: owner, byBackend: byBackend, group: Group{ID: id, Name: name, Created: tx.Now().UnixMilli()}}
			err := insertGroup(ctx, tx, d.group) // first, so that two tries conflict here
			if exists = sqldb.IsDuplicate(err); exists {
				g, me, err = selectEarlier(ctx, tx, id, owner)
			}
			if exists || err != nil {
				return err
			}
			if err := s.admit(ctx, tx, &d, accounts.ID{}, Owner, owner); err != nil {
				return err
			}
			if err := s.admit(ctx, tx, &d, owner, Member, members...); err != nil {
				return err
			}
			return s.finish(ctx, tx, &d, record)
		})
	})
	switch {
	case err != nil:
		return Group{}, Membership{}, asKind(ctx, err)
	case exists:
		return g, me, nil
	}
	s.publish(ctx, &d)
	return d.group, d.joined[0], nil
}

// selectEarlier returns the group that an earlier try has created, and the user's membership. It returns ErrGroup.
func selectEarlier(ctx context.Context, tx *sqldb.Tx, id ID, user accounts.ID) (g Group, me Membership, err error) {
	if g, err = selectGroup(ctx, tx, id, tx.Dialect().ForUpdate()); err != nil {
		return g, me, err
	}
	if me, err = selectMember(ctx, tx, id, user); errors.Is(err, ErrMember) {
		err = ErrGroup
	}
	return g, me, err
}

// others returns users without user and without duplicates.
func others(user accounts.ID, users []accounts.ID) []accounts.ID {
	users = slices.SortedFunc(slices.Values(users), accounts.ID.Compare)
	return slices.DeleteFunc(slices.Compact(users), func(u accounts.ID) bool { return u == user })
}

// areFriends returns ErrNotFriend if one of users is not a friend of user.
func (s *Service) areFriends(ctx context.Context, user accounts.ID, users []accounts.ID) error {
	if len(users) == 0 {
		return nil
	}
	found, err := s.friends.AreFriends(ctx, user, users)
	if err != nil {
		return asKind(ctx, err)
	}
	for _, u := range users {
		if !found[u] {
			return ErrNotFriend
		}
	}
	return nil
}

// Group returns a group and the user's membership, which is nil unless the user is a member. It returns ErrGroup if the
// user is not a member and the group admits only invited users.
func (s *Service) Group(ctx context.Context, user accounts.ID, id ID) (_ Group, me *Membership, err error) {
	defer errs.Wrap(&err, "groups.Group %s", id)
	g, err := selectGroup(ctx, s.db, id, "")
	if err != nil {
		return Group{}, nil, asKind(ctx, err)
	}
	m, err := selectMember(ctx, s.db, id, user)
	switch {
	case err == nil:
		return g, &m, nil
	case !errors.Is(err, ErrMember):
		return Group{}, nil, asKind(ctx, err)
	case g.Joins == Invited:
		return Group{}, nil, ErrGroup
	}
	g.Announcement, g.Announced = "", 0
	return g, nil, nil
}

// Groups returns all groups of a user, and the user's membership in each. The group that the user joined last is first.
func (s *Service) Groups(ctx context.Context, user accounts.ID) (_ []Group, mine []Membership, err error) {
	defer errs.Wrap(&err, "groups.Groups %s", user)
	list, mine, err := groupsOf(ctx, s.db, user)
	return list, mine, asKind(ctx, err)
}

// groupAndMember returns a group and the user's membership. It returns ErrGroup if the user is not a member.
func (s *Service) groupAndMember(ctx context.Context, user accounts.ID, id ID) (Group, Membership, error) {
	g, me, err := s.Group(ctx, user, id)
	if err == nil && me == nil {
		err = ErrGroup
	}
	if err != nil {
		return Group{}, Membership{}, err
	}
	return g, *me, nil
}

// Members returns up to limit members after the cursor, higher roles first, and the group as it was before the read.
// The page may lack later changes; [Service.Changes] since the group's version returns them. It returns ErrGroup or
// ErrCursor.
func (s *Service) Members(ctx context.Context, user accounts.ID, id ID, after string,
	limit int) (_ []Membership, next string, _ Group, err error) {
	defer errs.Wrap(&err, "groups.Members %s", id)
	from, err := cursor.ParsePlace(after, firstMember, ErrCursor)
	if err != nil {
		return nil, "", Group{}, err
	}
	g, _, err := s.groupAndMember(ctx, user, id)
	if err != nil {
		return nil, "", Group{}, err
	}
	list, err := pageMembers(ctx, s.db, id, from, limit+1)
	list, next = cursor.Page(list, limit, Membership.place)
	return list, next, g, asKind(ctx, err)
}

func (m Membership) place() cursor.Place {
	return cursor.Place{Primary: int64(m.Role), Secondary: m.Joined, ID: m.User.String()}
}

// ChangePage is a page of the changes of a group.
type ChangePage struct {
	Group   Group // as it is now
	Changed []Membership
	Removed []accounts.ID
	Version int64 // the version of the last change
	More    bool
	Reset   bool // older changes are deleted: read the whole list
}

// Changes returns up to limit changes of a group since a version. Each member appears once, with the last change. It
// returns ErrGroup.
func (s *Service) Changes(ctx context.Context, user accounts.ID, id ID, since int64, limit int) (c ChangePage, err error) {
	defer errs.Wrap(&err, "groups.Changes %s", id)
	g, err := selectGroup(ctx, s.db, id, "") // before: the rows have all changes up to its version
	if err != nil {
		return ChangePage{}, asKind(ctx, err)
	}
	list, err := changedMembers(ctx, s.db, id, since, limit+1)
	if err != nil {
		return ChangePage{}, asKind(ctx, err)
	}
	// Read after the rows, so that now.pruned includes rows that were pruned in the meantime.
	now, _, err := s.groupAndMember(ctx, user, id)
	if err != nil {
		return ChangePage{}, err
	}
	c = ChangePage{Group: g, Version: g.Version}
	if since > 0 && since < now.pruned || since > now.Version { // or the database was restored
		c.Reset = true
		return c, nil
	}
	if c.More = len(list) > limit; c.More {
		list = list[:limit]
		c.Version = list[limit-1].version
	}
	for _, m := range list {
		switch {
		case m.version > c.Version: // committed after the group was read: the next page has it
		case m.gone != 0:
			c.Removed = append(c.Removed, m.User)
		default:
			c.Changed = append(c.Changed, m)
		}
	}
	return c, nil
}

// Update has the new values of a group; nil changes nothing.
type Update struct {
	Name         *string
	Announcement *string
	Joins        *Joins
	Question     *string
	AdminsInvite *bool
	MutedUntil   *time.Time
}

// verbs returns the verbs that an update needs.
func (u Update) verbs() (all []verb) {
	for v, needed := range map[verb]bool{describe: u.Name != nil, announce: u.Announcement != nil, muteAll: u.MutedUntil != nil,
		configure: u.Joins != nil || u.Question != nil || u.AdminsInvite != nil} {
		if needed {
			all = append(all, v)
		}
	}
	return all
}

// clean returns u with its texts in their stored form. It returns ErrText.
func (u Update) clean() (Update, error) {
	for _, t := range []struct {
		text   **string
		name   string
		minLen int
		maxLen int
	}{{&u.Name, "name", 1, 60}, {&u.Question, "question", 0, 200}} {
		if *t.text == nil {
			continue
		}
		s, err := line("body."+t.name, **t.text, t.minLen, t.maxLen)
		if err != nil {
			return Update{}, err
		}
		*t.text = &s
	}
	if u.Announcement != nil {
		text, ok := words.Text(*u.Announcement, 2000)
		if !ok {
			return Update{}, ErrText.On("body.announcement", "is not at most 2,000 printable characters")
		}
		u.Announcement = &text
	}
	return u, nil
}

// on returns g with the update applied. It returns ErrUntil.
func (u Update) on(g Group, now time.Time) (Group, error) {
	aggregate.Set(&g.Name, u.Name)
	aggregate.Set(&g.Joins, u.Joins)
	aggregate.Set(&g.Question, u.Question)
	aggregate.Set(&g.AdminsInvite, u.AdminsInvite)
	if u.Announcement != nil && *u.Announcement != g.Announcement {
		g.Announcement = *u.Announcement
		g.Announced++
	}
	if u.MutedUntil == nil {
		return g, nil
	}
	var err error
	g.MutedUntil, err = membership.MuteEnd(*u.MutedUntil, now, ErrUntil)
	return g, err
}

// Update updates a group and returns it with the user's membership. It returns ErrGroup, ErrMay, ErrText or ErrUntil.
func (s *Service) Update(ctx context.Context, user accounts.ID, id ID, u Update) (_ Group, me Membership, err error) {
	defer errs.Wrap(&err, "groups.Update %s", id)
	if u, err = u.clean(); err != nil {
		return Group{}, Membership{}, err
	}
	g, err := s.change(ctx, id, user, u.verbs(), func(ctx context.Context, tx *sqldb.Tx, d *changeSet, m Membership) error {
		before := d.group.Announced
		var err error
		if d.group, err = u.on(d.group, d.at); err != nil {
			return err
		}
		if me = m; d.group.Announced == before {
			return nil
		}
		me.Seen = d.group.Announced // the writer has seen it
		me.ownVersion++
		d.own = &me
		return updateOwn(ctx, tx, id, me)
	})
	return g, me, err
}

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
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/words"
	"github.com/stoa-dev/stoa/internal/config"
	"github.com/stoa-dev/stoa/internal/notices"
	"github.com/stoa-dev/stoa/internal/picture"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/webhooks"
	"github.com/stoa-dev/stoa/lib/cache"
)

// People is what this domain asks accounts for; *accounts.Service is one.
type People interface {
	// Profiles returns how those of ids look to others that exist or existed.
	Profiles(ctx context.Context, ids []accounts.ID) (accounts.Profiles, error)
	// ProfilesOrNone is Profiles for what tells of a change that is made: none, where they cannot be read.
	ProfilesOrNone(ctx context.Context, ids ...accounts.ID) accounts.Profiles
}

// Friends is what this domain asks social for; *social.Service is one.
type Friends interface {
	AreFriends(ctx context.Context, user accounts.ID, others []accounts.ID) (map[accounts.ID]bool, error)

	// Remarks returns what a user calls those of others who are friends of theirs and have a remark.
	Remarks(ctx context.Context, user accounts.ID, others []accounts.ID) (map[accounts.ID]string, error)
}

// Config has what the domain stands on.
type Config struct {
	DB      *sqldb.DB
	Caches  *cache.Runtime
	Cache   cache.Policy // of copies; Unfenced is this domain's to choose
	Bus     *events.Bus  // gets the events, after the commit
	People  People
	Friends Friends
	Studio  *picture.Studio   // makes pictures of groups; nil: one of its own
	Hooks   *webhooks.Service // told of every change of a group; nil: nobody is
	Log     *slog.Logger
	// Notices has what users are told who may see nothing of the group. Nil: they are told by events alone.
	Notices *notices.Service

	Settings
}

// Service is the domain as the rest of the program sees it. It is safe for concurrent use.
type Service struct {
	db       *sqldb.DB
	caches   *aggregate.Caches
	copies   copies
	bus      *events.Bus
	people   People
	friends  Friends
	notices  *notices.Service
	studio   *picture.Studio
	follower Follower // nil: nobody
	hooks    *webhooks.Service
	cfg      Settings
	log      *slog.Logger
}

// New returns the domain on those parts. The error has all faults of the settings.
func New(cfg Config) (*Service, error) {
	config.Defaults(&cfg.Settings)
	if err := cfg.Settings.Validate(); err != nil {
		return nil, fmt.Errorf("groups: %w", err)
	}
	if cfg.Studio == nil {
		cfg.Studio = picture.New(0)
	}
	return &Service{db: cfg.DB, caches: aggregate.New(cfg.DB, cfg.Caches), copies: newCopies(cfg.DB, cfg.Caches, cfg.Cache), bus: cfg.Bus,
		people: cfg.People, friends: cfg.Friends, notices: cfg.Notices, studio: cfg.Studio, hooks: cfg.Hooks, cfg: cfg.Settings, log: cfg.Log}, nil
}

// leaver is a user who was in a group, and why not any more.
type leaver struct {
	user accounts.ID
	why  string
	role Role // before
}

// A changeSet is what one transaction has changed of a group. What follows the commit, the
// copies in Redis and the events, is derived from it.
type changeSet struct {
	at        time.Time
	by        accounts.ID                // who does it
	app       bool                       // it is the app's own backend that does it, in the owner's name
	silent    bool                       // the chat tells nobody
	was       Group                      // before; zero for a new one
	wasMember map[accounts.ID]Membership // changed, before
	group     Group
	joined    []Membership
	changed   []Membership // what all members see of them
	left      []leaver
	own       *Membership // what only the member sees
	opened    *Request
	closed    []Request
}

// write gives a member's row the next version.
func (d *changeSet) write(m Membership) Membership {
	d.group.Version++
	m.version = d.group.Version
	return m
}

// change runs fn in a transaction, under the lock of a group, as one of its members whose role
// allows verbs; then it writes the group, brings the copies up to date, publishes what has happened
// and returns the group. ErrGroup: there is no such group, or the user is not in it. ErrMay, ErrOwner.
func (s *Service) change(ctx context.Context, id ID, user accounts.ID, verbs []verb, fn func(ctx context.Context, tx *sqldb.Tx, d *changeSet, me Membership) error) (Group, error) {
	return s.enter(ctx, id, user, func(ctx context.Context, tx *sqldb.Tx, d *changeSet) error {
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

// enter is [Service.change] for users who may be no members.
func (s *Service) enter(ctx context.Context, id ID, user accounts.ID, fn func(ctx context.Context, tx *sqldb.Tx, d *changeSet) error) (Group, error) {
	var d changeSet
	err := s.around(ctx, id, func(ctx context.Context, record Record) error {
		return s.caches.Change(ctx, s.copies.targets(id, &d), func(ctx context.Context, tx *sqldb.Tx) (err error) {
			d = changeSet{at: tx.Now(), by: user} // a transaction may be run again
			if d.group, err = selectGroup(ctx, tx, id, tx.Dialect().ForUpdate()); err != nil {
				return err
			}
			d.was = d.group
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

// finish ends a transaction that has made d: it tells the follower, the app's own backend and users of it, and writes the group.
func (s *Service) finish(ctx context.Context, tx *sqldb.Tx, d *changeSet, record Record) error {
	if d.group == d.was {
		return s.record(ctx, tx, d)
	}
	if !d.touched() {
		d.group.Version++ // of the group itself alone
	}
	if c := d.change(); !c.empty() {
		if err := record(ctx, tx, c); err != nil {
			return err
		}
	}
	if err := s.tellHooks(ctx, tx, d); err != nil {
		return err
	}
	if err := updateGroup(ctx, tx, d.group); err != nil {
		return err
	}
	return s.record(ctx, tx, d)
}

// admit makes users members, who are none, of a group that is locked. ErrFull, ErrGroups,
// accounts.ErrNoUser. What they had asked is closed. Whoever was muted and left is muted still.
func (s *Service) admit(ctx context.Context, tx *sqldb.Tx, d *changeSet, inviter accounts.ID, role Role, users ...accounts.ID) error {
	if d.group.Members+len(users) > s.cfg.Members {
		return ErrFull
	}
	for some := range slices.Chunk(users, admitAtOnce) {
		if err := s.admitSome(ctx, tx, d, inviter, role, some); err != nil {
			return err
		}
	}
	return nil
}

// admitAtOnce is how many users one statement names.
const admitAtOnce = 500

func (s *Service) admitSome(ctx context.Context, tx *sqldb.Tx, d *changeSet, inviter accounts.ID, role Role, users []accounts.ID) error {
	who, err := accounts.Standings(ctx, tx, users...)
	if err != nil {
		return err
	}
	in, err := countGroups(ctx, tx, users)
	if err != nil {
		return err
	}
	former, err := selectFormer(ctx, tx, d.group.ID, users)
	if err != nil {
		return err
	}
	asked, err := waitingOfAll(ctx, tx, d.group.ID, users)
	if err != nil {
		return err
	}
	for _, r := range asked {
		if err := d.close(ctx, tx, r, Withdrawn); err != nil {
			return err
		}
	}
	now := d.at.UnixMilli()
	list := make([]Membership, len(users))
	for i, u := range users {
		if standing, known := who[u]; !known || standing.Deleted {
			return accounts.ErrNoUser
		}
		if in[u] >= s.cfg.Groups { // counted without a lock: at the same moment a user may come into one more
			return ErrGroups
		}
		muted := former[u].Muted
		if muted <= now {
			muted = 0
		}
		list[i] = d.write(Membership{User: u, Role: role, Muted: muted, Joined: now, Inviter: inviter,
			own: own{Seen: d.group.Announced, ownVersion: max(former[u].ownVersion+1, now)}}) // a former row may be forgotten
	}
	d.group.Members += len(list)
	d.joined = append(d.joined, list...)
	return insertMembers(ctx, tx, d.group.ID, list)
}

// take takes a member out of a group that is locked. Links that the member has made let nobody in
// any more.
func (d *changeSet) take(ctx context.Context, tx *sqldb.Tx, m Membership, why string) error {
	d.left = append(d.left, leaver{m.User, why, m.Role})
	m = d.write(Membership{User: m.User, Muted: m.Muted, Joined: m.Joined, own: own{ownVersion: m.ownVersion}, gone: d.at.UnixMilli()})
	d.group.Members--
	if err := deleteLinksOf(ctx, tx, d.group.ID, m.User); err != nil {
		return err
	}
	return updateMember(ctx, tx, d.group.ID, m)
}

// set writes what all members see of one.
func (d *changeSet) set(ctx context.Context, tx *sqldb.Tx, was, m Membership) error {
	if m = d.write(m); d.wasMember == nil {
		d.wasMember = map[accounts.ID]Membership{}
	}
	d.wasMember[m.User] = was
	d.changed = append(d.changed, m)
	return updateMember(ctx, tx, d.group.ID, m)
}

// close ends a request that waits.
func (d *changeSet) close(ctx context.Context, tx *sqldb.Tx, r Request, state State) error {
	r.State = state
	d.closed = append(d.closed, r)
	return closeRequest(ctx, tx, r.ID, state)
}

// Create makes a group of a user and friends of theirs. The id is the caller's to choose, the same for each try of one
// request: the group that an earlier try has made is returned as it is. ErrText, ErrNotFriend, ErrFull, ErrGroups,
// accounts.ErrNoUser; ErrGroup where that one is no more, or the user not in it.
func (s *Service) Create(ctx context.Context, owner accounts.ID, id ID, name string, members []accounts.ID) (_ Group, _ Membership, err error) {
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

// create is the second half of Create.
func (s *Service) create(ctx context.Context, owner accounts.ID, id ID, name string, members []accounts.ID, app bool) (g Group, me Membership, err error) {
	var d changeSet
	var made bool // by an earlier try
	err = s.around(ctx, id, func(ctx context.Context, record Record) error {
		return s.caches.Change(ctx, s.copies.targets(id, &d), func(ctx context.Context, tx *sqldb.Tx) error {
			d = changeSet{at: tx.Now(), by: owner, app: app, group: Group{ID: id, Name: name, Created: tx.Now().UnixMilli()}}
			err := insertGroup(ctx, tx, d.group) // first, so that two tries meet here
			if made = sqldb.IsDuplicate(err); made {
				g, me, err = madeBefore(ctx, tx, id, owner)
			}
			if made || err != nil {
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
	case made:
		return g, me, nil
	}
	s.publish(ctx, &d)
	return d.group, d.joined[0], nil
}

// madeBefore returns the group that an earlier try has made, and the user's place in it. ErrGroup.
func madeBefore(ctx context.Context, tx *sqldb.Tx, id ID, user accounts.ID) (g Group, me Membership, err error) {
	if g, err = selectGroup(ctx, tx, id, tx.Dialect().ForUpdate()); err != nil {
		return g, me, err
	}
	if me, err = selectMember(ctx, tx, id, user); errors.Is(err, ErrMember) {
		err = ErrGroup
	}
	return g, me, err
}

// others returns users without one of them, each once.
func others(user accounts.ID, users []accounts.ID) []accounts.ID {
	users = slices.SortedFunc(slices.Values(users), accounts.ID.Compare)
	return slices.DeleteFunc(slices.Compact(users), func(u accounts.ID) bool { return u == user })
}

// areFriends refuses users who are no friends of the user's. ErrNotFriend.
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

// Group returns a group as a user sees it, and their place in it; nil: they are not in it. ErrGroup
// unless they are, or the group lets users in who are not invited.
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

// Groups returns all groups of a user, the one joined last first, and the user's place in each.
func (s *Service) Groups(ctx context.Context, user accounts.ID) (_ []Group, mine []Membership, err error) {
	defer errs.Wrap(&err, "groups.Groups %s", user)
	list, mine, err := groupsOf(ctx, s.db, user)
	return list, mine, asKind(ctx, err)
}

// inGroup returns a group of which the user is a member. ErrGroup.
func (s *Service) inGroup(ctx context.Context, user accounts.ID, id ID) (Group, Membership, error) {
	g, me, err := s.Group(ctx, user, id)
	if err == nil && me == nil {
		err = ErrGroup
	}
	if err != nil {
		return Group{}, Membership{}, err
	}
	return g, *me, nil
}

// Members returns at most limit members, the higher roles first, from behind the cursor on, and the
// group from before they were read: [Service.Changes] from its version on brings what the page may
// have missed. ErrGroup, ErrCursor.
func (s *Service) Members(ctx context.Context, user accounts.ID, id ID, cursor string, limit int) (_ []Membership, next string, _ Group, err error) {
	defer errs.Wrap(&err, "groups.Members %s", id)
	after, err := parsePlace(cursor, firstPlace)
	if err != nil {
		return nil, "", Group{}, err
	}
	g, _, err := s.inGroup(ctx, user, id)
	if err != nil {
		return nil, "", Group{}, err
	}
	list, err := pageMembers(ctx, s.db, id, after, limit+1)
	if err != nil {
		return nil, "", Group{}, asKind(ctx, err)
	}
	if len(list) > limit {
		list = list[:limit]
		next = list[limit-1].place().cursor()
	}
	return list, next, g, nil
}

func (m Membership) place() place { return place{m.Role, m.Joined, m.User.String()} }

// Changes are what happened to a group.
type Changes struct {
	Group   Group // as it is now
	Changed []Membership
	Removed []accounts.ID
	Version int64 // up to where these go
	More    bool
	Reset   bool // the changes are not remembered any more: read the whole list
}

// Changes returns at most limit changes of a group since a version, each member once, by the last
// change. ErrGroup.
func (s *Service) Changes(ctx context.Context, user accounts.ID, id ID, since int64, limit int) (c Changes, err error) {
	defer errs.Wrap(&err, "groups.Changes %s", id)
	g, err := selectGroup(ctx, s.db, id, "") // before: the rows have all changes up to its version
	if err != nil {
		return Changes{}, asKind(ctx, err)
	}
	list, err := changedMembers(ctx, s.db, id, since, limit+1)
	if err != nil {
		return Changes{}, asKind(ctx, err)
	}
	// Afterwards: had a removal been forgotten while the rows were read, it shows.
	now, _, err := s.inGroup(ctx, user, id)
	if err != nil {
		return Changes{}, err
	}
	c = Changes{Group: g, Version: g.Version}
	if since > 0 && since < now.pruned || since > now.Version { // or the database was set back
		c.Reset = true
		return c, nil
	}
	if c.More = len(list) > limit; c.More {
		list = list[:limit]
		c.Version = list[limit-1].version
	}
	for _, m := range list {
		switch {
		case m.version > c.Version: // committed after the group was read: the next answer has it
		case m.gone != 0:
			c.Removed = append(c.Removed, m.User)
		default:
			c.Changed = append(c.Changed, m)
		}
	}
	return c, nil
}

// Update is what changes of a group; nil changes nothing.
type Update struct {
	Name         *string
	Announcement *string
	Joins        *Joins
	Question     *string
	AdminsInvite *bool
	MutedUntil   *time.Time
}

// verbs are what an update does.
func (u Update) verbs() (all []verb) {
	for v, there := range map[verb]bool{describe: u.Name != nil, announce: u.Announcement != nil, muteAll: u.MutedUntil != nil,
		configure: u.Joins != nil || u.Question != nil || u.AdminsInvite != nil} {
		if there {
			all = append(all, v)
		}
	}
	return all
}

// clean returns u with its texts trimmed. ErrText.
func (u Update) clean() (Update, error) {
	for _, t := range []struct {
		text  **string
		name  string
		least int
		most  int
	}{{&u.Name, "name", 1, 60}, {&u.Question, "question", 0, 200}} {
		if *t.text == nil {
			continue
		}
		s, err := line("body."+t.name, **t.text, t.least, t.most)
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

// on returns g as updated at a moment. ErrUntil.
func (u Update) on(g Group, now time.Time) (Group, error) {
	set(&g.Name, u.Name)
	set(&g.Joins, u.Joins)
	set(&g.Question, u.Question)
	set(&g.AdminsInvite, u.AdminsInvite)
	if u.Announcement != nil && *u.Announcement != g.Announcement {
		g.Announcement = *u.Announcement
		g.Announced++
	}
	if u.MutedUntil == nil {
		return g, nil
	}
	var err error
	g.Muted, err = until(*u.MutedUntil, now)
	return g, err
}

// set gives to a value, where there is one.
func set[T any](to, value *T) {
	if value != nil {
		*to = *value
	}
}

// Change changes a group and returns it as the user sees it. ErrGroup, ErrMay, ErrText, ErrUntil.
func (s *Service) Change(ctx context.Context, user accounts.ID, id ID, u Update) (_ Group, me Membership, err error) {
	defer errs.Wrap(&err, "groups.Change %s", id)
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
		me.Seen = d.group.Announced // whoever writes it has seen it
		me.ownVersion++
		d.own = &me
		return updateOwn(ctx, tx, id, me)
	})
	return g, me, err
}

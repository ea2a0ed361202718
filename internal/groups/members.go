package groups

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/aggregate"
	"github.com/stoa-dev/stoa/internal/base/cursor"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/membership"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

var bans = membership.Bans[Group]{Table: "group_bans", Column: "group_id", ErrNoBan: ErrNoBan}

// Invite adds the user's friends to the group at once, and returns the new members. It returns ErrGroup,
// ErrMay, ErrNotFriend, ErrTheyBanned, ErrFull, ErrGroups or accounts.ErrNoUser.
func (s *Service) Invite(ctx context.Context, user accounts.ID, id ID, users []accounts.ID) (added []Membership, err error) {
	defer errs.Wrap(&err, "groups.Invite %s", id)
	users = others(user, users)
	if err := s.may(ctx, user, id, invite); err != nil {
		return nil, err
	}
	if err := s.areFriends(ctx, user, users); err != nil {
		return nil, err
	}
	_, err = s.change(ctx, id, user, []verb{invite}, func(ctx context.Context, tx *sqldb.Tx, d *changeSet, _ Membership) error {
		if len(users) == 0 {
			return nil
		}
		fresh, err := newcomers(ctx, tx, id, users)
		if err == nil {
			err = s.admit(ctx, tx, d, user, Member, fresh...)
		}
		added = d.joined
		return err
	})
	return added, err
}

// newcomers returns the users in users who are not members. It returns ErrTheyBanned if one of users is banned.
func newcomers(ctx context.Context, tx *sqldb.Tx, id ID, users []accounts.ID) ([]accounts.ID, error) {
	members, err := selectMembers(ctx, tx, id, users)
	if err == nil {
		err = bans.Check(ctx, tx, id, ErrTheyBanned, users...)
	}
	return slices.DeleteFunc(slices.Clone(users), func(u accounts.ID) bool { return members[u].User == u }), err
}

// MemberUpdate is a change of a member; nil changes nothing.
type MemberUpdate struct {
	Role       *Role // Member or Admin
	MutedUntil *time.Time
}

// SetMember updates another member and returns them. It returns ErrGroup, ErrMember, ErrMay, ErrRank, ErrAdmins or
// ErrUntil.
func (s *Service) SetMember(ctx context.Context, user accounts.ID, id ID, other accounts.ID, u MemberUpdate) (m Membership, err error) {
	defer errs.Wrap(&err, "groups.SetMember %s", id)
	var verbs []verb
	if u.Role != nil {
		verbs = append(verbs, appoint)
	}
	if u.MutedUntil != nil {
		verbs = append(verbs, mute)
	}
	_, err = s.changeMember(ctx, user, id, other, verbs, func(ctx context.Context, tx *sqldb.Tx, d *changeSet, before Membership) error {
		m = before
		if u.MutedUntil != nil {
			var err error
			if m.MutedUntil, err = membership.MuteEnd(*u.MutedUntil, d.at, ErrUntil); err != nil {
				return err
			}
		}
		if aggregate.Set(&m.Role, u.Role); m.Role == Admin && before.Role == Member {
			switch n, err := countAdmins(ctx, tx, id); {
			case err != nil:
				return err
			case n >= s.cfg.Admins:
				return ErrAdmins
			}
		}
		if m == before {
			return nil
		}
		return d.updateMember(ctx, tx, before, m)
	})
	return m, err
}

// changeMember is [Service.change] for an act on another member, whose role must be lower. It returns ErrMember or
// ErrRank.
func (s *Service) changeMember(ctx context.Context, user accounts.ID, id ID, other accounts.ID, verbs []verb,
	fn func(ctx context.Context, tx *sqldb.Tx, d *changeSet, other Membership) error) (Group, error) {
	return s.change(ctx, id, user, verbs, func(ctx context.Context, tx *sqldb.Tx, d *changeSet, me Membership) error {
		m, err := selectMember(ctx, tx, id, other)
		if err == nil {
			err = me.Role.checkAbove(m.Role)
		}
		if err != nil {
			return err
		}
		return fn(ctx, tx, d, m)
	})
}

// Remove removes another member. It returns ErrGroup, ErrMember, ErrMay or ErrRank.
func (s *Service) Remove(ctx context.Context, user accounts.ID, id ID, other accounts.ID) (err error) {
	defer errs.Wrap(&err, "groups.Remove %s", id)
	_, err = s.changeMember(ctx, user, id, other, []verb{remove}, func(ctx context.Context, tx *sqldb.Tx, d *changeSet, m Membership) error {
		return d.removeMember(ctx, tx, m, api.GroupRemoved)
	})
	return err
}

// Ban bans a user from a group until the ban is lifted, and removes a member. A second ban changes nothing. It returns
// ErrGroup, ErrMay, ErrRank, ErrSelf or accounts.ErrNoUser.
func (s *Service) Ban(ctx context.Context, user accounts.ID, id ID, other accounts.ID) (err error) {
	defer errs.Wrap(&err, "groups.Ban %s", id)
	if user == other {
		return ErrSelf
	}
	_, err = s.change(ctx, id, user, []verb{ban}, func(ctx context.Context, tx *sqldb.Tx, d *changeSet, me Membership) error {
		switch m, err := selectMember(ctx, tx, id, other); {
		case errors.Is(err, ErrMember):
			switch standings, err := accounts.Standings(ctx, tx, other); {
			case err != nil:
				return err
			case len(standings) == 0:
				return accounts.ErrNoUser
			}
		case err != nil:
			return err
		case me.Role.checkAbove(m.Role) != nil:
			return ErrRank
		default:
			if err := d.removeMember(ctx, tx, m, api.GroupBanned); err != nil {
				return err
			}
		}
		switch r, err := unclosedRequest(ctx, tx, id, other); {
		case err == nil:
			if err := d.close(ctx, tx, r, Refused); err != nil {
				return err
			}
		case !errors.Is(err, ErrNoRequest):
			return err
		}
		return bans.Add(ctx, tx, id, Ban{User: other, By: user, At: d.at.UnixMilli()})
	})
	return err
}

// Unban lifts a ban. It returns ErrGroup, ErrMay or ErrNoBan.
func (s *Service) Unban(ctx context.Context, user accounts.ID, id ID, other accounts.ID) (err error) {
	defer errs.Wrap(&err, "groups.Unban %s", id)
	_, err = s.change(ctx, id, user, []verb{ban}, func(ctx context.Context, tx *sqldb.Tx, _ *changeSet, _ Membership) error {
		return bans.Delete(ctx, tx, id, other)
	})
	return err
}

// Bans returns up to limit bans, newest first, after the cursor. It returns ErrGroup, ErrMay or ErrCursor.
func (s *Service) Bans(ctx context.Context, user accounts.ID, id ID, after string, limit int) (_ []Ban, next string, err error) {
	defer errs.Wrap(&err, "groups.Bans %s", id)
	from, err := cursor.ParsePlace(after, membership.FirstBan, ErrCursor)
	if err == nil {
		err = s.may(ctx, user, id, ban)
	}
	if err != nil {
		return nil, "", err
	}
	list, next, err := bans.List(ctx, s.db, id, from, limit)
	return list, next, asKind(ctx, err)
}

// may returns ErrMay if the user's role does not allow v, and ErrGroup if the user is not a member.
func (s *Service) may(ctx context.Context, user accounts.ID, id ID, v verb) error {
	g, me, err := s.groupAndMember(ctx, user, id)
	if err != nil {
		return err
	}
	return me.Role.may(v, g)
}

// Leave removes the user from a group. The owner cannot leave while the group has other members. When the last member
// leaves, the group is dissolved. It returns ErrGroup or ErrOwner.
func (s *Service) Leave(ctx context.Context, user accounts.ID, id ID) (err error) {
	defer errs.Wrap(&err, "groups.Leave %s", id)
	_, err = s.change(ctx, id, user, nil, func(ctx context.Context, tx *sqldb.Tx, d *changeSet, me Membership) error {
		if d.group.Members == 1 {
			return s.dissolveLocked(ctx, tx, d)
		}
		if err := me.Role.may(leave, d.group); err != nil {
			return err
		}
		return d.removeMember(ctx, tx, me, api.GroupLeft)
	})
	return err
}

// Transfer makes another member the owner. The former owner becomes an admin, even above the limit of admins. It
// returns ErrGroup, ErrMember, ErrMay or ErrSelf.
func (s *Service) Transfer(ctx context.Context, user accounts.ID, id ID, to accounts.ID) (_ Group, me Membership, err error) {
	defer errs.Wrap(&err, "groups.Transfer %s", id)
	if user == to {
		return Group{}, Membership{}, ErrSelf
	}
	g, err := s.change(ctx, id, user, []verb{transfer}, func(ctx context.Context, tx *sqldb.Tx, d *changeSet, m Membership) error {
		next, err := selectMember(ctx, tx, id, to)
		if err != nil {
			return err
		}
		before := next
		me = m
		me.Role, next.Role, next.MutedUntil = Admin, Owner, 0
		if err := d.updateMember(ctx, tx, m, me); err != nil {
			return err
		}
		return d.updateMember(ctx, tx, before, next)
	})
	return g, me, err
}

// Dissolve dissolves a group. It returns ErrGroup or ErrMay.
func (s *Service) Dissolve(ctx context.Context, user accounts.ID, id ID) (err error) {
	defer errs.Wrap(&err, "groups.Dissolve %s", id)
	_, err = s.change(ctx, id, user, []verb{dissolve}, func(ctx context.Context, tx *sqldb.Tx, d *changeSet, _ Membership) error {
		return s.dissolveLocked(ctx, tx, d)
	})
	return err
}

// dissolveLocked dissolves a locked group.
func (s *Service) dissolveLocked(ctx context.Context, tx *sqldb.Tx, d *changeSet) error {
	list, err := allMembers(ctx, tx, d.group.ID)
	if err != nil {
		return err
	}
	for _, m := range list {
		d.left = append(d.left, leaver{m.User, api.GroupDissolved, m.Role})
	}
	requests, err := pagePending(ctx, tx, d.group.ID, cursor.Place{}, math.MaxInt32)
	if err != nil {
		return err
	}
	for _, r := range requests { // the rows are deleted with the group
		r.State = Withdrawn
		d.closed = append(d.closed, r)
	}
	d.group.Members, d.group.Dissolved = 0, d.at.UnixMilli()
	if err := deleteMembers(ctx, tx, d.group.ID); err != nil {
		return err
	}
	return deleteChildRows(ctx, tx, d.group.ID)
}

// OwnUpdate is a member's change of their own membership; nil changes nothing.
type OwnUpdate struct {
	Nickname *string // visible to all members
	Remark   *string
	Notify   *Notify
	Seen     *int64 // only moves forward, at most to the newest announcement
}

// SetOwn updates the user's own membership. It returns ErrGroup or ErrText.
func (s *Service) SetOwn(ctx context.Context, user accounts.ID, id ID, u OwnUpdate) (_ Group, me Membership, err error) {
	defer errs.Wrap(&err, "groups.SetOwn %s", id)
	for name, text := range map[string]*string{"nickname": u.Nickname, "remark": u.Remark} {
		if text != nil {
			if *text, err = line("body."+name, *text, 0, 40); err != nil {
				return Group{}, Membership{}, err
			}
		}
	}
	g, err := s.change(ctx, id, user, nil, func(ctx context.Context, tx *sqldb.Tx, d *changeSet, m Membership) error {
		me = m
		aggregate.Set(&me.Nickname, u.Nickname)
		aggregate.Set(&me.Remark, u.Remark)
		aggregate.Set(&me.Notify, u.Notify)
		if u.Seen != nil {
			me.Seen = max(me.Seen, min(*u.Seen, d.group.Announced))
		}
		if me == m {
			return nil
		}
		if me.own != m.own {
			me.ownVersion++
		}
		d.own = &me
		if me.Nickname == m.Nickname {
			return updateOwn(ctx, tx, id, me)
		}
		return d.updateMember(ctx, tx, m, me)
	})
	return g, me, err
}

// Seen returns the number of members who have seen the newest announcement. It returns ErrGroup or ErrMay.
func (s *Service) Seen(ctx context.Context, user accounts.ID, id ID) (_ Group, n int, err error) {
	defer errs.Wrap(&err, "groups.Seen %s", id)
	g, me, err := s.groupAndMember(ctx, user, id)
	if err == nil {
		err = me.Role.may(announce, g)
	}
	if err != nil {
		return Group{}, 0, err
	}
	n, err = countSeen(ctx, s.db, g)
	return g, n, asKind(ctx, err)
}

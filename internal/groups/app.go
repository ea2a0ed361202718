package groups

import (
	"context"
	"slices"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// What the app's own backend does to groups: it brings users together who need not be friends, and what it does
// stands in the name of the owner.

// MaxJoined is how many users one [Service.AddMembers] makes members at most.
const MaxJoined = 1000

// CreateFor is [Service.Create] of members who need not be the owner's friends. ErrText, ErrFull, ErrGroups, accounts.ErrNoUser, ErrGroup.
func (s *Service) CreateFor(ctx context.Context, owner accounts.ID, id ID, name string, members []accounts.ID) (_ Group, err error) {
	defer errs.Wrap(&err, "groups.CreateFor %s", owner)
	if name, err = line("body.name", name, 1, 60); err != nil {
		return Group{}, err
	}
	g, _, err := s.create(ctx, owner, id, name, others(owner, members), true)
	return g, err
}

// AddMembers makes those of users members who are none, and returns how many those are. With silent the chat does not
// tell. ErrGroup, ErrTheyBanned, ErrFull, ErrGroups, accounts.ErrNoUser.
func (s *Service) AddMembers(ctx context.Context, id ID, users []accounts.ID, silent bool) (_ Group, added int, err error) {
	defer errs.Wrap(&err, "groups.AddMembers %s", id)
	users = others(accounts.ID{}, users)
	g, err := s.asOwner(ctx, id, func(ctx context.Context, tx *sqldb.Tx, d *changeSet) error {
		d.silent = silent
		var fresh []accounts.ID
		for some := range slices.Chunk(users, admitAtOnce) {
			there, err := selectMembers(ctx, tx, id, some)
			if err != nil {
				return err
			}
			banned, err := selectBanned(ctx, tx, id, some)
			if err == nil && len(banned) > 0 {
				err = ErrTheyBanned
			}
			if err != nil {
				return err
			}
			fresh = append(fresh, slices.DeleteFunc(slices.Clone(some), func(u accounts.ID) bool { return there[u].User == u })...)
		}
		added = len(fresh)
		return s.admit(ctx, tx, d, d.by, Member, fresh...)
	})
	return g, added, err
}

// TakeOut takes a member out, but not the owner. ErrGroup, ErrMember, ErrRank.
func (s *Service) TakeOut(ctx context.Context, id ID, user accounts.ID) (err error) {
	defer errs.Wrap(&err, "groups.TakeOut %s", id)
	_, err = s.asOwner(ctx, id, func(ctx context.Context, tx *sqldb.Tx, d *changeSet) error {
		m, err := selectMember(ctx, tx, id, user)
		if err == nil {
			err = Owner.over(m.Role)
		}
		if err != nil {
			return err
		}
		return d.take(ctx, tx, m, api.GroupRemoved)
	})
	return err
}

// asOwner is [Service.enter] in the name of the owner.
func (s *Service) asOwner(ctx context.Context, id ID, fn func(ctx context.Context, tx *sqldb.Tx, d *changeSet) error) (Group, error) {
	return s.enter(ctx, id, accounts.ID{}, func(ctx context.Context, tx *sqldb.Tx, d *changeSet) (err error) {
		d.app = true
		if d.by, err = selectOwner(ctx, tx, id); err != nil {
			return err
		}
		return fn(ctx, tx, d)
	})
}

// tellHooks has the app's own backend told of what tx does to a group.
func (s *Service) tellHooks(ctx context.Context, tx *sqldb.Tx, d *changeSet) error {
	if !s.hooks.Wants(api.HookGroupChanged) {
		return nil
	}
	what := api.HookGroup{Group: d.group.ID.String(), Name: d.group.Name, New: d.was.ID.IsZero(), Gone: d.group.Dissolved != 0, Members: d.group.Members, Version: d.group.Version}
	if !d.app {
		what.By = d.by.String()
	}
	for _, m := range d.joined[:min(len(d.joined), MaxJoined)] {
		what.Joined = append(what.Joined, m.User.String())
	}
	for _, l := range d.left[:min(len(d.left), MaxJoined)] {
		what.Left = append(what.Left, l.user.String())
	}
	return s.hooks.Enqueue(ctx, tx, api.HookGroupChanged, d.group.ID.String(), what)
}

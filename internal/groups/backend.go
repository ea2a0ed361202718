package groups

import (
	"context"
	"slices"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// The backend's operations on groups. The backend acts in the name of the owner, and may add users who are not friends.

// MaxJoined is the largest number of users for one call of [Service.AddMembers], which package api enforces (maxItems).
// A webhook names at most as many users who joined, and as many who left.
const MaxJoined = 1000

// CreateFor is [Service.Create] with members who need not be the owner's friends. It returns ErrText, ErrFull,
// ErrGroups, accounts.ErrNoUser or ErrGroup.
func (s *Service) CreateFor(ctx context.Context, owner accounts.ID, id ID, name string, members []accounts.ID) (_ Group, err error) {
	defer errs.Wrap(&err, "groups.CreateFor %s", owner)
	if name, err = line("body.name", name, 1, 60); err != nil {
		return Group{}, err
	}
	g, _, err := s.create(ctx, owner, id, name, others(owner, members), true)
	return g, err
}

// AddMembers adds the users who are not members yet, and returns their number. With silent, the chat gets no system
// message. It returns ErrGroup, ErrTheyBanned, ErrFull, ErrGroups or accounts.ErrNoUser.
func (s *Service) AddMembers(ctx context.Context, id ID, users []accounts.ID, silent bool) (_ Group, added int, err error) {
	defer errs.Wrap(&err, "groups.AddMembers %s", id)
	users = others(accounts.ID{}, users)
	g, err := s.asOwner(ctx, id, func(ctx context.Context, tx *sqldb.Tx, d *changeSet) error {
		d.silent = silent
		var fresh []accounts.ID
		for chunk := range slices.Chunk(users, admitBatch) {
			more, err := newcomers(ctx, tx, id, chunk)
			if err != nil {
				return err
			}
			fresh = append(fresh, more...)
		}
		added = len(fresh)
		return s.admit(ctx, tx, d, d.by, Member, fresh...)
	})
	return g, added, err
}

// RemoveMember removes a member. It returns ErrRank if the member is the owner, ErrGroup or ErrMember.
func (s *Service) RemoveMember(ctx context.Context, id ID, user accounts.ID) (err error) {
	defer errs.Wrap(&err, "groups.RemoveMember %s", id)
	_, err = s.asOwner(ctx, id, func(ctx context.Context, tx *sqldb.Tx, d *changeSet) error {
		m, err := selectMember(ctx, tx, id, user)
		if err == nil {
			err = Owner.checkAbove(m.Role)
		}
		if err != nil {
			return err
		}
		return d.removeMember(ctx, tx, m, api.GroupRemoved)
	})
	return err
}

// asOwner is [Service.changeUnchecked] in the name of the owner.
func (s *Service) asOwner(ctx context.Context, id ID, fn func(ctx context.Context, tx *sqldb.Tx, d *changeSet) error) (Group, error) {
	return s.changeUnchecked(ctx, id, accounts.ID{}, func(ctx context.Context, tx *sqldb.Tx, d *changeSet) (err error) {
		d.byBackend = true
		if d.by, err = selectOwner(ctx, tx, id); err != nil {
			return err
		}
		return fn(ctx, tx, d)
	})
}

// enqueueHooks enqueues a webhook about the changes that tx makes to a group.
func (s *Service) enqueueHooks(ctx context.Context, tx *sqldb.Tx, d *changeSet) error {
	if !s.hooks.Wants(api.HookGroupChanged) {
		return nil
	}
	payload := api.HookGroup{Group: d.group.ID.String(), Name: d.group.Name, New: d.before.ID.IsZero(), Gone: d.group.Dissolved != 0,
		Members: d.group.Members, Version: d.group.Version}
	if !d.byBackend {
		payload.By = d.by.String()
	}
	for _, m := range d.joined[:min(len(d.joined), MaxJoined)] {
		payload.Joined = append(payload.Joined, m.User.String())
	}
	for _, l := range d.left[:min(len(d.left), MaxJoined)] {
		payload.Left = append(payload.Left, l.user.String())
	}
	return s.hooks.Enqueue(ctx, tx, api.HookGroupChanged, d.group.ID.String(), payload)
}

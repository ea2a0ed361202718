package groups

import (
	"context"
	"iter"
	"maps"
	"slices"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/cache/collection"
)

// copies is the cached data of groups in Redis. A change updates the loaded copy. It continues without Redis
// ([cache.Proceed]), because no rule of a change uses the copies. They also admit subscribers: while a copy is stale, a
// socket may stay subscribed to a group's channel. This ends when the outbox delivers the drop.
type copies struct {
	members *collection.Hash[ID, accounts.ID, cachedMember]
}

func newCopies(db *sqldb.DB, rt *cache.Runtime, p cache.Policy) copies {
	byUser := func(list iter.Seq[Membership]) map[accounts.ID]cachedMember {
		all := map[accounts.ID]cachedMember{}
		for m := range list {
			all[m.User] = m.cached()
		}
		return all
	}
	return copies{collection.NewHash(rt, membersKeys, collection.Policy{MaxStale: p.MaxStale, Unfenced: cache.Proceed},
		collection.HashSource[ID, accounts.ID, cachedMember]{
			Load: func(ctx context.Context, id ID) (map[accounts.ID]cachedMember, error) {
				list, err := allMembers(ctx, db, id)
				return byUser(slices.Values(list)), err
			},
			Pick: func(ctx context.Context, id ID, users []accounts.ID) (map[accounts.ID]cachedMember, error) {
				found, err := selectMembers(ctx, db, id, users)
				return byUser(maps.Values(found)), err
			},
		})}
}

// targets returns the cached collections of a group, with d's update of loaded ones.
func (c copies) targets(id ID, d *changeSet) []cache.Target {
	return []cache.Target{c.members.Edit(id, func(e *collection.HashEdit[accounts.ID, cachedMember]) {
		for _, l := range d.left {
			e.Delete(l.user)
		}
		for _, m := range d.joined {
			e.Set(m.User, m.cached())
		}
		for _, m := range d.changed {
			e.Set(m.User, m.cached())
		}
	})}
}

// IsMember reports whether a user is in a group, from a cache.
func (s *Service) IsMember(ctx context.Context, id ID, user accounts.ID) (_ bool, err error) {
	defer errs.Wrap(&err, "groups.IsMember %s", id)
	isMember, err := s.copies.members.Has(ctx, id, user)
	return isMember, asKind(ctx, err)
}

// MemberIDs returns all members of a group, from a cache, in no order.
func (s *Service) MemberIDs(ctx context.Context, id ID) (_ []accounts.ID, err error) {
	defer errs.Wrap(&err, "groups.MemberIDs %s", id)
	all, err := s.copies.members.All(ctx, id)
	return slices.Collect(maps.Keys(all)), asKind(ctx, err)
}

package social

import (
	"context"
	"slices"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/cache/collection"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// Cache events of relations. A change of one friend or request updates the cached collection; see changeSet.targets. The
// events of a user drop a whole collection.
var (
	RelationChanged = cache.NewEvent[Pair]("relation changed")
	FriendsChanged  = cache.NewEvent[accounts.ID]("friends changed")
	BlocksChanged   = cache.NewEvent[accounts.ID]("blocks changed")
	RequestsChanged = cache.NewEvent[accounts.ID]("friend requests changed")
)

// relations are the cached relations in Redis, by user. They serve the most frequent checks: friendship and blocks.
//
// A change continues without Redis ([cache.Proceed]). No rule of this domain uses the cache, because SQL decides each
// write in the transaction. If Redis is unavailable for all nodes, other domains get data from SQL too. If only one
// node has lost Redis, other nodes may miss its changes until the outbox has delivered them.
type relations struct {
	pairs    *cache.Cache[Pair, pairRelations]
	friends  *collection.Hash[accounts.ID, accounts.ID, cachedFriend]
	blocks   *collection.Set[accounts.ID, accounts.ID]
	blockers *collection.Set[accounts.ID, accounts.ID]
	pending  *collection.ZSet[accounts.ID, accounts.ID]
	unread   *cache.Cache[accounts.ID, int]
}

// maxPairs is the largest number of pairs whose relations a node has in memory, about 15 MB.
const maxPairs = 1 << 16

func newRelations(db *sqldb.DB, rt *cache.Runtime, p cache.Policy) relations {
	p.Unfenced = cache.Proceed
	pairs := p
	pairs.Entries = maxPairs
	set := collection.Policy{MaxStale: p.MaxStale, Unfenced: p.Unfenced}
	r := relations{
		pairs: cache.New2(rt, pairKeys, pairs, cache.Source[Pair, pairRelations]{
			Load: func(ctx context.Context, k Pair) (r pairRelations, err error) {
				r.Low, r.High, err = selectBetween(ctx, db, k.A, k.B)
				return r, err
			},
		}),
		friends: collection.NewHash(rt, friendsKeys, set, collection.HashSource[accounts.ID, accounts.ID, cachedFriend]{
			Load: func(ctx context.Context, user accounts.ID) (map[accounts.ID]cachedFriend, error) {
				return allFriends(ctx, db, user)
			},
			Pick: func(ctx context.Context, user accounts.ID, others []accounts.ID) (map[accounts.ID]cachedFriend, error) {
				return friendsAmong(ctx, db, user, others)
			},
		}),
		blocks: collection.NewSet(rt, blocksKeys, set, collection.SetSource[accounts.ID, accounts.ID]{
			Load: func(ctx context.Context, user accounts.ID) ([]accounts.ID, error) { return allBlocks(ctx, db, user) },
			Pick: func(ctx context.Context, user accounts.ID, others []accounts.ID) ([]accounts.ID, error) {
				return blocksAmong(ctx, db, user, others)
			},
		}),
		blockers: collection.NewSet(rt, blockersKeys, set, collection.SetSource[accounts.ID, accounts.ID]{
			Load: func(ctx context.Context, user accounts.ID) ([]accounts.ID, error) { return allBlockers(ctx, db, user) },
			Pick: func(ctx context.Context, user accounts.ID, others []accounts.ID) ([]accounts.ID, error) {
				return blockersAmong(ctx, db, user, others)
			},
		}),
		// No caller checks single members, so it needs no Pick.
		pending: collection.NewZSet(rt, pendingKeys, set, collection.ZSetSource[accounts.ID, accounts.ID]{
			Load: func(ctx context.Context, user accounts.ID) (map[accounts.ID]float64, error) {
				return allPending(ctx, db, user)
			},
		}),
		unread: cache.New(rt, unreadKeys, p, cache.Source[accounts.ID, int]{
			Load: func(ctx context.Context, user accounts.ID) (int, error) {
				n, err := unread(ctx, db, user)
				return n[user], err
			},
		}),
	}
	cache.Drops(rt, RelationChanged, r.pairs)
	cache.Drops(rt, FriendsChanged, r.friends)
	cache.Drops(rt, BlocksChanged, r.blocks)
	cache.Drops(rt, BlocksChanged, r.blockers)
	cache.Drops(rt, RequestsChanged, r.pending)
	cache.Drops(rt, RequestsChanged, r.unread)
	return r
}

// Pair is two users. A is the lower id.
type Pair = keyspace.Args2[accounts.ID, accounts.ID]

// relationOf returns the key of the cached relations of two users.
func relationOf(a, b accounts.ID) Pair {
	if a.Compare(b) > 0 {
		a, b = b, a
	}
	return Pair{A: a, B: b}
}

// pairRelations are the relations of the users of a [Pair] to each other.
type pairRelations struct {
	Low  Relation `json:"low"`
	High Relation `json:"high"`
}

// pairTargets returns the cached relations of a user to others.
func (r relations) pairTargets(user accounts.ID, others ...accounts.ID) []cache.Target {
	targets := make([]cache.Target, len(others))
	for i, o := range others {
		targets[i] = r.pairs.Target(relationOf(user, o))
	}
	return targets
}

// A part is a kind of cached collection that a changeSet may change.
type part uint8

const (
	inFriends part = 1 << iota
	inBlocks
	inBlockers
	inRequests
)

// targets returns the cached collections of a user that d may change, with the update of loaded ones.
func (r relations) targets(user accounts.ID, parts part, d *changeSet) (targets []cache.Target) {
	if parts&inFriends != 0 {
		targets = append(targets, r.friends.Edit(user, func(e *collection.HashEdit[accounts.ID, cachedFriend]) {
			for _, t := range d.removed {
				if t.user == user {
					e.Delete(t.other)
				}
			}
			for _, t := range d.written {
				if t.user == user {
					e.Set(t.User, t.cached())
				}
			}
		}))
	}
	if parts&inBlocks != 0 {
		targets = append(targets, r.blocks.Edit(user, func(e *collection.SetEdit[accounts.ID]) {
			for _, b := range d.blocked {
				if b.user == user {
					e.Add(b.other)
				}
			}
			for _, b := range d.unblocked {
				if b.user == user {
					e.Remove(b.other)
				}
			}
		}))
	}
	if parts&inBlockers != 0 {
		targets = append(targets, r.blockers.Edit(user, func(e *collection.SetEdit[accounts.ID]) {
			for _, b := range d.blocked {
				if b.other == user {
					e.Add(b.user)
				}
			}
			for _, b := range d.unblocked {
				if b.other == user {
					e.Remove(b.user)
				}
			}
		}))
	}
	if parts&inRequests != 0 {
		targets = append(targets, r.unread.Target(user), r.pending.Edit(user, func(e *collection.ZSetEdit[accounts.ID]) {
			for _, q := range d.closed {
				if q.To == user {
					e.Remove(q.From)
				}
			}
			for _, q := range d.opened {
				if q.To == user {
					e.Set(q.From, float64(q.Created.UnixMilli()))
				}
			}
		}))
	}
	return targets
}

// targetsOfPair is targets for a change of two users' relations to each other.
func (r relations) targetsOfPair(a accounts.ID, ofA part, b accounts.ID, ofB part, d *changeSet) []cache.Target {
	return slices.Concat(r.targets(a, ofA, d), r.targets(b, ofB, d), r.pairTargets(a, b))
}

// Package aggregate commits changes of what is cached: an aggregate, such as a group with its members, and the users,
// sessions and settings next to it.
//
// A change has one order in every domain. Its cached copies are fenced, so that no reader stores what it read before the
// commit. The transaction locks the aggregate's row, decides, writes, and enqueues what must follow. After the commit the
// copies are invalidated, and the domain publishes its events. [Caches.Change] is this order up to the invalidation.
// Domains have no other access to [cache.Runtime.Change], so that no domain commits a change without it.
package aggregate

import (
	"context"

	"github.com/stoa-dev/stoa/internal/background/drops"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/cache"
)

// Caches are the caches of a process, and the database whose rows they copy.
type Caches struct {
	*cache.Runtime
	db *sqldb.DB
}

// New returns the caches of rt for rows of db.
func New(db *sqldb.DB, rt *cache.Runtime) *Caches { return &Caches{rt, db} }

// Change runs fn in one transaction and invalidates the copies that targets name; it shadows [cache.Runtime.Change].
// fn may run again and must then start from nothing. Events are published by the caller, after Change has returned nil.
//
// A commit with an unknown outcome counts as made: its fences stay. If a fence could not be set because Redis is
// unavailable, the transaction itself enqueues the invalidations, see package drops. Errors are those of fn, of
// [sqldb.DB.Tx], and [cache.ErrUnfenced].
func (c *Caches) Change(ctx context.Context, targets []cache.Target, fn func(ctx context.Context, tx *sqldb.Tx) error) error {
	return c.Runtime.Change(ctx, func(ctx context.Context) error {
		return drops.Tx(ctx, c.db, fn)
	}, targets...)
}

// Set stores the value of a change in a field, unless the value is nil: then the change leaves the field as it is.
func Set[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}

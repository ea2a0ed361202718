package idempotency

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/groupcommit"
)

// Refusals of requests with an Idempotency-Key.
var (
	ErrKey      = errs.New(errs.Invalid, "idempotency.key", "Send one Idempotency-Key header of 1 to 128 printable ASCII characters.")
	ErrMismatch = errs.New(errs.Conflict, "idempotency.mismatch", "This Idempotency-Key was used for another request.")
	ErrBusy     = errs.New(errs.Conflict, "idempotency.busy", "The first request with this Idempotency-Key is still running.")
)

const (
	// answerTTL is the lifetime of a stored response: after it, a key identifies another request.
	answerTTL = 24 * time.Hour

	// claimTimeout is the age of a try that counts as dead. A live try is cancelled before, after TryTimeout.
	claimTimeout = 30 * time.Second

	// TryTimeout bounds a try.
	TryTimeout = 25 * time.Second

	// orphanTimeout replaces claimTimeout for a try whose node is not alive: a lease ends four seconds after its last
	// renewal, and an emptied Redis has no leases for a second.
	orphanTimeout = 5 * time.Second

	// liveTimeout bounds the query for the live nodes.
	liveTimeout = 200 * time.Millisecond

	// storeTimeout bounds the storing of a response after the client has disconnected.
	storeTimeout = 5 * time.Second

	// storeGrace is the shortest wait of a request for its response to be stored, even after its deadline.
	storeGrace = 300 * time.Millisecond

	// batchTimeout bounds the statements of a batch.
	batchTimeout = 5 * time.Second

	// MaxStored is the largest response that is stored, in bytes.
	MaxStored = 1 << 20

	// sweepChunk is the number of rows that one transaction of a sweep deletes.
	sweepChunk = 500
)

// Store stores the responses of this node's requests in idempotency_keys. A claim must be committed before the
// handler runs, so that no other node runs it as well. A response must be committed before the client gets it. Many
// requests share each such commit.
type Store struct {
	db    *sqldb.DB
	sql   statements
	group *groupcommit.Committer[change, claimed]
	node  uint32 // this node, in its claims
	live  func(context.Context) ([]string, error)
}

// errCallerLeft is joined to the error of a batch whose lone caller reached its deadline.
var errCallerLeft = errors.New("idempotency: the deadline of the caller")

// change is one change of a row: a claim, or the end of a try.
type change struct {
	Record
	end bool // true: the try has ended; false: it claims the row
}

// claimed is the outcome of a claim. A record with a Status is replayed, one without is run. A refusal concerns this
// claim only, not its batch.
type claimed struct {
	rec     Record
	refusal error
}

// New returns a store of the node with that name. live returns the names of the live nodes, including this one, so that
// tries of a dead node need not be waited for. If it is nil, every try may be running for half a minute.
func New(db *sqldb.DB, node string, live func(context.Context) ([]string, error)) *Store {
	s := &Store{db: db, sql: newStatements(db), node: nodeHash(node), live: live}
	s.group = groupcommit.New(s.commit, batches)
	return s
}

var batches = groupcommit.Options[change, claimed]{
	MaxBatch: 256, // SQLite refuses conditions of 1000 terms
	// Writing a batch again is safe, because Claim identifies the owner of a row.
	Retry: func(err error) bool {
		return errors.Is(err, sqldb.ErrOutcomeUnknown) || sqldb.IsRetryable(err) || errors.Is(err, errCallerLeft)
	},
	Split: sqldb.IsRowError,
	// The function does nothing. But with an After, a batch waits for the callers that were just woken, and includes
	// the responses of the previous batch.
	After: func(context.Context, []change, []claimed) {},
}

// Claim inserts the row for rec, or takes over a free row. If the returned record has a Status, it is the response to
// replay; otherwise the caller runs the request. It fails with ErrBusy or ErrMismatch.
func (s *Store) Claim(ctx context.Context, rec Record) (Record, error) {
	rec.Claim = s.newClaim()
	got, err := s.submit(ctx, change{Record: rec})
	switch {
	case err != nil:
		if ctx.Err() != nil && !errors.Is(err, groupcommit.ErrNotTaken) {
			s.abandon(ctx, rec)
		}
		return rec, err
	case got.refusal != nil || got.rec.Status == 0:
		return got.rec, got.refusal
	}
	ok, err := loadAnswer(ctx, s.db, &got.rec)
	if err == nil && !ok { // it was swept or erased in between
		err = ErrBusy.Retry(time.Second)
	}
	return got.rec, err
}

// newClaim returns a number with 31 bits of the node, and 32 random bits for the try.
func (s *Store) newClaim() int64 { return int64(s.node)<<32 | rand.Int64N(1<<32-1) + 1 }

// nodeHash returns the 31 bits of a node in its claims. A collision of two nodes only means a longer wait.
func nodeHash(name string) uint32 {
	sum := sha256.Sum256([]byte(name))
	return binary.BigEndian.Uint32(sum[:]) >> 1
}

// aliveNodes returns a function that reports whether a node may still be running tries. It is true for all nodes if
// the live nodes are unknown.
func (s *Store) aliveNodes(ctx context.Context) func(node uint32) bool {
	all := func(uint32) bool { return true }
	if s.live == nil {
		return all
	}
	ctx, stop := context.WithTimeout(ctx, liveTimeout)
	defer stop()
	names, err := s.live(ctx)
	nodes := make([]uint32, len(names))
	for i, name := range names {
		nodes[i] = nodeHash(name)
	}
	if err != nil || !slices.Contains(nodes, s.node) { // a list without this node is incomplete
		return all
	}
	return func(node uint32) bool { return slices.Contains(nodes, node) }
}

// abandon frees the row that a claim may have got, or may still get, after its client has disconnected.
func (s *Store) abandon(ctx context.Context, rec Record) {
	ctx, stop := StoreContext(ctx)
	defer stop()
	_ = s.Finish(ctx, rec) // otherwise the claim expires
}

// StoreContext returns a context for the wait until the end of a try is stored. It outlives the request's client and,
// for [storeGrace], the request's deadline. A change that is still queued then is stored without the wait.
func StoreContext(ctx context.Context) (context.Context, context.CancelFunc) {
	wait := storeTimeout
	if end, ends := ctx.Deadline(); ends {
		wait = max(storeGrace, min(wait, time.Until(end)))
	}
	return context.WithTimeout(context.WithoutCancel(ctx), wait)
}

// Finish ends the try of rec. With a Status it stores the response; without it the next try runs at once. It does not
// change a row of another try.
func (s *Store) Finish(ctx context.Context, rec Record) error {
	_, err := s.submit(ctx, change{Record: rec, end: true})
	return err
}

func (s *Store) submit(ctx context.Context, c change) (claimed, error) {
	got, err := s.group.Do(ctx, c)
	if errors.Is(err, groupcommit.ErrClosed) {
		err = errors.Join(errStoreAway, err)
	}
	return got, sqlErr("batch", err)
}

// commit writes a batch, the claims first, because the end of an abandoned claim may be in the same batch. Rows are
// written in the order of their keys, so that batches of two nodes do not deadlock.
func (s *Store) commit(caller context.Context, changes []change) (out []claimed, err error) {
	ctx, stop := context.WithTimeout(caller, batchTimeout)
	defer stop()
	defer func() {
		if err != nil && caller.Err() != nil {
			err = errors.Join(errCallerLeft, err)
		}
	}()
	var claims, ends []int
	for i := range changes {
		if changes[i].end {
			ends = append(ends, i)
		} else {
			claims = append(claims, i)
		}
	}
	out = make([]claimed, len(changes))
	if len(claims) > 0 {
		if err := s.claimAll(ctx, changes, claims, out); err != nil {
			return nil, err
		}
	}
	if len(ends) == 0 {
		return out, nil
	}
	recs := records(changes, ends)
	for i := range recs {
		recs[i].Claimed, recs[i].Expires = 0, 0
	}
	return out, s.sql.finish(ctx, recs)
}

// records returns the records of the changes at the given indices; both are sorted by primary key.
func records(changes []change, at []int) []Record {
	slices.SortStableFunc(at, func(i, j int) int {
		a, b := &changes[i], &changes[j]
		return cmp.Or(cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Key, b.Key))
	})
	recs := make([]Record, len(at))
	for n, i := range at {
		recs[n] = changes[i].Record
	}
	return recs
}

// claimAll claims the rows of the changes at the given indices. Usually all rows are new; otherwise a transaction
// reads the existing ones.
func (s *Store) claimAll(ctx context.Context, changes []change, at []int, out []claimed) error {
	recs := records(changes, at)
	now := s.db.Now().UnixMilli()
	for n := range recs {
		recs[n].Created, recs[n].Claimed, recs[n].Expires = now, now, now+answerTTL.Milliseconds()
	}
	all, err := s.sql.add(ctx, recs)
	if err != nil {
		return err
	}
	if all {
		for n, i := range at {
			out[i].rec = recs[n]
		}
		return nil
	}
	alive := s.aliveNodes(ctx)
	return s.db.Batch(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		found, err := s.sql.locked(ctx, tx, recs)
		if err != nil {
			return err
		}
		var free []Record
		for n, i := range at {
			old := found[recs[n].row()]
			rec, err := old.next(recs[n], now, alive)
			out[i] = claimed{rec, err}
			if err == nil && rec.Claim != old.Claim {
				free = append(free, rec)
				found[rec.row()] = rec // another request of this batch finds the row taken
			}
		}
		return s.sql.replace(ctx, tx, free)
	})
}

// next returns the new state of row old when rec claims it. It is old if old has a response or already belongs to
// rec, and rec otherwise. It fails with ErrBusy or ErrMismatch.
func (old Record) next(rec Record, now int64, alive func(node uint32) bool) (Record, error) {
	life, running := claimTimeout, alive(uint32(old.Claim>>32)) //nolint:gosec // 31 bits
	if !running {
		life = orphanTimeout
	}
	left := time.Duration(old.Claimed+life.Milliseconds()-now) * time.Millisecond
	switch {
	case old.Claim == rec.Claim: // written by this batch or an earlier try of it
		return old, nil
	case old.Expires <= now: // expired: a new request
		return rec, nil
	case old.RequestHash != rec.RequestHash && old.RequestHash != rec.plainHash && old.RequestHash != rec.previousHash:
		return rec, ErrMismatch
	case old.Status != 0:
		return old, nil
	case left > 0 && running: // it may end soon
		return rec, ErrBusy.Retry(min(left, time.Second))
	case left > 0:
		return rec, ErrBusy.Retry(left)
	}
	// The earlier try failed, or its process died.
	rec.Created, rec.Expires = old.Created, old.Expires
	if old.RequestHash == rec.previousHash { // keeps the seed, see [Secrets.Seed]
		rec.RequestHash = old.RequestHash
	}
	return rec, nil
}

// Run writes claims and responses until ctx ends. Then it finishes the submitted ones and returns nil.
func (s *Store) Run(ctx context.Context) error { return s.group.Run(ctx) }

// Sweep deletes the stored responses that have expired at now and returns their number.
func (s *Store) Sweep(ctx context.Context, now time.Time) (removed int, err error) {
	for {
		n, err := deleteExpired(ctx, s.db, now.UnixMilli())
		removed += n
		if err != nil || n < sweepChunk {
			return removed, err
		}
	}
}

// Erase deletes all stored responses of a user, whose scopes begin with the user and a space.
func (s *Store) Erase(ctx context.Context, user string) error { return eraseRecords(ctx, s.db, user) }

package web

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/groupcommit"
)

// answers stores the responses of this node's requests in idempotency_keys. A claim must be committed before the
// handler runs, so that no other node runs it as well. A response must be committed before the client gets it. Many
// requests share each such commit.
type answers struct {
	db    *sqldb.DB
	sql   statements
	group *groupcommit.Committer[change, claimed]
	node  uint32 // this node, in its claims
	live  func(context.Context) ([]string, error)
}

// change is one change of a row: a claim, or the end of a try.
type change struct {
	record
	end bool // true: the try has ended; false: it claims the row
}

// claimed is the outcome of a claim. A record with a Status is replayed, one without is run. A refusal concerns this
// claim only, not its batch.
type claimed struct {
	rec     record
	refusal error
}

func newAnswers(db *sqldb.DB, node string, live func(context.Context) ([]string, error)) *answers {
	s := &answers{db: db, sql: newStatements(db), node: nodeHash(node), live: live}
	s.group = groupcommit.New(s.commit, batches)
	return s
}

var batches = groupcommit.Options[change, claimed]{
	MaxBatch: 256, // SQLite refuses conditions of 1000 terms
	// Writing a batch again is safe, because Claim identifies the owner of a row.
	Retry: func(err error) bool { return errors.Is(err, sqldb.ErrOutcomeUnknown) || sqldb.IsRetryable(err) },
	Split: sqldb.IsRowError,
	// The function does nothing. But with an After, a batch waits for the callers that were just woken, and includes
	// the responses of the previous batch.
	After: func(context.Context, []change, []claimed) {},
}

// claim inserts the row for rec, or takes over a free row. If the returned record has a Status, it is the response to
// replay; otherwise the caller runs the request. It fails with errBusy or errMismatch.
func (s *answers) claim(ctx context.Context, rec record) (record, error) {
	rec.Claim = s.newClaim()
	got, err := s.submit(ctx, change{record: rec})
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
		err = errBusy.Retry(time.Second)
	}
	return got.rec, err
}

// newClaim returns a number with 31 bits of the node, and 32 random bits for the try.
func (s *answers) newClaim() int64 { return int64(s.node)<<32 | rand.Int64N(1<<32-1) + 1 }

// nodeHash returns the 31 bits of a node in its claims. A collision of two nodes only means a longer wait.
func nodeHash(name string) uint32 {
	sum := sha256.Sum256([]byte(name))
	return binary.BigEndian.Uint32(sum[:]) >> 1
}

// aliveNodes returns a function that reports whether a node may still be running tries. It is true for all nodes if
// the live nodes are unknown.
func (s *answers) aliveNodes(ctx context.Context) func(node uint32) bool {
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
func (s *answers) abandon(ctx context.Context, rec record) {
	ctx, stop := storeContext(ctx)
	defer stop()
	_ = s.finish(ctx, rec) // otherwise the claim expires
}

// storeContext returns a context for the wait until the end of a try is stored. It outlives the request's client and,
// for [storeGrace], the request's deadline. A change that is still queued then is stored without the wait.
func storeContext(ctx context.Context) (context.Context, context.CancelFunc) {
	wait := storeTimeout
	if end, ends := ctx.Deadline(); ends {
		wait = max(storeGrace, min(wait, time.Until(end)))
	}
	return context.WithTimeout(context.WithoutCancel(ctx), wait)
}

// finish ends the try of rec. With a Status it stores the response; without it the next try runs at once. It does not
// change a row of another try.
func (s *answers) finish(ctx context.Context, rec record) error {
	_, err := s.submit(ctx, change{record: rec, end: true})
	return err
}

func (s *answers) submit(ctx context.Context, c change) (claimed, error) {
	got, err := s.group.Do(ctx, c)
	if errors.Is(err, groupcommit.ErrClosed) {
		err = errors.Join(errStoreAway, err)
	}
	return got, sqlErr("batch", err)
}

// commit writes a batch, the claims first, because the end of an abandoned claim may be in the same batch. Rows are
// written in the order of their keys, so that batches of two nodes do not deadlock.
func (s *answers) commit(ctx context.Context, changes []change) ([]claimed, error) {
	ctx, stop := context.WithTimeout(ctx, batchTimeout)
	defer stop()
	var claims, ends []int
	for i := range changes {
		if changes[i].end {
			ends = append(ends, i)
		} else {
			claims = append(claims, i)
		}
	}
	out := make([]claimed, len(changes))
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
func records(changes []change, at []int) []record {
	slices.SortStableFunc(at, func(i, j int) int {
		a, b := &changes[i], &changes[j]
		return cmp.Or(cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Key, b.Key))
	})
	recs := make([]record, len(at))
	for n, i := range at {
		recs[n] = changes[i].record
	}
	return recs
}

// claimAll claims the rows of the changes at the given indices. Usually all rows are new; otherwise a transaction
// reads the existing ones.
func (s *answers) claimAll(ctx context.Context, changes []change, at []int, out []claimed) error {
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
		var free []record
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
// rec, and rec otherwise. It fails with errBusy or errMismatch.
func (old record) next(rec record, now int64, alive func(node uint32) bool) (record, error) {
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
		return rec, errMismatch
	case old.Status != 0:
		return old, nil
	case left > 0 && running: // it may end soon
		return rec, errBusy.Retry(min(left, time.Second))
	case left > 0:
		return rec, errBusy.Retry(left)
	}
	// The earlier try failed, or its process died.
	rec.Created, rec.Expires = old.Created, old.Expires
	if old.RequestHash == rec.previousHash { // keeps the seed, see [API.macOf]
		rec.RequestHash = old.RequestHash
	}
	return rec, nil
}

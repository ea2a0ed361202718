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

// answers keeps the rows of idempotency_keys for the requests of this node. A claim
// must be committed before the handler runs, so that no other node runs it too, and an
// answer before the client has it. Many requests share each such commit.
type answers struct {
	db    *sqldb.DB
	sql   statements
	group *groupcommit.Committer[change, claimed]
	node  uint32 // this one, in its claims
	live  func(context.Context) ([]string, error)
}

// change is what a request wants done with its row.
type change struct {
	record
	end bool // its try is over; else it claims the row
}

// claimed is the outcome of a claim: the record with a Status, to be replayed, or
// without, to be run. A refusal is not the fault of the batch.
type claimed struct {
	rec     record
	refusal error
}

func newAnswers(db *sqldb.DB, node string, live func(context.Context) ([]string, error)) *answers {
	s := &answers{db: db, sql: newStatements(db), node: nodeIn(node), live: live}
	s.group = groupcommit.New(s.commit, batches)
	return s
}

var batches = groupcommit.Options[change, claimed]{
	MaxBatch: 256, // SQLite refuses conditions of 1000 terms
	// Writing a batch again is safe: Claim tells whose a row is.
	Retry: func(err error) bool { return errors.Is(err, sqldb.ErrOutcomeUnknown) || sqldb.IsRetryable(err) },
	Split: sqldb.IsRowError,
	// There is nothing to do, but with an After a batch waits for the callers that were
	// just woken, and so holds the answers of the batch before.
	After: func(context.Context, []change, []claimed) {},
}

// claim makes the row for rec, or takes over one that is free. The record it
// returns has either a Status, and is the answer to replay, or is the caller's
// to run. Otherwise it fails with errBusy or errMismatch.
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
	if err == nil && !ok { // it was swept or erased in this very moment
		err = errBusy.Retry(time.Second)
	}
	return got.rec, err
}

// newClaim returns 31 bits of the node, and 32 that tell its tries apart.
func (s *answers) newClaim() int64 { return int64(s.node)<<32 | rand.Int64N(1<<32-1) + 1 }

// nodeIn is a node as its claims have it; two that are taken for one only wait longer.
func nodeIn(name string) uint32 {
	sum := sha256.Sum256([]byte(name))
	return binary.BigEndian.Uint32(sum[:]) >> 1
}

// living tells of which nodes the tries may still run: of all, where that is not known.
func (s *answers) living(ctx context.Context) func(node uint32) bool {
	everybody := func(uint32) bool { return true }
	if s.live == nil {
		return everybody
	}
	ctx, stop := context.WithTimeout(ctx, liveTime)
	defer stop()
	names, err := s.live(ctx)
	nodes := make([]uint32, len(names))
	for i, name := range names {
		nodes[i] = nodeIn(name)
	}
	if err != nil || !slices.Contains(nodes, s.node) { // a list that lacks this node knows little
		return everybody
	}
	return func(node uint32) bool { return slices.Contains(nodes, node) }
}

// abandon frees the row that a claim may have got, or may still get, after its
// request has left.
func (s *answers) abandon(ctx context.Context, rec record) {
	ctx, stop := toStore(ctx)
	defer stop()
	_ = s.finish(ctx, rec) // else the claim lapses by itself
}

// toStore returns a context in which to wait until the end of a try is stored. It outlives the request's client and, for
// [storeGrace], its deadline. A change that is queued by then is stored without the wait.
func toStore(ctx context.Context) (context.Context, context.CancelFunc) {
	wait := storeTime
	if end, ends := ctx.Deadline(); ends {
		wait = max(storeGrace, min(wait, time.Until(end)))
	}
	return context.WithTimeout(context.WithoutCancel(ctx), wait)
}

// finish ends the try of rec: with a Status it stores the answer, without it lets the
// next try run at once. A row that is another try's it leaves alone.
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

// commit writes a batch, the claims first: the end of an abandoned claim may come with
// the claim itself. Rows are written in the order of their keys, so that batches of two
// nodes do not deadlock.
func (s *answers) commit(ctx context.Context, changes []change) ([]claimed, error) {
	ctx, stop := context.WithTimeout(ctx, batchTime)
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

// records returns the records of the changes at those indices, both sorted by primary
// key.
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

// claimAll claims the rows of the changes at those indices. As a rule all are new; else
// a transaction looks at them.
func (s *answers) claimAll(ctx context.Context, changes []change, at []int, out []claimed) error {
	recs := records(changes, at)
	now := s.db.Now().UnixMilli()
	for n := range recs {
		recs[n].Created, recs[n].Claimed, recs[n].Expires = now, now, now+keepAnswers.Milliseconds()
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
	alive := s.living(ctx)
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
				found[rec.row()] = rec // another request of this batch for this row finds it taken
			}
		}
		return s.sql.replace(ctx, tx, free)
	})
}

// next returns what becomes of a row that old has when rec claims it: old itself when
// it has an answer, or is rec's already, else rec. It fails with errBusy or errMismatch.
func (old record) next(rec record, now int64, alive func(node uint32) bool) (record, error) {
	life, running := claimLife, alive(uint32(old.Claim>>32)) //nolint:gosec // 31 bits
	if !running {
		life = orphanLife
	}
	left := time.Duration(old.Claimed+life.Milliseconds()-now) * time.Millisecond
	switch {
	case old.Claim == rec.Claim: // written by this batch or by an earlier try of it
		return old, nil
	case old.Expires <= now: // begins anew
		return rec, nil
	case old.RequestHash != rec.RequestHash && old.RequestHash != rec.plainHash && old.RequestHash != rec.previousHash:
		return rec, errMismatch
	case old.Status != 0:
		return old, nil
	case left > 0 && running: // it may end at any moment
		return rec, errBusy.Retry(min(left, time.Second))
	case left > 0:
		return rec, errBusy.Retry(left)
	}
	// That try failed, or its process died.
	rec.Created, rec.Expires = old.Created, old.Expires
	if old.RequestHash == rec.previousHash { // the seed stays the same as well, see [API.macOf]
		rec.RequestHash = old.RequestHash
	}
	return rec, nil
}

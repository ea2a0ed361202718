package collection

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/cache/internal/shapes"
)

// Question asks whether a member is in a collection: see [Ask]. Use each Question once.
type Question struct {
	c   *collection
	k   any
	f   *memberQuery
	err error
}

// Ask returns the question whether m is in k's set.
func (s *Set[K, M]) Ask(k K, m M) *Question {
	text, err := s.members.text(m)
	return &Question{s.c, k, oneMember(text, nil), err}
}

// Ask returns the question whether the field f is in k's hash.
func (h *Hash[K, F, V]) Ask(k K, f F) *Question {
	text, err := h.fields.text(f)
	return &Question{h.c, k, oneMember(text, nil), err}
}

// Yes returns the answer, after [Ask] has returned without an error.
func (q *Question) Yes() bool {
	_, ok := q.f.at(0)
	return ok
}

// Ask answers questions about several collections of one runtime, which may be of different families, in one round trip
// to Redis. It loads collections that are not in Redis, as Has does.
func Ask(ctx context.Context, questions ...*Question) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if len(questions) == 0 {
		return nil
	}
	asked := make([]shapes.Question[*cache.Collection], len(questions))
	for i, q := range questions {
		if q.err != nil {
			return q.err
		}
		q.f.shape = q.c.shape
		asked[i] = shapes.Question[*cache.Collection]{Of: q.c.Collection, At: q.k, Query: q.f}
	}
	left, err := questions[0].c.ReadSeveral(ctx, asked)
	if err != nil || len(left) == 0 {
		return err
	}
	var loading errgroup.Group
	for _, i := range left {
		q := questions[i]
		loading.Go(func() error { return q.c.ask(ctx, q.k, q.f) })
	}
	return loading.Wait()
}

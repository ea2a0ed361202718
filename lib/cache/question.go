package cache

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/stoa-dev/stoa/lib/keyspace"
)

// Question asks whether a member is in a collection: see [Runtime.Ask]. It serves once.
type Question struct {
	c   *collection
	k   any
	f   *memberQuery
	err error
}

// Ask asks whether m is in k's set.
func (s *Set[K, M]) Ask(k K, m M) *Question {
	text, err := s.members.text(m)
	return &Question{s.c, k, oneMember(text, nil), err}
}

// Ask asks whether the field f is in k's hash.
func (h *Hash[K, F, V]) Ask(k K, f F) *Question {
	text, err := h.fields.text(f)
	return &Question{h.c, k, oneMember(text, nil), err}
}

// Yes is the answer, once [Runtime.Ask] has returned without an error.
func (q *Question) Yes() bool {
	_, ok := q.f.at(0)
	return ok
}

// Ask answers questions about several collections, which may be of different families, in
// one round trip to Redis. What is not loaded there is loaded as by Has.
func (rt *Runtime) Ask(ctx context.Context, questions ...*Question) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var cmds []keyspace.Cmd
	var asked []*Question
	var eras []uint64
	var left []*Question
	for _, q := range questions {
		if q.err != nil {
			return q.err
		}
		key := q.c.key(q.k)
		era, err := q.c.usable(key)
		if err != nil {
			return err
		}
		if q.f.shape = q.c.shape; era == 0 {
			left = append(left, q)
			continue
		}
		cmds = append(cmds, q.f.cmd(key, q.c.mark(era)))
		asked, eras = append(asked, q), append(eras, era)
	}
	if len(cmds) > 0 {
		for i, r := range rt.do(cmds...) {
			if q := asked[i]; q.c.took(ctx, q.k, cmds[i].Key, eras[i], q.f, r) != answered {
				left = append(left, q)
			}
		}
	}
	if len(left) == 0 {
		return nil
	}
	var loading errgroup.Group
	for _, q := range left {
		loading.Go(func() error { return q.c.ask(ctx, q.k, q.f) })
	}
	return loading.Wait()
}

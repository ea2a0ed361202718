package collection

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/cache/internal/shapes"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// ErrScore is returned for a score that is NaN or −∞, which a [ZSet] cannot store.
var ErrScore = errors.New("cache: scores cannot be NaN or −∞")

// ZSet keeps sets of M by score in Redis, each loaded as a whole, such as the friend requests to a user by their time.
// The documentation of [Hash] applies to it too.
type ZSet[K, M comparable] struct {
	keyed[K]
	members codec[M]
}

// ZSetSource loads the sorted sets of a [ZSet].
type ZSetSource[K, M comparable] struct {
	// Load returns all members of k; an empty result is not an error. See [cache.Source] for its context.
	Load func(ctx context.Context, k K) (map[M]float64, error)
	// Pick returns those of ms that are members. See [HashSource].
	Pick func(ctx context.Context, k K, ms []M) (map[M]float64, error)
}

// NewZSet returns the cached sorted sets of a family with one argument. It panics
// when M cannot be written as text: see [encoding/json] on the keys of maps.
func NewZSet[A keyspace.Segment, M comparable](rt *cache.Runtime, f keyspace.F1[A, keyspace.CachedZSet[M]], p Policy,
	src ZSetSource[A, M]) *ZSet[A, M] {
	z := &ZSet[A, M]{members: codecOf[M]()}
	from := shapes.Source{}
	if src.Load != nil {
		from.Load = func(ctx context.Context, k any) (shapes.Held, error) { return z.hold(src.Load(ctx, k.(A))) }
	}
	if src.Pick != nil {
		from.Pick = func(ctx context.Context, k any, texts []string) (shapes.Held, error) {
			ms, err := z.members.members(texts)
			if err != nil {
				return nil, err
			}
			return z.hold(src.Pick(ctx, k.(A), ms))
		}
	}
	z.keyed = keyed[A]{newCollection(rt, f.Family, func(k any) keyspace.Key { return f.At(k.(A)).Key }, p, from)}
	return z
}

// hold converts the result of the source.
func (z *ZSet[K, M]) hold(scores map[M]float64, err error) (shapes.Held, error) {
	if err != nil {
		return nil, err
	}
	out := make(shapes.Held, len(scores))
	for m, score := range scores {
		text, err := z.members.text(m)
		if err == nil {
			out[text], err = scoreText(score)
		}
		if err != nil {
			return nil, fmt.Errorf("cache: %s: %w", z.Name(), err)
		}
	}
	return out, nil
}

// scoreText returns the exact text of a score.
func scoreText(score float64) (string, error) {
	if math.IsNaN(score) || math.IsInf(score, -1) { // −∞ is the score of marker members
		return "", ErrScore
	}
	return strconv.FormatFloat(score, 'g', 17, 64), nil
}

func scoreOf(text string) float64 {
	score, _ := strconv.ParseFloat(text, 64) // Redis wrote it, or scoreText
	return score
}

// Score returns the score of m in k's set; ok is false if m is not in it.
func (z *ZSet[K, M]) Score(ctx context.Context, k K, m M) (score float64, ok bool, err error) {
	scores, err := z.Scores(ctx, k, []M{m})
	score, ok = scores[m]
	return score, ok, err
}

// Scores returns the scores of those of ms that are in k's set, in one round trip.
func (z *ZSet[K, M]) Scores(ctx context.Context, k K, ms []M) (map[M]float64, error) {
	args, err := z.members.args(ms)
	if err != nil {
		return nil, err
	}
	f := &memberQuery{args: args}
	if err := z.c.ask(ctx, k, f); err != nil {
		return nil, err
	}
	out := make(map[M]float64, len(ms))
	for i, m := range ms {
		if text, ok := f.at(i); ok {
			out[m] = scoreOf(text)
		}
	}
	return out, nil
}

// Scored is a member and its score.
type Scored[M comparable] struct {
	Member M
	Score  float64
}

// Page returns the next n members of k's set from high scores to low ones: 0 means 100, and at most 1,000 are returned.
// Members with the same score are in descending order of their texts. Pass next as the cursor of the following page; it
// is "" at the end, like the first cursor. The cursor is a score and a member, so a member that keeps its score is in
// exactly one page, whatever is added or removed meanwhile.
func (z *ZSet[K, M]) Page(ctx context.Context, k K, cursor string, n int) (page []Scored[M], next string, err error) {
	n = pageSize(n)
	score, after := "", ""
	if cursor != "" {
		text, err := decodeCursor(cursor)
		if err != nil {
			return nil, "", err
		}
		score, after, _ = strings.Cut(text, " ")
		if f, err := strconv.ParseFloat(score, 64); err != nil || math.IsNaN(f) {
			return nil, "", ErrCursor
		}
	}
	take := func(pairs []pair) error {
		page, next = make([]Scored[M], len(pairs)), ""
		for i, p := range pairs {
			m, err := z.members.parse(p.member)
			if err != nil {
				return err
			}
			page[i] = Scored[M]{m, scoreOf(p.value)}
		}
		if len(pairs) == n {
			last := pairs[n-1]
			next = encodeCursor(last.value + " " + last.member)
		}
		return nil
	}
	h, err := z.c.Read(ctx, k, wholeQuery{
		func(key keyspace.Key, mark string) keyspace.Cmd {
			return shapes.Page(key, shapes.EraOf(mark), n, score, after)
		},
		func(r keyspace.Reply) shapes.Verdict {
			if r.Nil() {
				return shapes.Absent
			}
			pairs, _ := z.c.pairs(r.List, "")
			return readable(take(pairs))
		}})
	if h == nil || err != nil {
		return page, next, err
	}
	pairs := pairsOf(h)
	down := func(a, b pair) int {
		return cmp.Or(cmp.Compare(scoreOf(b.value), scoreOf(a.value)), cmp.Compare(b.member, a.member))
	}
	slices.SortFunc(pairs, down)
	if cursor != "" {
		from, found := slices.BinarySearchFunc(pairs, pair{after, score}, down)
		if found {
			from++
		}
		pairs = pairs[from:]
	}
	err = take(pairs[:min(n, len(pairs))])
	return page, next, err
}

// Len returns the number of members in k's set.
func (z *ZSet[K, M]) Len(ctx context.Context, k K) (int, error) { return z.c.count(ctx, k, "", nil) }

// CountAbove returns the number of members in k's set with a score above score.
func (z *ZSet[K, M]) CountAbove(ctx context.Context, k K, score float64) (int, error) {
	switch {
	case math.IsInf(score, -1):
		return z.Len(ctx, k)
	case math.IsInf(score, 1):
		return 0, nil
	}
	above, err := scoreText(score)
	if err != nil {
		return 0, err
	}
	return z.c.count(ctx, k, above, func(v string) bool { return scoreOf(v) > score })
}

// ZSetEdit is what a change does to a sorted set.
type ZSetEdit[M comparable] struct {
	changes
	members codec[M]
}

// Set adds m, or changes its score.
func (e *ZSetEdit[M]) Set(m M, score float64) {
	text, err := e.members.text(m)
	value := ""
	if err == nil {
		value, err = scoreText(score)
	}
	e.put(text, value, err)
}

// Remove removes members.
func (e *ZSetEdit[M]) Remove(ms ...M) {
	for _, m := range ms {
		text, err := e.members.text(m)
		e.remove(text, err)
	}
}

// Edit returns a target that applies edit to k's set. See [Hash.Edit].
func (z *ZSet[K, M]) Edit(k K, edit func(e *ZSetEdit[M])) cache.Target {
	return z.c.Edit(k, func() ([]string, []string, error) {
		e := &ZSetEdit[M]{members: z.members}
		edit(e)
		return e.texts(z.c.shape)
	})
}

// Mutate calls change, which commits something to the source, and applies edit to
// k's set. See [cache.Runtime.Change] and [Hash.Edit].
func (z *ZSet[K, M]) Mutate(ctx context.Context, k K, change func(ctx context.Context) error, edit func(e *ZSetEdit[M])) error {
	return z.c.Runtime().Change(ctx, change, z.Edit(k, edit))
}

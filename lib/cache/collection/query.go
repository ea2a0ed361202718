package collection

import (
	"context"
	"maps"
	"slices"

	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/cache/internal/shapes"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// collection contains the queries common to [Hash], [Set] and [ZSet]. Members and values are strings here; see
// [shapes.Held].
type collection struct {
	*cache.Collection
	shape *shapes.Shape
}

func newCollection(rt *cache.Runtime, fam *keyspace.Family, key func(k any) keyspace.Key, p Policy, s shapes.Source) *collection {
	c := rt.Collection(fam, key, p.cache(), s)
	return &collection{c, c.Shape()}
}

// wholeQuery is a query about all members.
type wholeQuery struct {
	ask    func(key keyspace.Key, mark string) keyspace.Cmd
	answer func(keyspace.Reply) shapes.Verdict
}

func (q wholeQuery) About() []string                                { return nil }
func (q wholeQuery) Cmd(key keyspace.Key, mark string) keyspace.Cmd { return q.ask(key, mark) }
func (q wholeQuery) Take(r keyspace.Reply) shapes.Verdict           { return q.answer(r) }

// memberQuery is a query about some members: whether they exist, and their values. It is one command while the
// collection is loaded.
type memberQuery struct {
	shape *shapes.Shape
	args  []string                   // of the command: the mark, which Cmd fills in, and the members
	pair  [2]string                  // storage for args
	use   func(f *memberQuery) error // decodes the values; nil: nothing is decoded
	list  []keyspace.Reply           // the reply of Redis; if held is set, that is the result
	held  shapes.Held
}

// oneMember is a query about one member.
func oneMember(member string, use func(f *memberQuery) error) *memberQuery {
	f := &memberQuery{pair: [2]string{1: member}, use: use}
	f.args = f.pair[:]
	return f
}

func (f *memberQuery) About() []string { return f.args[1:] }

func (f *memberQuery) Cmd(key keyspace.Key, mark string) keyspace.Cmd {
	f.args[0] = mark
	return keyspace.Cmd{Name: f.shape.Check, Key: key, Args: f.args}
}

func (f *memberQuery) Take(r keyspace.Reply) shapes.Verdict {
	if len(r.List) != len(f.args) || !present(r.List[0]) {
		return shapes.Absent
	}
	if f.list = r.List[1:]; f.use != nil {
		return readable(f.use(f))
	}
	return shapes.Answered
}

// at returns the value of the i-th member.
func (f *memberQuery) at(i int) (v string, ok bool) {
	if f.held == nil {
		return f.list[i].Str, present(f.list[i])
	}
	v, ok = f.held[f.args[1+i]]
	return v, ok
}

// ask answers a query about some members from Redis or the source.
func (c *collection) ask(ctx context.Context, k any, f *memberQuery) (err error) {
	f.shape = c.shape
	if f.held, err = c.Read(ctx, k, f); err == nil && f.held != nil && f.use != nil {
		err = f.use(f)
	}
	return err
}

// contains reports whether a member is in the collection.
func (c *collection) contains(ctx context.Context, k any, member string) (bool, error) {
	f := oneMember(member, nil)
	if err := c.ask(ctx, k, f); err != nil {
		return false, err
	}
	_, ok := f.at(0)
	return ok, nil
}

// has returns those of ms that are in the collection.
func has[M comparable](ctx context.Context, c *collection, k any, of *codec[M], ms []M) (map[M]bool, error) {
	args, err := of.args(ms)
	if err != nil {
		return nil, err
	}
	f := &memberQuery{args: args}
	if err := c.ask(ctx, k, f); err != nil {
		return nil, err
	}
	out := make(map[M]bool, len(ms))
	for i, m := range ms {
		if _, ok := f.at(i); ok {
			out[m] = true
		}
	}
	return out, nil
}

// present reports whether a reply of HMGET, SMISMEMBER or ZMSCORE means that a member exists.
func present(r keyspace.Reply) bool {
	return r.Kind == keyspace.TextReply || r.Kind == keyspace.IntReply && r.N == 1
}

// count returns the number of members, or of a sorted set's members above a score if above is not empty.
func (c *collection) count(ctx context.Context, k any, above string, counts func(v string) bool) (int, error) {
	n := int64(0)
	h, err := c.Read(ctx, k, wholeQuery{
		func(key keyspace.Key, mark string) keyspace.Cmd { return c.shape.Size(key, shapes.EraOf(mark), above) },
		func(r keyspace.Reply) shapes.Verdict {
			n = r.N
			return loadedIf(!r.Nil())
		}})
	if h == nil || err != nil {
		return int(n), err
	}
	for _, v := range h {
		if above == "" || counts(v) {
			n++
		}
	}
	return int(n), nil
}

func loadedIf(ok bool) shapes.Verdict {
	if ok {
		return shapes.Answered
	}
	return shapes.Absent
}

// changes are the steps of an edit; the last step for a member counts.
type changes struct {
	puts    map[string]string
	removes map[string]bool
	err     error
}

func (c *changes) put(m, v string, err error) {
	if c.err == nil {
		c.err = err
	}
	if c.puts == nil {
		c.puts = map[string]string{}
	}
	c.puts[m] = v
	delete(c.removes, m)
}

func (c *changes) remove(m string, err error) {
	if c.err == nil {
		c.err = err
	}
	if c.removes == nil {
		c.removes = map[string]bool{}
	}
	c.removes[m] = true
	delete(c.puts, m)
}

// texts returns the steps as the shape's commands expect them.
func (c *changes) texts(s *shapes.Shape) (puts, removes []string, err error) {
	for m, v := range c.puts {
		puts = s.Put(puts, m, v)
	}
	return puts, slices.Collect(maps.Keys(c.removes)), c.err
}

package keyspace

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Batch collects commands, to send them in one round trip. Each gets a [Future] with a
// typed result, which [Batch.Run] or [Batch.RunAtomic] fills in. The zero Batch is empty
// and ready, and so is one that has run. It is not safe for concurrent use.
//
// A command's kind of reply says which method takes it, for instance Int for what adds to
// a [Counter]. [JSON], [Record] and [Script] have methods of their own that put a command
// in a batch. A reply of another kind is [ErrReply].
type Batch struct {
	cmds    []Cmd
	settled []func(Reply) error
}

// Future is the result of one command of a [Batch].
type Future[T any] struct {
	v   T
	ok  bool
	err error
}

var errNotRun = errors.New("keyspace: the batch has not run")

// Get returns the result. ok is false when the reply was nil, for instance because there
// is no such key, and when there is an error: the batch's before it has run.
func (f *Future[T]) Get() (v T, ok bool, err error) { return f.v, f.ok, f.err }

// Value returns the result, which is zero when there is none. It is for what Run's error
// was looked at before.
func (f *Future[T]) Value() T { return f.v }

// queue puts a command in b whose reply read makes a T of.
func queue[T any](b *Batch, cmd Cmd, read func(Reply) (T, bool, error)) *Future[T] {
	f := &Future[T]{err: errNotRun}
	b.cmds = append(b.cmds, cmd)
	b.settled = append(b.settled, func(r Reply) error {
		var v T
		if v, f.ok, f.err = read(r); f.err == nil {
			f.v = v
		} else {
			f.ok = false
		}
		return f.err
	})
	return f
}

// plainly is for readers that make something of a nil reply as well.
func plainly[T any](read func(Reply) (T, error)) func(Reply) (T, bool, error) {
	return func(r Reply) (T, bool, error) {
		v, err := read(r)
		return v, !r.Nil(), err
	}
}

// Do collects a command of which only the error matters; that is in Run's.
func (b *Batch) Do(cmd Cmd) {
	queue(b, cmd, func(r Reply) (struct{}, bool, error) { return struct{}{}, true, r.Err })
}

// Int collects a command that answers with a whole number.
func (b *Batch) Int(cmd Cmd) *Future[int64] { return queue(b, cmd, plainly(Reply.Int)) }

// Bool collects a command that answers 1 or 0, or OK or nil; see [Reply.Bool].
func (b *Batch) Bool(cmd Cmd) *Future[bool] { return queue(b, cmd, plainly(Reply.Bool)) }

// Float collects a command that answers with a floating-point number.
func (b *Batch) Float(cmd Cmd) *Future[float64] { return queue(b, cmd, Reply.Float) }

// Text collects a command that answers with a text.
func (b *Batch) Text(cmd Cmd) *Future[string] { return queue(b, cmd, Reply.Text) }

// Texts collects a command that answers with a list of texts.
func (b *Batch) Texts(cmd Cmd) *Future[[]string] { return queue(b, cmd, plainly(Reply.Texts)) }

// Map collects a command that answers with names and values, such as [Hash.AllCmd].
func (b *Batch) Map(cmd Cmd) *Future[map[string]string] { return queue(b, cmd, plainly(Reply.Map)) }

// Scores collects a command that answers with members and scores, such as [ZSet.TopCmd].
func (b *Batch) Scores(cmd Cmd) *Future[[]Scored] { return queue(b, cmd, plainly(Reply.Scores)) }

// Entries collects a command that answers with entries of a stream, such as
// [Stream.RangeCmd].
func (b *Batch) Entries(cmd Cmd) *Future[[]StreamEntry] {
	return queue(b, cmd, plainly(Reply.Entries))
}

// GetIn is Get as a part of a batch.
func (h JSON[V]) GetIn(b *Batch) *Future[V] { return queue(b, h.GetCmd(), h.Read) }

// SetIn is Set as a part of a batch. What has no JSON is an error of the batch.
func (h JSON[V]) SetIn(b *Batch, v V) {
	cmd, err := h.SetCmd(v, h.fam.TTL.Draw())
	if err != nil {
		cmd = Cmd{Key: h.Key, Err: err}
	}
	b.Do(cmd)
}

// GetIn is Get as a part of a batch.
func (h Record[T]) GetIn(b *Batch) *Future[T] { return queue(b, h.GetCmd(), h.Read) }

// Len returns how many commands were collected.
func (b *Batch) Len() int { return len(b.cmds) }

// take empties the batch.
func (b *Batch) take() (cmds []Cmd, settled []func(Reply) error) {
	cmds, settled = b.cmds, b.settled
	b.cmds, b.settled = nil, nil
	return cmds, settled
}

// settle fills in the futures and returns all errors, joined.
func settle(cmds []Cmd, settled []func(Reply) error, replies []Reply) error {
	var faults []error
	for i, fill := range settled {
		if err := fill(replies[i]); err != nil {
			faults = append(faults, fmt.Errorf("keyspace: command %d of a batch%s: %w", i+1, about(cmds[i].Key), err))
		}
	}
	return errors.Join(faults...)
}

func about(k Key) string {
	if k.fam == nil {
		return ""
	}
	return ", of " + k.fam.Pattern
}

// Run sends the commands in one round trip, to each owner of their slots, and fills in
// their futures. A command that fails does not keep the others from running; the error
// joins those of all. Commands of one slot are carried out in their order, but for those
// that give a life, which are scripts: a server that does not know them yet carries them
// out behind the others. Where that matters, RunAtomic keeps the order.
func (b *Batch) Run(ctx context.Context, db Executor) error {
	cmds, settled := b.take()
	if len(cmds) == 0 {
		return nil
	}
	return settle(cmds, settled, db.DoMulti(ctx, cmds))
}

// ErrCrossSlot reports keys of one transaction or script that do not share a hash tag.
var ErrCrossSlot = errors.New("keyspace: the keys of one transaction or script must share a hash tag")

//go:embed lua/atomic.lua
var atomicLua string

var atomicName = ScriptName(atomicLua)

// RunAtomic is Run with nothing of other clients between the commands, as between MULTI
// and EXEC: either all are carried out or none, and, as there, one that fails does not
// undo the others. All keys must share a hash tag, or it is [ErrCrossSlot]. A batch that
// has scripts, commands without a key, commands with more than 5,000 keys and arguments, or
// commands that [Cmd.Check] refuses, is refused as a whole, before anything is sent.
//
// It is one script and not MULTI, which would need a connection of its own, whereas an
// [Executor] shares connections. So there is no WATCH: what is decided by what was read
// is a [Script] of one's own.
func (b *Batch) RunAtomic(ctx context.Context, db Executor) error {
	cmds, settled := b.take()
	if len(cmds) == 0 {
		return nil
	}
	cmd, err := atomically(cmds)
	if err == nil {
		r := db.Do(ctx, cmd)
		var replies []Reply
		if replies, err = r.Items(); err == nil && len(replies) == len(cmds) {
			return settle(cmds, settled, replies)
		}
		if err == nil {
			err = fmt.Errorf("%w: %d replies to %d commands", ErrReply, len(replies), len(cmds))
		}
	}
	for _, fill := range settled {
		fill(Fail(err))
	}
	return err
}

// mostPassed is how many keys and arguments the script hands on to one command: Lua's unpack gives up
// at 8,000 in Redis and beyond 5,000 in the embedded server, in the midst of the script, when the
// commands before have been carried out.
const mostPassed = 5000

// atomically makes one script of commands.
func atomically(cmds []Cmd) (Cmd, error) {
	var keys []Key
	var args []string
	for i := range cmds {
		cmd := cmds[i]
		if err := cmd.Check(); err != nil {
			return Cmd{}, fmt.Errorf("keyspace: command %d of a transaction%s: %w", i+1, about(cmd.Key), err)
		}
		life, once, which, before := "", "", "1", "0"
		name, rest := cmd.Name, cmd.Args
		switch {
		case name == writeName:
			life, once, name, rest = rest[0], rest[1], rest[2], rest[3:]
		case name == placeName:
			life, once, which, before, name, rest = rest[0], rest[1], rest[2], rest[3], rest[4], rest[5:]
		case strings.HasPrefix(name, ScriptMark), strings.HasPrefix(name, FunctionMark), cmd.Key.IsZero():
			return Cmd{}, fmt.Errorf("keyspace: command %d of a transaction%s is a script, a function, or has no key", i+1, about(cmd.Key))
		}
		own := append([]Key{cmd.Key}, cmd.More...)
		if n := len(own) + len(rest); n > mostPassed {
			return Cmd{}, fmt.Errorf("keyspace: command %d of a transaction%s has %d keys and arguments, more than %d", i+1, about(cmd.Key), n, mostPassed)
		}
		for _, k := range own {
			if first := cmds[0].Key; !SameSlot(first, k) {
				return Cmd{}, fmt.Errorf("%w: %s and %s", ErrCrossSlot, first, k)
			}
		}
		keys = append(keys, own...)
		args = append(append(args, life, once, which, before, strconv.Itoa(len(own)), strconv.Itoa(len(rest)), name), rest...)
	}
	return Cmd{Name: atomicName, Key: keys[0], More: keys[1:], Args: args}, nil
}

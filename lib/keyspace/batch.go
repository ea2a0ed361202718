package keyspace

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Batch collects commands and sends them in one round trip. Each command gets a [Future] with a typed result, which
// [Batch.Run] or [Batch.RunAtomic] sets. The zero Batch is empty and ready to use; a Batch can be reused after it has
// run. It is not safe for concurrent use.
//
// Choose the method by the kind of the reply, for example Int for a command that adds to a [Counter]. [JSON], [Record]
// and [Script] have their own methods that add a command to a batch. A reply of another kind is [ErrReply].
type Batch struct {
	cmds  []Cmd
	fills []func(Reply) error
}

// Future is the result of one command of a [Batch].
type Future[T any] struct {
	v   T
	ok  bool
	err error
}

var errNotRun = errors.New("keyspace: the batch has not run")

// Get returns the result. ok is false if the reply was nil, for example because the key does not exist, or if there is
// an error. Before the batch has run, err is not nil.
func (f *Future[T]) Get() (v T, ok bool, err error) { return f.v, f.ok, f.err }

// Value returns the result, or zero if there is none. Use it after the error of Run has been checked.
func (f *Future[T]) Value() T { return f.v }

// queue adds a command to b. read converts its reply to a T.
func queue[T any](b *Batch, cmd Cmd, read func(Reply) (T, bool, error)) *Future[T] {
	f := &Future[T]{err: errNotRun}
	b.cmds = append(b.cmds, cmd)
	b.fills = append(b.fills, func(r Reply) error {
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

// withOK adapts readers that also convert a nil reply.
func withOK[T any](read func(Reply) (T, error)) func(Reply) (T, bool, error) {
	return func(r Reply) (T, bool, error) {
		v, err := read(r)
		return v, !r.Nil(), err
	}
}

// Do collects a command without a result. Its error is part of the error of Run.
func (b *Batch) Do(cmd Cmd) {
	queue(b, cmd, func(r Reply) (struct{}, bool, error) { return struct{}{}, true, r.Err })
}

// Int collects a command that replies with a whole number.
func (b *Batch) Int(cmd Cmd) *Future[int64] { return queue(b, cmd, withOK(Reply.Int)) }

// Bool collects a command that replies with 1 or 0, or with OK or nil; see [Reply.Bool].
func (b *Batch) Bool(cmd Cmd) *Future[bool] { return queue(b, cmd, withOK(Reply.Bool)) }

// Float collects a command that replies with a floating-point number.
func (b *Batch) Float(cmd Cmd) *Future[float64] { return queue(b, cmd, Reply.Float) }

// Text collects a command that replies with a string.
func (b *Batch) Text(cmd Cmd) *Future[string] { return queue(b, cmd, Reply.Text) }

// Texts collects a command that replies with a list of strings.
func (b *Batch) Texts(cmd Cmd) *Future[[]string] { return queue(b, cmd, withOK(Reply.Texts)) }

// Map collects a command that replies with names and values, such as [Hash.AllCmd].
func (b *Batch) Map(cmd Cmd) *Future[map[string]string] { return queue(b, cmd, withOK(Reply.Map)) }

// Scores collects a command that replies with members and scores, such as [ZSet.TopCmd].
func (b *Batch) Scores(cmd Cmd) *Future[[]Scored] { return queue(b, cmd, withOK(Reply.Scores)) }

// Entries collects a command that replies with entries of a stream, such as [Stream.RangeCmd].
func (b *Batch) Entries(cmd Cmd) *Future[[]StreamEntry] {
	return queue(b, cmd, withOK(Reply.Entries))
}

// GetIn adds Get to a batch.
func (h JSON[V]) GetIn(b *Batch) *Future[V] { return queue(b, h.GetCmd(), h.Read) }

// SetIn adds Set to a batch. A value that cannot be encoded as JSON is an error of the batch.
func (h JSON[V]) SetIn(b *Batch, v V) {
	cmd, err := h.SetCmd(v, h.fam.TTL.Draw())
	if err != nil {
		cmd = Cmd{Key: h.Key, Err: err}
	}
	b.Do(cmd)
}

// GetIn adds Get to a batch.
func (h Record[T]) GetIn(b *Batch) *Future[T] { return queue(b, h.GetCmd(), h.Read) }

// Len returns the number of collected commands.
func (b *Batch) Len() int { return len(b.cmds) }

// drain empties the batch and returns its content.
func (b *Batch) drain() (cmds []Cmd, fills []func(Reply) error) {
	cmds, fills = b.cmds, b.fills
	b.cmds, b.fills = nil, nil
	return cmds, fills
}

// settle sets the results of the futures and returns all errors, joined.
func settle(cmds []Cmd, settled []func(Reply) error, replies []Reply) error {
	var faults []error
	for i, fill := range settled {
		if err := fill(replies[i]); err != nil {
			faults = append(faults, fmt.Errorf("keyspace: command %d of a batch%s: %w", i+1, ofPattern(cmds[i].Key), err))
		}
	}
	return errors.Join(faults...)
}

func ofPattern(k Key) string {
	if k.fam == nil {
		return ""
	}
	return ", of " + k.fam.Pattern
}

// Run sends the commands in one round trip to each node that owns their slots, and sets the results of their futures. A
// command that fails does not stop the others; the error joins the errors of all commands.
//
// Commands of one slot run in order, except commands that set a TTL: these are scripts, and a server that does not have
// the script yet runs them after the other commands. Use RunAtomic if the order matters.
func (b *Batch) Run(ctx context.Context, db Executor) error {
	cmds, settled := b.drain()
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

// RunAtomic runs the commands without commands of other clients in between, like MULTI and EXEC: the server runs all of
// them or none. As with EXEC, a command that fails does not undo the others. All keys must share a hash tag, or the
// error is [ErrCrossSlot]. RunAtomic refuses the whole batch, before it sends anything, if one command is a script or a
// function, has no key, has more than 5,000 keys and arguments, or fails [Cmd.Check].
//
// It uses one script instead of MULTI, because MULTI needs its own connection and an [Executor] shares connections.
// There is no WATCH either: write a [Script] for a decision that depends on a read.
func (b *Batch) RunAtomic(ctx context.Context, db Executor) error {
	cmds, settled := b.drain()
	if len(cmds) == 0 {
		return nil
	}
	cmd, err := transaction(cmds)
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

// maxUnpacked is the largest number of keys and arguments of one command. Lua's unpack fails at 8,000 in Redis and above
// 5,000 in the embedded server. It would fail in the middle of the script, after the commands before it have run.
const maxUnpacked = 5000

// transaction combines commands into one script.
func transaction(cmds []Cmd) (Cmd, error) {
	var keys []Key
	var args []string
	for i := range cmds {
		cmd := cmds[i]
		if err := cmd.Check(); err != nil {
			return Cmd{}, fmt.Errorf("keyspace: command %d of a transaction%s: %w", i+1, ofPattern(cmd.Key), err)
		}
		life, once, which, before := "", "", "1", "0"
		name, rest := cmd.Name, cmd.Args
		switch {
		case name == writeName:
			life, once, name, rest = rest[0], rest[1], rest[2], rest[3:]
		case name == placeName:
			life, once, which, before, name, rest = rest[0], rest[1], rest[2], rest[3], rest[4], rest[5:]
		case strings.HasPrefix(name, ScriptMark), strings.HasPrefix(name, FunctionMark), cmd.Key.IsZero():
			return Cmd{}, fmt.Errorf("keyspace: command %d of a transaction%s is a script, a function, or has no key", i+1, ofPattern(cmd.Key))
		}
		own := append([]Key{cmd.Key}, cmd.More...)
		if n := len(own) + len(rest); n > maxUnpacked {
			return Cmd{}, fmt.Errorf("keyspace: command %d of a transaction%s has %d keys and arguments, more than %d", i+1, ofPattern(cmd.Key), n,
				maxUnpacked)
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

package keyspace

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
)

// Cmd is one Redis command: NAME keys... args... All keys must be in one slot.
type Cmd struct {
	Name string
	Key  Key   // first key
	More []Key // further keys, for commands with several keys
	Args []string
	Err  error // if set, the executor does not send the command, and the reply is this error
}

// ScriptMark begins the Name of a [Cmd] that runs a Lua script. The script's SHA-1 in hexadecimal digits, a space and
// its text follow. So a Cmd needs no extra field, and scripts need no registration.
const ScriptMark = "EVALSHA "

// ScriptName returns the Name of commands that run the script. Package redis has a type for scripts.
func ScriptName(src string) string {
	sum := sha1.Sum([]byte(src))
	return ScriptMark + hex.EncodeToString(sum[:]) + " " + src
}

// FunctionMark begins the Name of a [Cmd] that calls a function. The function's name follows. See [DefFunction].
const FunctionMark = "FCALL "

// An Executor sends commands to Redis. Package redis provides one; tests may use their own to record commands. DoMulti
// sends all commands at once, in one round trip for each node that owns their slots. It keeps the order within a slot
// and returns one reply for each command.
type Executor interface {
	Do(ctx context.Context, cmd Cmd) Reply
	DoMulti(ctx context.Context, cmds []Cmd) []Reply
}

// ErrReply reports a reply of another kind than the caller expected.
var ErrReply = errors.New("keyspace: unexpected reply")

// ReplyKind is the kind of a [Reply].
type ReplyKind uint8

// The reply kinds. The zero Reply is a nil reply.
const (
	NilReply ReplyKind = iota
	TextReply
	IntReply
	ListReply
	ErrorReply
)

// Reply is the reply of Redis to one [Cmd].
type Reply struct {
	Kind ReplyKind
	Str  string  // TextReply
	N    int64   // IntReply
	List []Reply // ListReply; maps are flat: a key, then its value
	Err  error   // ErrorReply: from the server, the network or the context
}

// Fail returns a Reply that carries err.
func Fail(err error) Reply { return Reply{Kind: ErrorReply, Err: err} }

// Nil reports whether the reply was nil, which usually means that the key does not exist.
func (r Reply) Nil() bool { return r.Kind == NilReply }

// Text returns the reply as a string; ok is false for a nil reply.
func (r Reply) Text() (s string, ok bool, err error) {
	switch r.Kind {
	case NilReply:
		return "", false, nil
	case TextReply:
		return r.Str, true, nil
	case IntReply:
		return strconv.FormatInt(r.N, 10), true, nil
	case ErrorReply:
		return "", false, r.Err
	}
	return "", false, fmt.Errorf("%w: list instead of text", ErrReply)
}

// Int returns the reply as a whole number; a nil reply is 0.
func (r Reply) Int() (int64, error) {
	switch r.Kind {
	case NilReply:
		return 0, nil
	case IntReply:
		return r.N, nil
	case TextReply:
		return strconv.ParseInt(r.Str, 10, 64)
	case ErrorReply:
		return 0, r.Err
	}
	return 0, fmt.Errorf("%w: list instead of number", ErrReply)
}

// Float returns the reply as a floating-point number; ok is false for a nil reply.
func (r Reply) Float() (f float64, ok bool, err error) {
	s, ok, err := r.Text()
	if !ok || err != nil {
		return 0, ok, err
	}
	f, err = strconv.ParseFloat(s, 64)
	return f, err == nil, err
}

// Items returns the elements of a list reply; a nil reply has none.
func (r Reply) Items() ([]Reply, error) {
	switch r.Kind {
	case NilReply:
		return nil, nil
	case ListReply:
		return r.List, nil
	case ErrorReply:
		return nil, r.Err
	}
	return nil, fmt.Errorf("%w: scalar instead of list", ErrReply)
}

// FirstErr returns the first error among replies, or nil.
func FirstErr(replies []Reply) error {
	for _, r := range replies {
		if r.Kind == ErrorReply {
			return r.Err
		}
	}
	return nil
}

package redis

import (
	"context"
	"errors"
	"regexp"
	"strings"

	"github.com/redis/rueidis"
)

// ErrUnavailable is in the tree of every error that means "Redis is away": it
// refuses connections or the password, does not answer in time, is loading, has
// lost its master, or this [DB] is closed. Whether the command was carried out is then
// unknown. An error without it is the server's considered answer, a
// [ServerError], or the caller's own cancelled context.
var ErrUnavailable = errors.New("redis: unavailable")

// ErrCrossSlot reports a command whose keys do not share a hash tag. It is
// refused in every mode, so that the embedded server finds what a cluster
// would.
var ErrCrossSlot = errors.New("redis: the keys of one command must share a hash tag")

// ErrClosed is the cause, under [ErrUnavailable], once the [DB] is closed.
var ErrClosed = errors.New("redis: closed")

var errConnecting = errors.New("not connected yet")

// ServerError is an error reply, as the server wrote it.
type ServerError string

func (e ServerError) Error() string { return "redis: " + string(e) }

// inScript is what a server before Redis 7 writes before the error that a command has met in a script:
// "Error running script (call to f_…): @user_script:4: @user_script: 4: -READONLY …".
var inScript = regexp.MustCompile(`^((ERR )?Error running script \(call to \w+\): )?(@?user_script: ?\d+: )+-?`)

// Code returns the reply's first word, such as WRONGTYPE, or ERR when it has none. Of an error in
// a script that is the word of the command that has failed.
func (e ServerError) Code() string {
	word, _, _ := strings.Cut(string(e)[len(inScript.FindString(string(e))):], " ")
	if word == "" || word != strings.ToUpper(word) {
		return "ERR"
	}
	return word
}

type unavailable struct{ cause error }

func (e *unavailable) Error() string { return "redis: unavailable: " + e.cause.Error() }
func (e *unavailable) Unwrap() error { return e.cause }
func (e *unavailable) Is(target error) bool {
	return target == ErrUnavailable
}

// away are the codes with which a server says that it cannot serve for now,
// rather than that the command is wrong.
var away = map[string]bool{
	"LOADING": true, "BUSY": true, "MASTERDOWN": true, "READONLY": true,
	"CLUSTERDOWN": true, "TRYAGAIN": true, "MOVED": true, "ASK": true,
	"MISCONF": true, "OOM": true, "NOREPLICAS": true,
	"NOAUTH": true, "WRONGPASS": true,
}

// classify turns an error of the client library into one of ours.
func classify(err error) error {
	if re, ok := err.(*rueidis.RedisError); ok {
		e := ServerError(bare(re.Error()))
		if away[e.Code()] {
			return &unavailable{e}
		}
		return e
	}
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, ErrUnavailable):
		return err
	case errors.Is(err, rueidis.ErrClosing):
		return &unavailable{ErrClosed}
	}
	return &unavailable{err}
}

// unanswered classifies why a command has no reply. An error that a server has said was for the connection that was
// to be made, and nothing was sent: too many clients, say, or a database that there is not.
func unanswered(err error) error {
	err = classify(err)
	if said, ok := err.(ServerError); ok {
		return &unavailable{said}
	}
	return err
}

// bare leaves out the arguments that a server repeats of a command which it does not know: of an AUTH that was
// renamed one is the password.
func bare(text string) string {
	text, _, _ = strings.Cut(text, ", with args beginning with")
	return text
}

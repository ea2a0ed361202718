package redis

import (
	"context"
	"errors"
	"regexp"
	"strings"

	"github.com/redis/rueidis"
)

// ErrUnavailable is in the tree of every error that means "Redis is unavailable": it refuses connections or the
// password, does not reply in time, is loading, has lost its master, or this [DB] is closed. The command may or may not
// have been executed. An error without it is a deliberate reply of the server, a [ServerError], or the caller's own
// cancelled context.
var ErrUnavailable = errors.New("redis: unavailable")

// ErrCrossSlot is returned for a command whose keys do not share a hash tag. It is refused in every mode, so that the
// embedded server finds the same errors as a cluster.
var ErrCrossSlot = errors.New("redis: the keys of one command must share a hash tag")

// ErrClosed is the cause, under [ErrUnavailable], after the [DB] is closed.
var ErrClosed = errors.New("redis: closed")

var errConnecting = errors.New("not connected yet")

// ServerError is an error reply, as the server wrote it.
type ServerError string

func (e ServerError) Error() string { return "redis: " + string(e) }

// inScript matches the text that a server before Redis 7 writes before the error of a command in a script: "Error
// running script (call to f_…): @user_script:4: @user_script: 4: -READONLY …".
var inScript = regexp.MustCompile(`^((ERR )?Error running script \(call to \w+\): )?(@?user_script: ?\d+: )+-?`)

// Code returns the reply's first word, such as WRONGTYPE, or ERR if it has none. For an error in a script it is the
// code of the failed command.
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

// unavailableCodes are the error codes of a server that cannot serve for now, rather than of a wrong command.
var unavailableCodes = map[string]bool{
	"LOADING": true, "BUSY": true, "MASTERDOWN": true, "READONLY": true,
	"CLUSTERDOWN": true, "TRYAGAIN": true, "MOVED": true, "ASK": true,
	"MISCONF": true, "OOM": true, "NOREPLICAS": true,
	"NOAUTH": true, "WRONGPASS": true,
}

// classify turns an error of the client library into an error of this package.
func classify(err error) error {
	if re, ok := err.(*rueidis.RedisError); ok {
		e := ServerError(bare(re.Error()))
		if unavailableCodes[e.Code()] {
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

// unanswered classifies the error of a command without a reply. A server error at this point belongs to the new
// connection, and nothing was sent: for example, the server has too many clients, or the database does not exist.
func unanswered(err error) error {
	err = classify(err)
	if said, ok := err.(ServerError); ok {
		return &unavailable{said}
	}
	return err
}

// bare removes the arguments that a server repeats for a command that it does not know: those of a renamed AUTH contain
// the password.
func bare(text string) string {
	text, _, _ = strings.Cut(text, ", with args beginning with")
	return text
}

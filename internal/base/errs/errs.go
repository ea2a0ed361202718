// Package errs gives every failure a kind, a stable code and a sentence that is safe to show. Transports map kinds to
// their own status; no other code depends on the details of an error.
package errs

import (
	"errors"
	"fmt"
	"time"
)

// Kind classifies a failure by the caller's possible reaction.
type Kind uint8

// The kinds. The zero value is Internal, so that an unclassified error is logged and never shown by accident.
const (
	Internal        Kind = iota
	Invalid              // the request is wrong; a retry does not help
	Unauthenticated      // no valid credentials
	Forbidden            // valid credentials, not allowed
	NotFound             // no such object, or none that the caller may see
	Conflict             // contradicts the current state
	TooMany              // rate limit; After is the time until a retry
	Unavailable          // a dependency is unavailable; After is the time until a retry
)

// An Error is a failure that the domain expects. Declare errors as package variables and compare them with errors.Is.
type Error struct {
	Kind   Kind
	Code   string // "checkin.board_unknown": stable, for machines
	Text   string // safe to show to the user
	After  time.Duration
	Fields []Field

	base *Error
}

// Field describes the fault of one part of the input. It never contains the rejected value.
type Field struct {
	Where string // "body.zone"
	Text  string
}

// New declares an expected failure.
func New(kind Kind, code, text string) *Error { return &Error{Kind: kind, Code: code, Text: text} }

func (e *Error) Error() string { return e.Code + ": " + e.Text }

// Is reports whether e was derived from the declaration target.
func (e *Error) Is(target error) bool { return e.base != nil && target == error(e.base) }

// Retry returns a copy of e that asks the caller to retry after d.
func (e *Error) Retry(d time.Duration) *Error { return e.derive(func(c *Error) { c.After = d }) }

// On returns a copy of e that names the faulty part of the input.
func (e *Error) On(where, text string) *Error {
	return e.derive(func(c *Error) { c.Fields = append(c.Fields[:len(c.Fields):len(c.Fields)], Field{where, text}) })
}

func (e *Error) derive(change func(*Error)) *Error {
	c := *e
	if c.base == nil {
		c.base = e
	}
	change(&c)
	return &c
}

// KindOf returns the kind of the first Error in err's tree, or Internal.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Internal
}

// Wrap adds the failed operation to *errp. Defer it first:
//
//	defer errs.Wrap(&err, "checkin.Mark %s", uid)
func Wrap(errp *error, format string, args ...any) {
	if *errp != nil {
		*errp = fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), *errp)
	}
}

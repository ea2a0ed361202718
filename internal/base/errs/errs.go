// Package errs gives every failure a kind, a stable code and a sentence that
// is safe to show. Transports map kinds to their own status; nothing else looks
// inside an error.
package errs

import (
	"errors"
	"fmt"
	"time"
)

// Kind classifies a failure by what the caller may do about it.
type Kind uint8

// The kinds. The zero value is Internal, so that an unclassified error is
// logged and never shown by accident.
const (
	Internal        Kind = iota
	Invalid              // the request is wrong; sending it again will not help
	Unauthenticated      // no valid credentials
	Forbidden            // valid credentials, not allowed
	NotFound             // no such thing, or none the caller may see
	Conflict             // contradicts the present state
	TooMany              // slow down; After says how long
	Unavailable          // a part is away; After says when to try again
)

// An Error is a failure the domain expected. Declare them as package variables
// and compare with errors.Is.
type Error struct {
	Kind   Kind
	Code   string // "checkin.board_unknown": stable, for machines
	Text   string // safe to show to the user
	After  time.Duration
	Fields []Field

	base *Error
}

// Field says what is wrong with one part of the input. It never carries the
// rejected value.
type Field struct {
	Where string // "body.zone"
	Text  string
}

// New declares an expected failure.
func New(kind Kind, code, text string) *Error { return &Error{Kind: kind, Code: code, Text: text} }

func (e *Error) Error() string { return e.Code + ": " + e.Text }

// Is reports whether target is the declaration e was derived from.
func (e *Error) Is(target error) bool { return e.base != nil && target == error(e.base) }

// Retry returns a copy of e that asks the caller to come back after d.
func (e *Error) Retry(d time.Duration) *Error { return e.derive(func(c *Error) { c.After = d }) }

// On returns a copy of e that names the part of the input at fault.
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

// Wrap adds to *errp what was being done. Defer it first:
//
//	defer errs.Wrap(&err, "checkin.Mark %s", uid)
func Wrap(errp *error, format string, args ...any) {
	if *errp != nil {
		*errp = fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), *errp)
	}
}

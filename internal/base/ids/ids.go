// Package ids defines the identifiers of Stoa: 12-character nanoids with 72 random bits. Their Go type states what
// they identify, and their text is the same in JSON, SQL, Redis keys and logs.
package ids

import (
	"crypto/rand"
	"crypto/sha256"
	"database/sql/driver"
	"encoding/base64"
	"fmt"
	"reflect"
	"strings"

	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// Len is the length of an identifier in bytes.
const Len = 12

// ErrMalformed reports text that is not an identifier.
var ErrMalformed = errs.New(errs.Invalid, "id.malformed", "An identifier is 12 characters of A-Z, a-z, 0-9, _ and -.")

// ID identifies one T. It is a struct, so that an unchecked string cannot be used as one. The zero ID identifies
// nothing.
type ID[T any] struct{ s string }

// size is the number of bytes that an identifier encodes.
const size = Len / 4 * 3

// New returns a random ID: nine random bytes in base64, whose alphabet is nanoid's. No ID begins with "-", which a
// command line would parse as a flag.
func New[T any]() ID[T] {
	for {
		var b [size]byte
		_, _ = rand.Read(b[:]) // never fails
		if id, ok := encode[T](b[:]); ok {
			return id
		}
	}
}

// Of derives an ID from a seed. It is the same for the same seed and the same name of T, and as hard to guess as the
// seed. No ID begins with "-".
func Of[T any](seed []byte) ID[T] {
	for sum := sha256.Sum256(append([]byte(reflect.TypeFor[T]().String()+"\x00"), seed...)); ; sum = sha256.Sum256(sum[:]) {
		if id, ok := encode[T](sum[:size]); ok {
			return id
		}
	}
}

// encode returns the ID of nine bytes; ok is false if it would begin with "-".
func encode[T any](b []byte) (id ID[T], ok bool) {
	s := base64.RawURLEncoding.EncodeToString(b)
	return ID[T]{s}, s[0] != '-'
}

// Parse returns the ID with the text s, or ErrMalformed.
func Parse[T any](s string) (ID[T], error) {
	if len(s) != Len {
		return ID[T]{}, ErrMalformed
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
		default:
			return ID[T]{}, ErrMalformed
		}
	}
	return ID[T]{s}, nil
}

// String returns the 12 characters, or "" for the zero ID.
func (id ID[T]) String() string { return id.s }

// Compare orders IDs byte by byte, as SQL orders them.
func (id ID[T]) Compare(other ID[T]) int { return strings.Compare(id.s, other.s) }

// IsZero reports whether id is the zero ID.
func (id ID[T]) IsZero() bool { return id.s == "" }

// AppendSegment implements [keyspace.Segment]; the alphabet needs no escaping.
func (id ID[T]) AppendSegment(b []byte) []byte { return append(b, id.s...) }

// SegmentForm implements [keyspace.Formed].
func (ID[T]) SegmentForm() keyspace.Form {
	return keyspace.Form{Alphabet: keyspace.Base64URL, Min: Len, Max: Len}
}

// MarshalText implements encoding.TextMarshaler.
func (id ID[T]) MarshalText() ([]byte, error) { return []byte(id.s), nil }

// UnmarshalText implements encoding.TextUnmarshaler; empty text is the zero ID.
func (id *ID[T]) UnmarshalText(b []byte) (err error) {
	if len(b) == 0 {
		*id = ID[T]{}
		return nil
	}
	*id, err = Parse[T](string(b))
	return err
}

// Value implements driver.Valuer.
func (id ID[T]) Value() (driver.Value, error) { return id.s, nil }

// Scan implements sql.Scanner.
func (id *ID[T]) Scan(src any) error {
	switch v := src.(type) {
	case string:
		return id.UnmarshalText([]byte(v))
	case []byte:
		return id.UnmarshalText(v)
	}
	return fmt.Errorf("ids: cannot scan %T", src)
}

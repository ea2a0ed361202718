package keyspace

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
)

// A Segment is an argument that fills one placeholder of a pattern. Two different values must never append the same
// bytes. Every value that a program may use must match the [Form] of the type. At checks the form and panics if the
// value does not match, as for a zero identifier: such a key would have no meaning, or all users would share it. Use a
// struct instead of a string type, so that an untyped constant is not accepted as an identifier. The pointer may have a
// method ReadSegment, the reverse of AppendSegment, for [F1.All].
type Segment interface {
	comparable
	AppendSegment(b []byte) []byte
}

// MaxText is the largest number of bytes of a [Text] that a key contains as text.
const MaxText = 64

// Text is free text as a segment. It is escaped byte by byte, so that no text can end its level or its hash tag. A text
// longer than [MaxText] becomes "%%" and its hash, which differs from every other text. Prefer [Hashed] for input from
// people, because every tool and log shows the names of keys.
type Text struct{ S string }

// AppendSegment appends the escaped text; an empty text is a lone '%'.
func (t Text) AppendSegment(b []byte) []byte {
	if len(t.S) > MaxText {
		return Hashed(t).AppendSegment(append(b, "%%"...))
	}
	return appendEscaped(b, t.S)
}

// SegmentForm implements [Formed].
func (Text) SegmentForm() Form { return Form{Alphabet: AnyText, Min: 1, Max: 3 * MaxText} }

// Raw is text that is not escaped, for keys that another program has named. Only a family of a [Schema.Brownfield]
// accepts it. It has 1 to 160 bytes, so that a key has room for three. It contains no braces, because these would be
// the hash tag of the key. Colons, spaces and glob characters are allowed; Lint reports the ambiguities that they
// cause.
type Raw struct{ S string }

// AppendSegment appends the text.
func (r Raw) AppendSegment(b []byte) []byte { return append(b, r.S...) }

// SegmentForm implements [Formed].
func (Raw) SegmentForm() Form { return Form{Alphabet: RawText, Min: 1, Max: 160} }

// Hashed is text that appears in the key as a hash of fixed length: e-mail addresses, IP addresses, tokens. It keeps
// personal data out of key names, and keys short for every input. The hash has 22 bytes: the first 128 bits of SHA-256
// in base64url.
type Hashed struct{ S string }

// hashLen is the length of a hash in a key.
const hashLen = 22

// AppendSegment appends the hash.
func (h Hashed) AppendSegment(b []byte) []byte {
	sum := sha256.Sum256([]byte(h.S))
	return base64.RawURLEncoding.AppendEncode(b, sum[:16])
}

// SegmentForm implements [Formed].
func (Hashed) SegmentForm() Form { return Form{Alphabet: Base64URL, Min: hashLen, Max: hashLen} }

// Int is a whole number as a segment, in decimal.
type Int struct{ N int64 }

// AppendSegment appends the decimal number.
func (i Int) AppendSegment(b []byte) []byte { return strconv.AppendInt(b, i.N, 10) }

// SegmentForm implements [Formed].
func (Int) SegmentForm() Form { return Form{Alphabet: Digits, Min: 1, Max: 20} }

// Words lists the values of one kind of [Word]. An empty struct that names the kind implements it.
type Words interface{ Words() []string }

// Word is a segment from a closed list, such as the name of a board, a period or a type. W is the list, so that words
// of two lists have two types. The zero Word is not in the list.
type Word[W Words] struct{ s string }

// WordOf returns one of W's words. It panics on any other word, usually during the initialisation of the program.
func WordOf[W Words](s literal) Word[W] {
	w, ok := ParseWord[W](string(s))
	if !ok {
		panic(fmt.Sprintf("keyspace: %q is not one of %T", s, *new(W)))
	}
	return w
}

// ParseWord returns the word s; ok is false if W does not contain it.
func ParseWord[W Words](s string) (w Word[W], ok bool) {
	if !slices.Contains((*new(W)).Words(), s) {
		return Word[W]{}, false
	}
	return Word[W]{s}, true
}

// String returns the word, or "" for the zero Word.
func (w Word[W]) String() string { return w.s }

// AppendSegment appends the word.
func (w Word[W]) AppendSegment(b []byte) []byte { return append(b, w.s...) }

// SegmentForm implements [Formed].
func (Word[W]) SegmentForm() Form { return Form{Words: (*new(W)).Words()} }

package keyspace

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
)

// A Segment is an argument that fills one placeholder of a pattern. Two
// different values must never append the same bytes, and every value a program
// may use must be of the type's [Form]. At checks the form and panics when it
// does not hold, as for a zero identifier: such a key would name nothing,
// or would be shared by all. Use a struct rather than a string type, so that an untyped
// constant does not pass for an identifier. A pointer to it may have ReadSegment as well,
// the reverse, for [F1.All].
type Segment interface {
	comparable
	AppendSegment(b []byte) []byte
}

// MaxText is how many bytes of a [Text] a key can hold.
const MaxText = 64

// Text is free text as a segment: escaped byte by byte, so that nothing in it
// can leave its place or its hash tag. A text longer than [MaxText] enters as
// "%%" and its hash, which no other text can be. Prefer [Hashed] for what
// people type: a name in a key is a name in every tool and log.
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

// Raw is text that stands in a key as it is, for keys that another program has named:
// only a family of a [Schema.Brownfield] takes it. It is 1 to 160 bytes, so that a key
// has room for three, and has no braces, which would be the key's hash tag. Colons,
// spaces and glob characters are allowed; Lint finds what they make ambiguous.
type Raw struct{ S string }

// AppendSegment appends the text.
func (r Raw) AppendSegment(b []byte) []byte { return append(b, r.S...) }

// SegmentForm implements [Formed].
func (Raw) SegmentForm() Form { return Form{Alphabet: RawText, Min: 1, Max: 160} }

// Hashed is text of which only a fixed-length hash enters the key: e-mail
// addresses, IP addresses, tokens. It keeps personal data out of key names and
// keys short whatever the input. 22 bytes, the first 128 bits of SHA-256.
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

// Int is a whole number as a segment, written bare.
type Int struct{ N int64 }

// AppendSegment appends the decimal number.
func (i Int) AppendSegment(b []byte) []byte { return strconv.AppendInt(b, i.N, 10) }

// SegmentForm implements [Formed].
func (Int) SegmentForm() Form { return Form{Alphabet: Digits, Min: 1, Max: 20} }

// Words lists the values of one kind of [Word]; it is implemented by an empty
// struct that gives the kind its name.
type Words interface{ Words() []string }

// Word is a segment out of a closed list: the name of a board, a period, a
// type. W says which list, so that words of two lists are two types. The zero
// Word is none of them.
type Word[W Words] struct{ s string }

// WordOf returns one of W's words; it panics on any other, which happens while
// the program is initialised.
func WordOf[W Words](s literal) Word[W] {
	w, ok := ParseWord[W](string(s))
	if !ok {
		panic(fmt.Sprintf("keyspace: %q is not one of %T", s, *new(W)))
	}
	return w
}

// ParseWord returns the word that s spells; ok is false when W has none such.
func ParseWord[W Words](s string) (w Word[W], ok bool) {
	if !slices.Contains((*new(W)).Words(), s) {
		return Word[W]{}, false
	}
	return Word[W]{s}, true
}

// String returns the word, "" for the zero Word.
func (w Word[W]) String() string { return w.s }

// AppendSegment appends the word.
func (w Word[W]) AppendSegment(b []byte) []byte { return append(b, w.s...) }

// SegmentForm implements [Formed].
func (Word[W]) SegmentForm() Form { return Form{Words: (*new(W)).Words()} }

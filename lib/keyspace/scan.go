package keyspace

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
)

// A Scanner finds keys. Package redis's DB is a Scanner. Scan calls fn with the name of every key under the prefix of
// the deployment; if fn returns an error, Scan stops and returns it. Physical returns the key with the prefix; for the
// zero Key, it returns the prefix and its colon.
type Scanner interface {
	Scan(ctx context.Context, fn func(physical string) error) error
	Physical(k Key) string
}

// Args2 has the arguments of a key of an [F2].
type Args2[A, B Segment] struct {
	A A
	B B
}

// Args3 has the arguments of a key of an [F3].
type Args3[A, B, C Segment] struct {
	A A
	B B
	C C
}

// All yields the argument of every existing key of the family:
//
//	for user, err := range cartKey.All(ctx, db) {
//
// It scans all keys of the deployment, so it is for tools and repairs. A key that is created or deleted during the scan
// may be missed; in rare cases, All yields a key twice. An error belongs to one key whose argument cannot be read, or
// it is the last value, because the scan has failed.
//
// A's pointer needs a method ReadSegment(string) error, the reverse of AppendSegment. [Int], [Text], [Raw] and [Word]
// have it, and so do structs that embed one of them. A hash cannot be reversed; use [F1.Keys] instead, which yields
// keys.
func (f F1[A, H]) All(ctx context.Context, db Scanner) iter.Seq2[A, error] {
	return scanFamily(ctx, f.Family, db, func(p Parsed) (a A, err error) {
		err = readSegment(p, 0, &a, nil)
		return a, err
	})
}

// All yields the arguments of every existing key of the family; see [F1.All].
func (f F2[A, B, H]) All(ctx context.Context, db Scanner) iter.Seq2[Args2[A, B], error] {
	return scanFamily(ctx, f.Family, db, func(p Parsed) (a Args2[A, B], err error) {
		err = readSegment(p, 0, &a.A, nil)
		err = readSegment(p, 1, &a.B, err)
		return a, err
	})
}

// All yields the arguments of every existing key of the family; see [F1.All].
func (f F3[A, B, C, H]) All(ctx context.Context, db Scanner) iter.Seq2[Args3[A, B, C], error] {
	return scanFamily(ctx, f.Family, db, func(p Parsed) (a Args3[A, B, C], err error) {
		err = readSegment(p, 0, &a.A, nil)
		err = readSegment(p, 1, &a.B, err)
		err = readSegment(p, 2, &a.C, err)
		return a, err
	})
}

// Keys yields every existing key of the family, as At returns it; see [F1.All].
func (f F1[A, H]) Keys(ctx context.Context, db Scanner) iter.Seq2[H, error] {
	return scanFamily(ctx, f.Family, db, func(p Parsed) (H, error) { return f.bind(p.Key()), nil })
}

// Keys yields every existing key of the family, as At returns it; see [F1.All].
func (f F2[A, B, H]) Keys(ctx context.Context, db Scanner) iter.Seq2[H, error] {
	return scanFamily(ctx, f.Family, db, func(p Parsed) (H, error) { return f.bind(p.Key()), nil })
}

// Keys yields every existing key of the family, as At returns it; see [F1.All].
func (f F3[A, B, C, H]) Keys(ctx context.Context, db Scanner) iter.Seq2[H, error] {
	return scanFamily(ctx, f.Family, db, func(p Parsed) (H, error) { return f.bind(p.Key()), nil })
}

var errLoopEnded = errors.New("the loop has ended")

// scanFamily scans for the keys of one family.
func scanFamily[T any](ctx context.Context, f *Family, db Scanner, read func(Parsed) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		parser, prefix := ParserOf(f), strings.TrimSuffix(db.Physical(Key{}), ":")
		err := db.Scan(ctx, func(physical string) error {
			logical, ours := Logical(prefix, physical)
			if !ours {
				return nil
			}
			if found, ok := parser.Key(logical); ok && !yield(read(found)) {
				return errLoopEnded
			}
			return nil
		})
		if err != nil && !errors.Is(err, errLoopEnded) {
			yield(*new(T), err)
		}
	}
}

// readSegment reads argument i of a key into to. If before is an error, it only returns that error.
func readSegment[A Segment](p Parsed, i int, to *A, before error) error {
	if before != nil {
		return before
	}
	reader, ok := any(to).(interface{ ReadSegment(s string) error })
	if !ok {
		return fmt.Errorf("keyspace: %s: %T has no method ReadSegment, so it cannot be read from a key; use Keys", p.Family.Pattern, *to)
	}
	err := reader.ReadSegment(p.Args[i])
	if err == nil && string((*to).AppendSegment(nil)) != p.Args[i] {
		err = errors.New("the program would write it differently")
	}
	if err != nil {
		return fmt.Errorf("keyspace: %s: argument %d, %q: %w", p.Family.Pattern, i+1, p.Args[i], err)
	}
	return nil
}

// ReadSegment is the reverse of AppendSegment.
func (i *Int) ReadSegment(s string) (err error) {
	i.N, err = strconv.ParseInt(s, 10, 64)
	return err
}

// ReadSegment is the reverse of AppendSegment. It returns an error for the hash of a long text.
func (t *Text) ReadSegment(s string) error {
	text, ok := unescape(s)
	if !ok {
		return errors.New("it is the hash of a text that was too long for a key")
	}
	t.S = text
	return nil
}

// ReadSegment is the reverse of AppendSegment.
func (r *Raw) ReadSegment(s string) error {
	r.S = s
	return nil
}

// ReadSegment is the reverse of AppendSegment.
func (w *Word[W]) ReadSegment(s string) error {
	word, ok := ParseWord[W](s)
	if !ok {
		return fmt.Errorf("it is not one of %T", *new(W))
	}
	*w = word
	return nil
}

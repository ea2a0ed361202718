package keyspace

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
)

// A Scanner finds keys. Package redis's DB is one. Scan calls fn with the name of every
// key under the deployment's prefix and ends with fn's error; Physical puts the prefix
// before a key, and is the prefix and its colon for the zero Key.
type Scanner interface {
	Scan(ctx context.Context, fn func(physical string) error) error
	Physical(k Key) string
}

// Args2 are the arguments of a key of an [F2].
type Args2[A, B Segment] struct {
	A A
	B B
}

// Args3 are the arguments of a key of an [F3].
type Args3[A, B, C Segment] struct {
	A A
	B B
	C C
}

// All yields the argument of every key of the family that is there:
//
//	for user, err := range cartKey.All(ctx, db) {
//
// It looks at every key of the deployment, so it is for tools and repairs. A key that
// comes or goes meanwhile may be missed or, rarely, told twice. An error is that of one
// key, whose argument cannot be read, or the last: the scan has ended then.
//
// A's pointer has to have a method ReadSegment(string) error, the reverse of
// AppendSegment, as [Int], [Text], [Raw] and [Word] have it, and so have structs that
// embed one of them. A hash cannot be reversed: [F1.Keys] yields keys instead.
func (f F1[A, H]) All(ctx context.Context, db Scanner) iter.Seq2[A, error] {
	return each(ctx, f.Family, db, func(p Parsed) (a A, err error) {
		err = readSegment(p, 0, &a, nil)
		return a, err
	})
}

// All yields the arguments of every key of the family that is there; see [F1.All].
func (f F2[A, B, H]) All(ctx context.Context, db Scanner) iter.Seq2[Args2[A, B], error] {
	return each(ctx, f.Family, db, func(p Parsed) (a Args2[A, B], err error) {
		err = readSegment(p, 0, &a.A, nil)
		err = readSegment(p, 1, &a.B, err)
		return a, err
	})
}

// All yields the arguments of every key of the family that is there; see [F1.All].
func (f F3[A, B, C, H]) All(ctx context.Context, db Scanner) iter.Seq2[Args3[A, B, C], error] {
	return each(ctx, f.Family, db, func(p Parsed) (a Args3[A, B, C], err error) {
		err = readSegment(p, 0, &a.A, nil)
		err = readSegment(p, 1, &a.B, err)
		err = readSegment(p, 2, &a.C, err)
		return a, err
	})
}

// Keys yields every key of the family that is there, as At returns it; see [F1.All].
func (f F1[A, H]) Keys(ctx context.Context, db Scanner) iter.Seq2[H, error] {
	return each(ctx, f.Family, db, func(p Parsed) (H, error) { return f.bind(p.Key()), nil })
}

// Keys yields every key of the family that is there, as At returns it; see [F1.All].
func (f F2[A, B, H]) Keys(ctx context.Context, db Scanner) iter.Seq2[H, error] {
	return each(ctx, f.Family, db, func(p Parsed) (H, error) { return f.bind(p.Key()), nil })
}

// Keys yields every key of the family that is there, as At returns it; see [F1.All].
func (f F3[A, B, C, H]) Keys(ctx context.Context, db Scanner) iter.Seq2[H, error] {
	return each(ctx, f.Family, db, func(p Parsed) (H, error) { return f.bind(p.Key()), nil })
}

var errEnough = errors.New("the loop has ended")

// each scans for one family.
func each[T any](ctx context.Context, f *Family, db Scanner, read func(Parsed) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		parser, prefix := ParserOf(f), strings.TrimSuffix(db.Physical(Key{}), ":")
		err := db.Scan(ctx, func(physical string) error {
			logical, ours := Logical(prefix, physical)
			if !ours {
				return nil
			}
			if found, ok := parser.Key(logical); ok && !yield(read(found)) {
				return errEnough
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			yield(*new(T), err)
		}
	}
}

// readSegment reads argument i of a key into to, unless there was an error before.
func readSegment[A Segment](p Parsed, i int, to *A, before error) error {
	if before != nil {
		return before
	}
	reader, ok := any(to).(interface{ ReadSegment(s string) error })
	if !ok {
		return fmt.Errorf("keyspace: %s: %T has no method ReadSegment, so its keys cannot be told apart by it; range over Keys", p.Family.Pattern, *to)
	}
	err := reader.ReadSegment(p.Args[i])
	if err == nil && string((*to).AppendSegment(nil)) != p.Args[i] {
		err = errors.New("it is not what the program writes")
	}
	if err != nil {
		return fmt.Errorf("keyspace: %s: argument %d, %q: %w", p.Family.Pattern, i+1, p.Args[i], err)
	}
	return nil
}

// ReadSegment reads what AppendSegment writes.
func (i *Int) ReadSegment(s string) (err error) {
	i.N, err = strconv.ParseInt(s, 10, 64)
	return err
}

// ReadSegment reads what AppendSegment writes, but for the hash of a long text.
func (t *Text) ReadSegment(s string) error {
	text, ok := unescape(s)
	if !ok {
		return errors.New("it is the hash of a text that was too long for a key")
	}
	t.S = text
	return nil
}

// ReadSegment reads what AppendSegment writes.
func (r *Raw) ReadSegment(s string) error {
	r.S = s
	return nil
}

// ReadSegment reads what AppendSegment writes.
func (w *Word[W]) ReadSegment(s string) error {
	word, ok := ParseWord[W](s)
	if !ok {
		return fmt.Errorf("it is not one of %T", *new(W))
	}
	*w = word
	return nil
}

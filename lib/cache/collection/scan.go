package collection

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stoa-dev/stoa/lib/cache/internal/shapes"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// ErrCursor is returned for a cursor that does not come from a page of this cache.
var ErrCursor = errors.New("cache: invalid page cursor")

const (
	defaultPage = 100
	maxPage     = 1000
)

func pageSize(n int) int {
	if n <= 0 {
		return defaultPage
	}
	return min(n, maxPage)
}

// pair is a member and its value.
type pair struct{ member, value string }

// whole reads all members at once.
func (c *collection) whole(ctx context.Context, k any, take func([]pair) error) error {
	var mark string
	h, err := c.Read(ctx, k, wholeQuery{
		func(key keyspace.Key, loaded string) keyspace.Cmd {
			mark = loaded
			return keyspace.Cmd{Name: c.shape.Whole, Key: key}
		},
		func(r keyspace.Reply) shapes.Verdict {
			pairs, loaded := c.pairs(r.List, mark)
			if !loaded {
				return shapes.Absent
			}
			return readable(take(pairs))
		}})
	if h == nil || err != nil {
		return err
	}
	return take(pairsOf(h))
}

// pairs returns the caller's members among texts; loaded reports whether the mark is among them.
func (c *collection) pairs(texts []keyspace.Reply, mark string) (pairs []pair, loaded bool) {
	for i := 0; i+c.shape.Valued <= len(texts); i += c.shape.Valued {
		m := texts[i].Str
		if _, isMark := shapes.Unescape(m); isMark {
			loaded = loaded || m == mark
			continue
		}
		pairs = append(pairs, pair{m, texts[i+c.shape.Valued-1].Str})
	}
	return pairs, loaded
}

func pairsOf(h shapes.Held) []pair {
	pairs := make([]pair, 0, len(h))
	for m, v := range h {
		pairs = append(pairs, pair{m, v})
	}
	return pairs
}

// A position is the start of a page of a hash or set, and its text is the cursor. It is Redis' own SCAN cursor, which
// is valid for one era of the servers. If that cannot be used, it is the last member of the page before, in the order
// of member texts.
type position struct {
	ordered bool
	after   string // ordered: the member
	era     uint64 // otherwise: era of the servers
	at      string // and the cursor of Redis
}

func (p position) cursor() string {
	if p.ordered {
		return encodeCursor("m" + p.after)
	}
	return encodeCursor("s" + strconv.FormatUint(p.era, 36) + ":" + p.at)
}

func positionOf(cursor string) (p position, err error) {
	text, err := decodeCursor(cursor)
	switch {
	case err != nil || text == "":
		return p, err
	case text[0] == 'm':
		return position{ordered: true, after: text[1:]}, nil
	}
	era, at, _ := strings.Cut(text[1:], ":")
	_, err = strconv.ParseUint(at, 10, 64)
	if p.era, p.at = 0, at; err == nil {
		p.era, err = strconv.ParseUint(era, 36, 64)
	}
	if err != nil || text[0] != 's' {
		return p, ErrCursor
	}
	return p, nil
}

// scan reads about n members from a cursor on. If the cursor of Redis is no longer valid, it starts from the beginning:
// no member is missed, and some may be returned twice.
func (c *collection) scan(ctx context.Context, k any, cursor string, n int, take func([]pair) error) (next string, err error) {
	from, err := positionOf(cursor)
	if err != nil {
		return "", err
	}
	n = pageSize(n)
	inOrder := func(pairs []pair) error {
		next = ""
		slices.SortFunc(pairs, func(a, b pair) int { return strings.Compare(a.member, b.member) })
		if from.ordered {
			i, found := slices.BinarySearchFunc(pairs, from.after, func(p pair, m string) int { return strings.Compare(p.member, m) })
			if found {
				i++
			}
			pairs = pairs[i:]
		}
		if len(pairs) > n {
			pairs = pairs[:n]
			next = position{ordered: true, after: pairs[n-1].member}.cursor()
		}
		return take(pairs)
	}
	if from.ordered || c.Embedded() { // its cursors count members, and members change
		err = c.whole(ctx, k, inOrder)
		return next, err
	}
	var era uint64
	h, err := c.Read(ctx, k, wholeQuery{
		func(key keyspace.Key, mark string) keyspace.Cmd {
			at := "0"
			if era = shapes.EraOf(mark); era == from.era {
				at = from.at
			}
			return c.shape.Scan(key, era, at, n)
		},
		func(r keyspace.Reply) shapes.Verdict {
			if len(r.List) != 2 {
				return shapes.Absent
			}
			next = ""
			if at := r.List[0].Str; at != "0" {
				next = position{era: era, at: at}.cursor()
			}
			pairs, _ := c.pairs(r.List[1].List, "")
			return readable(take(pairs))
		}})
	if h != nil && err == nil {
		err = inOrder(pairsOf(h))
	}
	return next, err
}

// readable returns the verdict on parsed members.
func readable(err error) shapes.Verdict {
	if err != nil {
		return shapes.Unreadable
	}
	return shapes.Answered
}

func encodeCursor(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

func decodeCursor(cursor string) (string, error) {
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrCursor, err)
	}
	if encodeCursor(string(b)) != cursor { // the decoder ignores line ends and trailing bits
		return "", ErrCursor
	}
	return string(b), nil
}

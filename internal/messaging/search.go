package messaging

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/words"
)

// A search reads the user's messages backwards from the newest and compares them here. Therefore no index needs an
// update for each message, edits and erasures take effect at once, and all languages are equal. The engines' full-text
// search does not offer this: MariaDB does not split Chinese text into words, and one index would mix the words of all
// users. The cost of a search is bounded, and a cursor resumes it. See decision 17.

// bounds limit a search.
type bounds struct {
	messages int // read by one call
	slice    int // messages that one statement reads
	chats    int // read by one statement
}

var searchBounds = bounds{messages: 10_000, slice: 1_000, chats: 8}

// has reports whether a message has all words.
func (m message) has(w words.Words) bool {
	texts := []string{m.body.Text}
	if d := m.body.Media; d != nil {
		texts = append(texts, d.Name, d.Alt)
	}
	if l := m.body.Location; l != nil {
		texts = append(texts, l.Name, l.Address)
	}
	return w.In(texts...)
}

// position is the place of a message in a search, newest first. A search begins after the position in its cursor.
type position struct {
	at   int64
	conv ConversationID
	seq  int64
}

func (p position) compare(q position) int {
	return cmp.Or(cmp.Compare(q.at, p.at), p.conv.Compare(q.conv), cmp.Compare(q.seq, p.seq))
}

func (p position) cursor() string { return fmt.Sprintf("%d.%d.%s", p.at, p.seq, p.conv) }

func parsePosition(s string) (p position, err error) {
	if s == "" {
		return position{at: math.MaxInt64}, nil
	}
	at, rest, _ := strings.Cut(s, ".")
	seq, conv, _ := strings.Cut(rest, ".")
	if p.at, err = parseNumber(at); err != nil {
		return p, err
	}
	if p.seq, err = parseNumber(seq); err != nil {
		return p, err
	}
	if err = p.conv.UnmarshalText([]byte(conv)); err != nil {
		return p, ErrCursor
	}
	return p, nil
}

// searchedChat is one chat in a search. Its unread part is below seq and not newer than at.
type searchedChat struct {
	view
	at, seq int64
}

func (c *searchedChat) position() position { return position{c.at, c.id, c.seq} }

// searchedFrom returns a chat in a search that resumes after a position.
func searchedFrom(v view, from position) *searchedChat {
	c := &searchedChat{v, min(v.lastAt, from.at), v.seq + 1}
	switch n := v.id.Compare(from.conv); {
	case n < 0: // its messages of that time come before the position
		c.at = min(c.at, from.at-1)
	case n == 0:
		c.seq = min(c.seq, from.seq)
	}
	return c
}

func comparePositions[P interface{ position() position }](a, b P) int {
	return a.position().compare(b.position())
}

// Search returns messages of the user's chats, or of one chat, that have each word of q, newest first. It returns
// ErrQuery, ErrChat, ErrCursor or ErrStore.
func (s *Service) Search(ctx context.Context, user accounts.ID, chat ChatRef, q, cursor string,
	limit int) (_ api.FoundMessages, err error) {
	defer errs.Wrap(&err, "messaging.Search %s", user)
	return s.searchWithin(ctx, searchBounds, user, chat, q, cursor, limit)
}

func (s *Service) searchWithin(ctx context.Context, r bounds, user accounts.ID, chat ChatRef, q, cursor string,
	limit int) (api.FoundMessages, error) {
	query := words.Of(q)
	if len(query) == 0 {
		return api.FoundMessages{}, ErrQuery
	}
	from, err := parsePosition(cursor)
	if err != nil {
		return api.FoundMessages{}, err
	}
	var views []view
	if chat == (ChatRef{}) {
		views, err = s.sql.openViews(ctx, user)
	} else {
		views = make([]view, 1)
		views[0], err = s.sql.view(ctx, s.sql.db, user, chat)
	}
	if err != nil {
		return api.FoundMessages{}, asKind(ctx, err)
	}
	found, next, err := s.search(ctx, r, views, query, from, limit)
	if err != nil {
		return api.FoundMessages{}, asKind(ctx, err)
	}
	names := map[ConversationID]string{}
	for _, v := range views {
		names[v.id] = v.name()
	}
	out := api.FoundMessages{Messages: make([]api.Message, len(found))}
	for i, m := range found {
		out.Messages[i] = m.wire(user, names[m.conv])
	}
	if next != nil {
		out.Next = next.cursor()
	}
	return out, nil
}

// search merges chats by their next unread position, so that it reads no chat further than necessary. next is the
// position where another search resumes; it is nil at the end.
func (s *Service) search(ctx context.Context, r bounds, views []view, query words.Words, from position,
	limit int) (found []message, next *position, err error) {
	var open []*searchedChat
	for _, v := range views {
		if c := searchedFrom(v, from); c.seq > v.me.cleared+1 {
			open = append(open, c)
		}
	}
	for scanned := 0; ; {
		slices.SortFunc(open, comparePositions)
		slices.SortFunc(found, comparePositions)
		settled := len(found) // number of messages that later reads cannot move
		if len(open) > 0 {
			first := open[0].position()
			next = &first
			if i := slices.IndexFunc(found, func(m message) bool { return m.position().compare(first) > 0 }); i >= 0 {
				settled = i
			}
		} else {
			next = nil
		}
		if len(open) == 0 || settled >= limit || scanned >= r.messages {
			found = found[:settled]
			break
		}
		chunk := open[:min(len(open), r.chats)]
		n := r.slice / len(chunk)
		read, err := s.sql.searchChunk(ctx, chunk, n)
		if err != nil {
			return nil, nil, err
		}
		for _, c := range chunk {
			for _, m := range read[c.id] {
				scanned++
				c.at, c.seq = m.at, m.seq
				if m.recalled == 0 && m.has(query) {
					found = append(found, m)
				}
			}
			if len(read[c.id]) < n {
				c.seq = 0 // the chat has no more messages
			}
		}
		open = slices.DeleteFunc(open, func(c *searchedChat) bool { return c.seq <= c.me.cleared+1 })
	}
	if len(found) > limit {
		last := found[limit-1].position()
		found, next = found[:limit], &last
	}
	return found, next, s.sql.addReactions(ctx, s.sql.db, found)
}

func (m message) position() position { return position{m.at, m.conv, m.seq} }

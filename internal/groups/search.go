package groups

import (
	"context"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/words"
)

// The search compares members in Go, as the search in messaging does (decision 17). Names and remarks belong to other
// domains, and not every engine has an index that finds a part of a Chinese name. The cost of a call is bounded, and a
// cursor resumes the search.

// searchBatch is the number of members that one call reads. The largest group has five times as many.
const searchBatch = 1000

// ErrQuery is the error for a search without words.
var ErrQuery = errs.New(errs.Invalid, "group.query", "The search has no word. Enter at least one.")

// Search returns up to limit members after the cursor, in the order of [Service.Members]. Each word of q must be in the
// member's nickname or name, or in the user's remark. One call reads a limited number of members, so a page may have
// few or no results and still a next cursor. It returns ErrGroup, ErrCursor or ErrQuery.
func (s *Service) Search(ctx context.Context, user accounts.ID, id ID, q, cursor string,
	limit int) (found []Membership, next string, _ Group, err error) {
	defer errs.Wrap(&err, "groups.Search %s", id)
	query := words.Of(q)
	if len(query) == 0 {
		return nil, "", Group{}, ErrQuery
	}
	list, next, g, err := s.Members(ctx, user, id, cursor, searchBatch)
	if err != nil {
		return nil, "", Group{}, err
	}
	profiles, err := s.people.Profiles(ctx, usersOf(list))
	if err != nil {
		return nil, "", Group{}, err
	}
	remarks, err := s.friends.Remarks(ctx, user, usersOf(list))
	if err != nil {
		return nil, "", Group{}, err
	}
	for i, m := range list {
		if !query.In(m.Nickname, profiles[m.User].Name, remarks[m.User]) {
			continue
		}
		if found = append(found, m); len(found) == limit && i < len(list)-1 {
			return found, m.place().String(), g, nil
		}
	}
	return found, next, g, nil
}

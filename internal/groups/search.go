package groups

import (
	"context"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/words"
)

// A search compares members here, as messaging does (decision 17): names are in another domain, remarks in a third, and
// no index that all engines have finds a part of a Chinese name. What one call may cost is bounded: a cursor goes on where
// it ended.

// searchReach is how many members one call looks at. The largest group has five times as many.
const searchReach = 1000

// ErrQuery refuses a search for nothing.
var ErrQuery = errs.New(errs.Invalid, "group.query", "There is nothing in this to search for.")

// Search returns at most limit members whose nickname, name, or what the user calls them, has each word of q, in the order
// of [Service.Members], from behind the cursor on. It looks at some of the members: there may be few in an answer, or
// none, and yet a next. ErrGroup, ErrCursor, ErrQuery.
func (s *Service) Search(ctx context.Context, user accounts.ID, id ID, q, cursor string, limit int) (found []Membership, next string, _ Group, err error) {
	defer errs.Wrap(&err, "groups.Search %s", id)
	looking := words.Of(q)
	if len(looking) == 0 {
		return nil, "", Group{}, ErrQuery
	}
	list, next, g, err := s.Members(ctx, user, id, cursor, searchReach)
	if err != nil {
		return nil, "", Group{}, err
	}
	who, err := s.people.Profiles(ctx, usersOf(list))
	if err != nil {
		return nil, "", Group{}, err
	}
	remarks, err := s.friends.Remarks(ctx, user, usersOf(list))
	if err != nil {
		return nil, "", Group{}, err
	}
	for i, m := range list {
		if !looking.In(m.Nickname, who[m.User].Name, remarks[m.User]) {
			continue
		}
		if found = append(found, m); len(found) == limit && i < len(list)-1 {
			return found, m.place().cursor(), g, nil
		}
	}
	return found, next, g, nil
}

package social

import (
	"context"
	"maps"
	"slices"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
)

// Sight is what a viewer may see of another user.
type Sight struct {
	Contact  bool // neither of the two blocks the other; without it the viewer sees no act of the other
	Presence bool // the viewer also sees whether a device of the other is connected, and what it does without its user
}

// sightOf returns what a viewer may see of a user. Each event, list and count that shows one user to another follows
// this rule.
func sightOf(friend, apart bool, shown accounts.Audience) Sight {
	return Sight{Contact: !apart, Presence: !apart && shown.Includes(friend)}
}

// Sights returns what a viewer may see of others. It reads a cache in Redis, or SQL with one statement for each kind of
// relation.
func (s *Service) Sights(ctx context.Context, viewer accounts.ID, others []accounts.ID) (_ map[accounts.ID]Sight, err error) {
	defer errs.Wrap(&err, "social.Sights %s", viewer)
	if len(others) == 0 {
		return nil, nil
	}
	friends, err := s.rel.friends.HasMany(ctx, viewer, others)
	if err != nil {
		return nil, asKind(ctx, err)
	}
	apart := map[accounts.ID]bool{}
	// Friends do not block each other.
	if rest := slices.DeleteFunc(slices.Clone(others), func(o accounts.ID) bool { return friends[o] }); len(rest) > 0 {
		blocked, err := s.rel.blocks.HasMany(ctx, viewer, rest)
		if err != nil {
			return nil, asKind(ctx, err)
		}
		blockers, err := s.rel.blockers.HasMany(ctx, viewer, rest)
		if err != nil {
			return nil, asKind(ctx, err)
		}
		maps.Copy(apart, blocked)
		maps.Copy(apart, blockers)
	}
	audiences, err := s.people.Audiences(ctx, others)
	if err != nil {
		return nil, err
	}
	out := make(map[accounts.ID]Sight, len(others))
	for _, o := range others {
		out[o] = sightOf(friends[o], apart[o], audiences[o])
	}
	return out, nil
}

// View is a viewer and the user who is shown.
type View struct{ Viewer, Of accounts.ID }

// SightsNow is [Service.Sights] for pairs, with one statement of SQL, so that an event after a block shows nothing.
func (s *Service) SightsNow(ctx context.Context, views []View) (_ map[View]Sight, err error) {
	defer errs.Wrap(&err, "social.SightsNow")
	if len(views) == 0 {
		return nil, nil
	}
	friends, apart, err := selectTies(ctx, s.db, views)
	if err != nil {
		return nil, asKind(ctx, err)
	}
	shown := make([]accounts.ID, len(views))
	for i, v := range views {
		shown[i] = v.Of
	}
	audiences, err := s.people.Audiences(ctx, shown)
	if err != nil {
		return nil, err
	}
	out := make(map[View]Sight, len(views))
	for _, v := range views {
		out[v] = sightOf(friends[v], apart[v], audiences[v.Of])
	}
	return out, nil
}

package social

import (
	"context"

	"github.com/stoa-dev/stoa/internal/accounts"
)

// Policy states which users may contact a user, with messages or files. Rows store its number.
type Policy int

// The policies.
const (
	Unset Policy = iota
	Friends
	Everybody
	Nobody
)

var policies = [...]string{"", "friends", "everybody", "nobody"}

// String returns the policy's name on the wire.
func (p Policy) String() string { return policies[p] }

// ParsePolicy returns the policy with a name, or Unset.
func ParsePolicy(name string) Policy {
	for p := range policies {
		if policies[p] == name {
			return Policy(p)
		}
	}
	return Unset
}

// Refusals are a domain's errors for a user who may not contact another.
type Refusals struct {
	YouBlock error // the user blocks the other
	Refused  error // does not reveal whether a block, a policy or a deletion caused it
}

// MayContact returns an error of r if a user may not contact another user, who has the policy. It returns
// accounts.ErrNoUser if the other never existed.
func (s *Service) MayContact(ctx context.Context, from, to accounts.ID, policy Policy, r Refusals) error {
	profiles, err := s.people.Profiles(ctx, []accounts.ID{to})
	if err != nil {
		return err
	}
	p, found := profiles[to]
	switch {
	case !found:
		return accounts.ErrNoUser
	case p.Deleted:
		return r.Refused
	}
	return s.refuse(ctx, from, to, policy, r)
}

// NotApart returns an error of r if one of two users blocks the other.
func (s *Service) NotApart(ctx context.Context, user, other accounts.ID, r Refusals) error {
	return s.refuse(ctx, user, other, Everybody, r)
}

func (s *Service) refuse(ctx context.Context, from, to accounts.ID, policy Policy, r Refusals) error {
	mine, theirs, err := s.Between(ctx, from, to)
	switch {
	case err != nil:
		return err
	case mine.Blocked:
		return r.YouBlock
	case theirs.Blocked, policy == Nobody, policy == Friends && !theirs.Friend:
		return r.Refused
	}
	return nil
}

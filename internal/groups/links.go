package groups

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/membership"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

var links = membership.Links[Group]{Table: "group_links", Column: "group_id", Cards: true, ErrLink: ErrLink, ErrLinks: ErrLinks,
	ErrMay: ErrMay}

// inviters returns the members among users whose role may invite.
func (g Group) inviters(ctx context.Context, q sqldb.Querier, users []accounts.ID) ([]accounts.ID, error) {
	members, err := selectMembers(ctx, q, g.ID, users)
	return slices.DeleteFunc(users, func(u accounts.ID) bool {
		m, isMember := members[u]
		return !isMember || m.Role.may(invite, g) != nil
	}), err
}

// NewLink creates a link that expires after life. maxUses is the largest number of its uses, or 0 for no limit. The
// caller chooses the link's id, as in [Service.Create]. It returns ErrGroup, ErrMay or ErrLinks.
func (s *Service) NewLink(ctx context.Context, user accounts.ID, id ID, link LinkID, life time.Duration, maxUses int) (l Link, err error) {
	defer errs.Wrap(&err, "groups.NewLink %s", id)
	_, err = s.change(ctx, id, user, []verb{invite}, func(ctx context.Context, tx *sqldb.Tx, d *changeSet, _ Membership) (err error) {
		l = Link{ID: link, Parent: id, By: user, MaxUses: maxUses}
		l, err = links.Create(ctx, tx, l, life, membership.MaxLinks, d.group.inviters)
		return err
	})
	return l, err
}

// Links returns a group's open links: all of them to an admin, and the caller's own to other members. It returns
// ErrGroup.
func (s *Service) Links(ctx context.Context, user accounts.ID, id ID) (_ []Link, err error) {
	defer errs.Wrap(&err, "groups.Links %s", id)
	g, me, err := s.groupAndMember(ctx, user, id)
	if err != nil {
		return nil, err
	}
	all, err := links.Open(ctx, s.db, id, g.inviters)
	return slices.DeleteFunc(all, func(l Link) bool { return me.Role < Admin && l.By != user }), asKind(ctx, err)
}

// Revoke revokes a link. Members may revoke their own links; admins may revoke all. It returns ErrGroup, ErrLink or
// ErrMay.
func (s *Service) Revoke(ctx context.Context, user accounts.ID, id ID, link LinkID) (err error) {
	defer errs.Wrap(&err, "groups.Revoke %s", id)
	_, err = s.change(ctx, id, user, nil, func(ctx context.Context, tx *sqldb.Tx, _ *changeSet, me Membership) error {
		return links.Revoke(ctx, tx, id, link, user, me.Role >= Admin)
	})
	return err
}

// GroupOfLink returns the group of a link and the user's membership, which is nil unless the user is a member. It
// returns ErrLink.
func (s *Service) GroupOfLink(ctx context.Context, user accounts.ID, link LinkID) (_ Group, me *Membership, err error) {
	defer errs.Wrap(&err, "groups.GroupOfLink")
	l, err := links.Get(ctx, s.db, link)
	if err != nil {
		return Group{}, nil, asKind(ctx, err)
	}
	g, err := selectGroup(ctx, s.db, l.Parent, "")
	if errors.Is(err, ErrGroup) {
		err = ErrLink
	}
	if err == nil {
		err = links.Check(ctx, s.db, l, g.inviters)
	}
	if err != nil {
		return Group{}, nil, asKind(ctx, err)
	}
	m, err := selectMember(ctx, s.db, l.Parent, user)
	if errors.Is(err, ErrMember) {
		g.Announcement, g.Announced = "", 0
		return g, nil, nil
	}
	return g, &m, asKind(ctx, err)
}

// cardLife is the lifetime of a group's card, the same as of a user's card. It is long
// enough for a weekend.
const cardLife = 48 * time.Hour

// Card returns the group's card to a member who may invite. Other users scan it to find the group. It returns
// [accounts.ErrNotDrawn] if no open card exists, ErrGroup or ErrMay.
func (s *Service) Card(ctx context.Context, user accounts.ID, id ID) (card Link, err error) {
	defer errs.Wrap(&err, "groups.Card %s", id)
	g, me, err := s.groupAndMember(ctx, user, id)
	if err == nil {
		err = me.Role.may(invite, g)
	}
	if err != nil {
		return Link{}, err
	}
	card, err = openCard(ctx, s.db, g)
	return card, asKind(ctx, err)
}

// openCard returns the open card of a group, or [accounts.ErrNotDrawn].
func openCard(ctx context.Context, q sqldb.Querier, g Group) (Link, error) {
	open, err := links.Open(ctx, q, g.ID, g.inviters)
	if i := slices.IndexFunc(open, func(l Link) bool { return l.Card }); i >= 0 {
		return open[i], nil
	}
	return Link{}, cmp.Or(err, error(accounts.ErrNotDrawn))
}

// DrawCard returns the group's card like [Service.Card], and creates one if none is open. The card ends when it
// expires, when it is revoked, or when its creator may no longer invite. It returns ErrGroup or ErrMay.
func (s *Service) DrawCard(ctx context.Context, user accounts.ID, id ID) (card Link, err error) {
	defer errs.Wrap(&err, "groups.DrawCard %s", id)
	_, err = s.change(ctx, id, user, []verb{invite}, func(ctx context.Context, tx *sqldb.Tx, d *changeSet, _ Membership) (err error) {
		if card, err = openCard(ctx, tx, d.group); !errors.Is(err, accounts.ErrNotDrawn) {
			return err
		}
		card = Link{ID: ids.New[Link](), Parent: id, By: user, Created: d.at.UnixMilli(), Expires: d.at.Add(cardLife).UnixMilli(), Card: true}
		return links.Store(ctx, tx, card)
	})
	return card, err
}

// Join adds the user to the group of a link. If the link is a card and admins decide who joins, it opens a request with
// answer instead. Then me is nil and r is the request. It returns ErrLink, ErrText, ErrAlready, ErrBanned, ErrFull,
// ErrGroups, ErrRequests or accounts.ErrNoUser.
func (s *Service) Join(ctx context.Context, user accounts.ID, link LinkID, answer string) (_ Group, me *Membership, r *Request, err error) {
	defer errs.Wrap(&err, "groups.Join")
	if answer, err = line("body.answer", answer, 0, 200); err != nil {
		return Group{}, nil, nil, err
	}
	l, err := links.Get(ctx, s.db, link)
	if err != nil {
		return Group{}, nil, nil, asKind(ctx, err)
	}
	g, err := s.changeUnchecked(ctx, l.Parent, user, func(ctx context.Context, tx *sqldb.Tx, d *changeSet) error {
		me, r = nil, nil
		l, err := links.Get(ctx, tx, link) // under the lock of its group
		if err == nil {
			err = links.Check(ctx, tx, l, d.group.inviters)
		}
		if err == nil {
			err = s.checkJoin(ctx, tx, d, user)
		}
		if err == nil && l.Card && d.group.Joins == ByRequest {
			r, err = s.request(ctx, tx, d, user, answer)
			return err
		}
		if err == nil {
			err = s.admit(ctx, tx, d, l.By, Member, user)
		}
		if err != nil {
			return err
		}
		me = &d.joined[0]
		return links.Use(ctx, tx, link)
	})
	switch {
	case errors.Is(err, ErrGroup):
		err = ErrLink
	case r != nil:
		g.Announcement, g.Announced = "", 0
	}
	return g, me, r, err
}

// checkJoin returns ErrAlready for a member of a locked group, and ErrBanned for a banned user.
func (s *Service) checkJoin(ctx context.Context, tx *sqldb.Tx, d *changeSet, user accounts.ID) error {
	switch _, err := selectMember(ctx, tx, d.group.ID, user); {
	case err == nil:
		return ErrAlready
	case !errors.Is(err, ErrMember):
		return err
	}
	return bans.Check(ctx, tx, d.group.ID, ErrBanned, user)
}

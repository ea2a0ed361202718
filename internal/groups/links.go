package groups

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// maxLinks is how many links of a group may let users in at a time.
const maxLinks = 50

// NewLink makes a link that lets users in for some time; most is how many, 0 as many as come. The link's id is the caller's
// to choose, as in [Service.Create]. ErrGroup, ErrMay, ErrLinks.
func (s *Service) NewLink(ctx context.Context, user accounts.ID, id ID, link LinkID, life time.Duration, most int) (l Link, err error) {
	defer errs.Wrap(&err, "groups.NewLink %s", id)
	_, err = s.change(ctx, id, user, []verb{invite}, func(ctx context.Context, tx *sqldb.Tx, d *changeSet, _ Membership) error {
		there, err := linksOf(ctx, tx, id)
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(there, func(l Link) bool { return l.ID == link && l.By == user }); i >= 0 { // an earlier try made it
			l = there[i]
			return nil
		}
		open, err := openLinks(ctx, tx, d.group, there, d.at)
		if err != nil {
			return err
		}
		if open = slices.DeleteFunc(open, func(l Link) bool { return l.Card }); len(open) >= maxLinks {
			return ErrLinks
		}
		l = Link{ID: link, Group: id, By: user, Created: d.at.UnixMilli(), Expires: d.at.Add(life).UnixMilli(), Most: most}
		return insertLink(ctx, tx, l)
	})
	return l, err
}

// openLinks returns those of a group's links that let users in: they have not expired, are not used up, and their makers may invite.
func openLinks(ctx context.Context, q sqldb.Querier, g Group, links []Link, now time.Time) ([]Link, error) {
	links = slices.DeleteFunc(slices.Clone(links), func(l Link) bool { return !l.open(now) })
	if len(links) == 0 {
		return nil, nil
	}
	makers := make([]accounts.ID, len(links))
	for i, l := range links {
		makers[i] = l.By
	}
	members, err := selectMembers(ctx, q, g.ID, makers)
	if err != nil {
		return nil, err
	}
	standings, err := accounts.Standings(ctx, q, makers...)
	return slices.DeleteFunc(links, func(l Link) bool {
		m, in := members[l.By]
		return !in || m.Role.may(invite, g) != nil || standings[l.By].Away()
	}), err
}

// letsIn refuses a link that has expired or is used up, or whose maker may no longer invite. ErrLink.
func letsIn(ctx context.Context, q sqldb.Querier, l Link, g Group, now time.Time) error {
	open, err := openLinks(ctx, q, g, []Link{l}, now)
	if err == nil && len(open) == 0 {
		err = ErrLink
	}
	return err
}

// Links returns the links that let users in: all of them to admins, a member's own to a member. ErrGroup.
func (s *Service) Links(ctx context.Context, user accounts.ID, id ID) (_ []Link, err error) {
	defer errs.Wrap(&err, "groups.Links %s", id)
	g, me, err := s.inGroup(ctx, user, id)
	if err != nil {
		return nil, err
	}
	all, err := linksOf(ctx, s.db, id)
	if err == nil {
		all, err = openLinks(ctx, s.db, g, all, s.db.Now())
	}
	return slices.DeleteFunc(all, func(l Link) bool { return me.Role < Admin && l.By != user }), asKind(ctx, err)
}

// Revoke has a link let nobody in any more; a member can revoke their own, an admin all. ErrGroup, ErrLink, ErrMay.
func (s *Service) Revoke(ctx context.Context, user accounts.ID, id ID, link LinkID) (err error) {
	defer errs.Wrap(&err, "groups.Revoke %s", id)
	_, err = s.change(ctx, id, user, nil, func(ctx context.Context, tx *sqldb.Tx, _ *changeSet, me Membership) error {
		l, err := selectLink(ctx, tx, link)
		switch {
		case err != nil:
			return err
		case l.Group != id:
			return ErrLink
		case l.By != user && me.Role < Admin:
			return ErrMay
		}
		return deleteLink(ctx, tx, link)
	})
	return err
}

// Look returns the group of a link, as someone sees it who may join, and the user's place in it; nil: they are not in it. ErrLink.
func (s *Service) Look(ctx context.Context, user accounts.ID, link LinkID) (_ Group, me *Membership, err error) {
	defer errs.Wrap(&err, "groups.Look")
	l, err := selectLink(ctx, s.db, link)
	if err != nil {
		return Group{}, nil, asKind(ctx, err)
	}
	g, err := selectGroup(ctx, s.db, l.Group, "")
	if errors.Is(err, ErrGroup) {
		err = ErrLink
	}
	if err == nil {
		err = letsIn(ctx, s.db, l, g, s.db.Now())
	}
	if err != nil {
		return Group{}, nil, asKind(ctx, err)
	}
	m, err := selectMember(ctx, s.db, l.Group, user)
	if errors.Is(err, ErrMember) {
		g.Announcement, g.Announced = "", 0
		return g, nil, nil
	}
	return g, &m, asKind(ctx, err)
}

// cardLife is how long a group's card is good, as that of a user: over a weekend.
const cardLife = 48 * time.Hour

// Card returns the group's card to members who may invite: a link that others scan to find the group. ErrGroup, ErrMay.
// It returns [accounts.ErrNotDrawn] if there is none that lets users in.
func (s *Service) Card(ctx context.Context, user accounts.ID, id ID) (card Link, err error) {
	defer errs.Wrap(&err, "groups.Card %s", id)
	g, me, err := s.inGroup(ctx, user, id)
	if err == nil {
		err = me.Role.may(invite, g)
	}
	if err != nil {
		return Link{}, err
	}
	all, err := linksOf(ctx, s.db, id)
	if err == nil {
		all, err = openLinks(ctx, s.db, g, all, s.db.Now())
	}
	if err != nil {
		return Link{}, asKind(ctx, err)
	}
	if i := slices.IndexFunc(all, func(l Link) bool { return l.Card }); i >= 0 {
		return all[i], nil
	}
	return Link{}, accounts.ErrNotDrawn
}

// DrawCard returns the group's card, as [Service.Card] does. It makes a new card if there is none. The card ends when it
// expires, when it is revoked, and when the member who drew it may no longer invite. ErrGroup, ErrMay.
func (s *Service) DrawCard(ctx context.Context, user accounts.ID, id ID) (card Link, err error) {
	defer errs.Wrap(&err, "groups.DrawCard %s", id)
	_, err = s.change(ctx, id, user, []verb{invite}, func(ctx context.Context, tx *sqldb.Tx, d *changeSet, _ Membership) error {
		there, err := linksOf(ctx, tx, id)
		if err != nil {
			return err
		}
		if there, err = openLinks(ctx, tx, d.group, there, d.at); err != nil {
			return err
		}
		if i := slices.IndexFunc(there, func(l Link) bool { return l.Card }); i >= 0 {
			card = there[i]
			return nil
		}
		card = Link{ID: ids.New[Link](), Group: id, By: user, Created: d.at.UnixMilli(), Expires: d.at.Add(cardLife).UnixMilli(), Card: true}
		return insertLink(ctx, tx, card)
	})
	return card, err
}

// Join lets the user in by a link. By the card of a group in which admins decide who joins, it asks them instead, with an
// answer to the group's question: then me is nil, and there is a request. ErrLink, ErrText, ErrAlready, ErrBanned, ErrFull, ErrGroups.
func (s *Service) Join(ctx context.Context, user accounts.ID, link LinkID, answer string) (_ Group, me *Membership, r *Request, err error) {
	defer errs.Wrap(&err, "groups.Join")
	if answer, err = line("body.answer", answer, 0, 200); err != nil {
		return Group{}, nil, nil, err
	}
	l, err := selectLink(ctx, s.db, link)
	if err != nil {
		return Group{}, nil, nil, asKind(ctx, err)
	}
	g, err := s.enter(ctx, l.Group, user, func(ctx context.Context, tx *sqldb.Tx, d *changeSet) error {
		me, r = nil, nil
		l, err := selectLink(ctx, tx, link) // under the lock of its group
		if err == nil {
			err = letsIn(ctx, tx, l, d.group, d.at)
		}
		if err == nil {
			err = s.welcome(ctx, tx, d, user)
		}
		if err == nil && l.Card && d.group.Joins == Asking {
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
		return useLink(ctx, tx, link)
	})
	switch {
	case errors.Is(err, ErrGroup):
		err = ErrLink
	case r != nil:
		g.Announcement, g.Announced = "", 0
	}
	return g, me, r, err
}

// welcome refuses a user who is in a group that is locked, or banned from it. ErrAlready, ErrBanned.
func (s *Service) welcome(ctx context.Context, tx *sqldb.Tx, d *changeSet, user accounts.ID) error {
	switch _, err := selectMember(ctx, tx, d.group.ID, user); {
	case err == nil:
		return ErrAlready
	case !errors.Is(err, ErrMember):
		return err
	}
	banned, err := selectBanned(ctx, tx, d.group.ID, []accounts.ID{user})
	if err == nil && len(banned) > 0 {
		err = ErrBanned
	}
	return err
}

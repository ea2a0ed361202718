package groups

import (
	"context"
	"slices"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// maxFanOut is the largest group whose members all get each change.
const maxFanOut = 200

// publish sends the events of a commit to all devices of the users concerned.
func (s *Service) publish(ctx context.Context, d *changeSet) {
	ctx = context.WithoutCancel(ctx)
	list := slices.Concat(d.joined, d.changed)
	listed := len(list)+len(d.left) <= maxFanOut // otherwise the event has only the version, and clients list the changes
	var users []accounts.ID
	if listed {
		for _, m := range list {
			users = append(users, m.User)
		}
	}
	for _, r := range d.requests() {
		users = append(users, r.User)
	}
	profiles := s.people.ProfilesOrNone(ctx, users...)
	var batch []events.Event
	addAll := func(typ string, users []accounts.ID, data any) {
		text, ok := events.Encode(s.log, typ, data)
		if !ok {
			return
		}
		for _, user := range users {
			e := events.New(typ, user.String(), d.at, text)
			e.Channel = groupsChannel.At(user)
			batch = append(batch, e)
		}
	}
	add := func(typ string, user accounts.ID, data any) { addAll(typ, []accounts.ID{user}, data) }
	for _, l := range d.left {
		add(api.EventGroupLeft, l.user, api.GroupGone{Group: d.group.ID.String(), Why: l.reason, Version: d.group.Version})
	}
	mine := d.joined
	if d.own != nil {
		mine = append(slices.Clone(mine), *d.own)
	}
	for _, m := range mine {
		add(api.EventGroupMine, m.User, membershipWire(d.group, &m))
	}
	staff := s.staff(ctx, d)
	for i, r := range d.requests() {
		typ := api.EventGroupRequestClosed
		if d.opened != nil && i == 0 {
			typ = api.EventGroupRequested
		}
		for _, to := range append(slices.Clone(staff), r.User) {
			add(typ, to, r.wire(profiles))
		}
	}
	if d.group.Dissolved == 0 && d.touched() {
		change := api.GroupChange{Group: d.group.Wire(), Changed: []api.GroupMember{}, Removed: []string{}}
		if listed {
			for _, m := range list {
				change.Changed = append(change.Changed, m.wire(profiles))
			}
			for _, l := range d.left {
				change.Removed = append(change.Removed, l.user.String())
			}
		}
		addAll(api.EventGroupChanged, s.audience(ctx, d, staff), change)
	}
	s.bus.Publish(batch)
}

// touched reports whether the change is visible to all members.
func (d *changeSet) touched() bool { return d.group.Version != d.before.Version }

// requests returns the requests that were opened and closed.
func (d *changeSet) requests() []Request {
	if d.opened == nil {
		return d.closed
	}
	return append([]Request{*d.opened}, d.closed...)
}

// staff returns the admins and the owner of a group if they must get the change.
func (s *Service) staff(ctx context.Context, d *changeSet) []accounts.ID {
	if len(d.requests()) == 0 && (!d.touched() || d.group.Members <= maxFanOut) || d.group.Dissolved != 0 {
		return nil
	}
	found, err := selectStaff(ctx, s.db, d.group.ID)
	if err != nil { // the change is committed: clients get it when they list changes
		s.log.Warn("groups: change not published to admins", "group", d.group.ID, "err", err)
	}
	return found
}

// audience returns the users who get a change: all members of a small group, else the admins and the changed members.
func (s *Service) audience(ctx context.Context, d *changeSet, staff []accounts.ID) []accounts.ID {
	if d.group.Members <= maxFanOut {
		all, err := s.MemberIDs(ctx, d.group.ID)
		if err == nil {
			return all
		}
		s.log.Warn("groups: change not published to members", "group", d.group.ID, "err", err)
	}
	for _, m := range d.changed { // new members get api.EventGroupMine
		staff = append(staff, m.User)
	}
	slices.SortFunc(staff, accounts.ID.Compare)
	return slices.Compact(staff)
}

func (m Membership) wire(profiles accounts.Profiles) api.GroupMember {
	return api.GroupMember{User: profiles.Wire(m.User), Role: m.Role.String(), Nickname: m.Nickname,
		MutedUntil: api.AtOrNil(sqldb.TimeOrZero(m.MutedUntil)), Joined: api.At(sqldb.Time(m.Joined)), InvitedBy: idOrEmpty(m.Inviter)}
}

func (r Request) wire(profiles accounts.Profiles) api.GroupRequest {
	return api.GroupRequest{ID: r.ID.String(), Group: r.Group.String(), User: profiles.Wire(r.User), Answer: r.Answer, State: r.State.String(),
		Created: api.At(sqldb.Time(r.Created)), Expires: api.At(sqldb.Time(r.Expires))}
}

func idOrEmpty(user accounts.ID) string {
	if user.IsZero() {
		return ""
	}
	return user.String()
}

// Wire returns g in the form of the API.
func (g Group) Wire() api.Group {
	w := api.Group{ID: g.ID.String(), Name: g.Name, Picture: g.Picture, Announcement: g.Announcement, Announced: g.Announced,
		Joins: g.Joins.String(), Question: g.Question,
		Inviters: Member.String(), MutedUntil: api.AtOrNil(sqldb.TimeOrZero(g.MutedUntil)), Members: g.Members, Version: g.Version,
		Created: api.At(sqldb.Time(g.Created))}
	if g.AdminsInvite {
		w.Inviters = Admin.String()
	}
	return w
}

// membershipWire returns a group with a user's membership, which is nil for a user who is not a member.
func membershipWire(g Group, me *Membership) api.GroupMembership {
	w := api.GroupMembership{Group: g.Wire()}
	if me != nil {
		w.Me = &api.GroupSelf{Role: me.Role.String(), Nickname: me.Nickname, Remark: me.Remark, Notify: me.Notify.String(), Seen: me.Seen,
			MutedUntil: api.AtOrNil(sqldb.TimeOrZero(me.MutedUntil)), Joined: api.At(sqldb.Time(me.Joined)), Version: me.ownVersion}
	}
	return w
}

package social

import (
	"context"
	"slices"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// publish sends the events of a commit to all devices of the users concerned, and to subscribers in Redis. A blocked
// user gets no event of the block, only of its effects, as if they had another cause.
func (s *Service) publish(ctx context.Context, d *changeSet) {
	if d.empty() {
		return
	}
	var ids []accounts.ID
	for _, r := range slices.Concat(d.opened, d.closed) {
		ids = append(ids, r.From, r.To)
	}
	for _, t := range d.written {
		ids = append(ids, t.User)
	}
	profiles := s.people.ProfilesOrNone(context.WithoutCancel(ctx), ids...)
	var batch []events.Event
	add := func(typ string, user accounts.ID, data any) {
		text, ok := events.Encode(s.log, typ, data)
		if !ok {
			return
		}
		e := events.New(typ, user.String(), d.at, text)
		e.Channel = requestsChannel.At(user)
		batch = append(batch, e)
	}
	for _, r := range d.opened {
		add(api.EventFriendRequested, r.To, r.wire(profiles))
		add(api.EventFriendRequested, r.From, r.wire(profiles))
	}
	for _, r := range d.closed {
		add(api.EventFriendRequestClosed, r.To, r.wire(profiles))
		add(api.EventFriendRequestClosed, r.From, r.wire(profiles))
	}
	for u, n := range d.unread {
		add(api.EventFriendUnread, u, api.Unread{Unread: n, Version: d.lists[u].news})
	}
	for _, t := range d.written {
		typ := api.EventFriendUpdated
		if t.added {
			typ = api.EventFriendAdded
		}
		f := t.wire(profiles)
		f.Version = d.lists[t.user].version
		add(typ, t.user, f)
	}
	for _, m := range d.removed {
		add(api.EventFriendRemoved, m.user, api.Relative{User: m.other.String(), Version: d.lists[m.user].version})
	}
	for typ, edges := range map[string][]edge{api.EventBlockAdded: d.blocked, api.EventBlockRemoved: d.unblocked} {
		for _, m := range edges {
			add(typ, m.user, api.Relative{User: m.other.String(), Version: d.lists[m.user].news})
		}
	}
	s.bus.Publish(batch)
}

func (d *changeSet) empty() bool {
	return len(d.opened)+len(d.closed)+len(d.written)+len(d.removed)+len(d.blocked)+len(d.unblocked)+len(d.unread) == 0
}

func (r Request) wire(profiles accounts.Profiles) api.FriendRequest {
	return api.FriendRequest{ID: r.ID.String(), From: profiles.Wire(r.From), To: profiles.Wire(r.To), Message: r.Message, Source: r.Source,
		State: r.State.String(), Created: api.At(r.Created), Expires: api.At(r.Expires)}
}

func (f Friend) wire(profiles accounts.Profiles) api.Friend {
	return api.Friend{User: profiles.Wire(f.User), Remark: f.Remark, Tag: f.Tag, Source: f.Source, Order: f.Order, Since: api.At(f.Since),
		Updated: api.At(f.Updated)}
}

// enqueueHooks enqueues webhooks about the changes of tx, one for each pair.
func (s *Service) enqueueHooks(ctx context.Context, tx *sqldb.Tx, d *changeSet) error {
	for _, r := range d.opened {
		if err := s.hooks.Enqueue(ctx, tx, api.HookFriendRequested, r.To.String(), r.hook()); err != nil {
			return err
		}
	}
	enqueue := func(event string, pairs []edge) error {
		for _, p := range pairs {
			if p.user.Compare(p.other) > 0 {
				continue // the webhook of the other side covers the pair
			}
			if err := s.hooks.Enqueue(ctx, tx, event, p.user.String(), api.HookPair{User: p.user.String(), Other: p.other.String()}); err != nil {
				return err
			}
		}
		return nil
	}
	var added []edge
	for _, w := range d.written {
		if w.added {
			added = append(added, edge{w.user, w.User})
		}
	}
	if err := enqueue(api.HookFriendAdded, added); err != nil {
		return err
	}
	return enqueue(api.HookFriendRemoved, d.removed)
}

func (r Request) hook() api.HookFriendRequest {
	return api.HookFriendRequest{From: r.From.String(), To: r.To.String(), Message: r.Message}
}

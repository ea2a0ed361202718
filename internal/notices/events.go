package notices

import (
	"cmp"
	"context"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/i18n"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// publishNew publishes committed notices to the devices of their users.
func (s *Service) publishNew(ctx context.Context, fresh []Notice) {
	who := s.people.ProfilesOrNone(context.WithoutCancel(ctx), subjects(fresh)...)
	batch := make([]events.Event, 0, len(fresh))
	for _, n := range fresh {
		if e, ok := s.event(n.User, api.EventNoticeNew, sqldb.Time(n.At), api.NoticeNew{Notice: n.wire(who)}); ok {
			batch = append(batch, e)
		}
	}
	s.bus.Publish(batch)
}

// publishCounts publishes unread counts to the devices of users.
func (s *Service) publishCounts(at time.Time, all map[accounts.ID]Counts) {
	batch := make([]events.Event, 0, len(all))
	for user, c := range all {
		if e, ok := s.event(user, api.EventNoticeRead, at, c.wire()); ok {
			batch = append(batch, e)
		}
	}
	s.bus.Publish(batch)
}

func (s *Service) event(user accounts.ID, typ string, at time.Time, data any) (events.Event, bool) {
	text, ok := events.Encode(s.log, typ, data)
	if !ok {
		return events.Event{}, false
	}
	e := events.New(typ, user.String(), at, text)
	e.Channel = accounts.Notifications(user)
	return e, true
}

// subjects returns the users that notices are about.
func subjects(list []Notice) (users []accounts.ID) {
	for _, n := range list {
		if u, ok := n.about(); ok {
			users = append(users, u)
		}
	}
	return users
}

// about returns the user that a notice is about.
func (n Notice) about() (accounts.ID, bool) {
	if n.Kind == api.NoticeAnnouncement {
		return accounts.ID{}, false
	}
	u, err := ids.Parse[accounts.User](n.Subject.String())
	return u, err == nil
}

func (n Notice) wire(who accounts.Profiles) api.Notice {
	w := api.Notice{Seq: n.Seq, Kind: n.Kind, At: api.At(sqldb.Time(n.At)), Read: n.Read != 0, Data: n.Data, Expires: api.AtOrNil(sqldb.TimeOrZero(n.Expires))}
	if u, ok := n.about(); ok {
		about := who.Wire(u)
		w.User = &about
	}
	return w
}

func (c Counts) wire() api.NoticeCounts {
	return api.NoticeCounts{Unread: c.unread(), Categories: c.Categories, Last: c.Newest, Read: c.Seen, Version: c.Version}
}

// word inserts the texts of announcements, in the language of the caller or else of the user of each notice.
func (s *Service) word(ctx context.Context, list []Notice) error {
	var announced []any
	var users []accounts.ID
	for _, n := range list {
		if n.Kind == api.NoticeAnnouncement {
			announced, users = append(announced, n.Subject), append(users, n.User)
		}
	}
	if len(announced) == 0 {
		return nil
	}
	found, err := announcementsOf(ctx, s.db, announced)
	if err != nil {
		return err
	}
	reads := map[accounts.ID]string{}
	read := ""
	if header, ok := ctx.Value(i18n.Key{}).(func() string); ok {
		read = header()
	}
	if read == "" {
		known, err := accounts.ReadersOf(ctx, s.db, users)
		if err != nil {
			return err
		}
		for _, r := range known {
			reads[r.User] = string(r.Language)
		}
	}
	for i, n := range list {
		if n.Kind != api.NoticeAnnouncement {
			continue
		}
		id, _ := ids.Parse[Announcement](n.Subject.String())
		if a, ok := found[id]; ok {
			if list[i].Data, err = a.document(cmp.Or(read, reads[n.User])); err != nil {
				return err
			}
		}
	}
	return nil
}

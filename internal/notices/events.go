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
func (s *Service) publishNew(ctx context.Context, added []Notice) {
	profiles := s.people.ProfilesOrNone(context.WithoutCancel(ctx), usersAbout(added)...)
	batch := make([]events.Event, 0, len(added))
	for _, n := range added {
		if e, ok := s.newEvent(n.User, api.EventNoticeNew, sqldb.Time(n.At), api.NoticeNew{Notice: n.wire(profiles)}); ok {
			batch = append(batch, e)
		}
	}
	s.bus.Publish(batch)
}

// publishCounts publishes unread counts to the devices of users.
func (s *Service) publishCounts(at time.Time, all map[accounts.ID]Counts) {
	batch := make([]events.Event, 0, len(all))
	for user, c := range all {
		if e, ok := s.newEvent(user, api.EventNoticeRead, at, c.wire()); ok {
			batch = append(batch, e)
		}
	}
	s.bus.Publish(batch)
}

func (s *Service) newEvent(user accounts.ID, typ string, at time.Time, data any) (events.Event, bool) {
	document, ok := events.Encode(s.log, typ, data)
	if !ok {
		return events.Event{}, false
	}
	e := events.New(typ, user.String(), at, document)
	e.Channel = accounts.Notifications(user)
	return e, true
}

// usersAbout returns the users that notices are about.
func usersAbout(list []Notice) (users []accounts.ID) {
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

func (n Notice) wire(profiles accounts.Profiles) api.Notice {
	w := api.Notice{Seq: n.Seq, Kind: n.Kind, At: api.At(sqldb.Time(n.At)), Read: n.Read != 0, Data: n.Data,
		Expires: api.AtOrNil(sqldb.TimeOrZero(n.Expires))}
	if u, ok := n.about(); ok {
		about := profiles.Wire(u)
		w.User = &about
	}
	return w
}

func (c Counts) wire() api.NoticeCounts {
	return api.NoticeCounts{Unread: c.unread(), Categories: c.Categories, Last: c.Newest, Read: c.ReadUpTo, Version: c.Version}
}

// fillAnnouncements sets the data of announcements' notices, in the language of the request. Without an Accept-Language
// header, it uses the language of each notice's user.
func (s *Service) fillAnnouncements(ctx context.Context, list []Notice) error {
	var announcements []any
	var users []accounts.ID
	for _, n := range list {
		if n.Kind == api.NoticeAnnouncement {
			announcements, users = append(announcements, n.Subject), append(users, n.User)
		}
	}
	if len(announcements) == 0 {
		return nil
	}
	found, err := announcementsOf(ctx, s.db, announcements)
	if err != nil {
		return err
	}
	userLanguages := map[accounts.ID]string{}
	callerLanguage := ""
	if header, ok := ctx.Value(i18n.Key{}).(func() string); ok {
		callerLanguage = header()
	}
	if callerLanguage == "" {
		readers, err := accounts.ReadersOf(ctx, s.db, users)
		if err != nil {
			return err
		}
		for _, r := range readers {
			userLanguages[r.User] = string(r.Language)
		}
	}
	for i, n := range list {
		if n.Kind != api.NoticeAnnouncement {
			continue
		}
		id, _ := ids.Parse[Announcement](n.Subject.String())
		if a, ok := found[id]; ok {
			if list[i].Data, err = a.document(cmp.Or(callerLanguage, userLanguages[n.User])); err != nil {
				return err
			}
		}
	}
	return nil
}

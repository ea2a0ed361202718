package groups

import (
	"context"
	"math"
	"strconv"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/cursor"
	"github.com/stoa-dev/stoa/internal/notices"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// recordNotices stores the notices about d. New members get one, and so do members who were removed or banned, or whose
// group was dissolved, because they may see it nowhere else. Admins get one for each request, and the user of a request
// gets one for the answer. An admin's notice of a request is withdrawn when the request ends, or when the user is no
// longer an admin.
func (s *Service) recordNotices(ctx context.Context, tx *sqldb.Tx, d *changeSet) error {
	if s.notices == nil {
		return nil
	}
	var staff []accounts.ID
	if len(d.requests()) > 0 && d.group.Dissolved == 0 {
		var err error
		if staff, err = selectStaff(ctx, tx, d.group.ID); err != nil {
			return err
		}
	}
	stale, err := d.staleNotices(ctx, tx, staff)
	if err != nil {
		return err
	}
	if err := s.notices.Withdraw(ctx, tx, stale...); err != nil {
		return err
	}
	return s.notices.Record(ctx, tx, d.newNotices(staff)...)
}

// staleNotices returns the admins' notices to withdraw: those of closed requests, and those of all pending requests
// for former admins.
func (d *changeSet) staleNotices(ctx context.Context, tx *sqldb.Tx, staff []accounts.ID) (stale []notices.SourceKey, err error) {
	if former := d.formerStaff(); len(former) > 0 {
		pending := d.closed // in a dissolved group, all pending requests
		if d.group.Dissolved == 0 {
			if pending, err = pagePending(ctx, tx, d.group.ID, cursor.Place{}, math.MaxInt32); err != nil {
				return nil, err
			}
		}
		for _, r := range pending {
			for _, admin := range former {
				stale = append(stale, notices.SourceKey{User: admin, Source: sourceOf(r)})
			}
		}
	}
	for _, r := range d.closed {
		for _, admin := range staff {
			stale = append(stale, notices.SourceKey{User: admin, Source: sourceOf(r)})
		}
	}
	return stale, nil
}

// newNotices returns the new notices: for users about their own membership or request, and for admins about a request.
func (d *changeSet) newNotices(staff []accounts.ID) (entries []notices.Entry) {
	entry := func(kind string, to, by accounts.ID, source string, data api.NoticeOfGroup) {
		if to == by {
			return
		}
		data.V, data.Group, data.Name, data.User = 1, d.group.ID.String(), d.group.Name, idOrEmpty(by)
		entries = append(entries, notices.Entry{User: to, Kind: kind, Source: source, About: by, Data: data})
	}
	approved := map[accounts.ID]bool{}
	for _, r := range d.closed {
		source := sourceOf(r)
		switch data := (api.NoticeOfGroup{Request: r.ID.String()}); r.State {
		case Approved:
			approved[r.User] = true
			entry(api.NoticeGroupAccepted, r.User, d.by, source+":accepted", data)
		case Refused:
			entry(api.NoticeGroupRefused, r.User, d.by, source+":refused", data)
		}
	}
	if r := d.opened; r != nil {
		for _, admin := range staff {
			entry(api.NoticeGroupRequested, admin, r.User, sourceOf(*r), api.NoticeOfGroup{Request: r.ID.String()})
			entries[len(entries)-1].Expires = sqldb.Time(r.Expires)
		}
	}
	version := func(of int64) string { return d.group.ID.String() + ":" + strconv.FormatInt(of, 10) }
	for _, m := range d.joined {
		if !approved[m.User] {
			entry(api.NoticeGroupAdded, m.User, d.by, "group_added:"+version(m.version), api.NoticeOfGroup{})
		}
	}
	for _, l := range d.left {
		switch l.reason {
		case api.GroupRemoved, api.GroupBanned:
			entry(api.NoticeGroupRemoved, l.user, d.by, "group_removed:"+version(d.group.Version),
				api.NoticeOfGroup{Banned: l.reason == api.GroupBanned})
		case api.GroupDissolved:
			entry(api.NoticeGroupDissolved, l.user, d.by, "group_dissolved:"+d.group.ID.String(), api.NoticeOfGroup{})
		}
	}
	return entries
}

// sourceOf returns the notice source of a request.
func sourceOf(r Request) string { return "group_request:" + r.ID.String() }

// formerStaff returns users who were admins or the owner before the change, and are neither now.
func (d *changeSet) formerStaff() (all []accounts.ID) {
	for _, m := range d.changed {
		if d.membersBefore[m.User].Role >= Admin && m.Role < Admin {
			all = append(all, m.User)
		}
	}
	for _, l := range d.left {
		if l.role >= Admin {
			all = append(all, l.user)
		}
	}
	return all
}

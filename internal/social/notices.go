package social

import (
	"context"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/notices"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// record writes the notices about d's requests. The notice of a request leaves the receiver's list when the request
// ends. The notice of an expired request expires by itself.
func (s *Service) record(ctx context.Context, tx *sqldb.Tx, d *changeSet) error {
	if s.notices == nil {
		return nil
	}
	var ended []notices.SourceKey
	var entries []notices.Entry
	entry := func(kind string, to, about accounts.ID, source string, r Request) {
		entries = append(entries, notices.Entry{User: to, Kind: kind, Source: source, About: about,
			Data: api.NoticeOfRequest{V: 1, Request: r.ID.String(), User: about.String(), Message: r.Message}})
	}
	for _, r := range d.closed {
		source := "request:" + r.ID.String()
		if r.State != Expired {
			ended = append(ended, notices.SourceKey{User: r.To, Source: source})
		}
		switch r.State {
		case Accepted:
			entry(api.NoticeFriendAccepted, r.From, r.To, source+":accepted", r)
		case Refused:
			entry(api.NoticeFriendRefused, r.From, r.To, source+":refused", r)
		}
	}
	for _, r := range d.opened {
		entry(api.NoticeFriendRequested, r.To, r.From, "request:"+r.ID.String(), r)
		entries[len(entries)-1].Expires = r.Expires
	}
	if err := s.notices.Withdraw(ctx, tx, ended...); err != nil {
		return err
	}
	return s.notices.Record(ctx, tx, entries...)
}

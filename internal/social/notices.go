package social

import (
	"context"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/notices"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// record writes the notices about d's requests. The notice of a request leaves the addressee's list when the request
// ends. An expired request is never listed.
func (s *Service) record(ctx context.Context, tx *sqldb.Tx, d *changeSet) error {
	if s.notices == nil {
		return nil
	}
	var over []notices.Told
	var told []notices.Entry
	entry := func(kind string, to, about accounts.ID, source string, r Request) {
		told = append(told, notices.Entry{User: to, Kind: kind, Source: source, About: about,
			Data: api.NoticeOfRequest{V: 1, Request: r.ID.String(), User: about.String(), Message: r.Message}})
	}
	for _, r := range d.closed {
		source := "request:" + r.ID.String()
		if r.State != Expired {
			over = append(over, notices.Told{User: r.To, Source: source})
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
		told[len(told)-1].Expires = r.Expires
	}
	if err := s.notices.Withdraw(ctx, tx, over...); err != nil {
		return err
	}
	return s.notices.Record(ctx, tx, told...)
}

package app

import (
	"context"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/foundation/ids"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
	"github.com/stoa-dev/stoa/internal/notices"
)

// notify has a user told of what was done to the account.
func (a *App) notify(ctx context.Context, tx *sqldb.Tx, user accounts.ID, kind string, data api.NoticeOfAccount) error {
	return a.notices.Record(ctx, tx, notices.Entry{User: user, Kind: kind, Source: "account:" + ids.New[notices.Notice]().String(), Data: data})
}

// pushNotices has new notices pushed; the domain that does is made after the one that writes them.
func (a *App) pushNotices(ctx context.Context, tx *sqldb.Tx, fresh []notices.Notice) error {
	return a.push.Notices(ctx, tx, fresh)
}

package app

import (
	"context"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/notices"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// notify records a notice for a user about a change of the account.
func (a *App) notify(ctx context.Context, tx *sqldb.Tx, user accounts.ID, kind string, data api.NoticeOfAccount) error {
	return a.notices.Record(ctx, tx, notices.Entry{User: user, Kind: kind, Source: "account:" + ids.New[notices.Notice]().String(),
		Data: data})
}

// pushNotices pushes new notices. The domain that pushes is created after the one that writes them.
func (a *App) pushNotices(ctx context.Context, tx *sqldb.Tx, fresh []notices.Notice) error {
	return a.push.Notices(ctx, tx, fresh)
}

// offline returns the function that enqueues a webhook for a user without a connected device. It returns nil if the
// backend does not subscribe to these events.
func (a *App) offline() func(ctx context.Context, user accounts.ID, p api.Push) error {
	if !a.hooks.Wants(api.HookNotifyOffline) {
		return nil
	}
	return func(ctx context.Context, user accounts.ID, p api.Push) error {
		return a.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			return a.hooks.Enqueue(ctx, tx, api.HookNotifyOffline, user.String(), api.HookOffline{User: user.String(), Push: p})
		})
	}
}

package app

import (
	"context"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/notices"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// notify has a user told of what was done to the account.
func (a *App) notify(ctx context.Context, tx *sqldb.Tx, user accounts.ID, kind string, data api.NoticeOfAccount) error {
	return a.notices.Record(ctx, tx, notices.Entry{User: user, Kind: kind, Source: "account:" + ids.New[notices.Notice]().String(), Data: data})
}

// pushNotices has new notices pushed; the domain that does is made after the one that writes them.
func (a *App) pushNotices(ctx context.Context, tx *sqldb.Tx, fresh []notices.Notice) error {
	return a.push.Notices(ctx, tx, fresh)
}

// offline hands what users should see who have no device on line to the app's own backend. Nil: it wants no such events.
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

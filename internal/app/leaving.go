package app

import (
	"context"
	"errors"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/background/queue"
)

// erased erases a user's data in every domain. After a failure, all domains are called again: erasing twice changes
// nothing.
func (a *App) erased(ctx context.Context, e accounts.Erasure, _ queue.Delivery) error {
	if err := errors.Join(a.checkin.Erase(ctx, e.User), a.social.Erase(ctx, e.User), a.groups.Erase(ctx, e.User),
		a.messages.Erase(ctx, e.User), a.presence.Erase(ctx, e.User), a.activity.Erase(ctx, e.User), a.transfers.Erase(ctx, e.User),
		a.rooms.Erase(ctx, e.User), a.live.Erase(ctx, e.User), a.notices.Erase(ctx, e.User), a.push.Erase(ctx, e.User),
		a.api.Erase(ctx, e.User.String())); err != nil {
		return err
	}
	return a.accounts.ErasedEverywhere(ctx, e)
}

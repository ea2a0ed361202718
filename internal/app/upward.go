package app

import (
	"context"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/notices"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// This file has the calls from a part to one that is created after it. Each of these pairs uses the other in both
// directions, so no order of construction avoids them. [New] passes the methods to the earlier part, which calls them
// only after New has returned. [App.openSockets] and [App.ordered] are such calls, too: from the cluster to the gateway.
// A later part that registers with an earlier one in its own New, as chats do with groups and files, is not among them.

// notify records a notice for a user about a change of the account. Notices contain profiles of accounts.
func (a *App) notify(ctx context.Context, tx *sqldb.Tx, user accounts.ID, kind string, data api.NoticeOfAccount) error {
	return a.notices.Record(ctx, tx, notices.Entry{User: user, Kind: kind, Source: "account:" + ids.New[notices.Notice]().String(),
		Data: data})
}

// streaks returns the current streaks of users, for lists of friends. Check-in has boards of friends.
func (a *App) streaks(ctx context.Context, users []accounts.ID) (map[accounts.ID]int, error) {
	return a.checkin.Streaks(ctx, users)
}

// maySubscribe checks whether a viewer of a file or of a live stream is in the room of the channel. The playlists of
// rooms have files and live streams.
func (a *App) maySubscribe(ctx context.Context, viewer, channel string) error {
	return a.rooms.MaySubscribe(ctx, viewer, channel)
}

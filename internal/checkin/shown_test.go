package checkin

import (
	"context"
	"testing"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/checkin/ranking"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// blocks returns blocks as package social does, with an error while SQL is away.
type blocks struct {
	who map[accounts.ID]bool
	err error
}

func (b blocks) Apart(context.Context, accounts.ID, []accounts.ID) (map[accounts.ID]bool, error) {
	return b.who, b.err
}

// While the blocks cannot be read, the caller sees no other user by name.
func TestBoard_UnreadableBlocksHideOtherUsers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"))
		var people []accounts.User
		for _, email := range []string{"ann@example.org", "bob@example.org"} {
			u, err := accounts.NewUser(email, email[:3], "UTC")
			if err != nil {
				t.Fatal(err)
			}
			people = append(people, u)
		}
		if err := w.db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			return accounts.InsertUsers(ctx, tx, people)
		}); err != nil {
			t.Fatal(err)
		}
		ann, bob := people[0].ID, people[1].ID
		board := ranking.Ranking{Top: []ranking.Row{{User: ann}, {User: bob}}}
		known, err := w.users.UsersOf(t.Context(), standing(board))
		if err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			blocks
			want int
		}{{blocks{}, 2}, {blocks{who: map[accounts.ID]bool{bob: true}}, 1}, {blocks{err: ErrStore}, 1}} {
			w.apart = tt.blocks
			shown := w.shown(t.Context(), ann, board, known)
			if len(shown) != tt.want || shown[ann].Name != "ann" {
				t.Errorf("with %+v: got %v, want %d", tt.blocks, shown, tt.want)
			}
		}
	})
}

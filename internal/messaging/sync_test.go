package messaging

import (
	"context"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// The disk of the SQL server blocks for longer than any allowance for late commits.
func TestChats_SyncWaitsForSlowCommitOfAnotherNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		db, rdb := sqldbtest.SQLite(t), redistest.Open(t, "embedded")
		slow, w := newWorld(t, db, rdb, Settings{MessagesFrom: "everybody"}), newWorld(t, db, rdb, Settings{MessagesFrom: "everybody"})
		who := w.join(2)
		ann, bob := who[0], who[1]
		w.mustSend(ann, bob, "Hi")
		w.listed(bob)
		bubble.Sleep(time.Minute)

		written, committed := make(chan struct{}), make(chan error)
		go func() {
			var c change
			committed <- slow.transact(context.WithoutCancel(t.Context()), ann, With(bob), &c,
				func(ctx context.Context, tx *sqldb.Tx) (*step, error) {
					v, err := slow.locked(ctx, tx, ann, With(bob))
					if err != nil {
						return nil, err
					}
					c = v.change()
					rev, err := slow.sql.bump(ctx, tx, v.conversation)
					close(written)
					time.Sleep(time.Minute)
					return &step{rev: rev}, err
				})
		}()
		<-written
		bubble.Sleep(55 * time.Second)
		during, err := w.Chats(t.Context(), bob, "", "", 50)
		w.must(err)
		w.must(<-committed)
		after, err := w.Chats(t.Context(), bob, during.Sync, "", 50)
		w.must(err)
		if len(after.Chats) != 1 || after.Chats[0].Rev != 1 {
			t.Errorf("the list since the sync of a list during the commit: got %+v, want the chat at rev 1", after.Chats)
		}

		bubble.Sleep(time.Minute)
		idle, err := w.Chats(t.Context(), bob, after.Sync, "", 50)
		w.must(err)
		idle, err = w.Chats(t.Context(), bob, idle.Sync, "", 50)
		w.must(err)
		if len(idle.Chats) != 0 {
			t.Errorf("the list a minute after the commit: got %+v, want no chats", idle.Chats)
		}
	})
}

// The version shows a device which of two states of a chat is newer, whatever their source.
func TestChat_VersionGrowsWithOwnChangesOnly(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w, ctx := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"), Settings{MessagesFrom: "everybody"}), t.Context()
		who := w.join(2)
		ann, bob := who[0], who[1]
		g := w.founded(ann, bob)
		w.mustSend(ann, bob, "Hi")
		w.listed(ann)
		plain := w.fromSQL()
		for _, chat := range []ChatRef{With(bob), In(g)} {
			version := func() int64 {
				t.Helper()
				got, err := w.Chat(ctx, ann, chat)
				w.must(err)
				want, err := plain.Chat(ctx, ann, chat)
				w.must(err)
				if got.Version != want.Version || got.Version == 0 {
					t.Errorf("%s: version %d in Redis, %d in SQL", chat, got.Version, want.Version)
				}
				return got.Version
			}
			last := version()
			for _, draft := range []string{"a", "b"} {
				set, err := w.Set(ctx, ann, chat, api.ChatChange{Draft: &draft})
				w.must(err)
				if now := version(); now <= last || set.Version != now {
					t.Errorf("%s: version %d after %d, the answer has %d", chat, now, last, set.Version)
				}
				last = version()
			}
			theirs := chat
			if chat.direct() {
				theirs = With(ann)
			}
			_, err := w.Set(ctx, bob, theirs, api.ChatChange{Draft: new("mine")})
			w.must(err)
			if now := version(); now != last {
				t.Errorf("%s: the other's change moves the version from %d to %d", chat, last, now)
			}
		}
	})
}

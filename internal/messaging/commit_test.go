package messaging

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/groups"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// commits writes a batch that waits for locks. Two waits of two seconds fit into five. A try may still fail on a
// machine that stops for a while.
func commits(t *testing.T, w *world, batch []sending) (out []sent) {
	t.Helper()
	eventually.NoError(t, "a batch that is in time", func() (err error) {
		out, err = w.commit(t.Context(), batch)
		return err
	})
	return out
}

func TestSend_LockedConversationDelaysNoOther(t *testing.T) {
	w := newWorld(t, sqldbtest.Default(t).Open(t), redistest.Open(t, "embedded"), Settings{MessagesFrom: "everybody"})
	who := w.join(6)
	var batch []sending
	for _, peer := range who[1:] {
		w.mustSend(who[0], peer, "Hi")
		found, err := w.sql.findPairs(t.Context(), w.sql.db, []pair{pairOf(who[0], peer)}, "")
		w.must(err)
		batch = append(batch, sending{conv: found[pairOf(who[0], peer)], from: who[0], to: With(peer), clientID: "again", hash: "h",
			body: messageBody{Content: api.Content{Text: "Hi again"}}})
	}
	held := batch[len(batch)/2]
	sqldbtest.Busy(t, w.sql.db, "SELECT id FROM conversations WHERE id = ? FOR UPDATE", batch[0].conv) // by another node
	sqldbtest.Hold(t, w.sql.db, "SELECT id FROM conversations WHERE id = ? FOR UPDATE", held.conv)
	out := commits(t, w, batch)
	for i, in := range batch {
		var want error
		if in.conv == held.conv {
			want = ErrStore
		}
		wants(t, fmt.Sprint("message ", i), out[i].refusal, want)
		if got := w.reads(who[0], in.to.peer); slices.Contains(got, "Hi again") != (want == nil) {
			t.Errorf("message %d: %q are there", i, got)
		}
	}
}

func TestBusyRow_LeavesConnectionsToMessages(t *testing.T) {
	w := newWorld(t, sqldbtest.Default(t).Open(t, func(c *sqldb.Config) {
		c.MaxConns = 8
	}), redistest.Open(t, "embedded"), Settings{MessagesFrom: "everybody"})
	who := w.join(3 + 64)
	ann, bob, eve, guests := who[0], who[1], who[2], who[3:]
	g := w.founded(ann, bob)
	w.mustSendIn(ann, g, "Good news")
	w.mustSend(ann, bob, "Hi")
	link, err := w.in.NewLink(t.Context(), ann, g, ids.New[groups.Link](), time.Hour, 0)
	w.must(err)
	found, err := w.sql.findPairs(t.Context(), w.sql.db, []pair{pairOf(ann, bob)}, "")
	w.must(err)
	for _, c := range []struct {
		what   string
		change func(ctx context.Context, i int) error
		table  string
		row    any
	}{
		{"reactions", func(ctx context.Context, _ int) error {
			_, err := w.React(ctx, bob, In(g), 2, "👍", true)
			return err
		}, "conversations", conversationOf(g)},
		{"pins", func(ctx context.Context, _ int) error { return w.Pin(ctx, ann, In(g), 2, true) }, "conversations", conversationOf(g)},
		{"drafts", func(ctx context.Context, i int) error {
			_, err := w.Set(ctx, ann, With(bob), api.ChatChange{Draft: new(fmt.Sprint("draft ", i))})
			return err
		}, "conversations", found[pairOf(ann, bob)]},
		{"joins", func(ctx context.Context, i int) error {
			_, _, _, err := w.in.Join(ctx, guests[i], link.ID, "")
			return err
		}, "chat_groups", g},
	} {
		t.Run(c.what, func(t *testing.T) {
			sqldbtest.Crowd(t, w.sql.db, c.change, "SELECT id FROM "+c.table+" WHERE id = ? FOR UPDATE", c.row)
			w.mustSend(ann, eve, "Hi")
		})
	}
	ended := time.Now().UnixMilli()
	eventually.True(t, "the mark to include callers without a turn", func() bool {
		var upTo int64
		marks, err := appliedKey.At().All(t.Context(), w.redis)
		for _, mark := range marks {
			_, _ = fmt.Sscan(mark, &upTo)
		}
		return err == nil && upTo >= ended
	})
}

// The server has not finished the COMMIT of a batch's first try, which holds the conversation. The retry cannot get the
// lock.
func TestSend_LateCommitIsAppliedAfterRefusedRetry(t *testing.T) {
	w := newWorld(t, sqldbtest.Default(t).Open(t), redistest.Open(t, "embedded"), Settings{MessagesFrom: "everybody"})
	who := w.join(2)
	ann, bob := who[0], who[1]
	w.mustSend(ann, bob, "Hi")
	w.listed(bob)
	now := w.sql.db.Now()
	batch := []sending{{conv: mustBetween(w, ann, bob), from: ann, to: With(bob), clientID: "again", hash: "h",
		body: messageBody{Content: api.Content{Text: "Hi again"}}, since: now}}
	w.projection.Begin(now)
	written, end, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		ended <- w.sql.inTx(context.WithoutCancel(t.Context()), func(ctx context.Context, tx *sqldb.Tx) error {
			if _, err := tx.ExecContext(ctx, "SET SESSION wait_timeout = 28800 /*M!100300 , idle_transaction_timeout = 0 */"); err != nil {
				return err
			}
			_, err := w.commitIn(ctx, tx, batch, retryState{})
			close(written)
			<-end
			return err
		})
	}()
	<-written
	out := commits(t, w, batch)
	close(end)
	w.must(<-ended)
	wants(t, "the retry", out[0].refusal, ErrStore)
	w.afterSend(t.Context(), batch, out)
	eventually.Equal(t, "what waits for the other", 2, func() int64 { return w.chat(bob, ann).Unread })
}

func TestMarks_LockedMemberDelaysNoOther(t *testing.T) {
	w := newWorld(t, sqldbtest.Default(t).Open(t), redistest.Open(t, "embedded"), Settings{MessagesFrom: "everybody"})
	who := w.join(11)
	var batch []marking
	for _, user := range who[1:] {
		w.mustSend(who[0], user, "Hi")
		batch = append(batch, marking{member: member{user: user, conv: mustBetween(w, who[0], user), peer: who[0], read: 1, delivered: 1},
			kind: direct})
	}
	held := batch[5]
	sqldbtest.Hold(t, w.sql.db, "SELECT user_id FROM chat_members WHERE user_id = ? AND conversation = ? FOR UPDATE", held.user, held.conv)
	var refusals []error
	eventually.NoError(t, "marks that are in time", func() (err error) {
		refusals, err = w.commitMarks(t.Context(), batch)
		return err
	})
	for i, in := range batch {
		read, want := int64(1), error(nil)
		if in.user == held.user {
			read, want = 0, ErrStore
		}
		wants(t, fmt.Sprint("mark ", i), refusals[i], want)
		if v, err := w.sql.view(t.Context(), w.sql.db, in.user, With(who[0])); err != nil || v.me.read != read {
			t.Errorf("mark %d: up to %d is read (%v), want %d", i, v.me.read, err, read)
		}
	}
}

// The node dies, or loses SQL, before it publishes a mark. Both sides still get the event.
func TestMark_LostResponseIsRecheckedAndPublished(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"), Settings{MessagesFrom: "everybody"})
	who := w.join(2)
	ann, bob := who[0], who[1]
	w.mustSend(ann, bob, "Hi")
	w.listed(bob)
	if c := w.chat(bob, ann); c.Unread != 1 { // from Redis, as are all later reads
		t.Fatalf("before: %+v", c)
	}
	var mu sync.Mutex
	received := map[accounts.ID]api.ChatMark{}
	for _, u := range who {
		_, leave := w.bus.Listen(t.Context(), u.String(), &events.Listener{Lost: func() {}, Event: func(e events.Event, _ events.Position) {
			var mark api.ChatMark
			if e.Type == api.EventChatMarked && json.Unmarshal(e.Data, &mark) == nil {
				mu.Lock()
				defer mu.Unlock()
				received[u] = mark
			}
		}})
		defer leave()
	}
	st, err := w.stateOf(t.Context(), bob, With(ann))
	w.must(err)
	now := w.sql.db.Now()
	w.projection.Begin(now)
	in := marking{member{user: bob, conv: st.id, peer: ann, read: 1, delivered: 1, changed: now.UnixMilli()}, st.kind, now, marks{}}
	_, err = w.commitMarks(t.Context(), []marking{in})
	w.must(err)
	w.settleFailed(now, in.change(), driver.ErrBadConn) // a broken connection
	eventually.True(t, "the mark is seen", func() bool { return w.chat(bob, ann).Unread == 0 })
	eventually.Equal(t, "the published marks", map[accounts.ID]api.ChatMark{
		ann: {Chat: With(bob).String(), User: bob.String(), Read: 1, Delivered: 1},
		bob: {Chat: With(ann).String(), User: bob.String(), Read: 1, Delivered: 1},
	}, func() map[accounts.ID]api.ChatMark {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(received)
	})
}

func TestLock_ReadsNoMembersOfGroups(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sqldbtest.Default(t).Open(t, func(c *sqldb.Config) { c.MaxConns = 1 }), redistest.Open(t, "embedded"), Settings{})
	var list []ConversationID
	w.must(w.sql.db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		for i := range 8 {
			c := conversation{id: ids.New[conversation](), kind: direct, seq: 1}
			members := make([]member, 2)
			if i%2 != 0 {
				c.kind, members = group, make([]member, 400)
			}
			if _, err := tx.ExecContext(ctx, w.sql.newConversations.For(1), c.row()...); err != nil {
				return err
			}
			for i := range members {
				members[i] = member{user: ids.New[accounts.User](), conv: c.id}
			}
			if _, err := tx.ExecContext(ctx, w.sql.newMembers.For(len(members)), memberRows(members)...); err != nil {
				return err
			}
			list = append(list, c.id)
		}
		return nil
	}))
	n := sqldbtest.RowsRead(t, w.sql.db, func() {
		w.must(w.sql.db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			found, err := w.sql.lockWithViews(ctx, tx, list)
			for i, id := range list {
				if want := 2 - 2*(i%2); len(found[id].lockedViews) != want {
					t.Errorf("conversation %d: got %d views, want %d", i, len(found[id].lockedViews), want)
				}
			}
			return err
		}))
	})
	if n > 100 {
		t.Errorf("the locks of 8 conversations, four of them groups of 400, read %d rows, want at most 100", n)
	}
}

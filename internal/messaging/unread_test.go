package messaging

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

// wantUnread checks the unread messages of a chat, and of all chats, on two nodes and after Redis has lost all data.
func (w *world) wantUnread(what string, other *world, user accounts.ID, chat ChatRef, want int64) {
	w.t.Helper()
	read := func(how string, node *world) {
		w.t.Helper()
		one, err := node.Chat(w.t.Context(), user, chat)
		w.must(err)
		all, err := node.Chats(w.t.Context(), user, "", "", 10)
		w.must(err)
		if one.Unread != want || all.Unread != want {
			w.t.Errorf("%s, %s: the chat has %d unread messages and the list %d, want %d", what, how, one.Unread, all.Unread, want)
		}
	}
	read("on the node that has changed it", w)
	read("on another node", other)
	lost := keysOf(user)
	if !chat.direct() {
		lost = append(lost, headKeys.At(conversationOf(chat.group)).Key)
	}
	for _, key := range lost {
		w.must(w.redis.Do(w.t.Context(), keyspace.Cmd{Name: "UNLINK", Key: key}).Err)
	}
	read("from SQL", w)
	read("from Redis", w)
}

func TestUnread_OmitsUncountedMessages(t *testing.T) {
	for i, engine := range sqldbtest.Engines(t) {
		for _, keys := range redistest.Engines(t) {
			if i > 0 && keys.Name != "embedded" || keys.Name == "sentinel" || keys.Name == "spawn" {
				continue // the scripts are the same
			}
			t.Run(engine.Name+"/"+keys.Name, func(t *testing.T) {
				t.Parallel()
				db, rdb := engine.Open(t), keys.Open(t)
				w, other := newWorld(t, db, rdb, Settings{MessagesFrom: "everybody"}), newWorld(t, db, rdb, Settings{MessagesFrom: "everybody"})
				ctx, who := t.Context(), w.join(4)
				ann, bob := who[0], who[1]
				g := w.founded(ann, bob)
				w.wantUnread("a new group", other, bob, In(g), 0)
				w.wantUnread("a new group, to its founder", other, ann, In(g), 0)
				for _, chat := range []struct{ ann, bob ChatRef }{{With(bob), With(ann)}, {In(g), In(g)}} {
					var sent []api.Sent
					for i := range 5 {
						got, _, err := w.Send(ctx, ann, chat.ann, text(ids.New[message]().String(), fmt.Sprint("text ", i)))
						w.must(err)
						sent = append(sent, got)
					}
					want := func(what string, n int64) {
						t.Helper()
						w.wantUnread(chat.bob.String()[:2]+" "+what, other, bob, chat.bob, n)
					}
					want("five messages", 5)
					_, err := w.Recall(ctx, ann, chat.ann, sent[1].Seq)
					w.must(err)
					want("one is recalled", 4)
					_, err = w.Edit(ctx, ann, chat.ann, sent[2].Seq, "edited")
					w.must(err)
					want("one is edited", 4)
					_, err = w.React(ctx, bob, chat.bob, sent[2].Seq, "👍", true)
					w.must(err)
					want("one has a reaction", 4)
					w.must(w.Hide(ctx, bob, chat.bob, sent[3].Seq))
					want("one is hidden", 3)
					_, err = w.Recall(ctx, ann, chat.ann, sent[3].Seq)
					w.must(err)
					want("the hidden one is recalled", 3)
					w.must(w.Hide(ctx, bob, chat.bob, sent[1].Seq))
					want("the recalled one is hidden", 3)
					w.must(w.Mark(ctx, bob, chat.bob, sent[1].Seq, 0))
					want("the first ones are read", 2)
					_, _, err = w.Post(ctx, ann, chat.ann, api.Send{ClientID: "order", Content: api.Content{Kind: api.MessageSystem, Text: "Delivered"}})
					w.must(err)
					want("a system message", 2)
					_, _, err = w.Post(ctx, bob, chat.bob, api.Send{ClientID: "reply", Content: api.Content{Kind: api.MessageSystem, Text: "Received"}})
					w.must(err)
					want("a system message in the reader's name", 2)
					w.must(w.Mark(ctx, bob, chat.bob, sent[4].Seq, 0))
					want("all is read", 0)
				}

				eve := who[2]
				w.mustSend(eve, bob, "one")
				w.mustSend(eve, bob, "two")
				w.must(w.Mark(ctx, bob, With(eve), 2, 0))
				w.mustSend(eve, bob, "three")
				w.wantUnread("before the sender is erased", other, bob, With(eve), 1)
				w.must(w.Erase(ctx, eve))
				w.wantUnread("after the sender is erased", other, bob, With(eve), 0)

				dan := who[3]
				for range exactUnread + 1 {
					w.mustSend(dan, bob, "text")
				}
				_, err := w.Recall(ctx, dan, With(bob), 1)
				w.must(err)
				w.wantUnread("one before the latest is recalled", other, bob, With(dan), exactUnread+1)
				_, err = w.Recall(ctx, dan, With(bob), 2)
				w.must(err)
				w.wantUnread("one of the latest is recalled", other, bob, With(dan), exactUnread)
			})
		}
	}
}

// TestUnread_ConcurrentRecallsAndMarks compares Redis with the messages after recalls on one node and marks on another.
func TestUnread_ConcurrentRecallsAndMarks(t *testing.T) {
	db, rdb := sqldbtest.SQLite(t), redistest.Open(t, "embedded")
	w, other := newWorld(t, db, rdb, Settings{MessagesFrom: "everybody"}), newWorld(t, db, rdb, Settings{MessagesFrom: "everybody"})
	ctx, who := t.Context(), w.join(2)
	ann, bob := who[0], who[1]
	g := w.founded(ann, bob)
	for _, chat := range []struct{ ann, bob ChatRef }{{With(bob), With(ann)}, {In(g), In(g)}} {
		var last int64
		for i := range 40 {
			got, _, err := w.Send(ctx, ann, chat.ann, text(fmt.Sprint(i), "text"))
			w.must(err)
			last = got.Seq
		}
		var all sync.WaitGroup
		for i := range int64(20) {
			all.Go(func() {
				if _, err := w.Recall(ctx, ann, chat.ann, last-2*i); err != nil {
					t.Error(err)
				}
			})
			all.Go(func() {
				if err := other.Mark(ctx, bob, chat.bob, last-20-i, 0); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		w.wantUnread(chat.bob.String()[:2], other, bob, chat.bob, 10)
		w.must(w.Mark(ctx, bob, chat.bob, last, 0))
	}
}

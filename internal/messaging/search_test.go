package messaging

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

func TestSearch_FindsMessages(t *testing.T) {
	eachEngine(t, Settings{MessagesFrom: "everybody"}, func(t *testing.T, w *world) {
		ctx := t.Context()
		who := w.join(3)
		ann, bob, eve := who[0], who[1], who[2]
		w.mustSend(ann, bob, "See you at Eight, in the CAFÉ")
		w.mustSend(bob, ann, "明天早上八点见面，好吗？")
		w.mustSend(ann, eve, "eight o'clock")
		w.mustSend(bob, eve, "not for Ann: eight")
		w.mustSend(bob, ann, "recalled eight")
		w.mustSend(bob, ann, "hidden eight")
		_, _, err := w.Send(ctx, bob, With(ann), api.Send{ClientID: "image",
			Content: api.Content{Kind: api.MessageImage, Media: &api.Media{URL: "https://example.org/a.png", Alt: "eight dogs"}}})
		w.must(err)
		w.mustSend(bob, ann, "was nine")
		_, err = w.Recall(ctx, bob, With(ann), 3)
		w.must(err)
		w.must(w.Hide(ctx, ann, With(bob), 4))
		_, err = w.Edit(ctx, bob, With(ann), 6, "is ＥＩＧＨＴ now") // full-width letters
		w.must(err)
		find := func(user, peer accounts.ID, q string) (texts []string) {
			t.Helper()
			got, err := w.Search(ctx, user, With(peer), q, "", 20)
			w.must(err)
			for _, m := range got.Messages {
				texts = append(texts, fmt.Sprint(m.Chat == With(bob).String(), m.Seq))
			}
			return texts
		}
		want := func(what string, got []string, want ...string) {
			t.Helper()
			if !slices.Equal(got, want) {
				t.Errorf("%s: found %v, want %v", what, got, want)
			}
		}
		want("everywhere", find(ann, accounts.ID{}, "eight"), "true 6", "true 5", "false 1", "true 1")
		want("in one chat", find(ann, eve, "eight"), "false 1")
		want("two words, parts of words", find(ann, accounts.ID{}, "caf YOU"), "true 1")
		want("another form of the same letters", find(ann, accounts.ID{}, "cafe\u0301"), "true 1")
		want("Chinese", find(ann, accounts.ID{}, "早上 见面"), "true 2")
		want("nothing", find(ann, accounts.ID{}, "seven"))
		want("the others' chats", find(eve, accounts.ID{}, "CAFÉ"))
		w.must(w.Clear(ctx, ann, With(bob)))
		want("cleared", find(ann, accounts.ID{}, "eight"), "false 1")
		for name, fault := range map[string]struct {
			peer      accounts.ID
			q, cursor string
			want      error
		}{
			"nothing to look for": {q: " \u3000", want: ErrQuery},
			"no cursor":           {q: "a", cursor: "x.y.z", want: ErrCursor},
			"no chat in a cursor": {q: "a", cursor: "1.1.!", want: ErrCursor},
			"no such chat":        {peer: w.join(1)[0], q: "a", want: ErrChat},
		} {
			_, err := w.Search(ctx, ann, With(fault.peer), fault.q, fault.cursor, 20)
			wants(t, name, err, fault.want)
		}
	})
}

// TestSearch_PagesAreComplete compares the pages of searches with all messages. Each call reads a few messages only.
// Each message is found once, newest first.
func TestSearch_PagesAreComplete(t *testing.T) {
	eachEngine(t, Settings{MessagesFrom: "everybody"}, func(t *testing.T, w *world) {
		ctx := t.Context()
		who := w.join(6)
		dice := rand.New(rand.NewPCG(7, uint64(len(t.Name()))))
		var want []position
		for range 150 {
			peer := who[1+dice.IntN(5)]
			reply := []string{"yes", "no", "perhaps"}[dice.IntN(3)]
			w.mustSend(who[0], peer, reply)
		}
		// Some messages have the same time.
		_, err := w.sql.db.ExecContext(ctx, "UPDATE messages SET at = at - at % 20")
		w.must(err)
		_, err = w.sql.db.ExecContext(ctx, "UPDATE conversations SET last_at = last_at - last_at % 20")
		w.must(err)
		views, err := w.sql.views(ctx, w.sql.db, who[0])
		w.must(err)
		names := map[string]ConversationID{}
		for _, v := range views {
			names[With(v.me.peer).String()] = v.id
			all, err := w.sql.messages(ctx, w.sql.db, who[0], v.id, 0, 1<<40, false, 1000)
			w.must(err)
			for _, m := range all {
				if strings.Contains(m.body.Text, "es") {
					want = append(want, m.position())
				}
			}
		}
		slices.SortFunc(want, position.compare)
		for _, r := range []bounds{{10, 4, 2}, {25, 8, 8}, {1000, 64, 3}, searchBounds} {
			for _, limit := range []int{1, 3, 50} {
				var got []position
				cursor := ""
				for calls := 0; ; calls++ {
					page, err := w.searchWithin(ctx, r, who[0], ChatRef{}, "ES", cursor, limit)
					w.must(err)
					for _, m := range page.Messages {
						got = append(got, position{m.At.UnixMilli(), names[m.Chat], m.Seq})
					}
					if cursor = page.Next; cursor == "" {
						break
					}
					if calls > 1000 {
						t.Fatalf("%+v, %d at once: the search does not end", r, limit)
					}
				}
				if !slices.Equal(got, want) {
					t.Errorf("%+v, %d at once: found %d, want %d", r, limit, len(got), len(want))
				}
			}
		}
	})
}

// BenchmarkSearch searches for an absent word in histories of ten chats. Each operation reads all of it, in as many
// calls as necessary.
func BenchmarkSearch(b *testing.B) {
	for _, e := range sqldbtest.Engines(b) {
		for _, history := range []int{10_000, 100_000} {
			b.Run(fmt.Sprintf("%s/%d", e.Name, history), func(b *testing.B) {
				w := newWorld(b, e.Open(b), redistest.Open(b, "embedded"), Settings{MessagesFrom: "everybody"})
				who := w.join(11)
				for i := range 10 {
					w.mustSend(who[0], who[i+1], "first")
					conv, err := w.between(b.Context(), who[0], who[i+1])
					w.must(err)
					w.must(w.sql.inTx(b.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
						var list []message
						for n := range history/10 - 1 {
							list = append(list, message{conv: conv, seq: int64(n + 2), id: ids.New[message](), from: who[0], clientID: fmt.Sprint(n),
								at:   int64(1e12 + n),
								body: messageBody{Content: api.Content{Kind: api.MessageText, Text: fmt.Sprintf("shall we meet at eight, 在车站见面 %d?", n)}}})
						}
						for some := range slices.Chunk(list, 500) {
							if err := w.sql.insert(ctx, tx, some); err != nil {
								return err
							}
						}
						_, err := tx.ExecContext(ctx, "UPDATE conversations SET seq = ? WHERE id = ?", history/10, conv)
						return err
					}))
				}
				calls := 0
				for b.Loop() {
					for cursor, first := "", true; first || cursor != ""; first = false {
						page, err := w.Search(b.Context(), who[0], ChatRef{}, "nine 晚上", cursor, 20)
						w.must(err)
						cursor = page.Next
						calls++
					}
				}
				b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(calls), "ms/call")
			})
		}
	}
}

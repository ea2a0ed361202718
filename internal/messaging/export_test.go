package messaging

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

func TestExport_HasAllVisibleData(t *testing.T) {
	eachEngine(t, Settings{MessagesFrom: "everybody"}, func(t *testing.T, w *world) {
		ctx, who := t.Context(), w.join(4)
		ann, bob, eve, none := who[0], who[1], who[2], who[3]
		w.mustSend(ann, bob, "to Bob")
		w.mustSend(eve, ann, "from Eve")
		var writing sync.WaitGroup
		for i := range 3*maxExportMessages/2 - 2 { // run together, so that they share commits
			writing.Go(func() {
				if i < maxExportMessages-1 {
					w.mustSend(ann, bob, fmt.Sprint(i))
				} else {
					w.mustSend(eve, ann, fmt.Sprint(i))
				}
			})
		}
		writing.Wait()
		w.mustSend(eve, bob, "not for Ann")
		_, err := w.Edit(ctx, ann, With(bob), 1, "twice")
		w.must(err)
		_, err = w.Edit(ctx, ann, With(bob), 1, "thrice")
		w.must(err)
		_, err = w.Edit(ctx, eve, With(ann), 1, "by Eve")
		w.must(err)
		w.must(w.Hide(ctx, ann, With(bob), 2))
		_, err = w.Recall(ctx, ann, With(bob), 3)
		w.must(err)

		seen, chats, parts := map[string]api.ExportedMessage{}, 0, 0
		for cursor := ""; ; parts++ {
			part, err := w.Export(ctx, ann, cursor)
			w.must(err)
			if (part.Settings != nil) != (cursor == "") {
				t.Errorf("part %d has settings %v", parts, part.Settings)
			}
			chats += len(part.Chats)
			for _, m := range part.Messages {
				key := fmt.Sprint(m.Chat, " ", m.Seq)
				if _, twice := seen[key]; twice {
					t.Errorf("%s is there twice", key)
				}
				seen[key] = m
			}
			if cursor = part.Next; cursor == "" {
				break
			}
		}
		if want := maxExportMessages + maxExportMessages/2 - 1; len(seen) != want || chats != 2 || parts != 1 {
			t.Errorf("%d messages of %d chats in %d parts, want %d of 2 in 2", len(seen), chats, parts+1, want)
		}
		if m := seen[With(bob).String()+" 1"]; m.Text != "thrice" || len(m.Earlier) != 2 || m.Earlier[0].Text != "to Bob" ||
			m.Earlier[1].Text != "twice" {
			t.Errorf("the edited message is %+v", m)
		}
		if m := seen[With(eve).String()+" 1"]; m.Text != "by Eve" || m.Earlier != nil {
			t.Errorf("another user's edit is %+v", m)
		}
		if m := seen[With(bob).String()+" 3"]; m.Recalled == nil || m.Text != "" || m.Earlier != nil {
			t.Errorf("what was recalled is %+v", m)
		}
		part, err := w.Export(ctx, none, "")
		if err != nil || len(part.Chats) != 0 || len(part.Messages) != 0 || part.Next != "" {
			t.Errorf("of nothing there is %+v, %v", part, err)
		}
		for _, bad := range []string{"x", "x.1", ids13, ids13 + ".-1"} {
			_, err := w.Export(ctx, ann, bad)
			wants(t, "the cursor "+bad, err, ErrCursor)
		}
	})
}

const ids13 = "abcdefghijklm"

func TestExport_PartEndsAfterItsChats(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"), Settings{MessagesFrom: "everybody"})
		who := w.join(maxExportChats + 3)
		for _, peer := range who[1:] {
			w.mustSend(who[0], peer, "Hi")
		}
		var sizes []int
		chats, messages := map[string]bool{}, map[string]bool{}
		for cursor := ""; ; {
			part, err := w.Export(t.Context(), who[0], cursor)
			w.must(err)
			sizes = append(sizes, len(part.Chats), len(part.Messages))
			for _, c := range part.Chats {
				chats[c.Chat] = true
			}
			for _, m := range part.Messages {
				messages[m.Chat] = true
			}
			if cursor = part.Next; cursor == "" {
				break
			}
		}
		if want := []int{maxExportChats, maxExportChats, 2, 2}; !slices.Equal(sizes, want) || len(chats) != maxExportChats+2 ||
			len(messages) != maxExportChats+2 {
			t.Errorf("parts of %d chats and messages, %d and %d in all; want %d", sizes, len(chats), len(messages), want)
		}
	})
}

package messaging

import (
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

func TestMarks_ShowOnlyWhatViewerMaySee(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w, ctx := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"), Settings{MessagesFrom: "everybody"}), t.Context()
		cases := []struct {
			what       string
			friends    bool
			noReceipts bool
			hidden     bool
			blocks     bool // the reader blocks the viewer
			blocked    bool // the viewer blocks the reader
			events     []marks
			list       marks
		}{
			{what: "friend", friends: true, events: []marks{{0, 1}, {1, 1}, {1, 3}, {2, 3}}, list: marks{2, 3}},
			{what: "friend who hides presence", friends: true, hidden: true, events: []marks{{1, 1}, {2, 2}}, list: marks{2, 2}},
			{what: "friend without receipts", friends: true, noReceipts: true},
			{what: "stranger", events: []marks{{1, 1}, {2, 2}}, list: marks{2, 2}},
			{what: "hidden stranger without receipts", hidden: true, noReceipts: true},
			{what: "user who blocks the viewer", blocks: true},
			{what: "user whom the viewer blocks", blocked: true},
			{what: "former friend who blocks the viewer", friends: true, blocks: true},
		}
		who := w.join(1 + len(cases))
		viewer, readers := who[0], who[1:]
		for i, c := range cases {
			reader := readers[i]
			if c.noReceipts {
				_, err := w.SetSettings(ctx, reader, api.ChatSettingsUpdate{Receipts: new(false)})
				w.must(err)
			}
			if c.friends {
				w.befriend(viewer, reader)
			}
			if c.hidden {
				_, err := w.accounts.Update(ctx, reader, accounts.Change{Presence: new(accounts.ToNobody)})
				w.must(err)
			}
			for range 4 {
				w.mustSend(viewer, reader, "Hi")
			}
			if c.blocks {
				w.must(w.social.Block(ctx, reader, viewer))
			}
			if c.blocked {
				w.must(w.social.Block(ctx, viewer, reader))
			}
		}
		bubble.Sleep(time.Minute)
		before, err := w.Chats(ctx, viewer, "", "", 50)
		w.must(err)

		var mu sync.Mutex
		got := map[string][]marks{} // by reader
		_, leave := w.bus.Listen(ctx, viewer.String(), &events.Listener{Lost: func() {}, Event: func(e events.Event, _ events.Position) {
			var mark api.ChatMark
			if e.Type == api.EventChatMarked && json.Unmarshal(e.Data, &mark) == nil {
				mu.Lock()
				defer mu.Unlock()
				got[mark.User] = append(got[mark.User], marks{mark.Read, mark.Delivered})
			}
		}})
		defer leave()
		for _, reader := range readers {
			for _, to := range []marks{{0, 1}, {1, 1}, {0, 3}, {2, 0}} {
				w.must(w.Mark(ctx, reader, With(viewer), to.read, to.delivered))
			}
		}
		bubble.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		for i, c := range cases {
			reader := readers[i]
			if got := got[reader.String()]; !slices.Equal(got, c.events) {
				t.Errorf("%s: events: got %v, want %v", c.what, got, c.events)
			}
			found, err := w.Readers(ctx, viewer, With(reader), 1)
			w.must(err)
			if got, want := len(found.Users) == 1, c.list.read > 0; got != want {
				t.Errorf("%s: among the readers: got %t, want %t", c.what, got, want)
			}
		}
		for name, s := range map[string]*Service{"Redis": w.Service, "SQL": w.fromSQL()} {
			since, err := s.Chats(ctx, viewer, before.Sync, "", 50)
			w.must(err)
			for i, c := range cases {
				chat, err := s.Chat(ctx, viewer, With(readers[i]))
				w.must(err)
				if got := (marks{chat.PeerRead, chat.PeerGot}); got != c.list {
					t.Errorf("%s: chat from %s: got %v, want %v", c.what, name, got, c.list)
				}
				listed := slices.ContainsFunc(since.Chats, func(other api.Chat) bool { return other.Chat == chat.Chat })
				if want := c.list != (marks{}); listed != want {
					t.Errorf("%s: among the chats from %s that have changed: got %t, want %t", c.what, name, listed, want)
				}
			}
		}
	})
}

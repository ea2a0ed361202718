package messaging

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
)

// What was told is as if it had been sent, and what is sent follows it.
func TestASeedIsAsIfItHadBeenSent(t *testing.T) {
	eachEngine(t, Settings{MessagesFrom: "everybody"}, func(t *testing.T, w *world) {
		users := w.join(2)
		ada, bob := users[0], users[1]
		at := w.sql.db.Now().Add(-time.Hour)
		say := func(from int, text string) SeedMessage {
			at = at.Add(time.Minute)
			return SeedMessage{From: from, At: at, Content: api.Content{Kind: api.MessageText, Text: text}}
		}
		first, reply := say(0, "one"), say(1, "two")
		first.Emoji, reply.ReplyTo = "👍", 1
		w.must(WriteSeeds(t.Context(), w.sql.db, []Seed{{Users: [2]accounts.ID{ada, bob}, Messages: []SeedMessage{first, reply, say(1, "three")}, Read: [2]int64{2, 3}, Pinned: [2]bool{true, false}}}))

		list, err := w.List(t.Context(), ada, With(bob), Range{Limit: 10})
		w.must(err)
		if len(list.Messages) != 3 || list.Seq != 3 || list.Rev != 1 {
			t.Fatalf("%d messages up to seq %d and rev %d, want 3, 3 and 1", len(list.Messages), list.Seq, list.Rev)
		}
		if m := list.Messages[0]; !m.At.Equal(first.At.Truncate(time.Millisecond)) || len(m.Reactions) != 1 || !slices.Equal(m.Reactions[0].Users, []string{bob.String()}) {
			t.Errorf("the first message is %+v, want it at %s with Bob's reaction", m, first.At)
		}
		if got := list.Messages[1].ReplyTo; got != 1 {
			t.Errorf("the second replies to %d, want 1", got)
		}
		c, err := w.Chat(t.Context(), ada, With(bob))
		w.must(err)
		if c.Unread != 1 || c.Pinned == nil || c.PeerRead != 3 || c.PeerGot != 3 {
			t.Errorf("the chat is %+v, want one unread, pinned, read and got by the other up to 3", c)
		}
		if got := w.says(ada, bob, "four").Seq; got != 4 {
			t.Errorf("the next message has the number %d, want 4", got)
		}

		err = WriteSeeds(t.Context(), w.sql.db, []Seed{{Users: [2]accounts.ID{w.join(1)[0], bob}, Messages: []SeedMessage{say(0, "")}}})
		if !errors.Is(err, ErrContent) {
			t.Errorf("a seed with an empty text: %v, want ErrContent", err)
		}
	})
}

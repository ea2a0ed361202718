package messaging

import (
	"fmt"
	"testing"

	"github.com/stoa-dev/stoa/api"
)

// An earlier version stored a heart with and without U+FE0F, as the client had sent it.
func TestReactions_FormsOfOneEmojiAreOne(t *testing.T) {
	eachEngine(t, Settings{MessagesFrom: "everybody"}, func(t *testing.T, w *world) {
		ctx := t.Context()
		who := w.join(2)
		ann, bob := who[0], who[1]
		w.mustSend(ann, bob, "Hi")
		_, err := w.React(ctx, ann, With(bob), 1, "\u2764", true)
		w.must(err)
		conv := mustBetween(w, ann, bob)
		for _, form := range []string{"\u2764", "\u2764\uFE0F"} {
			if form == "\u2764" {
				_, err = w.sql.db.ExecContext(ctx, "INSERT INTO reactions (conversation, seq, user_id, emoji, at) VALUES (?, 1, ?, ?, 1)", conv, ann,
					form)
				w.must(err)
			}
			got, err := w.React(ctx, bob, With(ann), 1, form, true)
			w.must(err)
			if want := fmt.Sprint([]api.Reaction{{Emoji: "\u2764\uFE0F",
				Users: []string{ann.String(), bob.String()}}}); fmt.Sprint(got.Reactions) != want {
				t.Errorf("after %+q: got %v, want %s", form, got.Reactions, want)
			}
		}
		got, err := w.React(ctx, ann, With(bob), 1, "\u2764", false)
		w.must(err)
		if len(got.Reactions) != 1 || len(got.Reactions[0].Users) != 1 {
			t.Errorf("after the removal: got %v, want the other's alone", got.Reactions)
		}
	})
}

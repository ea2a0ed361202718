package messaging

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

// wantWaits checks the unread messages of one place, requested together with the others.
func (w *world) wantWaits(what string, places []Place, at int, want string) {
	w.t.Helper()
	all, err := w.UnreadChats(w.t.Context(), places)
	w.must(err)
	got := ""
	if found, ok := all[places[at]]; ok {
		got = fmt.Sprint(found.Unread, " ", found.Newest.Text, " ", found.MentionedAt != 0)
	}
	if got != want {
		w.t.Errorf("%s: %q waits, want %q", what, got, want)
	}
}

func TestUnreadChats_PerMember(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		g, who := w.crowd(5)
		owner := who[0]
		conv := conversationOf(g)
		var places []Place
		for _, u := range who {
			places = append(places, Place{u, conv})
		}
		for i := range 3 {
			w.mustSendIn(owner, g, fmt.Sprint("text ", i))
		}
		head, err := w.sql.view(ctx, w.sql.db, owner, In(g))
		w.must(err)
		w.wantWaits("the sender", places, 0, "")
		w.wantWaits("a member", places, 1, "3 text 2 false")
		w.must(w.Mark(ctx, who[1], In(g), head.seq-1, 0))
		w.must(w.Hide(ctx, who[2], In(g), head.seq))
		w.must(w.Mark(ctx, who[3], In(g), head.seq, 0))
		_, err = w.Set(ctx, who[4], In(g), api.ChatChange{Muted: new(api.At(w.sql.db.Now().Add(time.Hour)))})
		w.must(err)
		w.wantWaits("member who has read all but one", places, 1, "1 text 2 false")
		w.wantWaits("member who has deleted the newest", places, 2, "2 text 1 false")
		w.wantWaits("member who has read all", places, 3, "")
		w.wantWaits("member who has muted it", places, 4, "")
		in := text("mention", "hello")
		in.Mentions = []string{who[2].String()}
		_, _, err = w.Send(ctx, owner, In(g), in)
		w.must(err)
		w.wantWaits("user who is mentioned", places, 2, "3 hello true")
		w.wantWaits("user who is not", places, 1, "2 hello false")
		_, err = w.Recall(ctx, owner, In(g), head.seq+1)
		w.must(err)
		w.wantWaits("after a recall", places, 1, "1 text 2 false")
		in = text("mention-again", "hello")
		in.Mentions = []string{who[1].String()}
		again, _, err := w.Send(ctx, owner, In(g), in)
		w.must(err)
		w.mustSendIn(owner, g, "the end")
		w.wantWaits("user who is mentioned in what is unread", places, 1, "3 the end true")
		w.must(w.Mark(ctx, who[1], In(g), again.Seq, 0))
		w.wantWaits("user who is mentioned in what is read, by none but them", places, 1, "1 the end false")
		w.must(w.Clear(ctx, who[2], In(g)))
		w.wantWaits("member who has cleared the chat", places, 2, "")
		w.must(w.in.Leave(ctx, who[1], g))
		w.wantWaits("member who has left", places, 1, "")

		// Chats of two users, requested together with a group.
		w.mustSend(who[0], who[3], "you alone")
		pair, err := w.between(ctx, who[0], who[3])
		w.must(err)
		places = append(places, Place{who[3], pair}, Place{who[0], pair})
		w.wantWaits("a chat of two", places, 5, "1 you alone false")
		w.wantWaits("its sender", places, 6, "")
	})
}

func TestUndeliveredIn_ReadsInIndexOrder(t *testing.T) {
	query, args := undeliveredIn([]ActiveConversation{{Seq: 1}, {Seq: 2}}, time.Now(), 10, "1 = 1")
	if plan := sqldbtest.Plan(t, sqldbtest.SQLite(t), query, args...); strings.Count(plan, "(conversation=? AND user_id>?)") != 2 ||
		strings.Contains(plan, "B-TREE") {
		t.Errorf("SQLite reads members by %s", plan)
	}
}

// MariaDB counts the statements.
func TestUnreadChats_UsesThreeStatements(t *testing.T) {
	db := sqldbtest.Default(t).Open(t)
	w := newWorld(t, db, redistest.Open(t, "embedded"), Settings{})
	g, who := w.crowd(60)
	var places []Place
	for i, u := range who[1:] {
		places = append(places, Place{u, conversationOf(g)})
		if i < 20 {
			w.mustSend(who[0], u, "hello")
			pair, err := w.between(t.Context(), who[0], u)
			w.must(err)
			places = append(places, Place{u, pair})
		}
	}
	w.mustSendIn(who[0], g, "hello")
	count := func() (n int) {
		var name string
		w.must(db.QueryRowContext(t.Context(), "SHOW GLOBAL STATUS LIKE 'Com_select'").Scan(&name, &n))
		return n
	}
	cost := func(places []Place) int {
		minSeq := math.MaxInt
		for i := 0; i < 10 || minSeq > 3 && i < 100; i++ { // statements of other tests count too
			before := count()
			all, err := w.UnreadChats(t.Context(), places)
			minSeq = min(minSeq, count()-before)
			if w.must(err); len(all) != len(places) {
				t.Fatalf("something waits in %d of %d chats", len(all), len(places))
			}
		}
		return minSeq
	}
	if one, many := cost(places[:1]), cost(places); one != 3 || many != 3 {
		t.Errorf("one chat costs %d statements, %d chats %d; want 3", one, len(places), many)
	}
}

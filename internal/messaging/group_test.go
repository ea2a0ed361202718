package messaging

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/groups"
	"github.com/stoa-dev/stoa/internal/social"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// befriend makes the first user a friend of the others.
func (w *world) befriend(user accounts.ID, others ...accounts.ID) {
	w.t.Helper()
	for _, o := range others {
		r, _, err := w.social.SendRequest(w.t.Context(), user, social.RequestDraft{User: o})
		w.must(err)
		_, err = w.social.Accept(w.t.Context(), o, r.ID, "", "")
		w.must(err)
	}
}

// founded creates a group of an owner and friends.
func (w *world) founded(owner accounts.ID, members ...accounts.ID) groups.ID {
	w.t.Helper()
	w.befriend(owner, members...)
	g, _, err := w.in.Create(w.t.Context(), owner, ids.New[groups.Group](), "Rowing", members)
	w.must(err)
	return g.ID
}

// received returns a user's view of a group's chat: the texts, and the events of system messages.
func (w *world) received(user accounts.ID, g groups.ID) string {
	w.t.Helper()
	list, err := w.List(w.t.Context(), user, In(g), Range{Limit: 200})
	if errors.Is(err, ErrChat) {
		return "nothing"
	}
	w.must(err)
	var out []string
	for _, m := range list.Messages {
		switch {
		case m.System != nil:
			out = append(out, m.System.Event)
		case m.Recalled != nil:
			out = append(out, "recalled")
		default:
			out = append(out, m.Text)
		}
	}
	return strings.Join(out, " ")
}

func (w *world) mustSendIn(from accounts.ID, g groups.ID, s string) api.Sent {
	w.t.Helper()
	got, _, err := w.Send(w.t.Context(), from, In(g), text(ids.New[message]().String(), s))
	w.must(err)
	return got
}

func TestGroup_Conversation(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		who := w.join(4)
		ann, bob, eve, dan := who[0], who[1], who[2], who[3]
		g := w.founded(ann, bob)
		sees := func(user accounts.ID, want string) {
			t.Helper()
			if got := w.received(user, g); got != want {
				t.Errorf("user %d sees %q, want %q", slices.Index(who, user), got, want)
			}
		}
		sees(ann, "created")
		sees(bob, "created")
		sees(eve, "nothing")
		w.mustSendIn(ann, g, "one")
		if got := w.mustSendIn(bob, g, "two"); got.Seq != 3 || got.Chat != In(g).String() {
			t.Errorf("sent: %+v", got)
		}
		_, _, err := w.Send(ctx, eve, In(g), text("x", "intrusion"))
		wants(t, "a message of a stranger", err, ErrChat)

		// A new member sees later messages, and a former member sees none.
		w.befriend(ann, eve, dan)
		_, err = w.in.Invite(ctx, ann, g, []accounts.ID{eve, dan})
		w.must(err)
		w.mustSendIn(eve, g, "three")
		sees(eve, "added three")
		sees(bob, "created one two added three")
		w.must(w.in.Remove(ctx, ann, g, dan))
		sees(dan, "nothing")
		sees(eve, "added three removed")
		_, _, err = w.Send(ctx, dan, In(g), text("x", "late"))
		wants(t, "a message of a removed member", err, ErrChat)
		for what, call := range map[string]func() error{
			"read":  func() error { _, err := w.List(ctx, dan, In(g), Range{Limit: 9}); return err },
			"react": func() error { _, err := w.React(ctx, dan, In(g), 2, "👍", true); return err },
			"mark":  func() error { return w.Mark(ctx, dan, In(g), 3, 0) },
			"pins":  func() error { _, err := w.Pins(ctx, dan, In(g)); return err },
			"type":  func() error { return w.Typing(ctx, dan, In(g), true) },
			"hear":  func() error { return w.MaySubscribe(ctx, dan.String(), api.GroupChannel(g.String())) },
		} {
			wants(t, what+" after one has left", call(), ErrChat)
		}
		w.must(w.MaySubscribe(ctx, eve.String(), api.GroupChannel(g.String())))
		page, err := w.Search(ctx, dan, ChatRef{}, "three", "", 10)
		if err != nil || len(page.Messages) != 0 {
			t.Errorf("search after one has left: %+v, %v", page, err)
		}
		changed, err := w.Chats(ctx, dan, "1", "", 10)
		if err != nil || len(changed.Chats) != 1 || !changed.Chats[0].Gone || changed.Chats[0].Last != nil || changed.Chats[0].Seq != 0 ||
			changed.Unread != 0 {
			t.Errorf("changes for a former member: %+v, %v", changed, err)
		}

		// Muted, and moderated.
		until := w.sql.db.Now().Add(time.Hour)
		_, err = w.in.SetMember(ctx, ann, g, bob, groups.MemberUpdate{MutedUntil: &until})
		w.must(err)
		_, _, err = w.Send(ctx, bob, In(g), text("muted", "x"))
		wants(t, "a message of a muted member", err, groups.ErrMuted)
		_, err = w.Edit(ctx, bob, In(g), 3, "x")
		wants(t, "an edit by a muted member", err, groups.ErrMuted)
		_, _, err = w.in.Update(ctx, ann, g, groups.Update{MutedUntil: &until, Name: new("Sailing")})
		w.must(err)
		_, _, err = w.Send(ctx, eve, In(g), text("muted", "x"))
		wants(t, "a message while all are muted", err, groups.ErrAllMuted)
		w.mustSendIn(ann, g, "four")
		_, err = w.Recall(ctx, eve, In(g), 2)
		wants(t, "an unseen message", err, ErrMessage)
		_, err = w.Recall(ctx, bob, In(g), 2)
		wants(t, "recall by a member", err, ErrNotYours)
		_, err = w.Recall(ctx, ann, In(g), 3)
		w.must(err)
		_, err = w.Recall(ctx, ann, In(g), 1)
		wants(t, "recall of a system message", err, ErrSystem)
		_, _, err = w.Send(ctx, ann, With(bob), api.Send{ClientID: "f", Forward: &api.MessageRef{Chat: In(g).String(), Seq: 1}})
		wants(t, "a system message sent on", err, ErrSystem)
		sees(bob, "created one recalled added three removed muted named all_muted four")
		c, err := w.Chat(ctx, bob, In(g))
		if err != nil || c.GroupName != "Sailing" || c.Group != g.String() || c.Peer != "" || c.Unread != 2 || c.Last.Text != "four" {
			t.Errorf("the chat: %+v, %v", c, err)
		}

		// Only admins may mention all members.
		_, _, err = w.in.Update(ctx, ann, g, groups.Update{MutedUntil: new(time.Time)})
		w.must(err)
		all := text("all", "hear")
		all.Mentions = []string{api.MentionAll}
		_, _, err = w.Send(ctx, eve, In(g), all)
		wants(t, "all mentioned by a member", err, groups.ErrMay)
		_, _, err = w.Send(ctx, ann, In(g), all)
		w.must(err)
		all.ClientID = "two"
		_, _, err = w.Send(ctx, ann, With(bob), all)
		wants(t, "all mentioned to one", err, ErrContent)

		// Read, pinned, dissolved.
		c, err = w.Chat(ctx, ann, In(g))
		w.must(err)
		w.must(w.Mark(ctx, eve, In(g), c.Seq, 0))
		readers, err := w.Readers(ctx, ann, In(g), c.Seq)
		if err != nil || !reflect.DeepEqual(readers.Users, []string{eve.String()}) {
			t.Errorf("readers: %+v, %v", readers, err)
		}
		_, err = w.Readers(ctx, eve, In(g), c.Seq)
		wants(t, "readers of another's message", err, ErrNotYours)
		_, err = w.SetSettings(ctx, eve, api.ChatSettingsUpdate{MessagesFrom: new("friends"), Receipts: new(false)})
		w.must(err)
		if readers, err = w.Readers(ctx, ann, In(g), c.Seq); err != nil || len(readers.Users) != 0 {
			t.Errorf("readers with hidden receipts: %+v, %v", readers, err)
		}
		wants(t, "a pin by a member", w.Pin(ctx, eve, In(g), c.Seq, true), groups.ErrMay)
		w.must(w.Pin(ctx, ann, In(g), c.Seq, true))
		w.must(w.Pin(ctx, ann, In(g), c.Seq, true))
		pins, err := w.Pins(ctx, eve, In(g))
		if err != nil || len(pins.Messages) != 1 || pins.Messages[0].Seq != c.Seq {
			t.Errorf("pins: %+v, %v", pins, err)
		}
		w.must(w.Pin(ctx, ann, In(g), c.Seq, false))
		sees(eve, "added three removed muted named all_muted four all_unmuted hear pinned unpinned")
		_, err = w.in.SetMember(ctx, ann, g, eve, groups.MemberUpdate{Role: new(groups.Admin)})
		w.must(err)
		_, err = w.Recall(ctx, eve, In(g), c.Seq)
		wants(t, "recall of the owner's by an admin", err, ErrNotYours)
		w.must(w.in.Dissolve(ctx, ann, g))
		for _, u := range who {
			sees(u, "nothing")
		}
	})
}

// The messages of a dissolved group are deleted.
func TestForget_DeletesMessagesOfDissolvedGroup(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		who := w.join(2)
		ann, bob := who[0], who[1]
		g := w.founded(ann, bob)
		other, _, err := w.in.Create(ctx, ann, ids.New[groups.Group](), "Sailing", []accounts.ID{bob})
		w.must(err)
		stored := other.ID
		for _, g := range []groups.ID{g, stored} {
			sent := w.mustSendIn(ann, g, "one")
			w.mustSendIn(bob, g, "two")
			_, err := w.Edit(ctx, ann, In(g), sent.Seq, "three")
			w.must(err)
			_, err = w.React(ctx, bob, In(g), sent.Seq, "👍", true)
			w.must(err)
			w.must(w.Pin(ctx, ann, In(g), sent.Seq, true))
			w.must(w.Hide(ctx, bob, In(g), sent.Seq))
		}
		left := func(g groups.ID) (list []int) {
			for _, from := range []string{"messages WHERE conversation", "message_edits WHERE conversation", "reactions WHERE conversation",
				"chat_pins WHERE conversation", "hidden_messages WHERE conversation", "conversations WHERE title <> '' AND id",
				"chat_groups WHERE id"} {
				var n int
				w.must(w.sql.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+from+" = ?", g).Scan(&n))
				list = append(list, min(n, 1))
			}
			return list
		}
		w.must(w.in.Dissolve(ctx, ann, g))
		w.must(w.in.Jobs()[0].Run(ctx))
		all, none := []int{1, 1, 1, 1, 1, 1, 1}, make([]int, 7)
		if got := left(g); !slices.Equal(got, all) {
			t.Errorf("at once: %v", got)
		}
		_, err = w.sql.db.ExecContext(ctx, "UPDATE chat_groups SET dissolved = 1 WHERE dissolved > 0") // a while ago
		w.must(err)
		w.must(w.in.Jobs()[0].Run(ctx))
		if got := left(g); !slices.Equal(got, none) {
			t.Errorf("later: %v", got)
		}
		if got := left(stored); !slices.Equal(got, all) {
			t.Errorf("of another group: %v", got)
		}
		if page, err := w.Chats(ctx, bob, "1", "", 10); err != nil || !slices.ContainsFunc(page.Chats, func(c api.Chat) bool {
			return c.Group == g.String() && c.Gone
		}) {
			t.Errorf("whose device asks then: %+v, %v", page, err)
		}
	})
}

func TestErase_GroupMemberLeavesNoContent(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		who := w.join(2)
		g := w.founded(who[0], who[1])
		w.mustSendIn(who[1], g, "secret")
		w.must(w.in.Erase(t.Context(), who[1]))
		w.must(w.Erase(t.Context(), who[1]))
		if got, want := w.received(who[0], g), "created recalled left"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// The rule holds in each batch.
func TestSend_MutedOrRemovedMemberIsRefused(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		who := w.join(9)
		g := w.founded(who[0], who[1:]...)
		var writing sync.WaitGroup
		for _, u := range who[1:] {
			writing.Go(func() {
				for i := range 5000 { // more than the test needs
					_, _, err := w.Send(t.Context(), u, In(g), text(fmt.Sprint(i), "more"))
					if errors.Is(err, ErrChat) {
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		for _, u := range who[1:] {
			w.must(w.in.Remove(t.Context(), who[0], g, u))
		}
		writing.Wait()
		out := map[string]bool{}
		var after int64
		for more := true; more; {
			list, err := w.List(t.Context(), who[0], In(g), Range{After: &after, Limit: 200})
			w.must(err)
			for _, m := range list.Messages {
				if m.Seq != after+1 {
					t.Errorf("%d follows %d", m.Seq, after)
				}
				if after = m.Seq; m.System == nil && out[m.From] {
					t.Errorf("message %d is of a muted or removed user", m.Seq)
				}
				if m.System != nil && m.System.Event == api.SystemRemoved {
					out[m.System.Users[0]] = true
				}
			}
			more = list.More
		}
		if len(out) != len(who)-1 {
			t.Errorf("%d are out", len(out))
		}
	})
}

// A member does not see a pin of a message that they have deleted for themselves. A recalled message does not count.
func TestPins_OnlyExistingMessages(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		who := w.join(2)
		ann, bob := who[0], who[1]
		g := w.founded(ann, bob)
		var sent []int64
		for i := range maxPins {
			sent = append(sent, w.mustSendIn(ann, g, fmt.Sprint("pinned ", i)).Seq)
		}
		for _, seq := range sent {
			w.must(w.Pin(ctx, ann, In(g), seq, true))
		}
		w.must(w.Hide(ctx, bob, In(g), sent[0]))
		for user, want := range map[accounts.ID]int{ann: maxPins, bob: maxPins - 1} {
			pins, err := w.Pins(ctx, user, In(g))
			if err != nil || len(pins.Messages) != want || slices.ContainsFunc(pins.Messages, func(m api.Message) bool {
				return user == bob && m.Seq == sent[0]
			}) {
				t.Errorf("user %d sees %d pinned messages, %v; want %d", slices.Index(who, user), len(pins.Messages), err, want)
			}
		}
		next := w.mustSendIn(ann, g, "one more").Seq
		wants(t, "one too many", w.Pin(ctx, ann, In(g), next, true), ErrPins)
		_, err := w.Recall(ctx, ann, In(g), sent[1])
		w.must(err)
		wants(t, "one in the place of a recalled one", w.Pin(ctx, ann, In(g), next, true), nil)
	})
}

// A former member learns neither a new name nor the fact that a message was sent.
func TestGroup_FormerMemberGetsNoEvents(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		who := w.join(2)
		ann, bob := who[0], who[1]
		g := w.founded(ann, bob)
		w.must(w.in.Remove(ctx, ann, g, bob))
		for what, s := range map[string]*Service{"Redis": w.Service, "SQL": w.fromSQL()} {
			first, err := s.Chats(ctx, bob, "1", "", 10)
			if err != nil || len(first.Chats) != 1 || !first.Chats[0].Gone {
				t.Fatalf("%s: %+v, %v", what, first, err)
			}
			left := first.Chats[0].At.UnixMilli()
			for w.sql.db.Now().UnixMilli() <= left+1 { // so that later changes have another time
			}
			_, _, err = w.in.Update(ctx, ann, g, groups.Update{Name: new("What Bob must not know, " + what)})
			w.must(err)
			w.mustSendIn(ann, g, "Between us")
			then, err := s.Chats(ctx, bob, "1", "", 10)
			if err != nil || !reflect.DeepEqual(then.Chats, first.Chats) {
				t.Errorf("%s: the former member sees %+v, %v; and saw %+v", what, then.Chats, err, first.Chats)
			}
			if then, err = s.Chats(ctx, bob, fmt.Sprint(left+1), "", 10); err != nil || len(then.Chats) != 0 {
				t.Errorf("%s: since the user has left there is %+v, %v", what, then.Chats, err)
			}
		}
	})
}

// A transaction that lost a deadlock runs again. It may then find nothing to do, because another one has done it.
func TestAround_UncommittedAttemptIsNotPublished(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		who := w.join(2)
		ann, bob := who[0], who[1]
		g := w.founded(ann, bob)
		before := w.received(bob, g)
		group, _, err := w.in.Group(ctx, ann, g)
		w.must(err)
		phantom := groups.Difference{Group: group, By: ann, Notes: []groups.Note{{By: ann, What: api.SystemAllMuted}}}
		lost := errors.New("the transaction lost a deadlock")
		w.must(w.Around(ctx, func(record groups.Record) error {
			err := w.sql.inTx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
				w.must(record(ctx, tx, phantom))
				return lost
			})
			wants(t, "the first try", err, lost)
			return w.sql.inTx(ctx, func(context.Context, *sqldb.Tx) error { return nil })
		}))
		if got := w.received(bob, g); got != before {
			t.Errorf("a member sees %q, want %q", got, before)
		}
		w.mustSendIn(ann, g, "One")
		if got, want := w.received(bob, g), before+" One"; got != want {
			t.Errorf("after a message a member sees %q, want %q", got, want)
		}
	})
}

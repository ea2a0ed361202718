package messaging

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/words"
	"github.com/stoa-dev/stoa/internal/groups"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// change runs fn on a message under the lock of its conversation, and the message gets the next rev. fn returns false
// if there is nothing to do. The event goes to all members, and to the backend unless hook is empty.
func (s *Service) change(ctx context.Context, user accounts.ID, chat ChatRef, seq int64, hook string,
	fn func(ctx context.Context, tx *sqldb.Tx, m *message, rev int64) (bool, error)) (_ api.Message, err error) {
	var m message
	changed := false
	var c change
	err = s.transact(ctx, user, chat, &c, func(ctx context.Context, tx *sqldb.Tx) (*step, error) {
		v, err := s.locked(ctx, tx, user, chat)
		if err != nil {
			return nil, err
		}
		c = v.change()
		if m, err = s.sql.visibleMessage(ctx, tx, v, seq); err != nil {
			return nil, err
		}
		rev := v.rev + 1
		if changed, err = fn(ctx, tx, &m, rev); err != nil || !changed {
			return nil, err
		}
		m.chatSeq = v.seq
		v.updateUncounted(m)
		m.rev, err = s.sql.bump(ctx, tx, v.conversation)
		if err != nil {
			return nil, err
		}
		if err := s.sql.setMessage(ctx, tx, m); err != nil {
			return nil, err
		}
		return &step{message: &m, rev: m.rev}, s.enqueueChangeHook(ctx, tx, hook, user, chat, m)
	})
	if err != nil {
		return api.Message{}, asKind(ctx, err)
	}
	if changed {
		s.publishChanged(user, chat, m)
	}
	return m.wire(user, chat.String()), nil
}

// enqueueChangeHook enqueues a webhook about a change of a message. It uses the subject of sent messages, so that the
// backend receives a message before its change.
func (s *Service) enqueueChangeHook(ctx context.Context, tx *sqldb.Tx, hook string, user accounts.ID, chat ChatRef, m message) error {
	switch hook {
	case api.HookMessageEdited:
		return s.hooks.Enqueue(ctx, tx, hook, hookSubject, m.wire(user, chat.String()))
	case api.HookMessageRecalled:
		return s.hooks.Enqueue(ctx, tx, hook, hookSubject, recallOf(user, chat, m))
	}
	return nil
}

func recallOf(by accounts.ID, chat ChatRef, m message) api.HookRecall {
	return api.HookRecall{By: by.String(), From: m.from.String(), Chat: chat.String(), ID: m.id.String(), Seq: m.seq}
}

// locked returns a chat and locks its conversation until tx ends.
func (s *Service) locked(ctx context.Context, tx *sqldb.Tx, user accounts.ID, chat ChatRef) (view, error) {
	v, err := s.sql.view(ctx, tx, user, chat) // its conversation never becomes another one
	if err != nil {
		return v, err
	}
	found, err := s.sql.lockWithViews(ctx, tx, []ConversationID{v.id})
	if err != nil {
		return v, err
	}
	for _, locked := range found[v.id].lockedViews {
		if locked.me.user == user {
			return locked, nil
		}
	}
	return s.sql.view(ctx, tx, user, chat)
}

// change returns the change of a view's conversation. users are the members whose own part has changed.
func (v view) change(users ...accounts.ID) change {
	return change{conv: v.id, kind: v.kind, users: users}
}

// mayChange refuses a user who is not the sender, and a sender after the time limit.
func mayChange(m *message, user accounts.ID, now time.Time, within time.Duration) error {
	switch {
	case m.body.Kind == api.MessageSystem:
		return ErrSystem
	case m.from != user:
		return ErrNotYours
	case m.recalled != 0:
		return ErrRecalled
	case now.Sub(sqldb.Time(m.at)) > within:
		return ErrTooLate
	}
	return nil
}

// Edit changes the text of a message and stores the earlier text. An edit is new content, so a user who may not write
// may not edit. Its errors are ErrChat, ErrMessage, ErrNotYours, ErrRecalled, ErrTooLate, ErrContent, ErrRefused,
// ErrYouBlock, groups.ErrMuted, groups.ErrAllMuted, accounts.ErrNoUser, webhooks.ErrRefused, webhooks.ErrUnavailable
// and ErrStore.
func (s *Service) Edit(ctx context.Context, user accounts.ID, chat ChatRef, seq int64, text string) (_ api.Message, err error) {
	defer errs.Wrap(&err, "messaging.Edit %s", user)
	if chat.direct() {
		if refused := s.mayWrite(ctx, user, chat.peer, false); refused != nil {
			if _, _, err := s.messageOf(ctx, user, chat, seq); errors.Is(err, ErrChat) {
				refused = err // if no chat exists, the error must not reveal who may write to the peer
			}
			return api.Message{}, asKind(ctx, refused)
		}
	}
	if text, err = s.askEdit(ctx, user, chat, seq, text); err != nil {
		return api.Message{}, asKind(ctx, err)
	}
	return s.change(ctx, user, chat, seq, api.HookMessageEdited, func(ctx context.Context, tx *sqldb.Tx, m *message, rev int64) (bool, error) {
		next, err := s.edited(ctx, tx, chat, m, user, text)
		if err != nil || next.Text == m.body.Text {
			return false, err
		}
		if err := s.sql.storeEdit(ctx, tx, *m, rev); err != nil {
			return false, err
		}
		m.body, m.edited = next, tx.Now().UnixMilli()
		return true, nil
	})
}

// edited returns the content of a message after its edit. Its errors are ErrNotYours, ErrSystem, ErrRecalled,
// ErrTooLate, ErrContent, groups.ErrMuted and groups.ErrAllMuted.
func (s *Service) edited(ctx context.Context, q sqldb.Querier, chat ChatRef, m *message, user accounts.ID,
	text string) (messageBody, error) {
	if err := mayChange(m, user, q.Now(), s.cfg.EditFor); err != nil {
		return messageBody{}, err
	}
	if m.body.Forwarded != nil {
		return messageBody{}, ErrNotYours
	}
	if !chat.direct() {
		member := groups.MemberKey{Group: chat.group, User: user}
		found, err := groups.Standings(ctx, q, []groups.MemberKey{member})
		if err = cmp.Or(err, found[member].MayWrite()); err != nil {
			return messageBody{}, err
		}
	}
	next := m.body
	next.Text = text
	var err error
	next.Content, err = checkContent(next.Content)
	return next, err
}

// askEdit asks the backend for a verdict on an edit that the rules allow and that changes something. It returns the
// text that the message gets. The backend is not asked about an edit that the rules refuse.
func (s *Service) askEdit(ctx context.Context, user accounts.ID, chat ChatRef, seq int64, text string) (string, error) {
	if !s.hooks.HasBefore(api.BeforeMessageEdit) {
		return text, nil
	}
	_, m, err := s.messageOf(ctx, user, chat, seq)
	if err != nil {
		return "", err
	}
	next, err := s.edited(ctx, s.sql.db, chat, &m, user, text)
	if err != nil || next.Text == m.body.Text {
		return text, err
	}
	v, err := s.hooks.Before(ctx, api.BeforeMessageEdit, user.String(),
		api.HookEdit{From: user.String(), Chat: chat.String(), ID: m.id.String(), Seq: seq, Content: next.Content},
		func(v api.HookVerdict) error {
			if v.Content == nil {
				return nil
			}
			_, err := s.edited(ctx, s.sql.db, chat, &m, user, v.Content.Text)
			return err
		})
	if err != nil || v.Content == nil {
		return text, err
	}
	return v.Content.Text, nil
}

// Recall removes the content, the reactions and the earlier texts of a message for all members. Its file is released
// unless another message has it. In a group, an admin may recall messages of members with a lower role. A second recall
// changes nothing. Its errors are ErrChat, ErrMessage, ErrNotYours, ErrTooLate, webhooks.ErrRefused,
// webhooks.ErrUnavailable and ErrStore.
func (s *Service) Recall(ctx context.Context, user accounts.ID, chat ChatRef, seq int64) (_ api.Message, err error) {
	defer errs.Wrap(&err, "messaging.Recall %s", user)
	if err := s.askRecall(ctx, user, chat, seq); err != nil {
		return api.Message{}, asKind(ctx, err)
	}
	return s.change(ctx, user, chat, seq, api.HookMessageRecalled, func(ctx context.Context, tx *sqldb.Tx, m *message, _ int64) (bool, error) {
		if m.recalledFor(user, chat) {
			return false, nil
		}
		if err := s.mayRecall(ctx, tx, user, chat, m, tx.Now()); err != nil {
			return false, err
		}
		if _, has := m.body.file(); has {
			if err := s.removeFileReferences(ctx, tx, m.conv, m.seq); err != nil {
				return false, err
			}
		}
		m.body, m.reply, m.recalled, m.reactions = messageBody{Content: api.Content{Kind: m.body.Kind}}, 0, tx.Now().UnixMilli(), nil
		return true, s.sql.deleteReactionsAndEdits(ctx, tx, *m)
	})
}

// recalledFor reports whether a message is recalled already, and the user may learn it: the sender, or a group's
// member.
func (m *message) recalledFor(user accounts.ID, chat ChatRef) bool {
	return m.recalled != 0 && (m.from == user || !chat.direct())
}

// mayRecall refuses a user who may not recall a message. It returns ErrNotYours, ErrSystem, ErrRecalled or ErrTooLate.
func (s *Service) mayRecall(ctx context.Context, q sqldb.Querier, user accounts.ID, chat ChatRef, m *message, now time.Time) error {
	err := mayChange(m, user, now, s.cfg.RecallFor)
	if errors.Is(err, ErrNotYours) && !chat.direct() {
		err = moderate(ctx, q, chat.group, user, m)
	}
	return err
}

// askRecall asks the backend for a verdict on a recall that the rules allow.
func (s *Service) askRecall(ctx context.Context, user accounts.ID, chat ChatRef, seq int64) error {
	if !s.hooks.HasBefore(api.BeforeMessageRecall) {
		return nil
	}
	_, m, err := s.messageOf(ctx, user, chat, seq)
	if err != nil || m.recalledFor(user, chat) {
		return err
	}
	if err := s.mayRecall(ctx, s.sql.db, user, chat, &m, s.sql.db.Now()); err != nil {
		return err
	}
	_, err = s.hooks.Before(ctx, api.BeforeMessageRecall, user.String(), recallOf(user, chat, m), nil)
	return err
}

// moderate returns ErrNotYours if a user may not recall another member's message.
func moderate(ctx context.Context, q sqldb.Querier, group groups.ID, user accounts.ID, m *message) error {
	mine, theirs := groups.MemberKey{Group: group, User: user}, groups.MemberKey{Group: group, User: m.from}
	found, err := groups.Standings(ctx, q, []groups.MemberKey{mine, theirs})
	if err != nil {
		return err
	}
	if they, in := found[theirs]; found[mine].MayModerate() != nil || in && !found[mine].Over(they) {
		return ErrNotYours
	}
	return nil
}

// React adds or removes the user's reaction to a message. Its errors are ErrChat, ErrMessage, ErrRecalled, ErrEmoji,
// ErrReactions, ErrRefused and ErrStore.
func (s *Service) React(ctx context.Context, user accounts.ID, chat ChatRef, seq int64, emoji string, on bool) (_ api.Message, err error) {
	defer errs.Wrap(&err, "messaging.React %s", user)
	emoji, ok := words.Emoji(emoji)
	if !ok {
		return api.Message{}, ErrEmoji
	}
	if on && chat.direct() {
		if err := s.mayWrite(ctx, user, chat.peer, false); err != nil {
			return api.Message{}, asKind(ctx, err)
		}
	}
	return s.change(ctx, user, chat, seq, "", func(ctx context.Context, tx *sqldb.Tx, m *message, _ int64) (bool, error) {
		r := reaction{emoji, user}
		at := slices.Index(m.reactions, r)
		switch {
		case m.recalled != 0:
			return false, ErrRecalled
		case on == (at >= 0):
			return false, nil
		case !on:
			return true, s.sql.removeReaction(ctx, tx, m, r)
		}
		different := map[string]bool{emoji: true}
		for _, old := range m.reactions {
			different[old.emoji] = true
		}
		if len(different) > maxReactions {
			return false, ErrReactions
		}
		return true, s.sql.addReaction(ctx, tx, m, r)
	})
}

// Hide deletes a message for the user alone. A second deletion changes nothing. It returns ErrChat, ErrMessage or
// ErrStore.
func (s *Service) Hide(ctx context.Context, user accounts.ID, chat ChatRef, seq int64) (err error) {
	defer errs.Wrap(&err, "messaging.Hide %s", user)
	hidden := api.MessageHidden{Chat: chat.String(), Seq: seq}
	var c change
	err = s.transact(ctx, user, chat, &c, func(ctx context.Context, tx *sqldb.Tx) (*step, error) {
		hidden.Rev = 0 // the transaction may run again
		v, err := s.locked(ctx, tx, user, chat)
		if err != nil {
			return nil, err
		}
		c = v.change()
		m, err := s.sql.visibleMessage(ctx, tx, v, seq)
		if errors.Is(err, ErrMessage) {
			if already, readErr := s.sql.isHidden(ctx, tx, user, v.id, seq); already || readErr != nil {
				return nil, readErr
			}
		}
		if err != nil {
			return nil, err
		}
		if hidden.Rev, err = s.sql.nextRev(ctx, tx, v.conversation); err != nil {
			return nil, err
		}
		if c.kind == group { // in a group, the members' own parts have versions of their own
			c.users = []accounts.ID{user}
		}
		v.me.changed = tx.Now().UnixMilli() // for other members, the conversation has not changed
		if err := s.sql.setMember(ctx, tx, v.me); err != nil {
			return nil, err
		}
		return &step{rev: hidden.Rev}, s.sql.hide(ctx, tx, user, m, hidden.Rev)
	})
	if err != nil {
		return asKind(ctx, err)
	}
	if hidden.Rev > 0 {
		s.publish(user, api.EventMessageHidden, hidden)
	}
	return nil
}

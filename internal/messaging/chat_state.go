package messaging

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// pinnedBase is higher than the time of any message.
const pinnedBase = 1 << 52

// state is the data of a user's chat that the list of chats shows.
type state struct {
	view
	hidden []int64  // of the latest messages, the ones that the user has deleted for themselves
	last   *message // the newest message, if the user sees it
}

// versions are the versions of the parts of a state: the conversation, the member's own row, and the row of the other
// user of two. Each grows with each change of its part. A state is newer than another one if no part is older. If each
// of two states has a newer part, both changes are committed, and SQL has a state that is newer than both. A group's
// state has only the member's own part; see [head].
type versions struct{ conversation, own, peer int64 }

func (v view) versions() versions {
	if v.kind == group {
		return versions{own: v.me.version}
	}
	return versions{v.seq + v.rev, v.me.version, v.peerVersion}
}

// lastChange returns the time of the last change in the chat that the user may see. For a user who has left the group,
// it is the time of leaving.
func (v view) lastChange() int64 {
	if v.me.gone != 0 {
		return v.me.changed
	}
	return max(v.changed, v.me.changed, v.peerMarked)
}

// place returns the chat's position in the list. The list shows higher places first, and omits chats with place 0.
func (v view) place() int64 {
	switch {
	case v.me.gone != 0:
		return 0
	case v.me.pinned != 0:
		return pinnedBase + v.me.pinned
	case v.seq > v.me.cleared || v.me.draft != "":
		return max(1, v.lastAt)
	}
	return 0
}

// placeAtRev is a message's place at one rev of the conversation.
type placeAtRev struct {
	place
	rev int64
}

// states returns the states of views, which may be of different users. Messages in known are not read again. Data that
// is read may be newer than the views.
func (s *sqlStore) states(ctx context.Context, q sqldb.Querier, views []view, known map[placeAtRev]message) ([]state, error) {
	out := make([]state, len(views))
	for start := 0; start < len(views); start += maxConditions {
		part := views[start:min(start+maxConditions, len(views))]
		var places []place
		var changed []view
		for _, v := range part {
			at := place{v.id, v.seq}
			if _, ok := known[placeAtRev{at, v.rev}]; v.seq > v.me.cleared && !ok {
				places = append(places, at)
			}
			if v.rev > 0 { // at rev 0 no message was ever deleted
				changed = append(changed, v)
			}
		}
		slices.SortFunc(places, place.compare)
		newest, err := s.messagesAt(ctx, q, slices.Compact(places))
		if err != nil {
			return nil, err
		}
		hidden, err := s.latestHidden(ctx, q, changed)
		if err != nil {
			return nil, err
		}
		for i, v := range part {
			st := state{view: v, hidden: hidden[v.key()]}
			m, ok := known[placeAtRev{place{v.id, v.seq}, v.rev}]
			if !ok {
				m, ok = newest[place{v.id, v.seq}]
			}
			if ok && v.seq > v.me.cleared && !slices.Contains(st.hidden, v.seq) {
				st.last = &m
			}
			out[start+i] = st
		}
	}
	return out, nil
}

// storedMessage is the form of a message in Redis.
type storedMessage struct {
	Seq       int64       `json:"s"`
	Rev       int64       `json:"v,omitempty"`
	ID        MessageID   `json:"i"`
	From      accounts.ID `json:"f"`
	ClientID  string      `json:"c,omitempty"`
	Body      messageBody `json:"b"`
	Reply     int64       `json:"r,omitempty"`
	At        int64       `json:"a"`
	Edited    int64       `json:"e,omitempty"`
	Recalled  int64       `json:"g,omitempty"`
	Reactions [][2]string `json:"x,omitempty"` // emoji and user
}

func (m message) stored() storedMessage {
	k := storedMessage{Seq: m.seq, Rev: m.rev, ID: m.id, From: m.from, ClientID: m.clientID, Body: m.body, Reply: m.reply, At: m.at,
		Edited: m.edited, Recalled: m.recalled}
	for _, r := range m.reactions {
		k.Reactions = append(k.Reactions, [2]string{r.emoji, r.user.String()})
	}
	return k
}

func (k storedMessage) message(conv ConversationID) (message, error) {
	m := message{conv: conv, seq: k.Seq, rev: k.Rev, id: k.ID, from: k.From, clientID: k.ClientID, body: k.Body, reply: k.Reply, at: k.At,
		edited: k.Edited, recalled: k.Recalled}
	for _, x := range k.Reactions {
		r := reaction{emoji: x[0]}
		if err := r.user.UnmarshalText([]byte(x[1])); err != nil {
			return m, err
		}
		m.reactions = append(m.reactions, r)
	}
	return m, nil
}

// head is the part of a group's chat that is the same for all members. Redis stores it once, next to each member's own
// part, so the cost of a message does not depend on the size of the group.
type head struct {
	conversation
	last *message // the newest message
}

// version grows with each message and change.
func (h head) version() int64 { return h.seq + h.rev }

// withOwnPart combines a member's own part with the head.
func (h head) withOwnPart(own state) state {
	own.conversation, own.last = h.conversation, nil
	if h.last != nil && h.seq > own.me.cleared && !slices.Contains(own.hidden, h.seq) {
		own.last = h.last
	}
	return own
}

// storedHead is the form of a head in Redis.
type storedHead struct {
	Title   string         `json:"t"`
	Seq     int64          `json:"s"`
	Rev     int64          `json:"v"`
	LastAt  int64          `json:"a"`
	Changed int64          `json:"c"`
	Last    *storedMessage `json:"o,omitempty"`

	Uncounted numbers `json:"u,omitempty"`
}

// text returns the head's value in Redis: its version, then JSON.
func (h head) text() (string, error) {
	k := storedHead{Title: h.title, Seq: h.seq, Rev: h.rev, LastAt: h.lastAt, Changed: h.changed, Uncounted: h.uncounted}
	if h.last != nil {
		last := h.last.stored()
		k.Last = &last
	}
	body, err := json.Marshal(k)
	return fmt.Sprintf("%d %s", h.version(), body), err
}

// parseHead parses the result of [head.text].
func parseHead(conv ConversationID, text string) (head, error) {
	at := strings.IndexByte(text, '{')
	if at < 0 {
		return head{}, fmt.Errorf("the head of a group's chat in Redis is not JSON: %.40q", text)
	}
	var k storedHead
	if err := json.Unmarshal([]byte(text[at:]), &k); err != nil {
		return head{}, fmt.Errorf("the head of a group's chat in Redis: %w", err)
	}
	h := head{conversation: conversation{id: conv, kind: group, title: k.Title, seq: k.Seq, rev: k.Rev, lastAt: k.LastAt, changed: k.Changed,
		uncounted: k.Uncounted}}
	if k.Last != nil {
		last, err := k.Last.message(conv)
		if err != nil {
			return head{}, fmt.Errorf("the newest message of a group's chat in Redis: %w", err)
		}
		h.last = &last
	}
	return h, nil
}

// heads returns the heads of groups' conversations. Messages in known are not read again.
func (s *Service) heads(ctx context.Context, q sqldb.Querier, found []conversation, known map[placeAtRev]message) ([]head, error) {
	var places []place
	for _, c := range found {
		at := place{c.id, c.seq}
		if _, ok := known[placeAtRev{at, c.rev}]; !ok && c.seq > 0 {
			places = append(places, at)
		}
	}
	newest, err := s.sql.messagesAt(ctx, q, places)
	if err != nil {
		return nil, err
	}
	out := make([]head, len(found))
	for i, c := range found {
		m, ok := known[placeAtRev{place{c.id, c.seq}, c.rev}]
		if !ok {
			m, ok = newest[place{c.id, c.seq}]
		}
		if out[i].conversation = c; ok {
			out[i].last = &m
		}
	}
	return out, nil
}

// storedState is the form of a state in Redis; the user is part of the key. For a group's chat it has the member's own
// part.
type storedState struct {
	Conv      ConversationID `json:"c"`
	Peer      accounts.ID    `json:"p,omitzero"`
	Seq       int64          `json:"s,omitempty"`
	Rev       int64          `json:"v,omitempty"`
	LastAt    int64          `json:"a,omitempty"`
	Changed   int64          `json:"e,omitempty"` // in a group, of the row; in a chat of two, without changes of the other marks
	Gone      int64          `json:"g,omitempty"`
	Read      int64          `json:"r,omitempty"`
	Delivered int64          `json:"d,omitempty"`
	Cleared   int64          `json:"l,omitempty"`
	Pinned    int64          `json:"n,omitempty"`
	Muted     int64          `json:"m,omitempty"`
	Draft     string         `json:"t,omitempty"`
	PeerRead  int64          `json:"pr,omitempty"`
	PeerGot   int64          `json:"pd,omitempty"`
	Hidden    []int64        `json:"h,omitempty"`
	Last      *storedMessage `json:"o,omitempty"`
	Uncounted numbers        `json:"u,omitempty"`
}

// text returns a state's value in Redis: the numbers that scripts read, then JSON.
func (st state) text() (string, error) {
	if st.kind == group {
		body, err := json.Marshal(storedState{Conv: st.id, Read: st.me.read, Delivered: st.me.delivered, Cleared: st.me.cleared,
			Pinned: st.me.pinned, Muted: st.me.muted, Draft: st.me.draft, Hidden: st.hidden, Changed: st.me.changed, Gone: st.me.gone})
		return fmt.Sprintf("0 %d 0 %s", st.me.version, body), err
	}
	k := storedState{Conv: st.id, Peer: st.me.peer, Seq: st.seq, Rev: st.rev, LastAt: st.lastAt, Changed: max(st.changed, st.me.changed),
		Read: st.me.read, Delivered: st.me.delivered, Cleared: st.me.cleared,
		Pinned: st.me.pinned, Muted: st.me.muted, Draft: st.me.draft, PeerRead: st.peerRead, PeerGot: st.peerGot, Hidden: st.hidden,
		Uncounted: st.uncounted}
	if st.last != nil {
		last := st.last.stored()
		k.Last = &last
	}
	body, err := json.Marshal(k)
	v := st.versions()
	return fmt.Sprintf("%d %d %d %d %d %d %d %s", v.conversation, v.own, v.peer, st.place(), st.lastChange(), st.unread(st.hidden),
		st.me.muted, body), err
}

// parseState parses the result of [state.text] for a user.
func parseState(user accounts.ID, text string) (st state, err error) {
	at := strings.IndexByte(text, '{')
	if at < 0 {
		return st, fmt.Errorf("a chat in Redis is not JSON: %.40q", text)
	}
	var k storedState
	if err := json.Unmarshal([]byte(text[at:]), &k); err != nil {
		return st, fmt.Errorf("a chat in Redis: %w", err)
	}
	st.conversation = conversation{id: k.Conv, kind: direct, seq: k.Seq, rev: k.Rev, lastAt: k.LastAt, uncounted: k.Uncounted}
	if k.Peer.IsZero() {
		st.kind = group
	}
	var v versions
	if st.kind == group {
		_, err = fmt.Sscanf(text, "%d %d", &v.conversation, &v.own)
	} else {
		_, err = fmt.Sscanf(text, "%d %d %d %d %d", &v.conversation, &v.own, &v.peer, new(int64), &st.peerMarked)
	}
	if err != nil {
		return st, fmt.Errorf("a chat in Redis: %.40q: %w", text, err)
	}
	st.peerVersion = v.peer
	st.changed = cmp.Or(k.Changed, st.peerMarked)
	st.me = member{user: user, peer: k.Peer, conv: k.Conv, changed: k.Changed, gone: k.Gone, read: k.Read, delivered: k.Delivered,
		cleared: k.Cleared, pinned: k.Pinned, muted: k.Muted, draft: k.Draft, version: v.own}
	st.peerRead, st.peerGot, st.hidden = k.PeerRead, k.PeerGot, k.Hidden
	if k.Last != nil {
		last, err := k.Last.message(k.Conv)
		if err != nil {
			return st, fmt.Errorf("the newest message of a chat in Redis: %w", err)
		}
		st.last = &last
	}
	return st, nil
}

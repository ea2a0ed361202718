package messaging

import (
	"strings"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/groups"
)

// ChatRef names a chat from the view of one member, by the other user or by the group.
type ChatRef struct {
	peer  accounts.ID
	group groups.ID
}

// With returns the ChatRef of the chat with another user.
func With(user accounts.ID) ChatRef { return ChatRef{peer: user} }

// In returns the ChatRef of a group's chat.
func In(group groups.ID) ChatRef { return ChatRef{group: group} }

// Prefixes of chat names.
const (
	directPrefix = "u:"
	groupPrefix  = "g:"
)

// String returns the chat's name in the API: "u:" and the other user's id, or "g:" and the group's id.
func (c ChatRef) String() string {
	if c.direct() {
		return directPrefix + c.peer.String()
	}
	return groupPrefix + c.group.String()
}

func (c ChatRef) direct() bool { return c.group.IsZero() }

// parseChat returns the chat with a name, or ErrChat.
func parseChat(name string) (ChatRef, error) {
	if text, ok := strings.CutPrefix(name, directPrefix); ok {
		if peer, err := ids.Parse[accounts.User](text); err == nil {
			return With(peer), nil
		}
	}
	if text, ok := strings.CutPrefix(name, groupPrefix); ok {
		if group, err := ids.Parse[groups.Group](text); err == nil {
			return In(group), nil
		}
	}
	return ChatRef{}, ErrChat
}

// conversationOf returns the conversation of a group, which has the group's id.
func conversationOf(group groups.ID) ConversationID { return ConversationID(group) }

// chat returns the ChatRef that the member of a view uses.
func (v view) chat() ChatRef {
	if v.kind == group {
		return In(groups.ID(v.id))
	}
	return With(v.me.peer)
}

func (v view) key() memberKey { return memberKey{v.me.user, v.id} }

func (v view) name() string { return v.chat().String() }

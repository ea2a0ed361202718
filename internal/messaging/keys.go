package messaging

import (
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/groups"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// Keys are the key families of this domain.
var Keys = keyspace.New("messaging")

const (
	// chatsTTL is the TTL of the chats of an absent user.
	chatsTTL = 45 * 24 * time.Hour

	// latestTTL is the TTL of a chat's latest messages without changes. One read in a hundred renews it, so that many
	// readers of a chat do not load it from SQL at the same time.
	latestTTL = 24 * time.Hour
)

// scriptKeys is the set of key families that one script reads or writes for one user.
const scriptKeys = "a user's chats"

var (
	recentKeys = keyspace.Def1[accounts.ID](Keys, "user:recent_chats:{{uid}}",
		keyspace.ZSetOf("chat → Unix ms of its newest message; pinned ones above, in the order of their pinning; 0: it is not listed"),
		keyspace.Expire(chatsTTL),
		keyspace.Doc{Purpose: "the order of a user's chats", MaxBytes: 1 << 20, Together: scriptKeys})

	unreadKeys = keyspace.Def1[accounts.ID](Keys, "user:unread:{{uid}}",
		keyspace.HashOf("chat → unread messages, and until when it is muted, Unix ms"),
		keyspace.Expire(chatsTTL),
		keyspace.Doc{Purpose: "the numbers of a user's unread messages", MaxBytes: 1 << 20, Together: scriptKeys})

	chatsKeys = keyspace.Def1[accounts.ID](Keys, "user:chat_states:{{uid}}",
		keyspace.HashOf("chat → versions of its three parts, place, change, unread, muted, and marks, settings, messages that need no reading "+
			"and newest message as JSON; the empty field: all chats are here"),
		keyspace.Expire(chatsTTL),
		keyspace.Doc{Purpose: "the chats in a user's list", MaxBytes: 16 << 20, Together: scriptKeys})

	groupChatsKeys = keyspace.Def1[accounts.ID](Keys, "user:group_states:{{uid}}",
		keyspace.HashOf("chat of a group → 0, version, 0, and the user's marks and settings as JSON"),
		keyspace.Expire(chatsTTL),
		keyspace.Doc{Purpose: "a user's own parts of groups' chats; the empty field of user:chat_states has their number", MaxBytes: 1 << 20,
			Together: scriptKeys})

	headKeys = keyspace.Def1[ConversationID](Keys, "chat:head:{{chat}}",
		keyspace.BytesOf("version, and seq, rev, messages that need no reading and newest message as JSON"),
		keyspace.Expire(chatsTTL),
		keyspace.Doc{Purpose: "the progress and the newest message of a group's chat", MaxBytes: 64 << 10, Version: 2})

	progressKeys = keyspace.Def1[ConversationID](Keys, "chat:telling:{{chat}}", keyspace.BytesOf("seq and rev"),
		keyspace.Expire(progressInterval),
		keyspace.Doc{Purpose: "the progress of a large group's chat that a node is publishing; other nodes wait", MaxBytes: 64})

	changesKeys = keyspace.Def1[accounts.ID](Keys, "user:chat_changes:{{uid}}",
		keyspace.ZSetOf("chat → Unix ms of its last change"),
		keyspace.Expire(chatsTTL),
		keyspace.Doc{Purpose: "the chats of a user by their last change, for clients that synchronise", MaxBytes: 1 << 20, Together: scriptKeys})

	latestKeys = keyspace.Def2[keyspace.Word[conversationKinds], ConversationID](Keys, "chat:messages:{type}:{{chat}}",
		keyspace.ListOf("seq and rev of the chat, then its latest messages as JSON"),
		keyspace.Expire(latestTTL),
		keyspace.Doc{Purpose: "the latest messages of a chat; readers compare seq and rev with those of the user's chat", MaxBytes: 2 << 20})

	appliedKey = keyspace.Def0(Keys, "chats:applied", keyspace.HashOf("node → Unix ms"),
		keyspace.Forever("one field for each live node, or for the last one; another node removes the field of a dead node"),
		keyspace.Doc{Purpose: "the mark of each node: its earlier commits of chats are in Redis"})

	settingsKeys = keyspace.Def1[accounts.ID](Keys, "user:chat_settings:{uid}", keyspace.CachedOf[settings](),
		keyspace.Expire(24*time.Hour).Jitter(2*time.Hour),
		keyspace.Doc{Purpose: "the users whose messages a user accepts, and whether receipts are shown",
			InvalidatedBy: []string{SettingsChanged.Name()}, MaxBytes: 256, Version: 2})

	groupChannel = keyspace.DefChannel1[groups.ID](Keys, "channel:group_message:{gid}",
		events.Payload(api.EventMessageNew, api.EventMessageChanged),
		keyspace.Doc{Purpose: "messages of a group's chat", MaxBytes: 64 << 10, Version: 2})

	messagesChannel = keyspace.DefChannel1[accounts.ID](Keys, "channel:message:{uid}", events.Payload(
		api.EventMessageNew, api.EventMessageChanged, api.EventMessageHidden, api.EventChatMarked,
		api.EventChatUpdated, api.EventChatSettings, api.EventChatTyping, api.EventChatStands),
		keyspace.Doc{Purpose: "events of a user's chats", MaxBytes: 64 << 10, Version: 4})
)

type conversationKinds struct{}

// Words implements [keyspace.Words].
func (conversationKinds) Words() []string { return []string{"u", "g"} }

// Kinds of chats, as they appear in keys.
var (
	directKind = keyspace.WordOf[conversationKinds]("u")
	groupKind  = keyspace.WordOf[conversationKinds]("g")
)

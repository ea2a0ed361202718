package api

import "maps"

// Event is one line of GET /v1/events, a stream of server-sent events for the caller's own account; the SSE event
// name repeats Type.
type Event struct {
	Type string `json:"type"`
	Time Time   `json:"time"`
	Data any    `json:"data" doc:"its type is that in EventData for Type"`
}

// Types of events, with the types of their data. Each event goes to all devices of its user. Account, session and
// notice events also go to the Redis channel channel:system_notification:{user}, friend and block events to
// channel:friend_request:{user}, group events to channel:group:{user}. Presence events that a user's friends see go
// to channel:user_status, once each.
const (
	EventCheckinMarked = "checkin.marked" // CheckinStatus

	EventAccountUpdated = "account.updated" // User
	EventAccountNotice  = "account.notice"  // AccountNotice
	EventSessionOpened  = "session.opened"  // Session
	EventSessionEnded   = "session.ended"   // SessionEnded

	EventFriendRequested     = "friend.requested"      // FriendRequest, to both users
	EventFriendRequestClosed = "friend.request_closed" // FriendRequest, in a state other than pending
	EventFriendUnread        = "friend.unread"         // Unread
	EventFriendAdded         = "friend.added"          // Friend
	EventFriendUpdated       = "friend.updated"        // Friend
	EventFriendRemoved       = "friend.removed"        // Relative
	EventBlockAdded          = "block.added"           // Relative, only to the user who blocks
	EventBlockRemoved        = "block.removed"         // Relative

	EventGroupMine          = "group.mine"           // GroupMembership: the user has joined, or changed something of their own
	EventGroupChanged       = "group.changed"        // GroupChange
	EventGroupLeft          = "group.left"           // GroupGone, to a user who is no longer in the group
	EventGroupRequested     = "group.requested"      // GroupRequest, to the requesting user and to the group's admins
	EventGroupRequestClosed = "group.request_closed" // GroupRequest, in a state other than pending

	EventPresenceChanged  = "presence.changed"  // Presence of the user or of a friend
	EventPresenceComplete = "presence.complete" // UserRef of the user, after a partial response: request it again

	EventNoticeNew  = "notice.new"  // NoticeNew
	EventNoticeRead = "notice.read" // NoticeCounts, after notices were read or withdrawn
)

// EventData maps each type of event to a value of its data's type.
var EventData = func() map[string]any {
	all := maps.Clone(UserEvents)
	maps.Copy(all, ChatEvents)
	maps.Copy(all, RoomEvents)
	return all
}()

// UserEvents are the events on the channel of a user, as EventData has them.
var UserEvents = map[string]any{
	EventCheckinMarked:       CheckinStatus{},
	EventAccountUpdated:      User{},
	EventAccountNotice:       AccountNotice{},
	EventSessionOpened:       Session{},
	EventSessionEnded:        SessionEnded{},
	EventFriendRequested:     FriendRequest{},
	EventFriendRequestClosed: FriendRequest{},
	EventFriendUnread:        Unread{},
	EventFriendAdded:         Friend{},
	EventFriendUpdated:       Friend{},
	EventFriendRemoved:       Relative{},
	EventBlockAdded:          Relative{},
	EventBlockRemoved:        Relative{},

	EventGroupMine:          GroupMembership{},
	EventGroupChanged:       GroupChange{},
	EventGroupLeft:          GroupGone{},
	EventGroupRequested:     GroupRequest{},
	EventGroupRequestClosed: GroupRequest{},

	EventPresenceChanged:  Presence{},
	EventPresenceComplete: UserRef{},

	EventNoticeNew:  NoticeNew{},
	EventNoticeRead: NoticeCounts{},

	EventMessageNew:     Message{},
	EventMessageChanged: Message{},
	EventMessageHidden:  MessageHidden{},
	EventChatMarked:     ChatMark{},
	EventChatUpdated:    Chat{},
	EventChatSettings:   ChatSettings{},
	EventChatTyping:     Typing{},
	EventChatStands:     ChatStands{},

	EventTransferUpdated:  Transfer{},
	EventTransferProgress: TransferProgress{},

	EventRoomGone: RoomGone{},
}

// ChatEvents are the events on [GroupChannel], as EventData has them.
var ChatEvents = map[string]any{
	EventMessageNew:     Message{},
	EventMessageChanged: Message{},
}

// RoomEvents are the events on [RoomChannel], as EventData has them.
var RoomEvents = map[string]any{
	EventRoomChanged:        Room{},
	EventRoomMember:         RoomMember{},
	EventRoomGone:           RoomGone{},
	EventRoomPlayback:       Playback{},
	EventRoomPlaylist:       RoomRef{},
	EventRoomSaid:           RoomLine{},
	EventRoomDanmaku:        Danmaku{},
	EventRoomDanmakuCleared: RoomRef{},
	EventRoomViewers:        RoomViewers{},
}

// EventVersions maps each type of event with state to the fields of its data that order the events of one object, the
// most significant first. A client ignores an event whose fields are lower than its own. Other types are facts or
// hints, which need no order.
var EventVersions = map[string][]string{
	EventCheckinMarked:    {"day", "total"},
	EventAccountUpdated:   {"version"},
	EventFriendUnread:     {"version"},
	EventFriendAdded:      {"version"},
	EventFriendUpdated:    {"version"},
	EventFriendRemoved:    {"version"},
	EventBlockAdded:       {"version"},
	EventBlockRemoved:     {"version"},
	EventGroupMine:        {"group.version", "me.version"}, // each grows by itself
	EventGroupChanged:     {"group.version"},
	EventGroupLeft:        {"version"},
	EventMessageNew:       {"rev"},
	EventMessageChanged:   {"rev"},
	EventChatMarked:       {"read", "delivered"}, // each grows separately
	EventChatUpdated:      {"version"},
	EventChatSettings:     {"version"},
	EventChatStands:       {"seq", "rev"},
	EventPresenceChanged:  {"version"},
	EventNoticeNew:        {"notice.seq"},
	EventNoticeRead:       {"version"},
	EventTransferUpdated:  {"updated"},
	EventTransferProgress: {"received"},
	EventRoomChanged:      {"version"},
	EventRoomMember:       {"version"},
	EventRoomGone:         {"version"},
	EventRoomPlayback:     {"generation", "version"},
}

// Kinds of account.notice.
const (
	NoticePasswordChanged = "password_changed"
	NoticeEmailChanged    = "email_changed"
	NoticeDeletion        = "deletion" // the account was deleted; a log-in can restore it
	NoticeRestored        = "restored"
	NoticeEmailUndone     = "email_undone" // by mail only, because it logs out every device
)

// AccountNotice notifies all devices of a user of a change of the account.
type AccountNotice struct {
	Kind   string `json:"kind" enum:"password_changed,email_changed,deletion,restored"`
	Device string `json:"device,omitempty" doc:"the device that made the change; empty if it was none of the account's"`
}

// SessionEnded is the data of session.ended: a device was logged out.
type SessionEnded struct {
	Device string `json:"device" example:"Kx7mQ2pLw9Za"`
}

// UserRef identifies a user.
type UserRef struct {
	User string `json:"user" example:"V1StGXR8_Z5j"`
}

// SocketSessionEnded is the close code of a socket whose device was logged out. Clients must not reconnect after it.
const SocketSessionEnded = 4500

// SocketNotForCaller is the close code of a socket whose token is a key, because sockets are for sessions of users.
const SocketNotForCaller = 4501

// SocketCall is the data of an RPC over the socket; its method is an operation id.
type SocketCall struct {
	Path  map[string]any `json:"path,omitempty" doc:"values of the path's parameters"`
	Query map[string]any `json:"query,omitempty" doc:"values of the query's parameters; a list for a parameter with several values"`
	Body  any            `json:"body,omitempty" doc:"the operation's body"`
	Key   string         `json:"key,omitempty" doc:"an Idempotency-Key"`
}

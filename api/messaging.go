package api

import "encoding/json"

// Kinds of messages.
const (
	MessageText     = "text"
	MessageImage    = "image"
	MessageVoice    = "voice"
	MessageFile     = "file"
	MessageLocation = "location"
	MessageCard     = "card"
	MessageCustom   = "custom"
	MessageSystem   = "system" // from the server: an event of a group
)

// MentionAll, in place of a user's id, mentions all members of a group.
const MentionAll = "all"

// Types of events of messaging, with the types of their data.
const (
	EventMessageNew     = "message.new"     // Message, to all devices of both users
	EventMessageChanged = "message.changed" // Message in its current state: edited, recalled or with other reactions
	EventMessageHidden  = "message.hidden"  // MessageHidden, to the devices of the user who deleted it for themselves
	EventChatMarked     = "chat.marked"     // ChatMark: a member read, or received, messages
	EventChatUpdated    = "chat.updated"    // Chat, to the devices of the user who changed its settings
	EventChatSettings   = "chat.settings"   // ChatSettings, to the devices of the user who changed them
	EventChatTyping     = "chat.typing"     // Typing; not stored for resuming clients
	EventChatStands     = "chat.stands"     // ChatStands: load the missing messages, because not all were published
)

// Content is the content of a message. Each kind has its own part: media for image, voice and file; location, card
// and custom for theirs. text is the text itself, or a caption.
type Content struct {
	Kind     string    `json:"kind" example:"text" enum:"text,image,voice,file,location,card,custom,system"`
	Text     string    `json:"text,omitempty" example:"See you at eight" maxLength:"4000"`
	Media    *Media    `json:"media,omitempty"`
	Location *Location `json:"location,omitempty"`
	Card     *CardRef  `json:"card,omitempty"`
	Custom   *Custom   `json:"custom,omitempty"`
	Mentions []string  `json:"mentions,omitempty" maxItems:"50" doc:"ids of users; all: every member of a group (only admins may use it)"`
	System   *System   `json:"system,omitempty" doc:"event of a system message; only the server sends these"`
}

// System is an event of a group, or a text of the app itself. The message's sender caused it.
type System struct {
	Event string   `json:"event" enum:"created,joined,added,left,removed,owner,admin,no_admin,muted,unmuted,all_muted,all_unmuted,named,announced,pictured,pinned,unpinned,app"`
	Users []string `json:"users,omitempty" example:"V1StGXR8_Z5j" doc:"ids of the users concerned, at most the first 100"`
	Text  string   `json:"text,omitempty" doc:"the new name or announcement; the app's text"`
	Seq   int64    `json:"seq,omitempty" doc:"the message that was pinned or unpinned"`
}

// Media is a picture, a recording or a file: a file of this server, or a URL. For a file of this server the server
// sets the other fields, except alt, waveform and a duration that the file does not contain.
type Media struct {
	File       string `json:"file,omitempty" maxLength:"64" example:"V1StGXR8_Z5j" doc:"a complete upload of the sender: POST /v1/transfers without to. Users who see the message download it with chats.file"`
	URL        string `json:"url,omitempty" maxLength:"2048" doc:"instead of a file: https://…, or a path of this server"`
	Type       string `json:"type,omitempty" maxLength:"100" doc:"media type; for a picture or recording of this server, determined by its bytes"`
	Name       string `json:"name,omitempty" maxLength:"255"`
	Size       int64  `json:"size,omitempty" minimum:"0" doc:"bytes"`
	Width      int    `json:"width,omitempty" minimum:"0" maximum:"100000"`
	Height     int    `json:"height,omitempty" minimum:"0" maximum:"100000"`
	Duration   int    `json:"duration_ms,omitempty" minimum:"0" maximum:"86400000" doc:"for a file of this server, read from its container if possible"`
	Waveform   []int  `json:"waveform,omitempty" maxItems:"100" minimum:"0" maximum:"100" doc:"for a recording: its loudness in equal parts of its time"`
	Thumbnails []int  `json:"thumbnails,omitempty" maxItems:"4" doc:"for a picture of this server: the longer sides of its thumbnails, which chats.file returns"`
	SHA256     string `json:"sha256,omitempty" maxLength:"64" doc:"for a file of this server, in hexadecimal"`
	Alt        string `json:"alt,omitempty" maxLength:"500" doc:"alternative text"`
}

// Location is a place on earth.
type Location struct {
	Latitude  float64 `json:"lat" minimum:"-90" maximum:"90"`
	Longitude float64 `json:"lon" minimum:"-180" maximum:"180"`
	Name      string  `json:"name,omitempty" maxLength:"200"`
	Address   string  `json:"address,omitempty" maxLength:"500"`
}

// CardRef recommends a user to another.
type CardRef struct {
	User string `json:"user" example:"V1StGXR8_Z5j" maxLength:"64"`
}

// Custom is content of the app's own type.
type Custom struct {
	Type string          `json:"type" minLength:"1" maxLength:"64"`
	Data json.RawMessage `json:"data,omitempty" doc:"any JSON of up to 8 KiB, ten levels deep"`
}

// Send is a message to send.
type Send struct {
	ClientID string `json:"client_id" example:"8d1f-1" minLength:"1" maxLength:"64" pattern:"^[A-Za-z0-9._-]+$" doc:"chosen by the client, once for each message; a retry with it is the same message"`
	Content
	ReplyTo int64       `json:"reply_to,omitempty" minimum:"1" doc:"the sequence number of a message in this chat"`
	Forward *MessageRef `json:"forward,omitempty" doc:"the message to forward; the caller must see it. kind must be set but is ignored"`
}

// Sent is the response to a message that was stored.
type Sent struct {
	ID   string `json:"id" example:"hT3kQ9_xLm2A"`
	Chat string `json:"chat" example:"u:V1StGXR8_Z5j"`
	Seq  int64  `json:"seq" doc:"its number in the chat: 1, 2, 3 and so on, without gaps"`
	At   Time   `json:"at"`
}

// MessageRef identifies a message.
type MessageRef struct {
	Chat string `json:"chat" example:"u:V1StGXR8_Z5j" maxLength:"64"`
	Seq  int64  `json:"seq" minimum:"1"`
}

// MessageHidden is the data of message.hidden: the user deleted a message for themselves.
type MessageHidden struct {
	Chat string `json:"chat" example:"u:V1StGXR8_Z5j"`
	Seq  int64  `json:"seq"`
	Rev  int64  `json:"rev" doc:"number of this change in the chat"`
}

// Message is a message of a chat, as one of its members sees it.
type Message struct {
	ID       string `json:"id" example:"hT3kQ9_xLm2A"`
	Chat     string `json:"chat" example:"u:V1StGXR8_Z5j"`
	Seq      int64  `json:"seq"`
	Rev      int64  `json:"rev,omitempty" doc:"number of its last change in the chat; absent if it was never changed"`
	From     string `json:"from" example:"V1StGXR8_Z5j" doc:"the user who sent it"`
	ClientID string `json:"client_id,omitempty" example:"8d1f-1" doc:"chosen by the sender; only the sender sees it"`
	Content
	ReplyTo   int64      `json:"reply_to,omitempty"`
	Forwarded *Forwarded `json:"forwarded,omitempty"`
	At        Time       `json:"at"`
	Edited    *Time      `json:"edited,omitempty"`
	Recalled  *Time      `json:"recalled,omitempty" doc:"time of the recall; the content was deleted"`
	Reactions []Reaction `json:"reactions,omitempty"`
}

// Forwarded is the origin of a forwarded message.
type Forwarded struct {
	From string `json:"from" example:"V1StGXR8_Z5j"`
	At   Time   `json:"at"`
}

// Reaction is one emoji, with the users who reacted with it.
type Reaction struct {
	Emoji string   `json:"emoji" example:"👍"`
	Users []string `json:"users" example:"V1StGXR8_Z5j"`
}

// Messages is a part of a chat's messages, in order of seq.
type Messages struct {
	Messages []Message `json:"messages"`
	More     bool      `json:"more" doc:"there are more messages in the requested direction"`
	Seq      int64     `json:"seq" doc:"number of the newest message of the chat"`
	Rev      int64     `json:"rev" doc:"number of the chat's newest change"`
}

// MessageChanges are the changes of existing messages.
type MessageChanges struct {
	Changed []Message `json:"changed" doc:"in their current state and the order of their last change"`
	Hidden  []int64   `json:"hidden,omitempty" doc:"messages that the caller deleted for themselves"`
	More    bool      `json:"more" doc:"request the next part since rev"`
	Rev     int64     `json:"rev" doc:"number of the last change in this part"`
}

// Chat is one of the caller's chats.
type Chat struct {
	Chat      string   `json:"chat" example:"u:V1StGXR8_Z5j" doc:"u: and the other user's id, or g: and the group's"`
	Peer      string   `json:"peer,omitempty" example:"V1StGXR8_Z5j" doc:"for a chat of two users, the other user"`
	Group     string   `json:"group,omitempty" example:"V1StGXR8_Z5j" doc:"for a chat of a group, its id"`
	GroupName string   `json:"group_name,omitempty" example:"Rowing"`
	Gone      bool     `json:"gone,omitempty" doc:"the caller is no longer in the group; only in changes since a sync"`
	Seq       int64    `json:"seq" doc:"number of the newest message"`
	Rev       int64    `json:"rev" doc:"number of the newest change of existing messages"`
	Version   int64    `json:"version,omitempty" doc:"version of the caller's own state (marks, pin, mute, draft); it grows with each change, and a client ignores state with a lower one"`
	Cleared   int64    `json:"cleared,omitempty" doc:"messages up to this number are deleted for the caller"`
	Read      int64    `json:"read" doc:"number of the last message that the caller has read"`
	Unread    int64    `json:"unread" doc:"unread messages after read; without system messages, recalled ones and those that the caller deleted for themselves, if these are among the latest 100"`
	Uncounted []int64  `json:"uncounted,omitempty" doc:"numbers of the messages after read that unread does not count, in ascending order"`
	PeerRead  int64    `json:"peer_read,omitempty" doc:"number of the last message that the other user has read, if both show receipts and neither blocks the other"`
	PeerGot   int64    `json:"peer_got,omitempty" doc:"number of the last message that reached the other user's devices; at most peer_read if the caller may not see the other's presence"`
	Pinned    *Time    `json:"pinned,omitempty" doc:"time of the pinning; the last pinned chat comes first"`
	Muted     *Time    `json:"muted,omitempty" doc:"end of the mute"`
	Draft     string   `json:"draft,omitempty"`
	At        Time     `json:"at" doc:"time of the newest message"`
	Last      *Message `json:"last,omitempty" doc:"the newest message"`
	PeerGone  bool     `json:"peer_gone,omitempty" doc:"the other user's account is deleted"`
	PeerName  string   `json:"peer_name,omitempty"`
	PeerPhoto string   `json:"peer_avatar,omitempty"`
}

// FoundMessages are messages that match a search.
type FoundMessages struct {
	Messages []Message `json:"messages" doc:"newest first"`
	Next     string    `json:"next,omitempty" example:"1795430400000" doc:"cursor of older messages; a response without messages may have one as well"`
}

// ChatExport is a part of all stored data of the caller's chats.
type ChatExport struct {
	Settings *ChatSettings     `json:"settings,omitempty" doc:"only in the first part"`
	Chats    []Chat            `json:"chats" doc:"chats that begin in this part"`
	Messages []ExportedMessage `json:"messages" doc:"ordered by chat and seq"`
	Next     string            `json:"next,omitempty" example:"hT3kQ9_xLm2A.117" doc:"cursor of the next page; absent at the end"`
}

// ExportedMessage is a message with its earlier contents.
type ExportedMessage struct {
	Message
	Earlier []EarlierContent `json:"earlier,omitempty" doc:"only for the caller's own messages, oldest first"`
}

// EarlierContent is the content of a message before an edit.
type EarlierContent struct {
	Content
	Until Time `json:"until"`
}

// Chats is a page of the caller's chats: pinned ones first, then by their newest message.
type Chats struct {
	Chats  []Chat `json:"chats"`
	Next   string `json:"next,omitempty" doc:"cursor of the next page; absent at the end"`
	Sync   string `json:"sync" example:"1795430400000" doc:"cursor for later changes; in the first page"`
	Unread int64  `json:"unread" doc:"unread messages in all chats that are not muted"`
}

// ChatChange changes the caller's settings of a chat; absent fields stay unchanged.
type ChatChange struct {
	Pinned *bool   `json:"pinned,omitempty"`
	Muted  *Time   `json:"muted,omitempty" doc:"end of the mute; a past time ends it"`
	Draft  *string `json:"draft,omitempty" maxLength:"4000"`
}

// ChatMark is the data of chat.marked: how far a user has read a chat.
type ChatMark struct {
	Chat      string `json:"chat" example:"u:V1StGXR8_Z5j"`
	User      string `json:"user" example:"V1StGXR8_Z5j"`
	Read      int64  `json:"read,omitempty"`
	Delivered int64  `json:"delivered,omitempty"`
}

// ChatStands is the data of chat.stands: the progress of a chat.
type ChatStands struct {
	Chat string `json:"chat" example:"u:V1StGXR8_Z5j"`
	Seq  int64  `json:"seq" doc:"number of the newest message"`
	Rev  int64  `json:"rev" doc:"number of the newest change"`
}

// Readers are the users who have read a message: GET /v1/chats/{chat}/messages/{seq}/readers.
type Readers struct {
	Users []string `json:"users" example:"V1StGXR8_Z5j" doc:"ids, without the caller's"`
}

// Pins are the pinned messages of a group: GET /v1/chats/{chat}/pins.
type Pins struct {
	Messages []Message `json:"messages" doc:"the last pinned one first"`
}

// MarkRequest moves the caller's marks in a chat forward; lower values change nothing.
type MarkRequest struct {
	Read      int64 `json:"read,omitempty" minimum:"0"`
	Delivered int64 `json:"delivered,omitempty" minimum:"0"`
}

// Typing is the data of chat.typing: a user is typing, or has stopped.
type Typing struct {
	Chat   string `json:"chat" example:"u:V1StGXR8_Z5j"`
	User   string `json:"user,omitempty" example:"V1StGXR8_Z5j"`
	Typing bool   `json:"typing"`
}

// ChatSettings are a user's settings of chats.
type ChatSettings struct {
	MessagesFrom string `json:"messages_from" example:"friends" enum:"friends,everybody,nobody"`
	Receipts     bool   `json:"receipts" doc:"send read receipts, and see those of others"`
	Version      int64  `json:"version,omitempty" doc:"grows with each change; a client ignores settings with a lower version"`
}

// ChatSettingsUpdate changes the fields that are present: PUT /v1/chats/settings.
type ChatSettingsUpdate struct {
	MessagesFrom *string `json:"messages_from,omitempty" example:"friends" enum:"friends,everybody,nobody"`
	Receipts     *bool   `json:"receipts,omitempty"`
}

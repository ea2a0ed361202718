package api

import "encoding/json"

// What a message can be.
const (
	MessageText     = "text"
	MessageImage    = "image"
	MessageVoice    = "voice"
	MessageFile     = "file"
	MessageLocation = "location"
	MessageCard     = "card"
	MessageCustom   = "custom"
	MessageSystem   = "system" // of the server: it tells what has happened to a group
)

// MentionAll, in place of a user's id, mentions all members of a group.
const MentionAll = "all"

// Types of events of messaging, with what their data is.
const (
	EventMessageNew     = "message.new"     // Message, to all devices of both
	EventMessageChanged = "message.changed" // Message as it is now: edited, recalled or with other reactions
	EventMessageHidden  = "message.hidden"  // MessageHidden, to the devices of the user who deleted it for themselves
	EventChatMarked     = "chat.marked"     // ChatMark: somebody read, or got, messages
	EventChatUpdated    = "chat.updated"    // Chat, to the devices of the user who changed its settings
	EventChatSettings   = "chat.settings"   // ChatSettings, to the devices of the user who changed them
	EventChatTyping     = "chat.typing"     // Typing; not kept for those who resume
	EventChatStands     = "chat.stands"     // ChatStands: events may not have told it; ask for what is missing
)

// Content is what a message says. Of the parts, one kind has its own: media goes with
// image, voice and file, location, card and custom with theirs. text is the text itself, or
// a caption.
type Content struct {
	Kind     string    `json:"kind" example:"text" enum:"text,image,voice,file,location,card,custom,system"`
	Text     string    `json:"text,omitempty" example:"See you at eight" maxLength:"4000"`
	Media    *Media    `json:"media,omitempty"`
	Location *Location `json:"location,omitempty"`
	Card     *CardRef  `json:"card,omitempty"`
	Custom   *Custom   `json:"custom,omitempty"`
	Mentions []string  `json:"mentions,omitempty" maxItems:"50" doc:"ids of users; all: every member of a group, which admins may mention"`
	System   *System   `json:"system,omitempty" doc:"what a system message tells; only the server sends one"`
}

// System is what has happened to a group, or what the app itself tells in a chat. Who did it has sent the message.
type System struct {
	Event string   `json:"event" enum:"created,joined,added,left,removed,owner,admin,no_admin,muted,unmuted,all_muted,all_unmuted,named,announced,pictured,pinned,unpinned,app"`
	Users []string `json:"users,omitempty" example:"V1StGXR8_Z5j" doc:"ids of whom it concerns; of many, the first 100"`
	Text  string   `json:"text,omitempty" doc:"the new name or announcement; what the app tells"`
	Seq   int64    `json:"seq,omitempty" doc:"the message that was pinned, or is not any more"`
}

// Media is a picture, a recording or a file: a file of this server, or an address wherever it leads. Of a
// file of this server the server says the rest, but for alt, waveform and a duration that the file does not tell.
type Media struct {
	File       string `json:"file,omitempty" maxLength:"64" example:"V1StGXR8_Z5j" doc:"an upload of the sender's that is whole: POST /v1/transfers without to. Who sees the message fetches it by chats.file"`
	URL        string `json:"url,omitempty" maxLength:"2048" doc:"in place of a file: https://…, or a path of this server"`
	Type       string `json:"type,omitempty" maxLength:"100" doc:"media type; of a picture or recording of this server, what its bytes are"`
	Name       string `json:"name,omitempty" maxLength:"255"`
	Size       int64  `json:"size,omitempty" minimum:"0" doc:"bytes"`
	Width      int    `json:"width,omitempty" minimum:"0" maximum:"100000"`
	Height     int    `json:"height,omitempty" minimum:"0" maximum:"100000"`
	Duration   int    `json:"duration_ms,omitempty" minimum:"0" maximum:"86400000" doc:"of a file of this server what its container says, where that says it"`
	Waveform   []int  `json:"waveform,omitempty" maxItems:"100" minimum:"0" maximum:"100" doc:"of a recording: how loud it is in equal parts of its time"`
	Thumbnails []int  `json:"thumbnails,omitempty" maxItems:"4" doc:"of a picture of this server: the longer sides of its thumbnails, which chats.file gives"`
	SHA256     string `json:"sha256,omitempty" maxLength:"64" doc:"of a file of this server, in hexadecimal"`
	Alt        string `json:"alt,omitempty" maxLength:"500" doc:"what can be seen or heard, for who cannot"`
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

// Custom is of the app's own making.
type Custom struct {
	Type string          `json:"type" minLength:"1" maxLength:"64"`
	Data json.RawMessage `json:"data,omitempty" doc:"any JSON of up to 8 KiB, ten levels deep"`
}

// Send is a message on its way.
type Send struct {
	ClientID string `json:"client_id" example:"8d1f-1" minLength:"1" maxLength:"64" pattern:"^[A-Za-z0-9._-]+$" doc:"chosen by the client, once for each message: sent again, it is the same message"`
	Content
	ReplyTo int64       `json:"reply_to,omitempty" minimum:"1" doc:"the sequence number of a message in this chat"`
	Forward *MessageRef `json:"forward,omitempty" doc:"a message that the caller can read, to be sent on; then kind alone is given, and it is ignored"`
}

// Sent says that a message is stored for good.
type Sent struct {
	ID   string `json:"id" example:"hT3kQ9_xLm2A"`
	Chat string `json:"chat" example:"u:V1StGXR8_Z5j"`
	Seq  int64  `json:"seq" doc:"its place in the chat: 1, 2, 3 and so on, without gaps"`
	At   Time   `json:"at"`
}

// MessageRef names a message.
type MessageRef struct {
	Chat string `json:"chat" example:"u:V1StGXR8_Z5j" maxLength:"64"`
	Seq  int64  `json:"seq" minimum:"1"`
}

// MessageHidden says that the user has deleted a message for themselves.
type MessageHidden struct {
	Chat string `json:"chat" example:"u:V1StGXR8_Z5j"`
	Seq  int64  `json:"seq"`
	Rev  int64  `json:"rev" doc:"the number of this change in the chat"`
}

// Message is one in a chat, as one of its members sees it.
type Message struct {
	ID       string `json:"id" example:"hT3kQ9_xLm2A"`
	Chat     string `json:"chat" example:"u:V1StGXR8_Z5j"`
	Seq      int64  `json:"seq"`
	Rev      int64  `json:"rev,omitempty" doc:"the number of its last change in the chat; none if it was never changed"`
	From     string `json:"from" example:"V1StGXR8_Z5j" doc:"the user who sent it"`
	ClientID string `json:"client_id,omitempty" example:"8d1f-1" doc:"as the sender chose it; only for the sender"`
	Content
	ReplyTo   int64      `json:"reply_to,omitempty"`
	Forwarded *Forwarded `json:"forwarded,omitempty"`
	At        Time       `json:"at"`
	Edited    *Time      `json:"edited,omitempty"`
	Recalled  *Time      `json:"recalled,omitempty" doc:"its content is gone"`
	Reactions []Reaction `json:"reactions,omitempty"`
}

// Forwarded says where a message came from first.
type Forwarded struct {
	From string `json:"from" example:"V1StGXR8_Z5j"`
	At   Time   `json:"at"`
}

// Reaction is one emoji, and who reacted with it.
type Reaction struct {
	Emoji string   `json:"emoji" example:"👍"`
	Users []string `json:"users" example:"V1StGXR8_Z5j"`
}

// Messages is a part of a chat's messages, in order of seq.
type Messages struct {
	Messages []Message `json:"messages"`
	More     bool      `json:"more" doc:"there are further ones in the direction that was asked for"`
	Seq      int64     `json:"seq" doc:"of the newest message of the chat"`
	Rev      int64     `json:"rev" doc:"the chat's newest change"`
}

// MessageChanges is what has changed of messages that were there.
type MessageChanges struct {
	Changed []Message `json:"changed" doc:"as they are now, in the order of their last change"`
	Hidden  []int64   `json:"hidden,omitempty" doc:"deleted by the caller for themselves"`
	More    bool      `json:"more" doc:"ask again since rev"`
	Rev     int64     `json:"rev" doc:"up to which change this goes"`
}

// Chat is one of the caller's chats.
type Chat struct {
	Chat      string   `json:"chat" example:"u:V1StGXR8_Z5j" doc:"u: and the other's id, or g: and the group's"`
	Peer      string   `json:"peer,omitempty" example:"V1StGXR8_Z5j" doc:"of a chat of two users, the other"`
	Group     string   `json:"group,omitempty" example:"V1StGXR8_Z5j" doc:"of a chat of a group, its id"`
	GroupName string   `json:"group_name,omitempty" example:"Rowing"`
	Gone      bool     `json:"gone,omitempty" doc:"the caller is not in the group any more; only in what has changed since a sync"`
	Seq       int64    `json:"seq" doc:"of the newest message"`
	Rev       int64    `json:"rev" doc:"of the newest change of what was there"`
	Version   int64    `json:"version,omitempty" doc:"of what is the caller's own: marks, pin, mute, draft; it grows with each change, and a client ignores these of a lower one"`
	Cleared   int64    `json:"cleared,omitempty" doc:"messages up to here are deleted for the caller"`
	Read      int64    `json:"read" doc:"up to which message the caller has read"`
	Unread    int64    `json:"unread" doc:"messages after read that are still to be read: no system messages, no recalled ones and none that the caller has deleted for themselves, as far as these are among the latest 100"`
	Uncounted []int64  `json:"uncounted,omitempty" doc:"numbers of the messages after read that unread leaves out, in ascending order"`
	PeerRead  int64    `json:"peer_read,omitempty" doc:"up to which message the other has read, if both show receipts and neither blocks the other"`
	PeerGot   int64    `json:"peer_got,omitempty" doc:"up to which message the other's devices have got; no further than peer_read for a caller who may not see the other's presence"`
	Pinned    *Time    `json:"pinned,omitempty" doc:"since when; the chat that was pinned last comes first"`
	Muted     *Time    `json:"muted,omitempty" doc:"until when"`
	Draft     string   `json:"draft,omitempty"`
	At        Time     `json:"at" doc:"when the newest message was sent"`
	Last      *Message `json:"last,omitempty" doc:"the newest message"`
	PeerGone  bool     `json:"peer_gone,omitempty" doc:"the other's account is deleted"`
	PeerName  string   `json:"peer_name,omitempty"`
	PeerPhoto string   `json:"peer_avatar,omitempty"`
}

// FoundMessages are messages that say what was searched for.
type FoundMessages struct {
	Messages []Message `json:"messages" doc:"newest first"`
	Next     string    `json:"next,omitempty" example:"1795430400000" doc:"cursor of what is older; also an answer without messages may have one"`
}

// ChatExport is a part of everything that is stored of the caller's chats.
type ChatExport struct {
	Settings *ChatSettings     `json:"settings,omitempty" doc:"in the first part"`
	Chats    []Chat            `json:"chats" doc:"those that begin in this part"`
	Messages []ExportedMessage `json:"messages" doc:"in the order of chats and of seq"`
	Next     string            `json:"next,omitempty" example:"hT3kQ9_xLm2A.117" doc:"cursor of the next part; none in the last one"`
}

// ExportedMessage is a message, and what it said before.
type ExportedMessage struct {
	Message
	Earlier []EarlierContent `json:"earlier,omitempty" doc:"of the caller's own messages, the first one first"`
}

// EarlierContent is what a message said until it was edited.
type EarlierContent struct {
	Content
	Until Time `json:"until"`
}

// Chats is a part of the caller's chats: pinned ones first, then by their newest message.
type Chats struct {
	Chats  []Chat `json:"chats"`
	Next   string `json:"next,omitempty" doc:"cursor of the next page"`
	Sync   string `json:"sync" example:"1795430400000" doc:"ask since here what has changed; of the first page"`
	Unread int64  `json:"unread" doc:"messages that wait in all chats that are not muted"`
}

// ChatChange changes what the caller has set for a chat; what is not there stays.
type ChatChange struct {
	Pinned *bool   `json:"pinned,omitempty"`
	Muted  *Time   `json:"muted,omitempty" doc:"until when; a time that has passed: not at all"`
	Draft  *string `json:"draft,omitempty" maxLength:"4000"`
}

// ChatMark says how far somebody is in a chat.
type ChatMark struct {
	Chat      string `json:"chat" example:"u:V1StGXR8_Z5j"`
	User      string `json:"user" example:"V1StGXR8_Z5j"`
	Read      int64  `json:"read,omitempty"`
	Delivered int64  `json:"delivered,omitempty"`
}

// ChatStands says how far a chat has come.
type ChatStands struct {
	Chat string `json:"chat" example:"u:V1StGXR8_Z5j"`
	Seq  int64  `json:"seq" doc:"of the newest message"`
	Rev  int64  `json:"rev" doc:"the newest change"`
}

// Readers are who has read a message: GET /v1/chats/{chat}/messages/{seq}/readers.
type Readers struct {
	Users []string `json:"users" example:"V1StGXR8_Z5j" doc:"ids, without the caller's"`
}

// Pins are the pinned messages of a group: GET /v1/chats/{chat}/pins.
type Pins struct {
	Messages []Message `json:"messages" doc:"the last one that was pinned first"`
}

// MarkRequest moves the caller's marks in a chat forward; what is behind them changes
// nothing.
type MarkRequest struct {
	Read      int64 `json:"read,omitempty" minimum:"0"`
	Delivered int64 `json:"delivered,omitempty" minimum:"0"`
}

// Typing says that somebody is writing, or has stopped.
type Typing struct {
	Chat   string `json:"chat" example:"u:V1StGXR8_Z5j"`
	User   string `json:"user,omitempty" example:"V1StGXR8_Z5j"`
	Typing bool   `json:"typing"`
}

// ChatSettings is how a user wants to be reached.
type ChatSettings struct {
	MessagesFrom string `json:"messages_from" example:"friends" enum:"friends,everybody,nobody"`
	Receipts     bool   `json:"receipts" doc:"show others how far one has read, and see how far they have"`
	Version      int64  `json:"version,omitempty" doc:"it grows with each change; a client ignores settings of a lower one"`
}

// ChatSettingsUpdate changes what is present and leaves the rest: PUT /v1/chats/settings.
type ChatSettingsUpdate struct {
	MessagesFrom *string `json:"messages_from,omitempty" example:"friends" enum:"friends,everybody,nobody"`
	Receipts     *bool   `json:"receipts,omitempty"`
}

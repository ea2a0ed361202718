package api

import "encoding/json"

// Webhook is the body of a POST to the app's own backend, signed as
// https://www.standardwebhooks.com has it.
type Webhook struct {
	Type      string          `json:"type" doc:"one of Hook… and Before…"`
	Timestamp Time            `json:"timestamp" doc:"when it happened"`
	Data      json.RawMessage `json:"data" doc:"what HookData has for the type: of a webhook after the fact a list of such"`
}

// Types of webhooks after the fact.
const (
	HookMessageSent     = "message.sent"     // Message
	HookMessageEdited   = "message.edited"   // Message
	HookMessageRecalled = "message.recalled" // HookRecall
	HookUserRegistered  = "user.registered"  // HookUser
	HookFriendRequested = "friend.requested" // HookFriendRequest
	HookFriendAdded     = "friend.added"     // HookPair
	HookFriendRemoved   = "friend.removed"   // HookPair
	HookCheckinMarked   = "checkin.marked"   // HookCheckin
	HookGroupChanged    = "group.changed"    // HookGroup
	HookNotifyOffline   = "notify.offline"   // HookOffline
)

// Types of webhooks before the fact. Each is answered with a HookVerdict.
const (
	BeforeMessage       = "before.message"        // HookMessage
	BeforeMessageEdit   = "before.message_edit"   // HookEdit
	BeforeMessageRecall = "before.message_recall" // HookRecall
	BeforeRegistration  = "before.registration"   // HookUser
	BeforeFriendRequest = "before.friend_request" // HookFriendRequest
	BeforeCheckin       = "before.checkin"        // HookCheckin
)

// HookData has for each type of webhook a value of its data's type.
var HookData = map[string]any{
	HookMessageSent:     Message{},
	HookMessageEdited:   Message{},
	HookMessageRecalled: HookRecall{},
	HookUserRegistered:  HookUser{},
	HookFriendRequested: HookFriendRequest{},
	HookFriendAdded:     HookPair{},
	HookFriendRemoved:   HookPair{},
	HookCheckinMarked:   HookCheckin{},
	HookGroupChanged:    HookGroup{},
	HookNotifyOffline:   HookOffline{},
	BeforeMessage:       HookMessage{},
	BeforeMessageEdit:   HookEdit{},
	BeforeMessageRecall: HookRecall{},
	BeforeRegistration:  HookUser{},
	BeforeFriendRequest: HookFriendRequest{},
	BeforeCheckin:       HookCheckin{},
}

// HookMessage is a message that a user wants to send.
type HookMessage struct {
	From    string `json:"from" doc:"the sender's id"`
	Chat    string `json:"chat" example:"u:V1StGXR8_Z5j" doc:"as the sender calls it: u: and a user's id, or g: and a group's"`
	Content        // what it says
	ReplyTo int64  `json:"reply_to,omitempty"`
}

// HookEdit is a message to which its sender wants to give another text.
type HookEdit struct {
	From    string `json:"from" doc:"the sender's id"`
	Chat    string `json:"chat" example:"u:V1StGXR8_Z5j" doc:"as the sender calls it: u: and a user's id, or g: and a group's"`
	ID      string `json:"id" doc:"the message's id"`
	Seq     int64  `json:"seq" example:"7" doc:"the message's number in the chat"`
	Content        // what it would say
}

// HookRecall is a message that is taken back, or is to be.
type HookRecall struct {
	By   string `json:"by" doc:"the id of who takes it back: the sender, or an admin of the group"`
	From string `json:"from" doc:"the sender's id"`
	Chat string `json:"chat" example:"u:V1StGXR8_Z5j" doc:"as who takes it back calls it: u: and a user's id, or g: and a group's"`
	ID   string `json:"id" doc:"the message's id"`
	Seq  int64  `json:"seq" example:"7" doc:"the message's number in the chat"`
}

// HookUser is an account that was opened, or is to be: it has no id then.
type HookUser struct {
	ID         string `json:"id,omitempty"`
	ExternalID string `json:"external_id,omitempty" doc:"the app's own name for the user"`
	Name       string `json:"name"`
	Email      string `json:"email,omitempty"`
}

// HookFriendRequest is a request for friendship.
type HookFriendRequest struct {
	From    string `json:"from" doc:"the id of who asks"`
	To      string `json:"to" doc:"the id of who is asked"`
	Message string `json:"message,omitempty"`
}

// HookPair is two users.
type HookPair struct {
	User  string `json:"user"`
	Other string `json:"other"`
}

// HookCheckin is a day of a user.
type HookCheckin struct {
	User    string `json:"user"`
	Day     string `json:"day" example:"2026-03-01" doc:"in the user's own calendar"`
	Words   int    `json:"words,omitempty"`
	Minutes int    `json:"minutes,omitempty"`
	MadeUp  bool   `json:"made_up,omitempty" doc:"the day was missed and is made up for"`
}

// HookGroup is what happened to a group.
type HookGroup struct {
	Group   string   `json:"group" doc:"its id"`
	Name    string   `json:"name"`
	By      string   `json:"by,omitempty" doc:"the id of who did it; absent: the app's own backend"`
	New     bool     `json:"new,omitempty"`
	Gone    bool     `json:"gone,omitempty" doc:"the group was dissolved"`
	Joined  []string `json:"joined,omitempty" doc:"ids of users, at most a thousand of them"`
	Left    []string `json:"left,omitempty" doc:"ids of users, at most a thousand of them"`
	Members int      `json:"members"`
	Version int64    `json:"version" doc:"grows with each change: of two webhooks about a group the one with the larger came later"`
}

// HookVerdict answers a webhook before the fact. An empty body, or an empty object, lets it happen.
type HookVerdict struct {
	Refuse  *HookRefusal `json:"refuse,omitempty"`
	Content *Content     `json:"content,omitempty" doc:"of a message: what it says instead; of an edit its text alone counts"`
}

// HookRefusal is what the user is told.
type HookRefusal struct {
	Code string `json:"code,omitempty" example:"spam" doc:"for programs: it stands in the problem's errors beside the location \"hook\""`
	Text string `json:"text,omitempty" example:"Please do not advertise here." doc:"for people"`
}

// HookOffline is what a user should see while no device of theirs is on line, for an app that sends
// pushes of its own.
type HookOffline struct {
	User string `json:"user" example:"V1StGXR8_Z5j"`
	Push Push   `json:"push"`
}

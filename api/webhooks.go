package api

import "encoding/json"

// Webhook is the body of a POST to the app's own backend, signed as in https://www.standardwebhooks.com.
type Webhook struct {
	Type      string          `json:"type" doc:"one of Hook… and Before…"`
	Timestamp Time            `json:"timestamp" doc:"time of the event"`
	Data      json.RawMessage `json:"data" doc:"data of the type in HookData; for a webhook after the fact, a list of it"`
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

// Types of webhooks before the fact. The response to each is a HookVerdict.
const (
	BeforeMessage       = "before.message"        // HookMessage
	BeforeMessageEdit   = "before.message_edit"   // HookEdit
	BeforeMessageRecall = "before.message_recall" // HookRecall
	BeforeRegistration  = "before.registration"   // HookUser
	BeforeFriendRequest = "before.friend_request" // HookFriendRequest
	BeforeCheckin       = "before.checkin"        // HookCheckin
)

// HookData maps each type of webhook to a value of its data's type.
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
	Chat    string `json:"chat" example:"u:V1StGXR8_Z5j" doc:"the sender's name of the chat: u: and a user's id, or g: and a group's"`
	Content        // content of the message
	ReplyTo int64  `json:"reply_to,omitempty"`
}

// HookEdit is a message whose sender wants to change its text.
type HookEdit struct {
	From    string `json:"from" doc:"the sender's id"`
	Chat    string `json:"chat" example:"u:V1StGXR8_Z5j" doc:"the sender's name of the chat: u: and a user's id, or g: and a group's"`
	ID      string `json:"id" doc:"the message's id"`
	Seq     int64  `json:"seq" example:"7" doc:"the message's number in the chat"`
	Content        // content after the edit
}

// HookRecall is a message that was recalled, or is to be.
type HookRecall struct {
	By   string `json:"by" doc:"id of the user who recalls it: the sender, or an admin of the group"`
	From string `json:"from" doc:"the sender's id"`
	Chat string `json:"chat" example:"u:V1StGXR8_Z5j" doc:"that user's name of the chat: u: and a user's id, or g: and a group's"`
	ID   string `json:"id" doc:"the message's id"`
	Seq  int64  `json:"seq" example:"7" doc:"the message's number in the chat"`
}

// HookUser is an account that was opened, or is to be (then it has no id).
type HookUser struct {
	ID         string `json:"id,omitempty"`
	ExternalID string `json:"external_id,omitempty" doc:"the app's own name for the user"`
	Name       string `json:"name"`
	Email      string `json:"email,omitempty"`
}

// HookFriendRequest is a request for friendship.
type HookFriendRequest struct {
	From    string `json:"from" doc:"id of the sender"`
	To      string `json:"to" doc:"id of the recipient"`
	Message string `json:"message,omitempty"`
}

// HookPair is two users.
type HookPair struct {
	User  string `json:"user"`
	Other string `json:"other"`
}

// HookCheckin is a checked-in day of a user.
type HookCheckin struct {
	User    string `json:"user"`
	Day     string `json:"day" example:"2026-03-01" doc:"in the user's own calendar"`
	Words   int    `json:"words,omitempty"`
	Minutes int    `json:"minutes,omitempty"`
	MadeUp  bool   `json:"made_up,omitempty" doc:"the day was missed and then made up"`
}

// HookGroup is a change of a group.
type HookGroup struct {
	Group   string   `json:"group" doc:"its id"`
	Name    string   `json:"name"`
	By      string   `json:"by,omitempty" doc:"id of the user who made the change; absent for the app's own backend"`
	New     bool     `json:"new,omitempty"`
	Gone    bool     `json:"gone,omitempty" doc:"the group was dissolved"`
	Joined  []string `json:"joined,omitempty" doc:"ids of users, at most a thousand of them"`
	Left    []string `json:"left,omitempty" doc:"ids of users, at most a thousand of them"`
	Members int      `json:"members"`
	Version int64    `json:"version" doc:"grows with each change: of two webhooks of a group, the one with the larger version is newer"`
}

// HookVerdict is the response to a webhook before the fact. An empty body, or an empty object, allows the act.
type HookVerdict struct {
	Refuse  *HookRefusal `json:"refuse,omitempty"`
	Content *Content     `json:"content,omitempty" doc:"content that replaces that of a message; for an edit only its text"`
}

// HookRefusal is the reason of a refusal, for the user.
type HookRefusal struct {
	Code string `json:"code,omitempty" example:"spam" doc:"for programs: the message of the location \"hook\" in the problem's errors"`
	Text string `json:"text,omitempty" example:"Please do not advertise here." doc:"for people"`
}

// HookOffline is a push for a user without an online device, for an app that sends its own pushes.
type HookOffline struct {
	User string `json:"user" example:"V1StGXR8_Z5j"`
	Push Push   `json:"push"`
}

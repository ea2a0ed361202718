package api

import "encoding/json"

// Kinds of notices, with the types of their data. The part before the dot is the category; unread notices are counted
// by category.
const (
	NoticeFriendRequested = "friend.requested" // NoticeOfRequest: a user sent a friend request
	NoticeFriendAccepted  = "friend.accepted"  // NoticeOfRequest: the user's request was accepted
	NoticeFriendRefused   = "friend.refused"   // NoticeOfRequest: the user's request was refused

	NoticeGroupAdded     = "group.added"     // NoticeOfGroup: a member added the user
	NoticeGroupRemoved   = "group.removed"   // NoticeOfGroup: the user was removed, perhaps banned
	NoticeGroupDissolved = "group.dissolved" // NoticeOfGroup
	NoticeGroupRequested = "group.requested" // NoticeOfGroup, to admins: a user requests to join
	NoticeGroupAccepted  = "group.accepted"  // NoticeOfGroup: the user's request to join was accepted
	NoticeGroupRefused   = "group.refused"   // NoticeOfGroup: the user's request to join was refused

	NoticeAccountLogin    = "account.login"    // NoticeOfAccount: a device has logged in
	NoticeAccountPassword = "account.password" // NoticeOfAccount: the password was changed
	NoticeAccountEmail    = "account.email"    // NoticeOfAccount: the address was changed, or changed back
	NoticeAccountRestored = "account.restored" // NoticeOfAccount: a log-in cancelled the deletion
	NoticeAccountReused   = "account.reused"   // NoticeOfAccount: a device was logged out, because one of its tokens was used twice

	NoticeAnnouncement = "announcement" // Announcement
)

// NoticeData maps each kind of notice to a value of its data's type.
var NoticeData = map[string]any{
	NoticeFriendRequested: NoticeOfRequest{},
	NoticeFriendAccepted:  NoticeOfRequest{},
	NoticeFriendRefused:   NoticeOfRequest{},
	NoticeGroupAdded:      NoticeOfGroup{},
	NoticeGroupRemoved:    NoticeOfGroup{},
	NoticeGroupDissolved:  NoticeOfGroup{},
	NoticeGroupRequested:  NoticeOfGroup{},
	NoticeGroupAccepted:   NoticeOfGroup{},
	NoticeGroupRefused:    NoticeOfGroup{},
	NoticeAccountLogin:    NoticeOfAccount{},
	NoticeAccountPassword: NoticeOfAccount{},
	NoticeAccountEmail:    NoticeOfAccount{},
	NoticeAccountRestored: NoticeOfAccount{},
	NoticeAccountReused:   NoticeOfAccount{},
	NoticeAnnouncement:    Announcement{},
}

// Notice is a notice of a user: GET /v1/notices. Its number in the user's list identifies it.
type Notice struct {
	Seq     int64           `json:"seq" example:"17" doc:"the notice's number in the caller's list; a newer one has a higher one"`
	Kind    string          `json:"kind" example:"friend.requested"`
	At      Time            `json:"at"`
	Expires *Time           `json:"expires,omitempty" doc:"time of its removal from the list; absent: after some months"`
	Read    bool            `json:"read"`
	User    *Profile        `json:"user,omitempty" doc:"the user concerned, with the current profile"`
	Data    json.RawMessage `json:"data" example:"{\"v\":1,\"request\":\"Qm3x_8TzP-1k\",\"user\":\"V1StGXR8_Z5j\"}" doc:"data of the kind; v is its version"`
}

// Notices is a page of a user's list, newest first: GET /v1/notices.
type Notices struct {
	Notices []Notice     `json:"notices"`
	Next    string       `json:"next,omitempty" doc:"cursor of the next page; absent at the end"`
	Counts  NoticeCounts `json:"counts"`
}

// NoticeCounts are the numbers of unread notices: GET /v1/notices/counts, and the data of notice.read.
type NoticeCounts struct {
	Unread     int            `json:"unread"`
	Categories map[string]int `json:"categories" doc:"by what stands before the dot of a kind: friend, group, account, announcement; those with none are left out"`
	Last       int64          `json:"last" doc:"the highest number so far"`
	Read       int64          `json:"read" doc:"all up to this number are read"`
	Version    int64          `json:"version" doc:"increases with each change: ignore counts with a lower version"`
}

// NoticeNew is the data of notice.new.
type NoticeNew struct {
	Notice Notice `json:"notice"`
}

// NoticeMark says up to where the caller has read: PUT /v1/notices/mark. It goes forward only.
type NoticeMark struct {
	Read int64 `json:"read" minimum:"0" doc:"the number of the newest notice that the caller has seen"`
}

// NoticeOfRequest is the data of notices about a friend request.
type NoticeOfRequest struct {
	V       int    `json:"v" doc:"1"`
	Request string `json:"request"`
	User    string `json:"user" doc:"the other one"`
	Message string `json:"message,omitempty"`
}

// NoticeOfGroup is the data of notices about a group.
type NoticeOfGroup struct {
	V       int    `json:"v" doc:"1"`
	Group   string `json:"group"`
	Name    string `json:"name" doc:"name of the group at that time"`
	User    string `json:"user,omitempty" doc:"the acting or requesting user"`
	Request string `json:"request,omitempty"`
	Banned  bool   `json:"banned,omitempty"`
}

// NoticeOfAccount is the data of notices about the security of the account.
type NoticeOfAccount struct {
	V       int    `json:"v" doc:"1"`
	Device  string `json:"device,omitempty" doc:"the acting device, if any"`
	Network string `json:"household,omitempty" doc:"client network of the request: an IPv4 address or an IPv6 /64"`
}

// Announcement is an operator's announcement, in the user's language if it has that.
type Announcement struct {
	V     int    `json:"v" doc:"1"`
	ID    string `json:"id"`
	Title string `json:"title"`
	Text  string `json:"text,omitempty"`
	Link  string `json:"link,omitempty"`
}

// PushKey is the server's key for subscriptions of browsers: GET /v1/push/key.
type PushKey struct {
	Key string `json:"key" example:"BNcRdreALRFXTkOOUHK1EtK2wtaz5Ry4YfYCA_0QTpQtUbVlUls0VJXg7A8u-Ts1XbjhazAkj7I99e8QcYP7DkM" doc:"the server's VAPID key for applicationServerKey: a P-256 point, uncompressed, in base64url"`
}

// PushSubscription is a browser's subscription, as its toJSON returns it: PUT /v1/push/subscription.
type PushSubscription struct {
	Endpoint   string               `json:"endpoint" example:"https://push.example/send/Qm3x_8TzP-1k" maxLength:"1000"`
	Expiration *int64               `json:"expirationTime,omitempty" doc:"ignored, because an expired endpoint reports it"`
	Keys       PushSubscriptionKeys `json:"keys"`
}

// PushSubscriptionKeys are the keys that encrypt payloads, in base64url.
type PushSubscriptionKeys struct {
	P256DH string `json:"p256dh" example:"BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4" maxLength:"100" doc:"the browser's P-256 point, uncompressed"`
	Auth   string `json:"auth" example:"BTBZMqHH6r4Tts7J_aSIgg" maxLength:"40" doc:"16 bytes"`
}

// PushStatus is the caller's push settings: GET and PATCH /v1/push.
type PushStatus struct {
	Subscribed bool `json:"subscribed" doc:"the calling device has a subscription"`
	Devices    int  `json:"devices" doc:"number of the caller's devices with a subscription"`
	Messages   bool `json:"messages"`
	Requests   bool `json:"requests" doc:"friend requests, and requests to join groups of which the caller is an admin"`
	Notices    bool `json:"notices"`
	Previews   bool `json:"previews" doc:"pushes contain the text of messages"`
}

// PushUpdate changes the fields that are present: PATCH /v1/push.
type PushUpdate struct {
	Messages *bool `json:"messages,omitempty"`
	Requests *bool `json:"requests,omitempty"`
	Notices  *bool `json:"notices,omitempty"`
	Previews *bool `json:"previews,omitempty"`
}

// Subjects of a push: Push.What.
const (
	PushMessages = "messages" // unread messages in a chat
	PushNotice   = "notice"
)

// Push is the payload for a browser's service worker, and for apps that send their own pushes. A push replaces an
// earlier one with the same tag.
type Push struct {
	V     int    `json:"v" doc:"1"`
	What  string `json:"what" enum:"messages,notice"`
	Tag   string `json:"tag"`
	Title string `json:"title" doc:"in the user's language"`
	Body  string `json:"body,omitempty"`
	Lang  string `json:"lang"`
	At    int64  `json:"at" doc:"Unix milliseconds"`

	Chat   string `json:"chat,omitempty" doc:"of messages"`
	Unread int    `json:"unread,omitempty" doc:"number of unread messages in the chat"`
	Seq    int64  `json:"seq,omitempty" doc:"number of the notice, or of the newest message"`
	Kind   string `json:"kind,omitempty" doc:"of a notice"`
}

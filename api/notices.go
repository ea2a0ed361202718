package api

import "encoding/json"

// Kinds of notices, with what their data is. What stands before the dot is the category, by which
// they are counted.
const (
	NoticeFriendRequested = "friend.requested" // NoticeOfRequest: somebody wants to be the user's friend
	NoticeFriendAccepted  = "friend.accepted"  // NoticeOfRequest: the user's request was accepted
	NoticeFriendRefused   = "friend.refused"   // NoticeOfRequest: the user's request was refused

	NoticeGroupAdded     = "group.added"     // NoticeOfGroup: a member has made the user one
	NoticeGroupRemoved   = "group.removed"   // NoticeOfGroup: the user was taken out, perhaps banned
	NoticeGroupDissolved = "group.dissolved" // NoticeOfGroup
	NoticeGroupRequested = "group.requested" // NoticeOfGroup, to admins: a user asks to join
	NoticeGroupAccepted  = "group.accepted"  // NoticeOfGroup: the user's request to join was accepted
	NoticeGroupRefused   = "group.refused"   // NoticeOfGroup: the user's request to join was refused

	NoticeAccountLogin    = "account.login"    // NoticeOfAccount: a device has logged in
	NoticeAccountPassword = "account.password" // NoticeOfAccount: the password was changed
	NoticeAccountEmail    = "account.email"    // NoticeOfAccount: the address was changed, or changed back
	NoticeAccountRestored = "account.restored" // NoticeOfAccount: the deletion was taken back by a log-in
	NoticeAccountReused   = "account.reused"   // NoticeOfAccount: a device was logged out, because a token of it was used twice

	NoticeAnnouncement = "announcement" // Announcement
)

// NoticeData has for each kind of notice a value of its data's type.
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

// Notice is something that a user is told: GET /v1/notices. It is named by its number in the
// user's list.
type Notice struct {
	Seq     int64           `json:"seq" example:"17" doc:"the notice's number in the caller's list; a newer one has a higher one"`
	Kind    string          `json:"kind" example:"friend.requested"`
	At      Time            `json:"at"`
	Expires *Time           `json:"expires,omitempty" doc:"when it leaves the list; none: after some months"`
	Read    bool            `json:"read"`
	User    *Profile        `json:"user,omitempty" doc:"of whom it tells, as they look now"`
	Data    json.RawMessage `json:"data" example:"{\"v\":1,\"request\":\"Qm3x_8TzP-1k\",\"user\":\"V1StGXR8_Z5j\"}" doc:"the document of the kind; v is its version"`
}

// Notices is a page of a user's list, newest first: GET /v1/notices.
type Notices struct {
	Notices []Notice     `json:"notices"`
	Next    string       `json:"next,omitempty" doc:"the cursor of the next page; none: this is the last"`
	Counts  NoticeCounts `json:"counts"`
}

// NoticeCounts are how many notices a user has not read: GET /v1/notices/counts, and the data of notice.read.
type NoticeCounts struct {
	Unread     int            `json:"unread"`
	Categories map[string]int `json:"categories" doc:"by what stands before the dot of a kind: friend, group, account, announcement; those with none are left out"`
	Last       int64          `json:"last" doc:"the highest number so far"`
	Read       int64          `json:"read" doc:"all up to this number are read"`
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
	Name    string `json:"name" doc:"of the group, then"`
	User    string `json:"user,omitempty" doc:"who did it, or who asks"`
	Request string `json:"request,omitempty"`
	Banned  bool   `json:"banned,omitempty"`
}

// NoticeOfAccount is the data of notices about the security of the account.
type NoticeOfAccount struct {
	V         int    `json:"v" doc:"1"`
	Device    string `json:"device,omitempty" doc:"the device that did it, where there was one"`
	Household string `json:"household,omitempty" doc:"from where: an IPv4 address or an IPv6 /64"`
}

// Announcement is the data of what operators tell users, in the user's language where it has that.
type Announcement struct {
	V     int    `json:"v" doc:"1"`
	ID    string `json:"id"`
	Title string `json:"title"`
	Text  string `json:"text,omitempty"`
	Link  string `json:"link,omitempty"`
}

// PushKey is with what browsers subscribe: GET /v1/push/key.
type PushKey struct {
	Key string `json:"key" example:"BNcRdreALRFXTkOOUHK1EtK2wtaz5Ry4YfYCA_0QTpQtUbVlUls0VJXg7A8u-Ts1XbjhazAkj7I99e8QcYP7DkM" doc:"the server's VAPID key as applicationServerKey takes it: a P-256 point, uncompressed, in base64url"`
}

// PushSubscription is a browser's, as its toJSON returns it: PUT /v1/push/subscription.
type PushSubscription struct {
	Endpoint   string               `json:"endpoint" example:"https://push.example/send/Qm3x_8TzP-1k" maxLength:"1000"`
	Expiration *int64               `json:"expirationTime,omitempty" doc:"is not looked at: an endpoint that has ended says so"`
	Keys       PushSubscriptionKeys `json:"keys"`
}

// PushSubscriptionKeys are for whom payloads are encrypted, in base64url.
type PushSubscriptionKeys struct {
	P256DH string `json:"p256dh" example:"BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4" maxLength:"100" doc:"the browser's P-256 point, uncompressed"`
	Auth   string `json:"auth" example:"BTBZMqHH6r4Tts7J_aSIgg" maxLength:"40" doc:"16 bytes"`
}

// PushStatus is what is pushed to the caller: GET and PATCH /v1/push.
type PushStatus struct {
	Subscribed bool `json:"subscribed" doc:"the calling device has a subscription"`
	Devices    int  `json:"devices" doc:"of the caller with a subscription"`
	Messages   bool `json:"messages"`
	Requests   bool `json:"requests" doc:"to be friends, and to join groups of which the caller is an admin"`
	Notices    bool `json:"notices"`
	Previews   bool `json:"previews" doc:"pushes have the text of messages"`
}

// PushUpdate is what changes of it: PATCH /v1/push.
type PushUpdate struct {
	Messages *bool `json:"messages,omitempty"`
	Requests *bool `json:"requests,omitempty"`
	Notices  *bool `json:"notices,omitempty"`
	Previews *bool `json:"previews,omitempty"`
}

// What a push is about: Push.What.
const (
	PushMessages = "messages" // that wait in a chat
	PushNotice   = "notice"
)

// Push is what a browser's service worker gets, and whoever sends pushes of their own. A push of the same
// tag takes the place of an earlier one.
type Push struct {
	V     int    `json:"v" doc:"1"`
	What  string `json:"what" enum:"messages,notice"`
	Tag   string `json:"tag"`
	Title string `json:"title" doc:"in the user's language"`
	Body  string `json:"body,omitempty"`
	Lang  string `json:"lang"`
	At    int64  `json:"at" doc:"Unix milliseconds"`

	Chat   string `json:"chat,omitempty" doc:"of messages"`
	Unread int    `json:"unread,omitempty" doc:"how many messages wait in the chat"`
	Seq    int64  `json:"seq,omitempty" doc:"of a notice, its number; of messages, that of the newest"`
	Kind   string `json:"kind,omitempty" doc:"of a notice"`
}

package api

// States of a friend request.
const (
	RequestPending   = "pending"
	RequestAccepted  = "accepted"
	RequestRefused   = "refused"   // by the user who was asked, or because they blocked the one who asked
	RequestWithdrawn = "withdrawn" // by the user who asked, or because they blocked the one who was asked
	RequestExpired   = "expired"
)

// FriendRequestNew asks somebody for friendship: POST /v1/friends/requests.
type FriendRequestNew struct {
	User    string `json:"user,omitempty" example:"V1StGXR8_Z5j" doc:"the id of who is asked; either this"`
	Card    string `json:"card,omitempty" doc:"or the token of their card"`
	Message string `json:"message,omitempty" maxLength:"200" doc:"shown to who is asked"`
	Source  string `json:"source,omitempty" maxLength:"20" pattern:"^[a-z0-9_]*$" doc:"where the two met, such as search, room or group; card when a card was scanned"`
	Remark  string `json:"remark,omitempty" maxLength:"40" doc:"what the caller will call the friend"`
	Tag     string `json:"tag,omitempty" maxLength:"20" doc:"the caller's group for the friend"`
}

// FriendRequest is one request, as either side sees it.
type FriendRequest struct {
	ID      string  `json:"id" example:"V1StGXR8_Z5j"`
	From    Profile `json:"from"`
	To      Profile `json:"to"`
	Message string  `json:"message,omitempty"`
	Source  string  `json:"source,omitempty"`
	State   string  `json:"state" enum:"pending,accepted,refused,withdrawn,expired"`
	Created Time    `json:"created"`
	Expires Time    `json:"expires" doc:"a pending request is worthless from then on"`
}

// FriendRequestReply says what asking came to. When the other had asked already,
// the two are friends at once.
type FriendRequestReply struct {
	Request FriendRequest `json:"request"`
	New     bool          `json:"new" doc:"false when the same request was pending already"`
}

// FriendRequests is a page of requests, the newest first: GET /v1/friends/requests.
type FriendRequests struct {
	Requests []FriendRequest `json:"requests"`
	Next     string          `json:"next,omitempty" doc:"cursor of the page after; none at the end"`
}

// FriendRequestAccept accepts a request: POST /v1/friends/requests/{request}/accept.
type FriendRequestAccept struct {
	Remark string `json:"remark,omitempty" maxLength:"40" doc:"what the caller will call the friend"`
	Tag    string `json:"tag,omitempty" maxLength:"20" doc:"the caller's group for the friend"`
}

// Unread is the red dot: GET /v1/friends/requests/unread. DELETE clears it.
type Unread struct {
	Unread  int   `json:"unread" doc:"pending requests to the caller that came since they last looked"`
	Version int64 `json:"version,omitempty" doc:"in events: grows with each change; ignore an event with a lower version than the last one"`
}

// Friend is somebody in the caller's list: GET /v1/friends/{user}. DELETE ends
// the friendship.
type Friend struct {
	User    Profile `json:"user"`
	Remark  string  `json:"remark,omitempty" doc:"what the caller calls them"`
	Tag     string  `json:"tag,omitempty" doc:"the caller's group for them"`
	Source  string  `json:"source,omitempty" doc:"where the two met"`
	Streak  *int    `json:"streak,omitempty" doc:"the friend's current streak; absent in events and where the server cannot tell just now"`
	Order   int     `json:"order" doc:"lists have lower ones first; equal ones, the newest friend first"`
	Since   Time    `json:"since"`
	Updated Time    `json:"updated" doc:"last change of remark, tag or order"`
	Version int64   `json:"version,omitempty" doc:"in events: of the list, as in Friends; ignore an event of this friend with a lower version than the last one"`
}

// Relative names a user who is no longer a friend, or whom the caller blocks or no longer blocks.
type Relative struct {
	User    string `json:"user" example:"V1StGXR8_Z5j"`
	Version int64  `json:"version" doc:"friend.removed: of the list, as in Friends; block.added and block.removed: grows with each of them. Ignore an event with a lower version than the last one of the user"`
}

// Friends is a page of the caller's friends: GET /v1/friends.
type Friends struct {
	Friends []Friend `json:"friends"`
	Next    string   `json:"next,omitempty" doc:"cursor of the page after; none at the end"`
	Version int64    `json:"version" doc:"of the list when the page was read; see /v1/friends/changes"`
}

// FriendChanges is what changed in the caller's list since a version:
// GET /v1/friends/changes. Apply pages until more is false, then keep version.
type FriendChanges struct {
	Changed []Friend `json:"changed"`
	Removed []string `json:"removed" example:"V1StGXR8_Z5j" doc:"ids of users"`
	Version int64    `json:"version" doc:"up to where this page goes"`
	More    bool     `json:"more"`
	Reset   bool     `json:"reset" doc:"the version is too old: forget the list and read it whole"`
}

// FriendUpdate changes what is present and leaves the rest:
// PATCH /v1/friends/{user}.
type FriendUpdate struct {
	Remark *string `json:"remark,omitempty" maxLength:"40"`
	Tag    *string `json:"tag,omitempty" maxLength:"20"`
	Order  *int    `json:"order,omitempty" minimum:"-1000000" maximum:"1000000"`
}

// Relation is how the caller stands to a user.
type Relation struct {
	User    string           `json:"user" example:"V1StGXR8_Z5j"`
	Friend  bool             `json:"friend"`
	Blocked bool             `json:"blocked" doc:"by the caller"`
	Asks    *RelationRequest `json:"asks,omitempty" doc:"the user's request that waits for the caller's answer"`
	Asked   *RelationRequest `json:"asked,omitempty" doc:"the caller's request that waits for the user's answer"`
}

// RelationRequest is the friend request that waits between the caller and a user.
type RelationRequest struct {
	ID      string `json:"id" example:"V1StGXR8_Z5j"`
	Message string `json:"message,omitempty"`
}

// Relations answers for up to 100 users at once, in the order asked for:
// GET /v1/relations?ids=….
type Relations struct {
	Relations []Relation `json:"relations"`
}

// Block is a user whom the caller has blocked: PUT and DELETE /v1/blocks/{user}.
type Block struct {
	User  Profile `json:"user"`
	Since Time    `json:"since"`
}

// Blocks is a page of whom the caller has blocked, the newest first:
// GET /v1/blocks.
type Blocks struct {
	Blocks []Block `json:"blocks"`
	Next   string  `json:"next,omitempty" doc:"cursor of the page after; none at the end"`
}

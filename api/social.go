package api

// States of a friend request.
const (
	RequestPending   = "pending"
	RequestAccepted  = "accepted"
	RequestRefused   = "refused"   // by the receiver, or because the receiver blocked the sender
	RequestWithdrawn = "withdrawn" // by the sender, or because the sender blocked the receiver
	RequestExpired   = "expired"
)

// FriendRequestNew sends a friend request: POST /v1/friends/requests.
type FriendRequestNew struct {
	User    string `json:"user,omitempty" example:"V1StGXR8_Z5j" doc:"id of the receiver, or send card instead"`
	Card    string `json:"card,omitempty" doc:"token of the receiver's card, instead of user"`
	Message string `json:"message,omitempty" maxLength:"200" doc:"shown to the receiver"`
	Source  string `json:"source,omitempty" maxLength:"20" pattern:"^[a-z0-9_]*$" doc:"where the users met, such as search, room or group; card for a scanned card"`
	Remark  string `json:"remark,omitempty" maxLength:"40" doc:"the caller's name for the friend"`
	Tag     string `json:"tag,omitempty" maxLength:"20" doc:"the caller's tag for the friend"`
}

// FriendRequest is a friend request, as both users see it.
type FriendRequest struct {
	ID      string  `json:"id" example:"V1StGXR8_Z5j"`
	From    Profile `json:"from"`
	To      Profile `json:"to"`
	Message string  `json:"message,omitempty"`
	Source  string  `json:"source,omitempty"`
	State   string  `json:"state" enum:"pending,accepted,refused,withdrawn,expired"`
	Created Time    `json:"created"`
	Expires Time    `json:"expires" doc:"expiry of a pending request"`
}

// FriendRequestReply is the result of sending a friend request. If the other user had already sent one, the two
// become friends immediately.
type FriendRequestReply struct {
	Request FriendRequest `json:"request"`
	New     bool          `json:"new" doc:"false if the same request was already pending"`
}

// FriendRequests is a page of requests, newest first: GET /v1/friends/requests.
type FriendRequests struct {
	Requests []FriendRequest `json:"requests"`
	Next     string          `json:"next,omitempty" doc:"cursor of the next page; absent at the end"`
}

// FriendRequestAccept accepts a request: POST /v1/friends/requests/{request}/accept.
type FriendRequestAccept struct {
	Remark string `json:"remark,omitempty" maxLength:"40" doc:"the caller's name for the friend"`
	Tag    string `json:"tag,omitempty" maxLength:"20" doc:"the caller's tag for the friend"`
}

// Unread is the number for the red dot: GET /v1/friends/requests/unread. DELETE resets it.
type Unread struct {
	Unread  int   `json:"unread" doc:"pending requests to the caller since the last reset"`
	Version int64 `json:"version,omitempty" doc:"in events: grows with each change; ignore an event with a lower version than the last one"`
}

// Friend is a friend in the caller's list: GET /v1/friends/{user}. DELETE ends the friendship.
type Friend struct {
	User    Profile `json:"user"`
	Remark  string  `json:"remark,omitempty" doc:"the caller's name for them"`
	Tag     string  `json:"tag,omitempty" doc:"the caller's tag for them"`
	Source  string  `json:"source,omitempty" doc:"where the users met"`
	Streak  *int    `json:"streak,omitempty" doc:"the friend's current streak; absent in events, and if it is currently unavailable"`
	Order   int     `json:"order" doc:"lists are sorted by it in ascending order; equal ones, newest friend first"`
	Since   Time    `json:"since"`
	Updated Time    `json:"updated" doc:"last change of remark, tag or order"`
	Version int64   `json:"version,omitempty" doc:"in events: version of the list, as in Friends; ignore an event of this friend with a lower version than the last one"`
}

// Relative identifies a user who is no longer a friend, or whom the caller blocked or unblocked.
type Relative struct {
	User    string `json:"user" example:"V1StGXR8_Z5j"`
	Version int64  `json:"version" doc:"friend.removed: version of the list, as in Friends; block.added and block.removed: grows with each of them. Ignore an event with a lower version than the last one of the user"`
}

// Friends is a page of the caller's friends: GET /v1/friends.
type Friends struct {
	Friends []Friend `json:"friends"`
	Next    string   `json:"next,omitempty" doc:"cursor of the next page; absent at the end"`
	Version int64    `json:"version" doc:"version of the list at the time of the page; see /v1/friends/changes"`
}

// FriendChanges are the changes of the caller's list since a version: GET /v1/friends/changes. Apply pages until more
// is false, then store version.
type FriendChanges struct {
	Changed []Friend `json:"changed"`
	Removed []string `json:"removed" example:"V1StGXR8_Z5j" doc:"ids of users"`
	Version int64    `json:"version" doc:"version after this page"`
	More    bool     `json:"more"`
	Reset   bool     `json:"reset" doc:"the version is too old: discard the list and load it again"`
}

// FriendUpdate changes the fields that are present: PATCH /v1/friends/{user}.
type FriendUpdate struct {
	Remark *string `json:"remark,omitempty" maxLength:"40"`
	Tag    *string `json:"tag,omitempty" maxLength:"20"`
	Order  *int    `json:"order,omitempty" minimum:"-1000000" maximum:"1000000"`
}

// Relation is the relation of the caller to a user.
type Relation struct {
	User    string           `json:"user" example:"V1StGXR8_Z5j"`
	Friend  bool             `json:"friend"`
	Blocked bool             `json:"blocked" doc:"by the caller"`
	Asks    *RelationRequest `json:"asks,omitempty" doc:"the user's pending request to the caller"`
	Asked   *RelationRequest `json:"asked,omitempty" doc:"the caller's pending request to the user"`
}

// RelationRequest is the pending friend request between the caller and a user.
type RelationRequest struct {
	ID      string `json:"id" example:"V1StGXR8_Z5j"`
	Message string `json:"message,omitempty"`
}

// Relations are the relations to up to 100 users, in the requested order: GET /v1/relations?ids=….
type Relations struct {
	Relations []Relation `json:"relations"`
}

// Block is a user whom the caller has blocked: PUT and DELETE /v1/blocks/{user}.
type Block struct {
	User  Profile `json:"user"`
	Since Time    `json:"since"`
}

// Blocks is a page of the users whom the caller has blocked, newest first: GET /v1/blocks.
type Blocks struct {
	Blocks []Block `json:"blocks"`
	Next   string  `json:"next,omitempty" doc:"cursor of the next page; absent at the end"`
}

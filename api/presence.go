package api

// What a user is to others: Presence.Status.
const (
	StatusOffline = "offline"
	StatusOnline  = "online"
	StatusAway    = "away"
	StatusBusy    = "busy"
)

// Presence is whether a user is on line: GET /v1/presence, and the data of
// presence.changed. A user whom the caller may not see looks off line.
type Presence struct {
	User     string `json:"user" example:"V1StGXR8_Z5j"`
	Status   string `json:"status" enum:"offline,online,away,busy"`
	LastSeen *Time  `json:"last_seen,omitempty" doc:"when a user who is off line was last on line, as far as it is known"`
	Version  int64  `json:"version,omitempty" doc:"grows with each change that friends see: ignore an event or an answer with a lower version than the last one of the user; absent if it is not known, or if the caller may not see the user"`
}

// Presences are those of several users: GET /v1/presence, in the order asked for, and
// GET /v1/friends/presence, which leaves out those who are off line.
type Presences struct {
	Users   []Presence `json:"users"`
	Partial bool       `json:"partial,omitempty" doc:"not all connections are known: users who look off line may be on line; presence.complete follows"`
}

// MyPresence is the caller's own, whoever may see it: GET and PUT /v1/me/presence.
type MyPresence struct {
	Status  string `json:"status" enum:"offline,online,away,busy" doc:"what the wish comes to now: offline without a connection"`
	Wish    string `json:"wish" enum:"online,away,busy" doc:"what the caller is while connected"`
	Partial bool   `json:"partial,omitempty" doc:"not all connections are known; presence.complete follows"`
}

// PresenceUpdate sets what the caller is while connected: PUT /v1/me/presence.
type PresenceUpdate struct {
	Status string `json:"status" enum:"online,away,busy"`
}

// Kinds of connections.
const (
	ConnectionSocket = "socket" // GET /v1/socket, or one of its fall-backs
	ConnectionEvents = "events" // GET /v1/events
)

// Connection is one of a device to a node.
type Connection struct {
	Device string `json:"device" example:"m4Xw1pTq_0Zs"`
	Kind   string `json:"kind" enum:"socket,events"`
	Node   string `json:"node" example:"MNWZz-mnEwtd"`
	Since  Time   `json:"since"`
}

// Connections are the caller's, the oldest first: GET /v1/me/connections.
type Connections struct {
	Connections []Connection `json:"connections"`
	Partial     bool         `json:"partial,omitempty" doc:"not all connections are known; presence.complete follows"`
}

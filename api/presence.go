package api

// Values of Presence.Status.
const (
	StatusOffline = "offline"
	StatusOnline  = "online"
	StatusAway    = "away"
	StatusBusy    = "busy"
)

// Presence is the presence of a user: GET /v1/presence, and the data of presence.changed. A user whom the caller may
// not see appears offline.
type Presence struct {
	User     string `json:"user" example:"V1StGXR8_Z5j"`
	Status   string `json:"status" enum:"offline,online,away,busy"`
	LastSeen *Time  `json:"last_seen,omitempty" doc:"last time an offline user was online, if known"`
	Version  int64  `json:"version,omitempty" doc:"grows with each change that friends see: ignore an event or a response with a lower version than the last one of the user; absent if it is unknown, or if the caller may not see the user"`
}

// Presences are the presences of several users: GET /v1/presence, in the requested order, and GET
// /v1/friends/presence, which omits offline users.
type Presences struct {
	Users   []Presence `json:"users"`
	Partial bool       `json:"partial,omitempty" doc:"not all connections are known: users who appear offline may be online; presence.complete follows"`
}

// MyPresence is the caller's own presence, whatever others may see: GET and PUT /v1/me/presence.
type MyPresence struct {
	Status  string `json:"status" enum:"offline,online,away,busy" doc:"current status: offline without a connection"`
	Wish    string `json:"wish" enum:"online,away,busy" doc:"status while connected"`
	Partial bool   `json:"partial,omitempty" doc:"not all connections are known; presence.complete follows"`
}

// PresenceUpdate sets the caller's status while connected: PUT /v1/me/presence.
type PresenceUpdate struct {
	Status string `json:"status" enum:"online,away,busy"`
}

// Kinds of connections.
const (
	ConnectionSocket = "socket" // GET /v1/socket, or one of its fall-backs
	ConnectionEvents = "events" // GET /v1/events
)

// Connection is a connection of a device to a node.
type Connection struct {
	Device string `json:"device" example:"m4Xw1pTq_0Zs"`
	Kind   string `json:"kind" enum:"socket,events"`
	Node   string `json:"node" example:"MNWZz-mnEwtd"`
	Since  Time   `json:"since"`
}

// Connections are the caller's connections, oldest first: GET /v1/me/connections.
type Connections struct {
	Connections []Connection `json:"connections"`
	Partial     bool         `json:"partial,omitempty" doc:"not all connections are known; presence.complete follows"`
}

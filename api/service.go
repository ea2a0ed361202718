package api

// ServiceUser is a user as the app's own backend sees them.
type ServiceUser struct {
	ID          string `json:"id" example:"V1StGXR8_Z5j"`
	ExternalID  string `json:"external_id,omitempty" example:"customer-4711" doc:"the app's own name for the user; absent: the user has registered here"`
	Name        string `json:"name" example:"Ada"`
	Bio         string `json:"bio,omitempty"`
	Avatar      string `json:"avatar,omitempty" doc:"the picture's id"`
	Email       string `json:"email,omitempty" format:"email" doc:"absent: the app's own backend has opened the account"`
	Zone        string `json:"zone" example:"Europe/Athens"`
	Created     Time   `json:"created"`
	New         bool   `json:"new,omitempty" doc:"the account was opened just now"`
	BannedUntil *Time  `json:"banned_until,omitempty" doc:"in 9999: for ever"`
	Erased      *Time  `json:"erased,omitempty" doc:"when a deleted account is or was erased"`
}

// ExternalUser is a user whom the app knows by itself.
type ExternalUser struct {
	ExternalID string `json:"external_id" example:"customer-4711" minLength:"1" maxLength:"128" doc:"the app's own name for the user, without spaces; it never changes"`
	Name       string `json:"name" example:"Ada" minLength:"1" maxLength:"40"`
	Bio        string `json:"bio,omitempty" maxLength:"200"`
	Zone       string `json:"zone,omitempty" example:"Europe/Athens" maxLength:"64" doc:"UTC when left out"`
}

// ExternalUsers opens accounts: POST /v1/service/users.
type ExternalUsers struct {
	Users []ExternalUser `json:"users" minItems:"1" maxItems:"500"`
}

// ServiceUsers are users in the order in which they were asked for.
type ServiceUsers struct {
	Users []ServiceUser `json:"users"`
}

// ServiceUserUpdate changes a user: PATCH /v1/service/users/{user}. What is left out stays.
type ServiceUserUpdate struct {
	Name *string `json:"name,omitempty" minLength:"1" maxLength:"40"`
	Bio  *string `json:"bio,omitempty" maxLength:"200"`
	Zone *string `json:"zone,omitempty" maxLength:"64"`
}

// ServiceBan bans a user: PUT /v1/service/users/{user}/ban.
type ServiceBan struct {
	Until  *Time  `json:"until,omitempty" doc:"for ever when left out"`
	Reason string `json:"reason,omitempty" maxLength:"200" doc:"the user is told"`
}

// ServiceTokens logs a device of a user in: POST /v1/service/users/{user}/tokens.
type ServiceTokens struct {
	Device string `json:"device,omitempty" maxLength:"60" doc:"what the user calls the device"`
}

// ServiceMessage is a message that the app's own backend sends: POST /v1/service/messages.
type ServiceMessage struct {
	From string `json:"from" example:"external:assistant" maxLength:"200" doc:"the user in whose name it stands: an id, or external: and an external id"`
	To   string `json:"to,omitempty" example:"external:customer-4711" maxLength:"200" doc:"either the user to whom it goes"`
	In   string `json:"in,omitempty" example:"Kx7mQ2pLw9Za" maxLength:"64" doc:"or the id of the group into whose chat it goes"`
	Send
}

// ServiceGroup makes a group: POST /v1/service/groups.
type ServiceGroup struct {
	Owner   string   `json:"owner" example:"external:1042" maxLength:"200" doc:"a user: an id, or external: and an external id"`
	Name    string   `json:"name" example:"Rowing" minLength:"1" maxLength:"60"`
	Members []string `json:"members,omitempty" maxItems:"1000" doc:"users, each by an id, or external: and an external id; they need not be friends of the owner's"`
}

// ServiceMembers puts users into a group: POST /v1/service/groups/{group}/members.
type ServiceMembers struct {
	Members []string `json:"members" minItems:"1" maxItems:"1000" doc:"users, each by an id, or external: and an external id; those who are members already stay"`
	Silent  bool     `json:"silent,omitempty" doc:"the group's chat does not tell"`
}

// ServiceJoined says what came of it.
type ServiceJoined struct {
	Group Group `json:"group"`
	Added int   `json:"added" doc:"those who were no members before"`
}

// JWTRequest logs a device in by a token of the app's own: POST /v1/auth/jwt.
type JWTRequest struct {
	Token  string `json:"token" example:"eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiIxMDQyIn0.c2lnbmF0dXJl" maxLength:"8192" doc:"a JSON Web Token"`
	Device string `json:"device,omitempty" maxLength:"60" doc:"what the user calls this device"`
}

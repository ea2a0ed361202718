package api

// ServiceUser is a user as the app's own backend sees them.
type ServiceUser struct {
	ID          string `json:"id" example:"V1StGXR8_Z5j"`
	ExternalID  string `json:"external_id,omitempty" example:"customer-4711" doc:"the app's own name for the user; absent if the user registered here"`
	Name        string `json:"name" example:"Ada"`
	Bio         string `json:"bio,omitempty"`
	Avatar      string `json:"avatar,omitempty" doc:"the picture's id"`
	Email       string `json:"email,omitempty" format:"email" doc:"absent if the app's own backend opened the account"`
	Zone        string `json:"zone" example:"Europe/Athens"`
	Created     Time   `json:"created"`
	New         bool   `json:"new,omitempty" doc:"this request opened the account"`
	BannedUntil *Time  `json:"banned_until,omitempty" doc:"the year 9999 means for ever"`
	Erased      *Time  `json:"erased,omitempty" doc:"time of a deleted account's erasure"`
}

// ExternalUser is a user whom the app itself authenticates.
type ExternalUser struct {
	ExternalID string `json:"external_id" example:"customer-4711" minLength:"1" maxLength:"128" doc:"the app's own name for the user, without spaces; it never changes"`
	Name       string `json:"name" example:"Ada" minLength:"1" maxLength:"40"`
	Bio        string `json:"bio,omitempty" maxLength:"200"`
	Zone       string `json:"zone,omitempty" example:"Europe/Athens" maxLength:"64" doc:"UTC if omitted"`
}

// ExternalUsers opens accounts: POST /v1/service/users.
type ExternalUsers struct {
	Users []ExternalUser `json:"users" minItems:"1" maxItems:"500"`
}

// ServiceUsers are users in the requested order.
type ServiceUsers struct {
	Users []ServiceUser `json:"users"`
}

// ServiceUserUpdate changes the fields of a user that are present: PATCH /v1/service/users/{user}.
type ServiceUserUpdate struct {
	Name *string `json:"name,omitempty" minLength:"1" maxLength:"40"`
	Bio  *string `json:"bio,omitempty" maxLength:"200"`
	Zone *string `json:"zone,omitempty" maxLength:"64"`
}

// ServiceBan bans a user: PUT /v1/service/users/{user}/ban.
type ServiceBan struct {
	Until  *Time  `json:"until,omitempty" doc:"for ever if omitted"`
	Reason string `json:"reason,omitempty" maxLength:"200" doc:"shown to the user"`
}

// ServiceTokens logs in a device of a user: POST /v1/service/users/{user}/tokens.
type ServiceTokens struct {
	Device string `json:"device,omitempty" maxLength:"60" doc:"the user's name for the device"`
}

// ServiceMessage is a message that the app's own backend sends: POST /v1/service/messages.
type ServiceMessage struct {
	From string `json:"from" example:"external:assistant" maxLength:"200" doc:"the sender: an id, or external: and an external id"`
	To   string `json:"to,omitempty" example:"external:customer-4711" maxLength:"200" doc:"the recipient; or set in"`
	In   string `json:"in,omitempty" example:"Kx7mQ2pLw9Za" maxLength:"64" doc:"id of the group; or set to"`
	Send
}

// ServiceGroup creates a group: POST /v1/service/groups.
type ServiceGroup struct {
	Owner   string   `json:"owner" example:"external:1042" maxLength:"200" doc:"a user: an id, or external: and an external id"`
	Name    string   `json:"name" example:"Rowing" minLength:"1" maxLength:"60"`
	Members []string `json:"members,omitempty" maxItems:"1000" doc:"users, each by an id, or external: and an external id; they need not be friends of the owner"`
}

// ServiceMembers adds users to a group: POST /v1/service/groups/{group}/members.
type ServiceMembers struct {
	Members []string `json:"members" minItems:"1" maxItems:"1000" doc:"users, each by an id, or external: and an external id; members stay unchanged"`
	Silent  bool     `json:"silent,omitempty" doc:"no system message in the group's chat"`
}

// ServiceJoined is the result of adding members.
type ServiceJoined struct {
	Group Group `json:"group"`
	Added int   `json:"added" doc:"number of new members"`
}

// JWTRequest logs in a device with a token of the app: POST /v1/auth/jwt.
type JWTRequest struct {
	Token  string `json:"token" example:"eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiIxMDQyIn0.c2lnbmF0dXJl" maxLength:"8192" doc:"a JSON Web Token"`
	Device string `json:"device,omitempty" maxLength:"60" doc:"the user's name for this device"`
}

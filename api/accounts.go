package api

// Purposes of a verification code.
const (
	PurposeRegister      = "register"
	PurposeLogin         = "login"
	PurposeResetPassword = "reset_password"
	PurposeChangeEmail   = "change_email"
	PurposeSetPassword   = "set_password" // this and the next are for logged-in users, at their own address
	PurposeLeaveEmail    = "leave_email"
)

// Server describes the log-in of a server, for clients that are not logged in: GET /v1/server.
type Server struct {
	SignIn      string `json:"sign_in" enum:"own,jwt,both" doc:"own: by e-mail address. jwt: with tokens of the app. both: either"`
	Development bool   `json:"development" doc:"the server sends no mail and shows all mails at /dev/mail"`
}

// CodeRequest requests a verification code by mail: POST /v1/auth/codes.
type CodeRequest struct {
	Email   string `json:"email" format:"email" maxLength:"254" doc:"address to which the code is mailed"`
	Purpose string `json:"purpose" enum:"register,login,reset_password" doc:"purpose of the code; for a change of address use /v1/me/email/codes"`
}

// CodeReply is the response to a CodeRequest; it is the same for known and unknown addresses.
type CodeReply struct {
	ExpiresIn int `json:"expires_in" doc:"seconds until the code expires"`
}

// RegisterRequest opens an account: POST /v1/auth/register.
type RegisterRequest struct {
	Email    string `json:"email" format:"email" maxLength:"254"`
	Code     string `json:"code" example:"123456" pattern:"^[0-9]{6}$" doc:"six digits from the mail"`
	Password string `json:"password,omitempty" minLength:"8" maxLength:"128" doc:"omit to log in by code only"`
	Name     string `json:"name" example:"Ada" minLength:"1" maxLength:"40" doc:"shown to others"`
	Zone     string `json:"zone,omitempty" example:"Europe/Athens" maxLength:"64" doc:"IANA time zone such as Asia/Shanghai; UTC if omitted"`
	Device   string `json:"device,omitempty" maxLength:"60" doc:"the user's name for this device"`
}

// LoginRequest logs a device in by password or by code: POST /v1/auth/login.
type LoginRequest struct {
	Email    string `json:"email" format:"email" maxLength:"254"`
	Password string `json:"password,omitempty" example:"correct horse battery" maxLength:"128" doc:"password, or send code instead"`
	Code     string `json:"code,omitempty" doc:"six digits from a mail with purpose login, instead of password"`
	Device   string `json:"device,omitempty" maxLength:"60" doc:"the user's name for this device"`
}

// RefreshRequest exchanges a refresh token for a new pair: POST /v1/auth/refresh.
type RefreshRequest struct {
	RefreshToken string `json:"refresh_token" example:"sr_V1StGXR8_Z5j.Kx7mQ2pLw9Za.5n2k3v8t0c" maxLength:"200"`
}

// Tokens is a new pair of tokens of one device.
type Tokens struct {
	AccessToken  string `json:"access_token" example:"sa_V1StGXR8_Z5j.Kx7mQ2pLw9Za.8d1f4h6j2l" doc:"send as Authorization: Bearer …"`
	RefreshToken string `json:"refresh_token" example:"sr_V1StGXR8_Z5j.Kx7mQ2pLw9Za.5n2k3v8t0c" doc:"valid for one refresh; keep it secret"`
	ExpiresIn    int    `json:"expires_in" doc:"seconds until the access token expires"`
	User         User   `json:"user"`
	Device       string `json:"device" example:"Kx7mQ2pLw9Za" doc:"the device's id"`
	Restored     bool   `json:"restored,omitempty" doc:"this log-in cancelled the account's deletion"`
}

// User is an account as its owner sees it: GET /v1/me.
type User struct {
	ID          string `json:"id" example:"V1StGXR8_Z5j"`
	Email       string `json:"email,omitempty" format:"email" doc:"absent if the app's own backend opened the account"`
	Name        string `json:"name" example:"Ada"`
	Bio         string `json:"bio,omitempty" doc:"self-description of the user"`
	Avatar      string `json:"avatar,omitempty" doc:"the picture's id: GET /v1/avatars/{avatar}/{size}; empty: no picture"`
	Zone        string `json:"zone" example:"Europe/Athens" doc:"the current time zone"`
	NextZone    string `json:"next_zone,omitempty" doc:"a changed zone, valid from the next midnight in the old one"`
	FindByID    bool   `json:"find_by_id" doc:"others may find the account by its id"`
	FindByEmail bool   `json:"find_by_email" doc:"others may find the account by its address"`
	Requests    bool   `json:"requests" doc:"others may send friend requests"`
	OnBoards    bool   `json:"on_boards" doc:"others see the name on boards; otherwise the row has no name"`
	Presence    string `json:"presence" enum:"friends,nobody" doc:"users who see the presence of this user"`
	HasPassword bool   `json:"has_password" doc:"a password is set; otherwise log-in is by code only"`
	Created     Time   `json:"created"`
	Version     int64  `json:"version" doc:"grows with each change; ignore data with a lower version"`
}

// Values of the setting presence: users who see a user's presence.
const (
	PresenceFriends = "friends"
	PresenceNobody  = "nobody"
)

// UserUpdate changes the fields that are present: PATCH /v1/me.
type UserUpdate struct {
	Name        *string `json:"name,omitempty" minLength:"1" maxLength:"40"`
	Bio         *string `json:"bio,omitempty" maxLength:"200"`
	Zone        *string `json:"zone,omitempty" maxLength:"64" doc:"IANA time zone; valid from the next midnight in the old one"`
	FindByID    *bool   `json:"find_by_id,omitempty"`
	FindByEmail *bool   `json:"find_by_email,omitempty"`
	Requests    *bool   `json:"requests,omitempty"`
	OnBoards    *bool   `json:"on_boards,omitempty"`
	Presence    *string `json:"presence,omitempty" enum:"friends,nobody" doc:"nobody: the user appears offline to others, also with PUT /v1/me/presence"`
}

// PasswordReset sets a password with a mailed code and logs out all devices: POST /v1/auth/password.
type PasswordReset struct {
	Email    string `json:"email" format:"email" maxLength:"254"`
	Code     string `json:"code" example:"123456" pattern:"^[0-9]{6}$" doc:"six digits from a mail with purpose reset_password"`
	Password string `json:"password" example:"correct horse battery" minLength:"8" maxLength:"128"`
}

// PasswordChange sets a password and logs out all other devices: PUT /v1/me/password.
type PasswordChange struct {
	Current  string `json:"current,omitempty" maxLength:"128" doc:"the current password; omit if none is set"`
	Code     string `json:"code,omitempty" example:"123456" pattern:"^[0-9]{6}$" doc:"without a password: the mailed code of purpose set_password (/v1/me/codes)"`
	Password string `json:"password" example:"correct horse battery" minLength:"8" maxLength:"128"`
}

// OwnCodeRequest requests a code at the caller's own address: POST /v1/me/codes.
type OwnCodeRequest struct {
	Purpose string `json:"purpose" enum:"set_password,leave_email" doc:"for the first password, or to change the address of an account without a password"`
}

// EmailUndo reverts a change of address: POST /v1/auth/email/undo.
type EmailUndo struct {
	Token string `json:"token" example:"su_Xq3vT8mZr1Lw5yKp9NbHc2" maxLength:"100" doc:"the end of the link in the mail to the old address"`
}

// EmailCodeRequest requests a code at the caller's new address: POST /v1/me/email/codes.
type EmailCodeRequest struct {
	Email string `json:"email" format:"email" maxLength:"254"`
}

// EmailChange changes the caller's address: PUT /v1/me/email. The old address is notified.
type EmailChange struct {
	Email    string `json:"email" format:"email" maxLength:"254"`
	Code     string `json:"code" example:"123456" pattern:"^[0-9]{6}$" doc:"six digits from the mail to the new address"`
	Password string `json:"password,omitempty" maxLength:"128" doc:"the current password; omit if none is set"`
	OldCode  string `json:"old_code,omitempty" example:"654321" pattern:"^[0-9]{6}$" doc:"without a password: the code mailed to the old address (purpose leave_email)"`
}

// AccountDeletion deletes the caller's account: POST /v1/me/deletion.
type AccountDeletion struct {
	Password string `json:"password,omitempty" maxLength:"128" doc:"the current password; omit if none is set"`
}

// AccountDeleted contains the time of a deleted account's erasure. A log-in before then cancels the deletion.
type AccountDeleted struct {
	Erased Time `json:"erased" doc:"time of the erasure; a log-in before then cancels the deletion"`
}

// Avatar is the id of the caller's picture: PUT /v1/me/avatar.
type Avatar struct {
	Avatar string `json:"avatar" example:"Pz4Lr8Yt1Qw6" doc:"the picture's id: GET /v1/avatars/{avatar}/{size}"`
}

// Profile is an account as others see it: GET /v1/users/{user}.
type Profile struct {
	ID      string `json:"id" example:"V1StGXR8_Z5j"`
	Name    string `json:"name" example:"Ada" doc:"empty if the account is deleted"`
	Bio     string `json:"bio,omitempty"`
	Avatar  string `json:"avatar,omitempty" doc:"the picture's id: GET /v1/avatars/{avatar}/{size}; empty: no picture"`
	Deleted bool   `json:"deleted,omitempty" doc:"the account was erased; show it as a deleted user"`
}

// Profiles are several accounts as others see them: GET /v1/users.
type Profiles struct {
	Users []Profile `json:"users" doc:"users that exist or existed, in the requested order"`
}

// Card is the card that others scan to find the caller: POST /v1/me/card. Its picture is at /v1/me/card.png and
// /v1/me/card.svg.
type Card struct {
	Token     string `json:"token" example:"aFf9GGdJ2P1xnbdV7Q" doc:"for GET /v1/cards/{token}; of a group's card: for GET /v1/group-links/{link}"`
	URL       string `json:"url" example:"https://stoa.example.org/#/card/aFf9GGdJ2P1xnbdV7Q" doc:"content of the picture"`
	ExpiresIn int    `json:"expires_in" doc:"seconds until the card expires; until then the same one is returned"`
}

// SecurityEvent is one event of the caller's account security.
type SecurityEvent struct {
	Kind   string `json:"kind" enum:"registered,login,login_failed,login_locked,logout,logout_all,refresh_reused,password_changed,password_reset,password_wrong,email_changed,email_undone,deleted,restored,banned,unbanned,operator_kicked,operator_deleted,operator_restored,profile_changed" doc:"kind of the event"`
	Time   Time   `json:"time"`
	Device string `json:"device,omitempty" doc:"id of the device concerned, if any"`
	From   string `json:"from,omitempty" doc:"client network of the request (IPv4 address or IPv6 /64), if known"`
	By     string `json:"by,omitempty" doc:"name of the service key, if the app's own backend caused it"`
}

// SecurityEvents is a page of security events, newest first: GET /v1/me/security.
type SecurityEvents struct {
	Events []SecurityEvent `json:"events"`
	Next   string          `json:"next,omitempty" doc:"cursor of the next page; absent at the end"`
}

// Session is one logged-in device: GET /v1/sessions.
type Session struct {
	Device  string `json:"device" example:"Kx7mQ2pLw9Za" doc:"the device's id; DELETE /v1/sessions/{device} logs it out"`
	Name    string `json:"name" example:"Phone" doc:"the user's name for the device"`
	Agent   string `json:"agent,omitempty" doc:"User-Agent of the log-in"`
	IP      string `json:"ip" example:"203.0.113.7" doc:"IP address of the log-in"`
	Created Time   `json:"created" doc:"time of the log-in"`
	Used    Time   `json:"used" doc:"last use, to the minute"`
	Current bool   `json:"current" doc:"the calling device"`
}

// Sessions lists a user's logged-in devices, the last used first.
type Sessions struct {
	Sessions []Session `json:"sessions"`
}

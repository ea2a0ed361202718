package api

// Purposes of a verification code.
const (
	PurposeRegister      = "register"
	PurposeLogin         = "login"
	PurposeResetPassword = "reset_password"
	PurposeChangeEmail   = "change_email"
	PurposeSetPassword   = "set_password" // this and the next for users who are logged in, at their own address
	PurposeLeaveEmail    = "leave_email"
)

// Server is what a client needs to know before the log-in: GET /v1/server.
type Server struct {
	SignIn      string `json:"sign_in" enum:"own,jwt,both" doc:"own: users register and log in by e-mail address; jwt: only with tokens of the app; both"`
	Development bool   `json:"development" doc:"the server sends no mail and shows all mails at /dev/mail"`
}

// CodeRequest asks for a verification code by mail: POST /v1/auth/codes.
type CodeRequest struct {
	Email   string `json:"email" format:"email" maxLength:"254" doc:"where the code is sent"`
	Purpose string `json:"purpose" enum:"register,login,reset_password" doc:"what the code will be used for; one for a change of address is asked for at /v1/me/email/codes"`
}

// CodeReply answers alike for known and unknown addresses.
type CodeReply struct {
	ExpiresIn int `json:"expires_in" doc:"seconds until the code is worthless"`
}

// RegisterRequest opens an account: POST /v1/auth/register.
type RegisterRequest struct {
	Email    string `json:"email" format:"email" maxLength:"254"`
	Code     string `json:"code" example:"123456" pattern:"^[0-9]{6}$" doc:"six digits from the mail"`
	Password string `json:"password,omitempty" minLength:"8" maxLength:"128" doc:"leave out to log in by code only"`
	Name     string `json:"name" example:"Ada" minLength:"1" maxLength:"40" doc:"shown to others"`
	Zone     string `json:"zone,omitempty" example:"Europe/Athens" maxLength:"64" doc:"IANA time zone such as Asia/Shanghai; UTC when left out"`
	Device   string `json:"device,omitempty" maxLength:"60" doc:"what the user calls this device"`
}

// LoginRequest logs a device in by password or by code: POST /v1/auth/login.
type LoginRequest struct {
	Email    string `json:"email" format:"email" maxLength:"254"`
	Password string `json:"password,omitempty" example:"correct horse battery" maxLength:"128" doc:"either this"`
	Code     string `json:"code,omitempty" doc:"or six digits from a mail with purpose login"`
	Device   string `json:"device,omitempty" maxLength:"60" doc:"what the user calls this device"`
}

// RefreshRequest trades a refresh token for a new pair: POST /v1/auth/refresh.
type RefreshRequest struct {
	RefreshToken string `json:"refresh_token" example:"sr_V1StGXR8_Z5j.Kx7mQ2pLw9Za.5n2k3v8t0c" maxLength:"200"`
}

// Tokens is a fresh pair for one device.
type Tokens struct {
	AccessToken  string `json:"access_token" example:"sa_V1StGXR8_Z5j.Kx7mQ2pLw9Za.8d1f4h6j2l" doc:"send as Authorization: Bearer …"`
	RefreshToken string `json:"refresh_token" example:"sr_V1StGXR8_Z5j.Kx7mQ2pLw9Za.5n2k3v8t0c" doc:"good for one refresh; keep it secret"`
	ExpiresIn    int    `json:"expires_in" doc:"seconds the access token lasts"`
	User         User   `json:"user"`
	Device       string `json:"device" example:"Kx7mQ2pLw9Za" doc:"the device's id"`
	Restored     bool   `json:"restored,omitempty" doc:"this log-in took the account's deletion back"`
}

// User is an account as its owner sees it: GET /v1/me.
type User struct {
	ID          string `json:"id" example:"V1StGXR8_Z5j"`
	Email       string `json:"email,omitempty" format:"email" doc:"absent: the app's own backend has opened the account"`
	Name        string `json:"name" example:"Ada"`
	Bio         string `json:"bio,omitempty" doc:"what the user says of themselves"`
	Avatar      string `json:"avatar,omitempty" doc:"the picture's id: GET /v1/avatars/{avatar}/{size}; none when empty"`
	Zone        string `json:"zone" example:"Europe/Athens" doc:"the time zone in force now"`
	NextZone    string `json:"next_zone,omitempty" doc:"a changed zone counts from the next midnight in the old one"`
	FindByID    bool   `json:"find_by_id" doc:"others may find the account by its id"`
	FindByEmail bool   `json:"find_by_email" doc:"others may find the account by its address"`
	Requests    bool   `json:"requests" doc:"others may ask for friendship"`
	OnBoards    bool   `json:"on_boards" doc:"others see the name on boards; else a place without a name"`
	Presence    string `json:"presence" enum:"friends,nobody" doc:"who sees whether the user is on line"`
	HasPassword bool   `json:"has_password" doc:"a password is set; else log-in is by code only"`
	Created     Time   `json:"created"`
	Version     int64  `json:"version" doc:"grows with each change: ignore an event or an answer with a lower version"`
}

// Who sees whether a user is on line.
const (
	PresenceFriends = "friends"
	PresenceNobody  = "nobody"
)

// UserUpdate changes what is present and leaves the rest: PATCH /v1/me.
type UserUpdate struct {
	Name        *string `json:"name,omitempty" minLength:"1" maxLength:"40"`
	Bio         *string `json:"bio,omitempty" maxLength:"200"`
	Zone        *string `json:"zone,omitempty" maxLength:"64" doc:"IANA time zone; counts from the next midnight in the old one"`
	FindByID    *bool   `json:"find_by_id,omitempty"`
	FindByEmail *bool   `json:"find_by_email,omitempty"`
	Requests    *bool   `json:"requests,omitempty"`
	OnBoards    *bool   `json:"on_boards,omitempty"`
	Presence    *string `json:"presence,omitempty" enum:"friends,nobody" doc:"nobody: the user looks off line to others, whatever is set by PUT /v1/me/presence"`
}

// PasswordReset sets a password by a mailed code and logs every device out:
// POST /v1/auth/password.
type PasswordReset struct {
	Email    string `json:"email" format:"email" maxLength:"254"`
	Code     string `json:"code" example:"123456" pattern:"^[0-9]{6}$" doc:"six digits from a mail with purpose reset_password"`
	Password string `json:"password" example:"correct horse battery" minLength:"8" maxLength:"128"`
}

// PasswordChange sets a password and logs every other device out:
// PUT /v1/me/password.
type PasswordChange struct {
	Current  string `json:"current,omitempty" maxLength:"128" doc:"the password in force; leave out when none is set"`
	Code     string `json:"code,omitempty" example:"123456" pattern:"^[0-9]{6}$" doc:"where no password is set: six digits from the mail with purpose set_password, see /v1/me/codes"`
	Password string `json:"password" example:"correct horse battery" minLength:"8" maxLength:"128"`
}

// OwnCodeRequest asks for a code at the address that the caller has: POST /v1/me/codes.
type OwnCodeRequest struct {
	Purpose string `json:"purpose" enum:"set_password,leave_email" doc:"to set the first password, or to change the address of an account that has none"`
}

// EmailUndo takes a change of address back: POST /v1/auth/email/undo.
type EmailUndo struct {
	Token string `json:"token" example:"su_Xq3vT8mZr1Lw5yKp9NbHc2" maxLength:"100" doc:"the end of the link that the old address was mailed"`
}

// EmailCodeRequest asks for a code at the address that is to be the caller's:
// POST /v1/me/email/codes.
type EmailCodeRequest struct {
	Email string `json:"email" format:"email" maxLength:"254"`
}

// EmailChange changes the caller's address: PUT /v1/me/email. The old address is
// told.
type EmailChange struct {
	Email    string `json:"email" format:"email" maxLength:"254"`
	Code     string `json:"code" example:"123456" pattern:"^[0-9]{6}$" doc:"six digits from the mail to the new address"`
	Password string `json:"password,omitempty" maxLength:"128" doc:"the password in force; leave out when none is set"`
	OldCode  string `json:"old_code,omitempty" example:"654321" pattern:"^[0-9]{6}$" doc:"where no password is set: six digits from the mail to the old address with purpose leave_email, see /v1/me/codes"`
}

// AccountDeletion asks for the end of the caller's account: POST /v1/me/deletion.
type AccountDeletion struct {
	Password string `json:"password,omitempty" maxLength:"128" doc:"the password in force; leave out when none is set"`
}

// AccountDeleted tells when a deleted account is erased. Logging in before that
// takes the deletion back.
type AccountDeleted struct {
	Erased Time `json:"erased" doc:"until then logging in brings the account back"`
}

// Avatar names a picture: PUT /v1/me/avatar.
type Avatar struct {
	Avatar string `json:"avatar" example:"Pz4Lr8Yt1Qw6" doc:"the picture's id: GET /v1/avatars/{avatar}/{size}"`
}

// Profile is an account as others see it: GET /v1/users/{user}.
type Profile struct {
	ID      string `json:"id" example:"V1StGXR8_Z5j"`
	Name    string `json:"name" example:"Ada" doc:"empty when the account is deleted"`
	Bio     string `json:"bio,omitempty"`
	Avatar  string `json:"avatar,omitempty" doc:"the picture's id: GET /v1/avatars/{avatar}/{size}; none when empty"`
	Deleted bool   `json:"deleted,omitempty" doc:"the account is gone; show it as a deleted user"`
}

// Profiles are several accounts as others see them: GET /v1/users.
type Profiles struct {
	Users []Profile `json:"users" doc:"those that exist or existed, in the order asked for"`
}

// Card is what others scan to find the caller: POST /v1/me/card. Its picture is at
// /v1/me/card.png and /v1/me/card.svg.
type Card struct {
	Token     string `json:"token" example:"aFf9GGdJ2P1xnbdV7Q" doc:"GET /v1/cards/{token} tells whose card it is; of a group's it is a link: GET /v1/group-links/{link}"`
	URL       string `json:"url" example:"https://stoa.example.org/#/card/aFf9GGdJ2P1xnbdV7Q" doc:"what the picture says"`
	ExpiresIn int    `json:"expires_in" doc:"seconds until the card is worthless; asking again before brings the same one"`
}

// SecurityEvent is one thing that happened to the security of the caller's account.
type SecurityEvent struct {
	Kind   string `json:"kind" enum:"registered,login,login_failed,login_locked,logout,logout_all,refresh_reused,password_changed,password_reset,password_wrong,email_changed,email_undone,deleted,restored,banned,unbanned,operator_kicked,operator_deleted,operator_restored,profile_changed" doc:"what happened"`
	Time   Time   `json:"time"`
	Device string `json:"device,omitempty" doc:"the device's id, where one is concerned"`
	From   string `json:"from,omitempty" doc:"the IPv4 address or the IPv6 /64 that it came from, where it is known"`
	By     string `json:"by,omitempty" doc:"the name of the service key with which the app's own backend did it"`
}

// SecurityEvents are the newest first: GET /v1/me/security.
type SecurityEvents struct {
	Events []SecurityEvent `json:"events"`
	Next   string          `json:"next,omitempty" doc:"the cursor of the next page; absent at the end"`
}

// Session is one logged-in device: GET /v1/sessions.
type Session struct {
	Device  string `json:"device" example:"Kx7mQ2pLw9Za" doc:"the device's id; DELETE /v1/sessions/{device} logs it out"`
	Name    string `json:"name" example:"Phone" doc:"what the user calls it"`
	Agent   string `json:"agent,omitempty" doc:"the program that logged in, as it calls itself"`
	IP      string `json:"ip" example:"203.0.113.7" doc:"the address it logged in from"`
	Created Time   `json:"created" doc:"log-in"`
	Used    Time   `json:"used" doc:"last use, to the minute"`
	Current bool   `json:"current" doc:"the device that asks"`
}

// Sessions lists a user's logged-in devices, the last used first.
type Sessions struct {
	Sessions []Session `json:"sessions"`
}

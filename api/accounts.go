package api

import "time"

// Purposes of a verification code.
const (
	PurposeRegister      = "register"
	PurposeLogin         = "login"
	PurposeResetPassword = "reset_password"
	PurposeChangeEmail   = "change_email"
)

// CodeRequest asks for a verification code by mail: POST /v1/auth/codes.
type CodeRequest struct {
	Email   string `json:"email" format:"email" maxLength:"254" doc:"where the code is sent"`
	Purpose string `json:"purpose" enum:"register,login" doc:"what the code will be used for"`
}

// CodeReply answers alike for known and unknown addresses.
type CodeReply struct {
	ExpiresIn int `json:"expires_in" doc:"seconds until the code is worthless"`
}

// RegisterRequest opens an account: POST /v1/auth/register.
type RegisterRequest struct {
	Email    string `json:"email" format:"email" maxLength:"254"`
	Code     string `json:"code" pattern:"^[0-9]{6}$" doc:"six digits from the mail"`
	Password string `json:"password,omitempty" minLength:"8" maxLength:"128" doc:"leave out to log in by code only"`
	Name     string `json:"name" minLength:"1" maxLength:"40" doc:"shown to others"`
	Zone     string `json:"zone,omitempty" maxLength:"64" doc:"IANA time zone such as Asia/Shanghai; UTC when left out"`
	Device   string `json:"device,omitempty" maxLength:"60" doc:"what the user calls this device"`
}

// LoginRequest logs a device in by password or by code: POST /v1/auth/login.
type LoginRequest struct {
	Email    string `json:"email" format:"email" maxLength:"254"`
	Password string `json:"password,omitempty" maxLength:"128" doc:"either this"`
	Code     string `json:"code,omitempty" doc:"or six digits from a mail with purpose login"`
	Device   string `json:"device,omitempty" maxLength:"60" doc:"what the user calls this device"`
}

// RefreshRequest trades a refresh token for a new pair: POST /v1/auth/refresh.
type RefreshRequest struct {
	RefreshToken string `json:"refresh_token" maxLength:"200"`
}

// Tokens is a fresh pair for one device.
type Tokens struct {
	AccessToken  string `json:"access_token" doc:"send as Authorization: Bearer …"`
	RefreshToken string `json:"refresh_token" doc:"good for one refresh; keep it secret"`
	ExpiresIn    int    `json:"expires_in" doc:"seconds the access token lasts"`
	User         User   `json:"user"`
	Device       string `json:"device" doc:"the device's id"`
}

// User is an account as its owner sees it: GET /v1/me.
type User struct {
	ID       string    `json:"id"`
	Email    string    `json:"email"`
	Name     string    `json:"name"`
	Zone     string    `json:"zone" doc:"the time zone in force now"`
	NextZone string    `json:"next_zone,omitempty" doc:"a changed zone counts from the next midnight in the old one"`
	Created  time.Time `json:"created"`
}

// UserUpdate changes what is present and leaves the rest: PATCH /v1/me.
type UserUpdate struct {
	Name *string `json:"name,omitempty" minLength:"1" maxLength:"40"`
	Zone *string `json:"zone,omitempty" maxLength:"64" doc:"IANA time zone; counts from the next midnight in the old one"`
}

// Session is one logged-in device: GET /v1/sessions.
type Session struct {
	Device  string    `json:"device" doc:"the device's id; DELETE /v1/sessions/{device} logs it out"`
	Name    string    `json:"name" doc:"what the user calls it"`
	IP      string    `json:"ip" doc:"the address it logged in from"`
	Created time.Time `json:"created"`
	Used    time.Time `json:"used" doc:"last log-in or refresh"`
	Current bool      `json:"current" doc:"the device that asks"`
}

// Sessions lists a user's logged-in devices, the last used first.
type Sessions struct {
	Sessions []Session `json:"sessions"`
}

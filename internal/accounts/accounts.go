package accounts

import (
	"context"
	"errors"
	"time"
	"unicode"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts/password"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/base/words"
)

// ID names a user.
type ID = ids.ID[User]

// DeviceID names one logged-in device of a user. It is drawn at log-in and never
// used again, so that a revoked device stays revoked.
type DeviceID = ids.ID[Session]

// User is an account. As JSON it is what caches hold: see Doc.Version before you
// change that.
type User struct {
	ID          ID          `json:"id"`
	Email       string      `json:"email"` // as its owner wrote it
	Name        string      `json:"name"`  // shown to others
	Bio         string      `json:"bio,omitempty"`
	Avatar      string      `json:"avatar,omitempty"` // the picture's id; none when empty
	Clock       civil.Clock `json:"clock"`
	FindByID    bool        `json:"find_by_id"`
	FindByEmail bool        `json:"find_by_email"`
	Requests    bool        `json:"requests"`  // others may ask for friendship
	OnBoards    bool        `json:"on_boards"` // others see the name on boards
	Presence    Audience    `json:"presence"`
	HasPassword bool        `json:"has_password"`
	Created     time.Time   `json:"created"`
	Version     int64       `json:"version"` // grows with each change that has an event

	// Erased is when a deleted account is or was erased; zero: it is not deleted.
	// From the deletion on others see a deleted user.
	Erased time.Time `json:"erased,omitzero"`

	// Banned is the end of a ban; zero: the account is not banned.
	Banned time.Time `json:"banned,omitzero"`
}

// Audience is who sees whether a user is on line. Its number is part of a row: it never
// changes. The zero Audience is the one that shows nothing.
type Audience int

// The audiences.
const (
	ToNobody Audience = iota
	ToFriends
)

// String is the audience's name on the wire.
func (a Audience) String() string {
	if a == ToFriends {
		return api.PresenceFriends
	}
	return api.PresenceNobody
}

// Includes reports whether a viewer is in the audience, who is a friend or is not.
func (a Audience) Includes(friend bool) bool { return friend && a == ToFriends }

// audience returns the one of that name, which the schema has checked; nil for none.
func audience(name *string) *Audience {
	if name == nil {
		return nil
	}
	a := ToNobody
	if *name == api.PresenceFriends {
		a = ToFriends
	}
	return &a
}

// BannedAt reports whether the user is banned at that time.
func (u User) BannedAt(now time.Time) bool { return now.Before(u.Banned) }

// ShownTo reports whether viewer sees the user by name on a board. Others do not see a user
// who is deleted, banned or does not want it.
func (u User) ShownTo(viewer ID, now time.Time) bool {
	return u.ID == viewer || !u.Deleted() && !u.BannedAt(now) && u.OnBoards
}

// Deleted reports whether others see a deleted user.
func (u User) Deleted() bool { return !u.Erased.IsZero() }

// Session is one logged-in device.
type Session struct {
	Device  DeviceID
	Name    string // what the user calls the device; may be empty
	Agent   string // the program that logged in, as it calls itself; may be empty
	IP      string // the address it logged in from
	Created time.Time
	Used    time.Time // last log-in or refresh
}

// Tokens is what a device gets at log-in and at each refresh.
type Tokens struct {
	Access  string
	Refresh string
	Expires time.Time // of the access token
	User    User
	Device  DeviceID

	Restored bool // the log-in took the account's deletion back
}

// Caller is who presented a good access token.
type Caller struct {
	User    ID
	Device  DeviceID
	Clock   civil.Clock
	Expires time.Time // of the token
}

// The domain's refusals.
var (
	ErrName           = errs.New(errs.Invalid, "account.name_invalid", "A name is 1 to 40 printable characters.")
	ErrBio            = errs.New(errs.Invalid, "account.bio_invalid", "A text about oneself is at most 200 printable characters.")
	ErrDeviceName     = errs.New(errs.Invalid, "auth.device_invalid", "A device's name is at most 60 printable characters.")
	ErrPassword       = errs.New(errs.Invalid, "auth.password_invalid", "A password is 8 to 128 characters.")
	ErrPasswordCommon = errs.New(errs.Invalid, "auth.password_common", "This password is among the first that are guessed. Choose another one.")
	ErrEither         = errs.New(errs.Invalid, "auth.either", "Send either a password or a code.")
	ErrCredentials    = errs.New(errs.Unauthenticated, "auth.bad_credentials", "The address, the password or the code is wrong.")
	ErrToken          = errs.New(errs.Unauthenticated, "auth.token_invalid", "The access token is wrong, expired or revoked.")
	ErrRefresh        = errs.New(errs.Unauthenticated, "auth.refresh_invalid", "The refresh token is wrong, expired or revoked. Log in again.")
	ErrReused         = errs.New(errs.Unauthenticated, "auth.refresh_reused", "The refresh token was used before. The device has been logged out.")
	ErrEmailTaken     = errs.New(errs.Conflict, "auth.email_taken", "There is an account with this address. Log in instead.")
	ErrSignInOff      = errs.New(errs.Forbidden, "auth.sign_in_off", "Sign in with the app that you use: this server takes no addresses.")
	ErrNoEmail        = errs.New(errs.Conflict, "account.no_email", "This account has no e-mail address: the app that you use knows you by itself.")
	ErrNoUser         = errs.New(errs.NotFound, "account.unknown", "There is no such account.")
	ErrNoSession      = errs.New(errs.NotFound, "session.unknown", "No such device is logged in.")
	ErrBusy           = errs.New(errs.Unavailable, "auth.busy", "Too many log in at this moment. Try again in some seconds.")
	ErrLocked         = errs.New(errs.TooMany, "auth.locked", "Too many wrong passwords or codes. Log-in is locked for a while.")
)

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

func cleanName(s string) (string, error) {
	s, ok := words.Line(s, 40)
	if !ok || s == "" {
		return "", ErrName.On("body.name", "is not 1 to 40 printable characters")
	}
	return s, nil
}

func cleanBio(s string) (string, error) {
	s, ok := words.Text(s, 200)
	if !ok {
		return "", ErrBio.On("body.bio", "is not at most 200 printable characters")
	}
	return s, nil
}

func cleanDevice(s string) (string, error) {
	s, ok := words.Line(s, 60)
	if !ok {
		return "", ErrDeviceName.On("body.device", "is not at most 60 printable characters")
	}
	return s, nil
}

// newPassword returns the form of a new password that is hashed. known has what everybody
// knows of its owner.
func newPassword(s string, known ...string) (string, error) {
	s, err := password.Check(s, append(known, "stoa")...)
	switch {
	case errors.Is(err, password.ErrCommon):
		return "", ErrPasswordCommon.On("body.password", "is among the first that are guessed")
	case errors.Is(err, password.ErrText):
		return "", ErrPassword.On("body.password", "has control characters")
	case err != nil:
		return "", ErrPassword.On("body.password", "is not 8 to 128 characters")
	}
	return s, nil
}

// hash hashes a new password; asker is a household or a user, see [password.Hasher].
func (s *Service) hash(ctx context.Context, asker, password string) (string, error) {
	hash, err := s.hasher.Hash(ctx, asker, password)
	return hash, busy(err)
}

// matches compares a given password with a hash. A text that is not a valid password costs the
// same time. Call it within [Service.countedMatch].
func (s *Service) matches(given, stored string) (bool, error) {
	if normal, err := password.Normalize(given); err == nil {
		given = normal
	}
	return s.hasher.Matches(given, stored)
}

func busy(err error) error {
	if errors.Is(err, password.ErrBusy) {
		return ErrBusy.Retry(2 * time.Second)
	}
	return err
}

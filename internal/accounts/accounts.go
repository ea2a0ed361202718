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

// ID identifies a user.
type ID = ids.ID[User]

// DeviceID identifies a logged-in device of a user. It is created at log-in and never reused, so that a revoked device
// stays revoked.
type DeviceID = ids.ID[Session]

// User is an account. Caches store it as JSON: see keyspace.Doc.Version before you change the JSON.
type User struct {
	ID          ID          `json:"id"`
	Email       string      `json:"email"` // as the owner wrote it
	Name        string      `json:"name"`  // visible to other users
	Bio         string      `json:"bio,omitempty"`
	Avatar      string      `json:"avatar,omitempty"` // id of the picture; empty means none
	Clock       civil.Clock `json:"clock"`
	FindByID    bool        `json:"find_by_id"`
	FindByEmail bool        `json:"find_by_email"`
	Requests    bool        `json:"requests"`  // other users may send friend requests
	OnBoards    bool        `json:"on_boards"` // boards show the name to other users
	Presence    Audience    `json:"presence"`
	HasPassword bool        `json:"has_password"`
	Created     time.Time   `json:"created"`
	Version     int64       `json:"version"` // increases with each change that has an event

	// Erased is when a deleted account is or was erased; zero means not deleted. From the deletion on, other users see
	// a deleted user.
	Erased time.Time `json:"erased,omitzero"`

	// Banned is the end of a ban; zero means not banned.
	Banned time.Time `json:"banned,omitzero"`
}

// Audience defines who sees whether a user is online. Its number is stored in rows and never changes. The zero Audience
// shows nothing.
type Audience int

// The audiences.
const (
	ToNobody Audience = iota
	ToFriends
)

// String returns the name of the audience in the API.
func (a Audience) String() string {
	if a == ToFriends {
		return api.PresenceFriends
	}
	return api.PresenceNobody
}

// Includes reports whether a viewer is in the audience. friend reports whether the viewer is a friend.
func (a Audience) Includes(friend bool) bool { return friend && a == ToFriends }

// audience returns the audience with a name that the schema has checked, or nil.
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

// ShownTo reports whether a board shows the user's name to viewer. Other users do not see a deleted or banned user, or
// a user with OnBoards off.
func (u User) ShownTo(viewer ID, now time.Time) bool {
	return u.ID == viewer || !u.Deleted() && !u.BannedAt(now) && u.OnBoards
}

// Deleted reports whether other users see a deleted user.
func (u User) Deleted() bool { return !u.Erased.IsZero() }

// Session is a logged-in device.
type Session struct {
	Device  DeviceID
	Name    string // the name that the user gave; may be empty
	Agent   string // User-Agent of the log-in; may be empty
	IP      string // the IP address of the log-in
	Created time.Time
	Used    time.Time // last log-in or refresh
}

// Tokens is the result of a log-in or a refresh.
type Tokens struct {
	Access  string
	Refresh string
	Expires time.Time // of the access token
	User    User
	Device  DeviceID

	Restored bool // the log-in canceled the deletion of the account
}

// Caller is the user and device of a valid access token.
type Caller struct {
	User    ID
	Device  DeviceID
	Clock   civil.Clock
	Expires time.Time // of the token
}

// Errors of the domain.
var (
	ErrName           = errs.New(errs.Invalid, "account.name_invalid", "A name is 1 to 40 printable characters.")
	ErrBio            = errs.New(errs.Invalid, "account.bio_invalid", "A bio is at most 200 printable characters.")
	ErrDeviceName     = errs.New(errs.Invalid, "auth.device_invalid", "A device's name is at most 60 printable characters.")
	ErrPassword       = errs.New(errs.Invalid, "auth.password_invalid", "A password is 8 to 128 characters.")
	ErrPasswordCommon = errs.New(errs.Invalid, "auth.password_common", "This password is easy to guess. Choose another one.")
	ErrEither         = errs.New(errs.Invalid, "auth.either", "Send either a password or a code.")
	ErrCredentials    = errs.New(errs.Unauthenticated, "auth.bad_credentials", "The address, the password or the code is wrong.")
	ErrToken          = errs.New(errs.Unauthenticated, "auth.token_invalid", "The access token is wrong, expired or revoked.")
	ErrRefresh        = errs.New(errs.Unauthenticated, "auth.refresh_invalid", "The refresh token is wrong, expired or revoked. Log in again.")
	ErrReused         = errs.New(errs.Unauthenticated, "auth.refresh_reused",
		"The refresh token was used before. The device has been logged out.")
	ErrEmailTaken = errs.New(errs.Conflict, "auth.email_taken", "There is an account with this address. Log in instead.")
	ErrSignInOff  = errs.New(errs.Forbidden, "auth.sign_in_off", "This server does not accept addresses. Sign in through your app.")
	ErrNoEmail    = errs.New(errs.Conflict, "account.no_email", "This account has no e-mail address. Sign in through your app.")
	ErrNoUser     = errs.New(errs.NotFound, "account.unknown", "There is no such account.")
	ErrNoSession  = errs.New(errs.NotFound, "session.unknown", "No such device is logged in.")
	ErrBusy       = errs.New(errs.Unavailable, "auth.busy", "Too many users are logging in. Try again in some seconds.")
	ErrLocked     = errs.New(errs.TooMany, "auth.locked", "Too many wrong passwords or codes. Try again later.")
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

// newPassword returns the normalized form of a new password for hashing. known lists public facts about the user.
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

// hash hashes a new password. asker is a client network or a user, see [password.Hasher].
func (s *Service) hash(ctx context.Context, asker, password string) (string, error) {
	hash, err := s.hasher.Hash(ctx, asker, password)
	return hash, busy(err)
}

// matches compares a password with a hash. An invalid password takes the same time. Call it within
// [Service.countedMatch].
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

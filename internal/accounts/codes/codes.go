package codes

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts/emails"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// Purpose is what a code is for. Its number is part of a key and of a row: it never changes.
type Purpose int

// The purposes. The last three are those of a logged-in user.
const (
	ForRegister Purpose = iota + 1
	ForLogin
	ForResetPassword
	ForChangeEmail // at the address that is to be the user's
	ForSetPassword // this and the next are at the user's own address
	ForLeaveEmail
)

// ParsePurpose returns the purpose with that name on the wire, or ErrPurpose. A
// change of address has no name there: it has an operation of its own.
func ParsePurpose(s string) (Purpose, error) {
	switch s {
	case api.PurposeRegister:
		return ForRegister, nil
	case api.PurposeLogin:
		return ForLogin, nil
	case api.PurposeResetPassword:
		return ForResetPassword, nil
	}
	return 0, ErrPurpose.On("body.purpose", "is not one of register, login, reset_password")
}

// ParseOwnPurpose returns the purpose of a code to the caller's own address, or ErrPurpose.
func ParseOwnPurpose(s string) (Purpose, error) {
	switch s {
	case api.PurposeSetPassword:
		return ForSetPassword, nil
	case api.PurposeLeaveEmail:
		return ForLeaveEmail, nil
	}
	return 0, ErrPurpose.On("body.purpose", "is not one of set_password, leave_email")
}

// The refusals.
var (
	ErrPurpose   = errs.New(errs.Invalid, "auth.purpose_unknown", "This operation mails no code for that purpose.")
	ErrWrong     = errs.New(errs.Invalid, "auth.code_wrong", "The code is wrong, used or expired. Ask for a new one.")
	ErrSuspended = errs.New(errs.Unavailable, "auth.codes_suspended", "Too many wrong codes were given. Codes are taken again in a while.")
	ErrTooMany   = errs.New(errs.TooMany, "auth.too_many_codes", "Too many codes were asked for. Try again later.")
)

// Wrong is ErrWrong for the code at a place of the request, such as "body.code".
func Wrong(where string) error { return ErrWrong.On(where, "is wrong, used or expired") }

// MaxLife is how long a code lives at most.
const MaxLife = time.Hour

// triesOfOne is how many wrong guesses a code outlives, less one: five of a
// million, ten times a day for each purpose by the limits on sending. A code that was
// asked for from a household that the account knows outlives as many again from
// elsewhere, so that nobody else can use up its tries.
const triesOfOne = 5

// A Proof is what a code proves: that its holder reads the mail of an address, and
// for which purpose. A code that a logged-in user asks for is bound to that user: another
// one can neither use that code nor void it.
type Proof struct {
	Email   emails.Address
	Purpose Purpose
	User    string // the user who asked; empty where nobody is logged in
}

// parts are what a secret that belongs to the proof is made of.
func (p Proof) parts() []string {
	return []string{p.Email.Key, string(p.Purpose.AppendSegment(nil)), p.User}
}

// segment stands for the address, who asked, and from where a code is tried, in a key.
func (p Proof) segment(household string) keyspace.Hashed {
	return keyspace.Hashed{S: p.Email.Key + " " + p.User + " " + household}
}

// MAC is a keyed hash of 32 bytes over a label and parts. Only the holder of the server's secret
// can make it, and no two lists of parts have the same.
type MAC func(label string, parts ...string) []byte

// emailHash is the form in which an address stands in the table of codes.
func (m MAC) emailHash(p Proof) string {
	return base64.RawURLEncoding.EncodeToString(m("email", p.parts()...))
}

// codeHash binds a code to what it proves. A plain hash of six digits could be
// undone by trying a million; this one only with the server's secret.
func (m MAC) codeHash(p Proof, code string) string {
	return base64.RawURLEncoding.EncodeToString(m("code", append(p.parts(), code)...))
}

// code makes six digits of a seed, each million equally likely.
func (m MAC) code(p Proof, seed string) string {
	n := binary.BigEndian.Uint64(m("digits", append(p.parts(), seed)...))
	return fmt.Sprintf("%06d", n%1_000_000) // 2⁶⁴ is so many millions that the last, broken one does not show
}

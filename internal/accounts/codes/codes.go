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

// Purpose is the purpose of a code. Its number is part of a key and of a row, and never changes.
type Purpose int

// The purposes. The last three are for logged-in users.
const (
	ForRegister Purpose = iota + 1
	ForLogin
	ForResetPassword
	ForChangeEmail // to the new address of the user
	ForSetPassword // this and the next are to the user's own address
	ForLeaveEmail
)

// ParsePurpose returns the purpose with a name in the API, or ErrPurpose. A change of address has no name, because it
// has its own operation.
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

// Errors of the package.
var (
	ErrPurpose   = errs.New(errs.Invalid, "auth.purpose_unknown", "This operation mails no code for that purpose.")
	ErrWrong     = errs.New(errs.Invalid, "auth.code_wrong", "The code is wrong, used or expired. Ask for a new one.")
	ErrSuspended = errs.New(errs.Unavailable, "auth.codes_suspended", "Too many wrong codes were entered. Try again later.")
	ErrTooMany   = errs.New(errs.TooMany, "auth.too_many_codes", "Too many codes were requested. Try again later.")
)

// Wrong returns ErrWrong for the code at a place of the request, such as "body.code".
func Wrong(field string) error { return ErrWrong.On(field, "is wrong, used or expired") }

// MaxLife is the largest lifetime of a code.
const MaxLife = time.Hour

// triesOfOne is the number of tries after which a code is void: five of a million, at most ten codes a day per purpose.
// A code that was requested from a known client network has as many tries for other client networks in addition, so
// that strangers cannot use up the owner's tries.
const triesOfOne = 5

// A Proof is what a code proves: that its holder reads the mail of an address, for one purpose. A code that a logged-in
// user requested is bound to that user: another user can neither use nor replace it.
type Proof struct {
	Email   emails.Address
	Purpose Purpose
	User    string // the requesting user; empty without a log-in
}

// parts returns the parts of the MACs of a proof.
func (p Proof) parts() []string {
	return []string{p.Email.Key, string(p.Purpose.AppendSegment(nil)), p.User}
}

// segment combines the address, the requesting user and the client network of a try into a key segment.
func (p Proof) segment(clientNet string) keyspace.Hashed {
	return keyspace.Hashed{S: p.Email.Key + " " + p.User + " " + clientNet}
}

// MAC is a keyed hash of 32 bytes over a label and parts. Only a holder of the server's secret can compute it, and two
// lists of parts never have the same input.
type MAC func(label string, parts ...string) []byte

// emailHash returns the form of an address in the table of codes.
func (m MAC) emailHash(p Proof) string {
	return base64.RawURLEncoding.EncodeToString(m("email", p.parts()...))
}

// codeHash binds a code to its proof. A plain hash of six digits could be reversed with a million tries; this one needs
// the server's secret.
func (m MAC) codeHash(p Proof, code string) string {
	return base64.RawURLEncoding.EncodeToString(m("code", append(p.parts(), code)...))
}

// code derives six digits from a seed. All codes are equally likely.
func (m MAC) code(p Proof, seed string) string {
	n := binary.BigEndian.Uint64(m("digits", append(p.parts(), seed)...))
	return fmt.Sprintf("%06d", n%1_000_000) // the bias of the incomplete last million of 2⁶⁴ is negligible
}

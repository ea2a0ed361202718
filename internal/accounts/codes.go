package accounts

import (
	"context"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/foundation/errs"
	"github.com/stoa-dev/stoa/keyspace"
)

// Purpose is what a verification code is for. Its number is part of a key and
// of a row: it never changes.
type Purpose int

// The purposes.
const (
	ForRegister Purpose = iota + 1
	ForLogin
	ForResetPassword
	ForChangeEmail // asked for by [Service.RequestEmailCode]
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

// codeTries is how many wrong guesses a code outlives, less one: five of a
// million, ten times a day at most by the limits on sending.
const codeTries = 5

// A proof is what a code proves: that its holder reads the mail of an address, and
// for which purpose. A code for a change of address is bound to the user who asked for
// it: another user can neither use that code nor void it.
type proof struct {
	email   Email
	purpose Purpose
	user    ID // the user who asked; zero but for ForChangeEmail
}

// parts are what a secret that belongs to the proof is made of.
func (p proof) parts() []string {
	return []string{p.email.Key, string(p.purpose.AppendSegment(nil)), p.user.String()}
}

// segment stands for the address, and who asked, in a key.
func (p proof) segment() keyspace.Hashed {
	if p.user.IsZero() {
		return keyspace.Hashed{S: p.email.Key}
	}
	return keyspace.Hashed{S: p.email.Key + " " + p.user.String()}
}

// RequestCode mails a code for that purpose to that address and returns how
// long it lives. The answer does not tell whether the address has an account;
// the mail does. ErrEmail, ErrPurpose, ErrTooManyCode.
func (s *Service) RequestCode(ctx context.Context, email, purpose, ip string) (life time.Duration, err error) {
	defer errs.Wrap(&err, "accounts.RequestCode")
	e, err := ParseEmail(email)
	if err != nil {
		return 0, err
	}
	p, err := ParsePurpose(purpose)
	if err != nil {
		return 0, err
	}
	return s.cfg.CodeLife, s.sendCode(ctx, proof{email: e, purpose: p}, ip)
}

// RequestEmailCode mails a code to the address that is to be the user's, and
// returns how long it lives. The answer does not tell whether the address has
// an account; the mail does. ErrEmail, ErrTooManyCode.
func (s *Service) RequestEmailCode(ctx context.Context, user ID, email, ip string) (life time.Duration, err error) {
	defer errs.Wrap(&err, "accounts.RequestEmailCode %s", user)
	e, err := ParseEmail(email)
	if err != nil {
		return 0, err
	}
	return s.cfg.CodeLife, s.sendCode(ctx, proof{e, ForChangeEmail, user}, ip)
}

// sendCode makes a code, in the place of one that was asked for before, and has
// it mailed.
func (s *Service) sendCode(ctx context.Context, p proof, ip string) error {
	switch r, err := s.fast.mayMail(ctx, p.email, ip, s.cfg.Limits); {
	case err != nil:
		return err
	case !r.Allowed:
		return ErrTooManyCode.Retry(r.Reset)
	}
	notice := codeNotice{To: p.email.Given, Purpose: p.purpose, User: p.user, Seed: newNonce()}
	row := s.codeRow(p, s.mint.code(p, notice.Seed))
	if err := replaceCode(ctx, s.db, p, row, notice, s.cfg.CodeLife); err != nil {
		return asKind(err)
	}
	s.after(ctx, "forget the tries of the code before", func(ctx context.Context) error { return s.fast.forgetTries(ctx, p) })
	return nil
}

func (s *Service) codeRow(p proof, code string) codeRow {
	return codeRow{s.mint.emailHash(p), p.purpose, s.mint.codeHash(p, code)}
}

// errCode is ErrCode where a request has the code.
var errCode = ErrCode.On("body.code", "is wrong, used or expired")

// checkCode counts a try and compares. The code is not used up by it: that
// belongs into the transaction of what the code is for, see consumeCode. ErrCode.
func (s *Service) checkCode(ctx context.Context, p proof, code string) (codeRow, error) {
	c := s.codeRow(p, code)
	if !s.fast.mayTry(ctx, p, s.cfg.CodeLife) {
		return codeRow{}, errCode
	}
	stored, err := tryCode(ctx, s.db, c)
	if err != nil {
		return codeRow{}, asKind(err)
	}
	if stored == "" || !sameHash(stored, c.codeHash) {
		return codeRow{}, errCode
	}
	return c, nil
}

package accounts

import (
	"context"
	"errors"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts/codes"
	"github.com/stoa-dev/stoa/internal/accounts/emails"
	"github.com/stoa-dev/stoa/internal/accounts/trail"
	"github.com/stoa-dev/stoa/internal/base/errs"
)

// RequestCode mails a code for a purpose to an address and returns the lifetime of the code. clientNet is the client
// network of the caller, see [clientnet.From]. The response is the same whether or not the address has an account; only
// the mail differs.
func (s *Service) RequestCode(ctx context.Context, email, purpose, clientNet string) (life time.Duration, err error) {
	defer errs.Wrap(&err, "accounts.RequestCode")
	if err := s.ownSignIn(); err != nil {
		return 0, err
	}
	e, err := emails.Parse(email)
	if err != nil {
		return 0, err
	}
	p, err := codes.ParsePurpose(purpose)
	if err != nil {
		return 0, err
	}
	return s.cfg.CodeLife, asKind(s.codes.Send(ctx, codes.Proof{Email: e, Purpose: p}, clientNet))
}

// RequestEmailCode mails a code to the address that the user wants to change to, and returns the lifetime of the code.
// The response is the same whether or not that address has an account; only the mail differs.
func (s *Service) RequestEmailCode(ctx context.Context, user ID, email, clientNet string) (life time.Duration, err error) {
	defer errs.Wrap(&err, "accounts.RequestEmailCode %s", user)
	e, err := emails.Parse(email)
	if err != nil {
		return 0, err
	}
	return s.cfg.CodeLife, asKind(s.codes.Send(ctx, codes.Proof{Email: e, Purpose: codes.ForChangeEmail, User: user.String()}, clientNet))
}

// RequestOwnCode mails a code to the user's own address, to set a first password or to change the address, and returns
// the lifetime of the code.
func (s *Service) RequestOwnCode(ctx context.Context, user ID, purpose, clientNet string) (life time.Duration, err error) {
	defer errs.Wrap(&err, "accounts.RequestOwnCode %s", user)
	p, err := codes.ParseOwnPurpose(purpose)
	if err != nil {
		return 0, err
	}
	u, err := selectUser(ctx, s.db, user)
	switch {
	case err != nil:
		return 0, asKind(err)
	case u.Email == "":
		return 0, ErrNoEmail
	}
	return s.cfg.CodeLife, asKind(s.codes.Send(ctx, u.proves(p), clientNet))
}

// proves returns the proof of a code to the user's own address.
func (u User) proves(p codes.Purpose) codes.Proof {
	return codes.Proof{Email: emails.Address{Given: u.Email, Key: emails.Key(u.Email)}, Purpose: p, User: u.ID.String()}
}

// knows reports whether the account of the address has been used from that client network.
func (s *Service) knows(ctx context.Context, e emails.Address, clientNet string) (bool, error) {
	c, err := selectCredential(ctx, s.db, e.Key)
	if err != nil {
		return false, err
	}
	known, err := trail.Knows(ctx, s.db, c.ID.String(), clientNet)
	return known && clientNet != "", err
}

// checkOwnCode is [codes.Service.Check] for a code to the user's own address. field is the name of the code in the
// request.
func (s *Service) checkOwnCode(ctx context.Context, u User, p codes.Purpose, code, clientNet, field string) (codes.Code, error) {
	if code == "" {
		return codes.Code{}, codes.ErrWrong.On(field, "is needed: ask for it at the address of the account")
	}
	c, err := s.codes.Check(ctx, u.proves(p), code, clientNet)
	if errors.Is(err, codes.ErrWrong) {
		err = codes.Wrong(field)
	}
	return c, asKind(err)
}

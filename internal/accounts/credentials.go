package accounts

import (
	"context"
	"errors"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts/codes"
	"github.com/stoa-dev/stoa/internal/accounts/emails"
	"github.com/stoa-dev/stoa/internal/accounts/trail"
	"github.com/stoa-dev/stoa/internal/base/clientnet"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// ErrPasswordWrong is not Unauthenticated, because the caller is authenticated and need not log in again.
var ErrPasswordWrong = errs.New(errs.Forbidden, "auth.password_wrong", "The current password is wrong.")

// errRepeated reports a retry of a request that has already set the password.
var errRepeated = errors.New("the password is set already")

// confirmAgain is [Service.confirm] for a retry of a request whose response may have been lost. It returns errRepeated
// if the new password is already set. A wrong guess of it counts like a wrong current password.
func (s *Service) confirmAgain(ctx context.Context, user ID, device DeviceID, c PasswordChange) (credential, error) {
	seen, err := credentialOf(ctx, s.db, user)
	if err != nil {
		return credential{}, asKind(err)
	}
	return seen, s.countedMatch(ctx, s.confirmAttempt(user, device, clientnet.From(ctx)), user.String(), func() error {
		if ok, err := s.matches(c.Current, seen.passwordHash); ok || err != nil {
			return err
		}
		ok, err := s.matches(c.Password, seen.passwordHash)
		switch {
		case err != nil:
			return err
		case ok:
			return errRepeated
		}
		return ErrPasswordWrong.On("body.current", "is not the password in force")
	})
}

// confirm checks the current password of a logged-in user. It accepts any text if no password is set. Wrong passwords
// are counted per device. The result may be outdated when it is used: see unchanged. field is the name of the password
// in the request.
func (s *Service) confirm(ctx context.Context, user ID, device DeviceID, password, field string) (credential, error) {
	c, err := credentialOf(ctx, s.db, user)
	if err != nil {
		return credential{}, asKind(err)
	}
	if password == "" && c.passwordHash == "" {
		return c, nil
	}
	if password == "" {
		return credential{}, ErrPasswordWrong.On(field, "is needed")
	}
	return c, s.countedMatch(ctx, s.confirmAttempt(user, device, clientnet.From(ctx)), user.String(), func() error {
		ok, err := s.matches(password, c.passwordHash)
		if err == nil && !ok {
			err = ErrPasswordWrong.On(field, "is not the password in force")
		}
		return err
	})
}

// unchanged locks the account and checks that the result of confirm is still valid: the password and the address are
// the same, and the device is still logged in, which a check of its token may miss for a moment. It returns
// ErrPasswordWrong or ErrToken.
func unchanged(ctx context.Context, tx *sqldb.Tx, seen credential, device DeviceID) error {
	now, err := lockCredential(ctx, tx, seen.ID)
	if err != nil {
		return err
	}
	if now.passwordHash != seen.passwordHash || now.Email != seen.Email {
		return ErrPasswordWrong
	}
	in, err := hasSessionRow(ctx, tx, seen.ID, device)
	if err == nil && !in {
		err = ErrToken
	}
	return err
}

// admit locks the account after a correct password, and returns ErrCredentials if the password was changed in the
// meantime: that change logged out all devices, so the old password must not log in.
func (c credential) admit(ctx context.Context, tx *sqldb.Tx) (User, error) {
	now, err := lockCredential(ctx, tx, c.ID)
	if err == nil && now.passwordHash != c.passwordHash {
		err = ErrCredentials
	}
	return now.User, err
}

// A PasswordChange sets a password.
type PasswordChange struct {
	Current  string // the current password
	Code     string // if there is none: proves the address of the account, see [Service.RequestOwnCode]
	Password string // the new one

	// Event is the id of the change in the trail, the same for each try of one request, so that a retry repeats
	// nothing. Zero creates one.
	Event ids.ID[trail.Event]
}

// ChangePassword sets the password of a user, logs out all devices except the caller's, and mails a notice. A user
// without a password proves the address with a code, so that a stolen token is not enough.
func (s *Service) ChangePassword(ctx context.Context, user ID, device DeviceID, c PasswordChange) (err error) {
	defer errs.Wrap(&err, "accounts.ChangePassword %s", user)
	done, err := trail.Has(ctx, s.db, c.Event)
	if err != nil {
		return asKind(err)
	}
	var seen credential
	if done {
		seen, err = s.confirmAgain(ctx, user, device, c)
		c.Event = ids.ID[trail.Event]{}
	} else {
		seen, err = s.confirm(ctx, user, device, c.Current, "body.current")
	}
	switch {
	case errors.Is(err, errRepeated):
		return nil
	case err != nil:
		return err
	}
	password, err := newPassword(c.Password, seen.Email, seen.Name)
	if err != nil {
		return err
	}
	var code codes.Code
	if seen.passwordHash == "" {
		if code, err = s.checkOwnCode(ctx, seen.User, codes.ForSetPassword, c.Code, clientnet.From(ctx), "body.code"); err != nil {
			return err
		}
	}
	hash, err := s.hash(ctx, user.String(), password)
	if err != nil {
		return err
	}
	var after User
	err = s.endAll(ctx, user, device, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := unchanged(ctx, tx, seen, device); err != nil {
			return err
		}
		if seen.passwordHash == "" {
			if err := code.Consume(ctx, tx); err != nil {
				return err
			}
		}
		if after, err = setPassword(ctx, tx, seen.User, hash); err != nil {
			return err
		}
		return s.writeAs(ctx, tx, c.Event, user, device, trail.PasswordSet, clientnet.From(ctx))
	}, PasswordChanged.Of(s.caches.Runtime, user)...)
	if err != nil {
		return err
	}
	s.passwordSet(seen.User, after, device)
	return nil
}

// A Reset sets a password by a mailed code.
type Reset struct {
	Email    string
	Code     string // proves the address
	Password string // the new one

	ClientNet string // the caller's client network, see [clientnet.From]
}

// ResetPassword sets the password of the account whose address the code proves. It logs out all devices, unlocks log-in
// and mails a notice. It returns codes.ErrWrong also if there is no such account.
func (s *Service) ResetPassword(ctx context.Context, r Reset) (err error) {
	defer errs.Wrap(&err, "accounts.ResetPassword")
	if err := s.ownSignIn(); err != nil {
		return err
	}
	e, err := emails.Parse(r.Email)
	if err != nil {
		return err
	}
	if r.Password, err = newPassword(r.Password, e.Given); err != nil {
		return err
	}
	code, err := s.codes.Check(ctx, codes.Proof{Email: e, Purpose: codes.ForResetPassword}, r.Code, r.ClientNet)
	if err != nil {
		return asKind(err)
	}
	hash, err := s.hash(ctx, r.ClientNet, r.Password)
	if err != nil {
		return err
	}
	c, err := selectCredential(ctx, s.db, e.Given)
	if err != nil {
		return asKind(err)
	}
	if c.ID.IsZero() { // a guessed code for an address without an account
		return codes.Wrong("body.code")
	}
	var after User
	err = s.endAll(ctx, c.ID, DeviceID{}, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := code.Consume(ctx, tx); err != nil {
			return err
		}
		now, err := lockCredential(ctx, tx, c.ID)
		if err != nil {
			return err
		}
		if emails.Key(now.Email) != e.Key { // the address was changed in the meantime
			return codes.Wrong("body.code")
		}
		if after, err = setPassword(ctx, tx, now.User, hash); err != nil {
			return err
		}
		return s.write(ctx, tx, c.ID, DeviceID{}, trail.PasswordReset, r.ClientNet)
	}, PasswordChanged.Of(s.caches.Runtime, c.ID)...)
	if err != nil {
		return err
	}
	s.passwordSet(c.User, after, DeviceID{})
	return nil
}

// setPassword stores the password, enqueues the notice and returns the updated account.
func setPassword(ctx context.Context, tx *sqldb.Tx, u User, hash string) (User, error) {
	if err := updatePassword(ctx, tx, u.ID, hash); err != nil {
		return User{}, err
	}
	if err := notify(ctx, tx, u.ID, u.Email, api.NoticePasswordChanged); err != nil {
		return User{}, err
	}
	return selectUser(ctx, tx, u.ID)
}

// passwordSet publishes a change of the password to the devices.
func (s *Service) passwordSet(before, after User, by DeviceID) {
	now := s.db.Now()
	s.noticed(after.ID, now, api.NoticePasswordChanged, by)
	if !before.HasPassword {
		s.publish(api.EventAccountUpdated, after.ID, now, wireUser(after, now))
	}
}

// noticed publishes a change of the account to the devices, with the device that made it. The zero device means none.
func (s *Service) noticed(user ID, at time.Time, kind string, by DeviceID) {
	s.publish(api.EventAccountNotice, user, at, api.AccountNotice{Kind: kind, Device: by.String()})
}

// An EmailChange changes the address of a user.
type EmailChange struct {
	Email    string // the new one
	Code     string // proves it
	Password string // the current password
	OldCode  string // if there is no password: proves the old address, see [Service.RequestOwnCode]

	Event ids.ID[trail.Event] // like that of a [PasswordChange]
}

// ChangeEmail changes the address of a user and mails a notice to the old address, with a link that undoes the change,
// see [Service.UndoEmail]. All devices stay logged in. It returns ErrEmailTaken only to a caller who has proved the new
// address.
func (s *Service) ChangeEmail(ctx context.Context, user ID, device DeviceID, c EmailChange) (u User, err error) {
	defer errs.Wrap(&err, "accounts.ChangeEmail %s", user)
	e, err := emails.Parse(c.Email)
	if err != nil {
		return User{}, err
	}
	seen, err := s.confirm(ctx, user, device, c.Password, "body.password")
	if err != nil {
		return User{}, err
	}
	switch done, err := trail.Has(ctx, s.db, c.Event); {
	case err != nil:
		return User{}, asKind(err)
	case done && seen.Email == e.Given:
		return seen.User, nil
	case done:
		c.Event = ids.ID[trail.Event]{}
	}
	clientNet := clientnet.From(ctx)
	var old codes.Code
	if seen.passwordHash == "" {
		if old, err = s.checkOwnCode(ctx, seen.User, codes.ForLeaveEmail, c.OldCode, clientNet, "body.old_code"); err != nil {
			return User{}, err
		}
	}
	code, err := s.codes.Check(ctx, codes.Proof{Email: e, Purpose: codes.ForChangeEmail, User: user.String()}, c.Code, clientNet)
	if err != nil {
		return User{}, asKind(err)
	}
	err = s.commit(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		if err := code.Consume(ctx, tx); err != nil {
			return err
		}
		if err := unchanged(ctx, tx, seen, device); err != nil {
			return err
		}
		if seen.passwordHash == "" {
			if err := old.Consume(ctx, tx); err != nil {
				return err
			}
		}
		if err := updateEmail(ctx, tx, user, e); err != nil {
			return err
		}
		if err := s.offerUndo(ctx, tx, seen.User); err != nil {
			return err
		}
		if err := s.writeAs(ctx, tx, c.Event, user, device, trail.EmailSet, clientNet); err != nil {
			return err
		}
		u, err = selectUser(ctx, tx, user)
		return err
	}, EmailChanged.Of(s.caches.Runtime, user)...)
	if err != nil {
		return User{}, err
	}
	now := s.db.Now()
	s.noticed(user, now, api.NoticeEmailChanged, device)
	s.publish(api.EventAccountUpdated, user, now, wireUser(u, now))
	return u, nil
}

package accounts

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts/attempts"
	"github.com/stoa-dev/stoa/internal/accounts/emails"
	"github.com/stoa-dev/stoa/internal/accounts/trail"
	"github.com/stoa-dev/stoa/internal/foundation/errs"
	"github.com/stoa-dev/stoa/internal/foundation/household"
	"github.com/stoa-dev/stoa/internal/foundation/texts"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/ratelimit"
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
	ForSetPassword // this and the next are asked for by [Service.RequestOwnCode]
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

// parseOwnPurpose returns the purpose of a code to the caller's own address, or ErrPurpose.
func parseOwnPurpose(s string) (Purpose, error) {
	switch s {
	case api.PurposeSetPassword:
		return ForSetPassword, nil
	case api.PurposeLeaveEmail:
		return ForLeaveEmail, nil
	}
	return 0, ErrPurpose.On("body.purpose", "is not one of set_password, leave_email")
}

// codeTries is how many wrong guesses a code outlives, less one: five of a
// million, ten times a day for each purpose by the limits on sending. A code that was
// asked for from a household that the account knows outlives as many again from
// elsewhere, so that nobody else can use up its tries.
const codeTries = 5

// A proof is what a code proves: that its holder reads the mail of an address, and
// for which purpose. A code that a logged-in user asks for is bound to that user: another
// one can neither use that code nor void it.
type proof struct {
	email   emails.Address
	purpose Purpose
	user    ID // the user who asked; zero where nobody is logged in
}

// parts are what a secret that belongs to the proof is made of.
func (p proof) parts() []string {
	return []string{p.email.Key, string(p.purpose.AppendSegment(nil)), p.user.String()}
}

// segment stands for the address, who asked, and from where a code is tried, in a key.
func (p proof) segment(household string) keyspace.Hashed {
	return keyspace.Hashed{S: p.email.Key + " " + p.user.String() + " " + household}
}

// RequestCode mails a code for that purpose to that address and returns how
// long it lives. household is from where it is asked for, see [household.From]. The answer does not tell whether the address has an account;
// the mail does. emails.ErrInvalid, ErrPurpose, ErrTooManyCode.
func (s *Service) RequestCode(ctx context.Context, email, purpose, household string) (life time.Duration, err error) {
	defer errs.Wrap(&err, "accounts.RequestCode")
	if err := s.ownSignIn(); err != nil {
		return 0, err
	}
	e, err := emails.Parse(email)
	if err != nil {
		return 0, err
	}
	p, err := ParsePurpose(purpose)
	if err != nil {
		return 0, err
	}
	return s.cfg.CodeLife, s.sendCode(ctx, proof{email: e, purpose: p}, household)
}

// RequestEmailCode mails a code to the address that is to be the user's, and
// returns how long it lives. The answer does not tell whether the address has
// an account; the mail does. emails.ErrInvalid, ErrTooManyCode.
func (s *Service) RequestEmailCode(ctx context.Context, user ID, email, household string) (life time.Duration, err error) {
	defer errs.Wrap(&err, "accounts.RequestEmailCode %s", user)
	e, err := emails.Parse(email)
	if err != nil {
		return 0, err
	}
	return s.cfg.CodeLife, s.sendCode(ctx, proof{e, ForChangeEmail, user}, household)
}

// RequestOwnCode mails a code to the address that the user has, to set a first password
// or to leave that address, and returns how long it lives. ErrPurpose, ErrTooManyCode,
// ErrNoEmail, ErrNoUser.
func (s *Service) RequestOwnCode(ctx context.Context, user ID, purpose, household string) (life time.Duration, err error) {
	defer errs.Wrap(&err, "accounts.RequestOwnCode %s", user)
	p, err := parseOwnPurpose(purpose)
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
	return s.cfg.CodeLife, s.sendCode(ctx, u.proves(p), household)
}

// proves is what a code to the user's own address proves.
func (u User) proves(p Purpose) proof {
	return proof{emails.Address{Given: u.Email, Key: emails.Key(u.Email)}, p, u.ID}
}

// sendCode makes a code, in the place of one that was asked for before, and has it
// mailed. A code that was asked for from a household that the account knows keeps its
// place: what strangers ask for then is counted, and not mailed.
func (s *Service) sendCode(ctx context.Context, p proof, household string) error {
	known, err := s.knows(ctx, p.email, household)
	if err != nil {
		return err
	}
	switch r, err := s.redis.mayMail(ctx, p, household, known, s.cfg.Limits); {
	case err != nil:
		return err
	case !r.Allowed:
		s.metrics.codes.WithLabelValues("refused").Inc()
		return ErrTooManyCode.Retry(r.Reset)
	}
	notice := codeNotice{To: p.email.Given, Purpose: p.purpose, User: p.user, Seed: newNonce(), Lang: texts.From(ctx)}
	row := s.codeRow(p, s.mint.code(p, notice.Seed))
	if known {
		row.household = household
	}
	if err := replaceCode(ctx, s.db, p, row, notice, s.cfg.CodeLife); err != nil {
		return asKind(err)
	}
	s.metrics.codes.WithLabelValues("asked").Inc()
	s.attempts.Settle(ctx, []attempts.Meter{codeMeter(p, household, s.cfg.CodeLife)}, nil) // those of the code before
	return nil
}

// knows reports whether the address has an account that has been used from that household.
func (s *Service) knows(ctx context.Context, e emails.Address, household string) (bool, error) {
	c, err := selectCredential(ctx, s.db, e.Key)
	if err != nil {
		return false, asKind(err)
	}
	known, err := trail.Knows(ctx, s.db, c.ID.String(), household)
	return known && household != "", asKind(err)
}

func (s *Service) codeRow(p proof, code string) codeRow {
	return codeRow{emailHash: s.mint.emailHash(p), purpose: p.purpose, codeHash: s.mint.codeHash(p, code)}
}

// errCode is ErrCode where a request has the code.
var errCode = ErrCode.On("body.code", "is wrong, used or expired")

// checkCode counts a try from a household and compares. The code is not used up by
// it: that belongs into the transaction of what the code is for, see consumeCode. While
// codes are suspended, the account of the address has to know the household, whoever is
// logged in: else one with many accounts would guess codes of ever new addresses at
// home. ErrCode, ErrTooManyWrong.
func (s *Service) checkCode(ctx context.Context, p proof, code, from string) (codeRow, error) {
	if suspended := s.wrong.suspended(household.Network(from), s.db.Now()); suspended != nil {
		if known, err := s.knows(ctx, p.email, from); err != nil || !known {
			return codeRow{}, cmp.Or(err, suspended)
		}
	}
	c := s.codeRow(p, code)
	if !s.attempts.Allows(ctx, codeMeter(p, from, s.cfg.CodeLife)) {
		return codeRow{}, errCode
	}
	stored, err := tryCode(ctx, s.db, c, from)
	if err != nil {
		return codeRow{}, asKind(err)
	}
	if stored == "" {
		return codeRow{}, errCode
	}
	if !sameHash(stored, c.codeHash) {
		return codeRow{}, s.wrongCode(ctx, household.Network(from))
	}
	return c, nil
}

// checkOwnCode is checkCode for a code to the user's own address; where names it in the
// request.
func (s *Service) checkOwnCode(ctx context.Context, u User, p Purpose, code, household, where string) (codeRow, error) {
	if code == "" {
		return codeRow{}, ErrCode.On(where, "is needed: ask for it at the address of the account")
	}
	row, err := s.checkCode(ctx, u.proves(p), code, household)
	if errors.Is(err, ErrCode) {
		err = ErrCode.On(where, "is wrong, used or expired")
	}
	return row, err
}

// wrongCode counts a wrong guess of a code that there is, and returns errCode. Beyond Limits.WrongCodes an hour this
// node takes codes for the rest of that hour from households alone that the account knows: that stops an attacker who tries codes of very many
// addresses. Beyond its share it takes none from the network of the guess, so that no single network uses up what all have.
func (s *Service) wrongCode(ctx context.Context, network string) error {
	s.metrics.codes.WithLabelValues("wrong").Inc()
	limits := s.cfg.Limits
	if network == "" || !s.countWrong(ctx, network, wrongCodesFromKeys.At(keyspace.Hashed{S: network}), limits.share(limits.WrongCodes)) {
		s.countWrong(ctx, "", wrongCodesKey.At(), limits.WrongCodes)
	}
	return errCode
}

// countWrong counts a wrong guess from a network, or from all where it is empty, and reports whether that suspends codes.
func (s *Service) countWrong(ctx context.Context, network string, key keyspace.Counter, most int) (suspends bool) {
	res, err := s.redis.limiter.Allow(ctx, key, ratelimit.Limit{Max: most, Window: time.Hour})
	if err != nil || res.Allowed {
		return false
	}
	if s.wrong.suspend(network, s.db.Now(), res.Reset) {
		s.log.Warn("accounts: too many wrong codes; those of unknown households are not looked at for a while", "network", cmp.Or(network, "all"), "limit", most, "for", res.Reset)
	}
	return true
}

// share is how much one network has of what all have: a tenth, and no less than one household of it.
func (l Limits) share(all int) int { return max(all/10, l.CodesPerIP) }

// wrongCodes is until when this node looks at no code from a network, or from any: the empty one. There are few: as many wrong
// guesses as suspend some networks suspend all.
type wrongCodes struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// suspend reports whether that is news.
func (w *wrongCodes) suspend(network string, now time.Time, d time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.until[network]
	maps.DeleteFunc(w.until, func(_ string, until time.Time) bool { return !until.After(now) })
	if w.until == nil {
		w.until = map[string]time.Time{}
	}
	w.until[network] = now.Add(d)
	return w.until[network].Sub(before) > time.Second
}

func (w *wrongCodes) suspended(network string, now time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, of := range []string{"", network} {
		if left := w.until[of].Sub(now); left > 0 {
			return ErrTooManyWrong.Retry(left)
		}
	}
	return nil
}

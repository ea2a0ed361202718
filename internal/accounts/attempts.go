package accounts

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts/attempts"
	"github.com/stoa-dev/stoa/internal/accounts/codes"
	"github.com/stoa-dev/stoa/internal/accounts/emails"
	"github.com/stoa-dev/stoa/internal/accounts/trail"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// Who may try a password or a code is decided by counters. Every try counts before it is
// looked at, and a good one is taken back: of a thousand at once five are looked at.
//
//	for one address, from one household             Limits.LoginFails
//	for one address, from all unknown households    unknownFails times as many
//	from one household, for all addresses           Limits.HouseholdFails
//	a logged-in user who is asked for the password  Limits.LoginFails, for each device
//
// A household is known to an account that has registered or logged in from there. So
// whoever knows an address can lock log-in for strange households, and neither for the
// owner's own nor for devices that are logged in.

// unknownFails is how many times the tries of one household all unknown households
// have together.
const unknownFails = 10

// householdLife is how long the failures of a household are counted after the last.
const householdLife = time.Hour

// An attempt is one try of a secret: whose, from where, and what counts it.
type attempt struct {
	user      ID // zero where the address has no account
	device    DeviceID
	household string
	failed    trail.Kind
	first     []attempts.Meter // of what all of them count,
	then      []attempts.Meter // and these only where those allow it
	clear     []attempts.Meter // are forgotten after a good try; all others are taken back
}

// loginAttempt is a try to log in to the account of c, which is zero where there is none.
// Counters belong to the password as well: with another one all begin anew, so that a
// reset opens every lock.
func (s *Service) loginAttempt(ctx context.Context, e emails.Address, c credential, household string) (attempt, error) {
	known, err := trail.Knows(ctx, s.db, c.ID.String(), household)
	if err != nil {
		return attempt{}, asKind(err)
	}
	l, email, from := s.cfg.Limits, keyspace.Hashed{S: e.Key + " " + c.passwordHash}, keyspace.Hashed{S: household}
	own := attempts.Meter{Key: loginFailFromKeys.At(email, from).Key, Cap: l.LoginFails, Life: l.LoginLock}
	a := attempt{user: c.ID, household: household, failed: trail.LoginFailed, clear: []attempts.Meter{own},
		first: []attempts.Meter{own, {Key: householdFailKeys.At(from).Key, Cap: l.HouseholdFails, Life: householdLife}}}
	if !known {
		a.then = []attempts.Meter{{Key: loginFailKeys.At(email).Key, Cap: unknownFails * l.LoginFails, Life: l.LoginLock}}
	}
	return a, nil
}

// confirmAttempt is a try of the present password by a user who is logged in.
func (s *Service) confirmAttempt(user ID, device DeviceID, household string) attempt {
	own := attempts.Meter{Key: confirmFailKeys.At(user, device).Key, Cap: s.cfg.Limits.LoginFails, Life: s.cfg.Limits.LoginLock}
	return attempt{user: user, device: device, household: household, failed: trail.PasswordWrong, first: []attempts.Meter{own}, clear: []attempts.Meter{own}}
}

// counted calls try, which looks at a password or a code, unless too many were wrong
// before: ErrLocked. While SQL is away none can be looked at, and none counts.
func (s *Service) counted(ctx context.Context, a attempt, try func() error) error {
	if err := s.db.Ping(ctx); err != nil {
		return asKind(err)
	}
	return s.count(ctx, a, try)
}

// countedMatch is [Service.counted] for tries of a password, which try compares by [Service.matches]. A try in progress counts as
// wrong, so it begins with a slot of the hasher: right passwords that wait for a slot do not lock the account.
func (s *Service) countedMatch(ctx context.Context, a attempt, asker string, try func() error) error {
	if err := s.db.Ping(ctx); err != nil {
		return asKind(err)
	}
	return busy(s.hasher.Do(ctx, asker, func() error { return s.count(ctx, a, try) }))
}

func (s *Service) count(ctx context.Context, a attempt, try func() error) error {
	var taken []attempts.Meter
	for _, meters := range [][]attempts.Meter{a.first, a.then} {
		allowed, left, err := s.attempts.Take(ctx, meters, s.db.Now())
		if err != nil || !allowed { // nothing was looked at
			s.attempts.Settle(ctx, nil, taken)
		}
		if err != nil {
			return err
		}
		if !allowed {
			s.note(a, trail.LoginLocked)
			return ErrLocked.Retry(left)
		}
		taken = append(taken, meters...)
	}
	err := try()
	if isWrong(err) {
		s.note(a, a.failed)
		return err
	}
	if err != nil { // it was not looked at, or it was right and something else refused
		s.attempts.Settle(ctx, nil, taken)
		return err
	}
	s.attempts.Settle(ctx, a.clear, taken[len(a.clear):])
	return nil
}

// isWrong reports whether a secret was looked at and found wrong.
func isWrong(err error) bool {
	return slices.ContainsFunc([]error{ErrCredentials, ErrPasswordWrong, codes.ErrWrong, ErrNoUser}, func(e error) bool { return errors.Is(err, e) })
}

// note counts what has no transaction of its own, and where there is an account keeps
// it; see package trail.
func (s *Service) note(a attempt, kind trail.Kind) {
	s.metrics.events.WithLabelValues(string(kind)).Inc()
	if a.user.IsZero() {
		return
	}
	if !s.notes.Add(trail.Event{User: a.user.String(), Device: a.device.String(), Kind: kind, Household: a.household, At: s.db.Now()}) {
		s.metrics.notesLost.Inc()
	}
}

// noticed are the kinds of which users are told beside the mail.
var noticed = map[trail.Kind]string{
	trail.LoggedIn:      api.NoticeAccountLogin,
	trail.PasswordSet:   api.NoticeAccountPassword,
	trail.PasswordReset: api.NoticeAccountPassword,
	trail.EmailSet:      api.NoticeAccountEmail,
	trail.EmailUndone:   api.NoticeAccountEmail,
	trail.Restored:      api.NoticeAccountRestored,
	trail.RefreshReused: api.NoticeAccountReused,
}

// write keeps what happened in the transaction of what happened, and tells the user what
// the user should know.
func (s *Service) write(ctx context.Context, tx *sqldb.Tx, user ID, device DeviceID, kind trail.Kind, household string) error {
	return s.writeAs(ctx, tx, ids.ID[trail.Event]{}, user, device, kind, household)
}

// writeAs is [Service.write] of an event that has an id already; zero: it gets one.
func (s *Service) writeAs(ctx context.Context, tx *sqldb.Tx, id ids.ID[trail.Event], user ID, device DeviceID, kind trail.Kind, household string) error {
	tx.AfterCommit(func() { s.metrics.events.WithLabelValues(string(kind)).Inc() })
	if err := trail.Write(ctx, tx, trail.Event{ID: id, User: user.String(), Device: device.String(), Kind: kind, Household: household}); err != nil {
		return err
	}
	told, there := noticed[kind]
	if !there || s.notify == nil {
		return nil
	}
	return s.notify(ctx, tx, user, told, api.NoticeOfAccount{V: 1, Device: device.String(), Network: household})
}

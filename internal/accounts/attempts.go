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

// Counters limit tries of passwords and codes. Each try counts before the secret is checked, and a successful try is
// given back: of a thousand concurrent tries five are checked.
//
//	for one address, from one client network             Limits.LoginFails
//	for one address, from all unknown client networks    unknownFails times as many
//	from one client network, for all addresses           Limits.ClientNetFails
//	a logged-in user who confirms the password           Limits.LoginFails, for each device
//
// A client network is known to an account that has registered or logged in from it. So an attacker who knows an address
// can lock log-in only for unknown client networks, not for the owner's client networks or logged-in devices.

// unknownFails is the limit of all unknown client networks together, as a multiple of the limit of one client network.
const unknownFails = 10

// clientNetLife is how long failures of a client network count after the last one.
const clientNetLife = time.Hour

// An attempt is one try of a secret, with its counters.
type attempt struct {
	user      ID // zero if the address has no account
	device    DeviceID
	clientNet string
	failed    trail.Kind
	first     []attempts.Meter // all of them count the try,
	then      []attempts.Meter // then these count it if those allow it
	clear     []attempts.Meter // reset after a success; all others are given back
}

// loginAttempt returns a log-in attempt for the account of c, which is zero if there is none. The counters also depend
// on the password, so that a reset opens all locks.
func (s *Service) loginAttempt(ctx context.Context, e emails.Address, c credential, clientNet string) (attempt, error) {
	known, err := trail.Knows(ctx, s.db, c.ID.String(), clientNet)
	if err != nil {
		return attempt{}, asKind(err)
	}
	l, email, from := s.cfg.Limits, keyspace.Hashed{S: e.Key + " " + c.passwordHash}, keyspace.Hashed{S: clientNet}
	own := attempts.Meter{Key: loginFailFromKeys.At(email, from).Key, Cap: l.LoginFails, Life: l.LoginLock}
	a := attempt{user: c.ID, clientNet: clientNet, failed: trail.LoginFailed, clear: []attempts.Meter{own},
		first: []attempts.Meter{own, {Key: clientNetFailKeys.At(from).Key, Cap: l.ClientNetFails, Life: clientNetLife}}}
	if !known {
		a.then = []attempts.Meter{{Key: loginFailKeys.At(email).Key, Cap: unknownFails * l.LoginFails, Life: l.LoginLock}}
	}
	return a, nil
}

// confirmAttempt returns an attempt of a logged-in user to confirm the current password.
func (s *Service) confirmAttempt(user ID, device DeviceID, clientNet string) attempt {
	own := attempts.Meter{Key: confirmFailKeys.At(user, device).Key, Cap: s.cfg.Limits.LoginFails, Life: s.cfg.Limits.LoginLock}
	return attempt{user: user, device: device, clientNet: clientNet, failed: trail.PasswordWrong, first: []attempts.Meter{own},
		clear: []attempts.Meter{own}}
}

// counted calls try, which checks a password or a code. It returns ErrLocked if too many tries failed before. While SQL
// is unavailable it calls nothing and counts nothing.
func (s *Service) counted(ctx context.Context, a attempt, try func() error) error {
	if err := s.db.Ping(ctx); err != nil {
		return asKind(err)
	}
	return s.count(ctx, a, try)
}

// countedMatch is [Service.counted] for passwords, which try compares with [Service.matches]. A running try counts as
// wrong, so it starts only when a slot of the hasher is free: correct passwords that wait for a slot do not lock the
// account.
func (s *Service) countedMatch(ctx context.Context, a attempt, asker string, try func() error) error {
	if err := s.db.Ping(ctx); err != nil {
		return asKind(err)
	}
	return busy(s.hasher.Do(ctx, asker, func() error { return s.count(ctx, a, try) }))
}

func (s *Service) count(ctx context.Context, a attempt, try func() error) error {
	var taken []attempts.Meter
	for _, meters := range [][]attempts.Meter{a.first, a.then} {
		allowed, left, err := s.attempts.Count(ctx, meters, s.db.Now())
		if err != nil || !allowed { // no secret was checked
			s.attempts.Settle(ctx, nil, taken)
		}
		if err != nil {
			return err
		}
		if !allowed {
			s.recordFailure(a, trail.LoginLocked)
			return ErrLocked.Retry(left)
		}
		taken = append(taken, meters...)
	}
	err := try()
	if isWrong(err) {
		s.recordFailure(a, a.failed)
		return err
	}
	if err != nil { // the secret was not checked, or it was right and another condition failed
		s.attempts.Settle(ctx, nil, taken)
		return err
	}
	s.attempts.Settle(ctx, a.clear, taken[len(a.clear):])
	return nil
}

// isWrong reports whether a secret was checked and was wrong.
func isWrong(err error) bool {
	return slices.ContainsFunc([]error{ErrCredentials, ErrPasswordWrong, codes.ErrWrong, ErrNoUser}, func(e error) bool {
		return errors.Is(err, e)
	})
}

// recordFailure counts an event without a transaction, and records it if there is an account; see package trail.
func (s *Service) recordFailure(a attempt, kind trail.Kind) {
	s.metrics.events.WithLabelValues(string(kind)).Inc()
	if a.user.IsZero() {
		return
	}
	if !s.notes.Add(trail.Event{User: a.user.String(), Device: a.device.String(), Kind: kind, ClientNet: a.clientNet, At: s.db.Now()}) {
		s.metrics.notesLost.Inc()
	}
}

// noticed lists the kinds of events for which users get a notice in addition to the mail.
var noticed = map[trail.Kind]string{
	trail.LoggedIn:      api.NoticeAccountLogin,
	trail.PasswordSet:   api.NoticeAccountPassword,
	trail.PasswordReset: api.NoticeAccountPassword,
	trail.EmailSet:      api.NoticeAccountEmail,
	trail.EmailUndone:   api.NoticeAccountEmail,
	trail.Restored:      api.NoticeAccountRestored,
	trail.RefreshReused: api.NoticeAccountReused,
}

// write records an event in the transaction of its change, and sends the user a notice if the kind requires one.
func (s *Service) write(ctx context.Context, tx *sqldb.Tx, user ID, device DeviceID, kind trail.Kind, clientNet string) error {
	return s.writeAs(ctx, tx, ids.ID[trail.Event]{}, user, device, kind, clientNet)
}

// writeAs is [Service.write] with an id for the event; a zero id creates one.
func (s *Service) writeAs(ctx context.Context, tx *sqldb.Tx, id ids.ID[trail.Event], user ID, device DeviceID, kind trail.Kind,
	clientNet string) error {
	tx.AfterCommit(func() { s.metrics.events.WithLabelValues(string(kind)).Inc() })
	if err := trail.Write(ctx, tx, trail.Event{ID: id, User: user.String(), Device: device.String(), Kind: kind,
		ClientNet: clientNet}); err != nil {
		return err
	}
	notice, ok := noticed[kind]
	if !ok || s.notify == nil {
		return nil
	}
	return s.notify(ctx, tx, user, notice, api.NoticeOfAccount{V: 1, Device: device.String(), Network: clientNet})
}

package accounts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts/emails"
	"github.com/stoa-dev/stoa/internal/accounts/trail"
	"github.com/stoa-dev/stoa/internal/base/clientnet"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/words"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// An account that is deleted can be brought back until it is erased:
//
//	Delete     logs all devices out; others see a deleted user
//	log-in     takes it back, as long as it is not due (allowLogin)
//	eraseDue   the job: nothing stays of the account but its id
//	app        has every domain erase what it holds (TopicErased), twice
//	Erased     names the users of whom nothing may be left, for what comes late

// Topics of the outbox.
const (
	// TopicErased has every domain erase what it holds of a user; the payload is an
	// [Erasure].
	TopicErased = "accounts.erased"
	// TopicChanged has a server drop the copies and publish the events of a change
	// that an operator made, or a node that died. This package handles it itself.
	TopicChanged = "accounts.changed"
)

// Erasure is the payload of [TopicErased].
type Erasure struct {
	User ID   `json:"user"`
	Late bool `json:"late,omitempty"` // the second time, for what was under way the first time
}

// The refusals about bans and deletion.
var (
	ErrBanned     = errs.New(errs.Forbidden, "account.banned", "This account is banned.")
	ErrBan        = errs.New(errs.Invalid, "account.ban_invalid", "A ban ends in the future, and has a reason of at most 200 printable characters.")
	ErrNotDeleted = errs.New(errs.Conflict, "account.not_deleted", "The account is not deleted.")
)

// MaxGrace is for how long a deleted account stays at the longest, see
// Settings.Grace.
const MaxGrace = 90 * 24 * time.Hour

// Forever is the end of a ban that has none.
var Forever = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// Delete deletes the account of a logged-in user: all devices are logged out, the
// address gets a mail, and others see a deleted user. It returns when the account
// will be erased. password is the one in force, empty when there is none.
// ErrPasswordWrong, ErrLocked, ErrToken, ErrNoUser.
func (s *Service) Delete(ctx context.Context, user ID, device DeviceID, password string) (erased time.Time, err error) {
	defer errs.Wrap(&err, "accounts.Delete %s", user)
	seen, err := s.confirm(ctx, user, device, password, "body.password")
	if err != nil {
		return time.Time{}, err
	}
	err = s.endAll(ctx, user, DeviceID{}, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := unchanged(ctx, tx, seen, device); err != nil {
			return err
		}
		erased = tx.Now().Add(s.cfg.Grace)
		if err := deleteUser(ctx, tx, seen.User, erased); err != nil {
			return err
		}
		return s.write(ctx, tx, user, device, trail.Deleted, clientnet.From(ctx))
	}, AccountDeleted.Of(s.caches.Runtime, user)...)
	if err != nil {
		return time.Time{}, err
	}
	s.noticed(user, s.db.Now(), api.NoticeDeletion, device)
	return erased, nil
}

// deleteUser marks an account as deleted and enqueues the notice of it.
func deleteUser(ctx context.Context, tx *sqldb.Tx, u User, erased time.Time) error {
	if err := updateErased(ctx, tx, u.ID, erased); err != nil {
		return err
	}
	return notice{To: u.Email, Kind: api.NoticeDeletion, Until: erased.UnixMilli()}.enqueue(ctx, tx, u.ID)
}

// openSessionAs is openSession for a user whose credentials identify has found right.
func (s *Service) openSessionAs(ctx context.Context, user ID, l Login, identify func(ctx context.Context, tx *sqldb.Tx) (User, error)) (t Tokens, err error) {
	restored := false
	t, err = s.openSession(ctx, user, l.from(), func(ctx context.Context, tx *sqldb.Tx) (u User, err error) {
		if u, err = identify(ctx, tx); err == nil {
			u, restored, err = s.allowLogin(ctx, tx, u, clientnet.Parse(l.IP))
		}
		return u, err
	}, trail.LoggedIn)
	t.Restored = err == nil && restored
	return t, err
}

// allowLogin decides about a log-in whose credentials proved right, of an account that
// tx holds: whether it is allowed, and whether it takes a deletion back. A ban is
// told only here: without the credentials every caller gets the same answer.
func (s *Service) allowLogin(ctx context.Context, tx *sqldb.Tx, u User, household string) (_ User, restored bool, err error) {
	now := tx.Now()
	if u.Deleted() && !now.Before(u.Erased) {
		return u, false, ErrCredentials
	}
	if now.Before(u.Banned) {
		refusal, err := banned(ctx, tx, u)
		return u, false, cmp.Or(err, refusal)
	}
	if !u.Deleted() {
		return u, false, nil
	}
	// Stale copies are dropped after the commit, and by another node should this one
	// die before: no rule rests on them.
	if err := restore(ctx, tx, u); err != nil {
		return u, false, err
	}
	if err := (change{User: u.ID}).enqueue(ctx, tx); err != nil {
		return u, false, err
	}
	if err := s.write(ctx, tx, u.ID, DeviceID{}, trail.Restored, household); err != nil {
		return u, false, err
	}
	u.Erased = time.Time{}
	tx.AfterCommit(func() {
		s.after(ctx, "show an account again", func(ctx context.Context) error {
			return s.caches.Drop(ctx, AccountDeleted.Of(s.caches.Runtime, u.ID)...)
		})
		s.noticed(u.ID, now, api.NoticeRestored, DeviceID{})
	})
	return u, true, nil
}

// restore takes a deletion back and enqueues the notice of it.
func restore(ctx context.Context, tx *sqldb.Tx, u User) error {
	if err := updateErased(ctx, tx, u.ID, time.Time{}); err != nil {
		return err
	}
	return notify(ctx, tx, u.ID, u.Email, api.NoticeRestored)
}

// whyEnded returns the refusal for a device whose session has ended.
func whyEnded(ctx context.Context, tx *sqldb.Tx, user ID) (refusal, err error) {
	u, err := selectUser(ctx, tx, user)
	switch {
	case errors.Is(err, ErrNoUser) || err == nil && !tx.Now().Before(u.Banned):
		return ErrRefresh, nil
	case err != nil:
		return nil, err
	}
	return banned(ctx, tx, u)
}

// banned returns the refusal, with the ban's end and reason.
func banned(ctx context.Context, tx *sqldb.Tx, u User) (refusal, err error) {
	reason, err := selectBanReason(ctx, tx, u.ID)
	if err != nil {
		return nil, err
	}
	left, text := time.Duration(0), "This account is banned"
	if u.Banned.Before(Forever) {
		left = u.Banned.Sub(tx.Now())
		text += " until " + u.Banned.Format(time.RFC3339)
	}
	if reason != "" {
		text += ": " + strings.TrimRight(reason, ".")
	}
	e := ErrBanned.Retry(left)
	e.Text = text + "."
	return e, nil
}

// Ban keeps a user from logging in until then, and logs all devices out. Others
// see what they see of a deleted one, and cannot find it. The reason is shown to the user.
// ErrBan, ErrNoUser.
func (s *Service) Ban(ctx context.Context, user ID, until time.Time, reason string) (err error) {
	defer errs.Wrap(&err, "accounts.Ban %s", user)
	return s.endAll(ctx, user, DeviceID{}, func(ctx context.Context, tx *sqldb.Tx) error {
		return ban(ctx, tx, user, until, reason)
	}, AccountBanned.Of(s.caches.Runtime, user)...)
}

// Unban lets a user log in again; it changes nothing for a user who is not banned.
// ErrNoUser.
func (s *Service) Unban(ctx context.Context, user ID) (err error) {
	defer errs.Wrap(&err, "accounts.Unban %s", user)
	return s.commit(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return unban(ctx, tx, user) }, AccountBanned.Of(s.caches.Runtime, user)...)
}

func ban(ctx context.Context, tx *sqldb.Tx, user ID, until time.Time, reason string) error {
	reason, ok := words.Line(reason, 200)
	if !until.After(tx.Now()) || until.After(Forever) || !ok {
		return ErrBan
	}
	if _, err := lockAccount(ctx, tx, user); err != nil {
		return err
	}
	if err := updateBan(ctx, tx, user, until, reason); err != nil {
		return err
	}
	return writeOperators(ctx, tx, user, DeviceID{}, trail.Banned)
}

func unban(ctx context.Context, tx *sqldb.Tx, user ID) error {
	if _, err := lockAccount(ctx, tx, user); err != nil {
		return err
	}
	if err := updateBan(ctx, tx, user, time.Time{}, ""); err != nil {
		return err
	}
	return writeOperators(ctx, tx, user, DeviceID{}, trail.Unbanned)
}

// lockAccount is lockUser for an account that is not due: ErrNoUser.
func lockAccount(ctx context.Context, tx *sqldb.Tx, user ID) (User, error) {
	u, err := lockUser(ctx, tx, user)
	if err == nil && u.Deleted() && !tx.Now().Before(u.Erased) {
		err = ErrNoUser
	}
	return u, err
}

const (
	// eraseEvery is how late an account is erased.
	eraseEvery = 10 * time.Second
	// eraseChunk is how many accounts one statement looks for.
	eraseChunk = 100
	// lateAfter is when the domains look again: a request that was under way when
	// its device was logged out has ended, and what it wrote is there.
	lateAfter = time.Minute
)

// eraseDue erases the accounts whose time has come, one transaction for each.
func (s *Service) eraseDue(ctx context.Context) (err error) {
	defer errs.Wrap(&err, "accounts.eraseDue")
	for {
		due, err := selectDue(ctx, s.db, s.db.Now(), eraseChunk)
		if err != nil {
			return asKind(err)
		}
		var faults []error
		for _, user := range due {
			faults = append(faults, s.erase(ctx, user))
		}
		if err := errors.Join(faults...); err != nil || len(due) < eraseChunk {
			return err
		}
	}
}

// erase leaves of an account what others need to see a deleted user, and has every
// domain erase what it holds. It does nothing when the account is not due. There are
// no sessions to end: a deleted account has none.
func (s *Service) erase(ctx context.Context, user ID) error {
	if err := s.WithdrawCard(ctx, user); err != nil {
		return err
	}
	err := s.commit(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		u, err := lockUser(ctx, tx, user)
		if err != nil {
			return err
		}
		if done, err := anonymize(ctx, tx, user); err != nil || !done {
			return err
		}
		if err := s.codes.Forget(ctx, tx, emails.Address{Given: u.Email, Key: emails.Key(u.Email)}, user.String()); err != nil {
			return err
		}
		if err := deleteRest(ctx, tx, user); err != nil {
			return err
		}
		return Erasure{User: user}.enqueue(ctx, tx, tx.Now())
	}, AccountDeleted.Of(s.caches.Runtime, user)...)
	if err != nil {
		return fmt.Errorf("%s: %w", user, err)
	}
	return nil
}

// ErasedEverywhere is called when every domain has done what an [Erasure] asks for.
// After the first time it has them look once more. After the second it removes what was noted of
// failures while the account was erased, and written later.
func (s *Service) ErasedEverywhere(ctx context.Context, e Erasure) (err error) {
	defer errs.Wrap(&err, "accounts.ErasedEverywhere %s", e.User)
	if e.Late {
		return asKind(eraseTrail(ctx, s.db, e.User))
	}
	return asKind(eraseLate(ctx, s.db, e.User))
}

// Erased returns those of ids whose accounts are erased: no domain may hold anything
// of them.
func (s *Service) Erased(ctx context.Context, ids []ID) (_ []ID, err error) {
	defer errs.Wrap(&err, "accounts.Erased")
	gone, err := selectErased(ctx, s.db, ids)
	return gone, asKind(err)
}

// change is the payload of [TopicChanged]: a change of an account of which the nodes
// do not know.
type change struct {
	User   ID         `json:"user"`
	Ended  []DeviceID `json:"ended,omitempty"`  // that were logged out
	Notice string     `json:"notice,omitempty"` // see api.AccountNotice
}

func (c change) enqueue(ctx context.Context, tx *sqldb.Tx) error {
	return tx.EnqueueJSON(ctx, sqldb.Message{Topic: TopicChanged, Key: c.User.String(), NoDedup: true}, c)
}

// applyChange handles [TopicChanged].
func (s *Service) applyChange(ctx context.Context, c change) (err error) {
	defer errs.Wrap(&err, "accounts.applyChange")
	targets := append(AccountDeleted.Of(s.caches.Runtime, c.User), s.targets(c.User, c.Ended)...)
	if err := s.caches.Drop(ctx, targets...); err != nil {
		return err
	}
	now := s.db.Now()
	s.loggedOut(ctx, c.User, c.Ended, now)
	if c.Notice != "" {
		s.noticed(c.User, now, c.Notice, DeviceID{})
	}
	return nil
}

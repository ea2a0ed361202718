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

// A deleted account can be restored until it is erased:
//
//	Delete     logs out all devices; other users see a deleted user
//	log-in     cancels the deletion, unless it is due (allowLogin)
//	eraseDue   the job: only the id of the account remains
//	app        makes each domain erase its data of the user (TopicErased), twice
//	Erased     lists erased users, for data that arrives late

// Topics of the outbox.
const (
	// TopicErased makes each domain erase its data of a user; the payload is an [Erasure].
	TopicErased = "accounts.erased"
	// TopicChanged makes a server drop cache entries and publish the events of a change by an operator, or by a node
	// that died. This package handles it.
	TopicChanged = "accounts.changed"
)

// Erasure is the payload of [TopicErased].
type Erasure struct {
	User ID   `json:"user"`
	Late bool `json:"late,omitempty"` // the second time, for requests that were running the first time
}

// Errors about bans and deletion.
var (
	ErrBanned     = errs.New(errs.Forbidden, "account.banned", "This account is banned.")
	ErrBan        = errs.New(errs.Invalid, "account.ban_invalid", "Set a future end and a reason of at most 200 characters.")
	ErrNotDeleted = errs.New(errs.Conflict, "account.not_deleted", "The account is not deleted.")
)

// MaxGrace is the largest grace period of a deleted account, see Settings.Grace.
const MaxGrace = 90 * 24 * time.Hour

// Forever is the end of a permanent ban.
var Forever = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// Delete deletes the account of a logged-in user. It logs out all devices and mails a notice, and other users see a
// deleted user. It returns the time of the erasure. password is the current one, or empty if there is none.
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

// deleteUser marks an account as deleted and enqueues the notice.
func deleteUser(ctx context.Context, tx *sqldb.Tx, u User, erased time.Time) error {
	if err := updateErased(ctx, tx, u.ID, erased); err != nil {
		return err
	}
	return notice{To: u.Email, Kind: api.NoticeDeletion, Until: erased.UnixMilli()}.enqueue(ctx, tx, u.ID)
}

// openSessionAs is openSession for a user whose credentials identify has checked.
func (s *Service) openSessionAs(ctx context.Context, user ID, l Login,
	identify func(ctx context.Context, tx *sqldb.Tx) (User, error)) (t Tokens, err error) {
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

// allowLogin decides about a log-in with correct credentials, for an account that tx has locked: whether it is allowed,
// and whether it cancels a deletion. Only this check reveals a ban: without the credentials all callers get the same
// error.
func (s *Service) allowLogin(ctx context.Context, tx *sqldb.Tx, u User, clientNet string) (_ User, restored bool, err error) {
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
	// Stale cache entries are dropped after the commit, or by another node if this one dies before. No rule depends on
	// them.
	if err := restore(ctx, tx, u); err != nil {
		return u, false, err
	}
	if err := (change{User: u.ID}).enqueue(ctx, tx); err != nil {
		return u, false, err
	}
	if err := s.write(ctx, tx, u.ID, DeviceID{}, trail.Restored, clientNet); err != nil {
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

// restore cancels a deletion and enqueues the notice.
func restore(ctx context.Context, tx *sqldb.Tx, u User) error {
	if err := updateErased(ctx, tx, u.ID, time.Time{}); err != nil {
		return err
	}
	return notify(ctx, tx, u.ID, u.Email, api.NoticeRestored)
}

// whyEnded returns the error for a device whose session has ended.
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

// banned returns the error with the end and the reason of the ban.
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

// Ban prevents log-ins of a user until the given time, and logs out all devices. Other users see the user as deleted
// and cannot find it. The user sees the reason.
func (s *Service) Ban(ctx context.Context, user ID, until time.Time, reason string) (err error) {
	defer errs.Wrap(&err, "accounts.Ban %s", user)
	return s.endAll(ctx, user, DeviceID{}, func(ctx context.Context, tx *sqldb.Tx) error {
		return ban(ctx, tx, user, until, reason)
	}, AccountBanned.Of(s.caches.Runtime, user)...)
}

// Unban ends a ban. It does nothing for a user who is not banned.
func (s *Service) Unban(ctx context.Context, user ID) (err error) {
	defer errs.Wrap(&err, "accounts.Unban %s", user)
	return s.commit(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		return unban(ctx, tx, user)
	}, AccountBanned.Of(s.caches.Runtime, user)...)
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

// lockAccount is lockUser for an account whose erasure is not due: otherwise it returns ErrNoUser.
func lockAccount(ctx context.Context, tx *sqldb.Tx, user ID) (User, error) {
	u, err := lockUser(ctx, tx, user)
	if err == nil && u.Deleted() && !tx.Now().Before(u.Erased) {
		err = ErrNoUser
	}
	return u, err
}

const (
	// eraseEvery bounds the delay of an erasure.
	eraseEvery = 10 * time.Second
	// eraseChunk is the number of accounts per query.
	eraseChunk = 100
	// lateAfter is the delay of the second erasure. By then requests that were running at the log-out have ended, and
	// their data is stored.
	lateAfter = time.Minute
)

// eraseDue erases the accounts that are due, one transaction per account.
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

// erase keeps only what other users need to see a deleted user, and makes each domain erase its data. It does nothing
// if the account is not due. A deleted account has no sessions to end.
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

// ErasedEverywhere is called when each domain has handled an [Erasure]. After the first time it schedules the second.
// After the second it deletes the events of failures that were recorded late.
func (s *Service) ErasedEverywhere(ctx context.Context, e Erasure) (err error) {
	defer errs.Wrap(&err, "accounts.ErasedEverywhere %s", e.User)
	if e.Late {
		return asKind(eraseTrail(ctx, s.db, e.User))
	}
	return asKind(eraseLate(ctx, s.db, e.User))
}

// Erased returns the ids whose accounts are erased. No domain may hold data of them.
func (s *Service) Erased(ctx context.Context, ids []ID) (_ []ID, err error) {
	defer errs.Wrap(&err, "accounts.Erased")
	gone, err := selectErased(ctx, s.db, ids)
	return gone, asKind(err)
}

// change is the payload of [TopicChanged]: a change of an account that the nodes have not applied yet.
type change struct {
	User   ID         `json:"user"`
	Ended  []DeviceID `json:"ended,omitempty"`  // devices that were logged out
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

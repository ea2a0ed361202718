package accounts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts/trail"
	"github.com/stoa-dev/stoa/internal/background/drops"
	"github.com/stoa-dev/stoa/internal/base/clientnet"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// A sessionKey identifies a session.
type sessionKey = keyspace.Args2[ID, DeviceID]

// access is the data for a check of an access token. Caches store it as JSON: see keyspace.Doc.Version before you change
// the JSON.
type access struct {
	Hash    string `json:"hash"`    // of the access token
	Expires int64  `json:"expires"` // Unix milliseconds
}

// SessionChanged invalidates the cache entries of a session.
var SessionChanged = cache.NewEvent[sessionKey]("session refreshed or ended")

// replayWindow is how long a refresh token returns the same pair again, from the time at which the pair may have
// reached the client.
const replayWindow = 10 * time.Second

// loadBudget bounds a read of SQL during a check.
const loadBudget = 10 * time.Second

// newChecks returns the cache of sessions for checks of access tokens. Sessions end even while Redis is unavailable
// ([cache.Proceed]): see doc.go for the guarantees.
func newChecks(db *sqldb.DB, rt *cache.Runtime, p cache.Policy) *cache.Cache[sessionKey, access] {
	p.Unfenced = cache.Proceed
	c := cache.New2(rt, accessKeys, p, cache.Source[sessionKey, access]{
		Load: func(ctx context.Context, k sessionKey) (access, error) {
			a, err := selectAccess(ctx, db, k.A, k.B)
			if errors.Is(err, ErrNoSession) {
				err = cache.ErrNotFound
			}
			return a, err
		},
		Life: func(a access) time.Duration {
			left := time.UnixMilli(a.Expires).Sub(db.Now())
			if left >= accessKeys.TTL.Longest() {
				return 0 // the TTL of the family with its jitter
			}
			return max(time.Second, left)
		},
	})
	cache.Drops(rt, SessionChanged, c)
	return c
}

// Verify returns the caller of an access token, or ErrToken. It costs no I/O for cached entries, and one GET each for a
// session and a user that this process has not cached. A token that does not match its cache entry is checked in SQL.
// It returns errStrays if the caller's client network presents too many unknown tokens.
func (s *Service) Verify(ctx context.Context, presented string) (_ Caller, err error) {
	t, ok := parseToken(accessPrefix, presented)
	if !ok {
		return Caller{}, ErrToken
	}
	h, now := hash(presented), s.db.Now()
	key := sessionKey{A: t.user, B: t.device}
	if s.strays.full.Load() && !s.issuedAccess(t) {
		if err := s.strays.tooMany(clientnet.FromFar(ctx), now); err != nil {
			if copied, ok := s.checks.Peek(key); !ok || !sameHash(copied.Hash, h) {
				return Caller{}, err
			}
		}
	}
	held, err := s.held(ctx, key)
	if err == nil && !sameHash(held.Hash, h) {
		held, err = s.recheck(ctx, key, held)
	}
	switch {
	case errors.Is(err, cache.ErrNotFound) || errors.Is(err, ErrNoSession) || err == nil && !sameHash(held.Hash, h):
		s.strays.count(clientnet.FromFar(ctx), now)
		return Caller{}, ErrToken
	case err != nil:
		return Caller{}, fmt.Errorf("accounts.Verify: %w", loadError(ctx, err))
	case now.UnixMilli() >= held.Expires:
		return Caller{}, ErrToken
	}
	u, err := s.users.get(ctx, t.user)
	if errors.Is(err, ErrNoUser) {
		return Caller{}, ErrToken
	} else if err != nil {
		return Caller{}, fmt.Errorf("accounts.Verify: %w", err)
	}
	s.uses.record(key, now)
	return Caller{t.user, t.device, u.Clock, time.UnixMilli(held.Expires)}, nil
}

// Continues returns the current state of caller c, or ErrToken if the session of c has ended. A token that a refresh
// has replaced does not end it. It costs no I/O for cached entries.
func (s *Service) Continues(ctx context.Context, c Caller) (_ Caller, err error) {
	defer errs.Wrap(&err, "accounts.Continues")
	held, err := s.held(ctx, sessionKey{A: c.User, B: c.Device})
	if errors.Is(err, cache.ErrNotFound) || errors.Is(err, ErrNoSession) {
		return Caller{}, ErrToken
	} else if err != nil {
		return Caller{}, loadError(ctx, err)
	}
	u, err := s.users.get(ctx, c.User)
	if errors.Is(err, ErrNoUser) {
		return Caller{}, ErrToken
	} else if err != nil {
		return Caller{}, err
	}
	return Caller{c.User, c.Device, u.Clock, time.UnixMilli(held.Expires)}, nil
}

// held returns the data for a check of a session: from the cache, or from SQL while drops are pending and a cache entry
// may outlive its session.
func (s *Service) held(ctx context.Context, key sessionKey) (access, error) {
	if s.dropsPending != nil && s.dropsPending() {
		return selectAccess(ctx, s.db, key.A, key.B)
	}
	return s.checks.Get(ctx, key)
}

// recheck checks a token in SQL that does not match its cache entry: a refresh on another node may have just issued it.
// It drops an outdated entry.
func (s *Service) recheck(ctx context.Context, key sessionKey, held access) (access, error) {
	ctx, cancel := context.WithTimeout(ctx, loadBudget)
	defer cancel()
	found, err := selectAccess(ctx, s.db, key.A, key.B)
	if (err == nil && found.Hash != held.Hash) || errors.Is(err, ErrNoSession) {
		s.after(ctx, "drop an old copy of a session", func(context.Context) error {
			return s.caches.Redo([]keyspace.Key{s.checks.Target(key).Key()})
		})
	}
	return found, err
}

// openSession opens a session for the user in one transaction with admit, which decides whether the user may log in. It
// logs out the least used devices beyond the limit. from contains the facts of the device, kind the kind of log-in. If
// from has an id, a session with that id belongs to an earlier try whose response was lost: its tokens are replaced.
func (s *Service) openSession(ctx context.Context, user ID, from Session, admit func(ctx context.Context, tx *sqldb.Tx) (User, error),
	kind trail.Kind) (t Tokens, err error) {
	likely, err := selectSurplus(ctx, s.db, user, s.cfg.Devices-1)
	if err != nil {
		return Tokens{}, asKind(err)
	}
	chosen, again := from.Device, int64(0)
	if !chosen.IsZero() {
		likely = append(likely, chosen)
	}
	err = s.end(ctx, user, likely, func(ctx context.Context, tx *sqldb.Tx) ([]DeviceID, error) {
		u, err := admit(ctx, tx)
		if err != nil {
			return nil, err
		}
		if err := storeLanguage(ctx, tx, u.ID); err != nil {
			return nil, err
		}
		from.Device = chosen
		if chosen.IsZero() {
			from.Device = ids.New[Session]()
		} else if again, err = deleteSessions(ctx, tx, u.ID, []DeviceID{chosen}); err != nil {
			return nil, err
		}
		from.Created, from.Used = tx.Now(), tx.Now()
		access, refresh := s.mint.pair(u.ID, from.Device, newNonce(), newNonce())
		t = Tokens{Access: access, Refresh: refresh, Expires: tx.Now().Add(s.cfg.AccessLife), User: u, Device: from.Device}
		if err := insertSession(ctx, tx, sessionRow{
			Session: from,
			user:    u.ID, accessHash: hash(access), accessExpires: t.Expires,
			refreshHash: hash(refresh), refreshExpires: tx.Now().Add(s.cfg.RefreshLife),
		}); err != nil {
			return nil, err
		}
		if again == 0 {
			if err := s.write(ctx, tx, u.ID, from.Device, kind, clientnet.Parse(from.IP)); err != nil {
				return nil, err
			}
		}
		surplus, err := selectSurplus(ctx, tx, u.ID, s.cfg.Devices)
		if err != nil {
			return nil, err
		}
		_, err = deleteSessions(ctx, tx, u.ID, surplus)
		return surplus, err
	})
	if err != nil {
		return Tokens{}, err
	}
	key := sessionKey{A: user, B: from.Device}
	s.after(ctx, "note a session's facts", func(ctx context.Context) error {
		return s.redis.storeFacts(ctx, map[sessionKey]Session{key: from})
	})
	if again == 0 {
		s.publish(api.EventSessionOpened, user, from.Created, wireSession(from))
	}
	return t, nil
}

// Refresh exchanges a refresh token for a new pair. Within ten seconds the same token returns the same pair; later it
// ends its session with ErrReused. Time in which no response could reach a client does not count, because SQL may be
// slow. All other tokens get ErrRefresh.
func (s *Service) Refresh(ctx context.Context, presented string) (_ Tokens, err error) {
	defer errs.Wrap(&err, "accounts.Refresh")
	old, ok := parseToken(refreshPrefix, presented)
	if !ok {
		return Tokens{}, ErrRefresh
	}
	last, found, err := selectRotation(ctx, s.db, old.user, old.device, "")
	if err != nil {
		return Tokens{}, asKind(err)
	}
	inForce := found && sameHash(last.hash, hash(presented))
	if !inForce && !s.issued(old) {
		// The token is unknown, unless the server's secret has changed since. A session id alone must not be enough to
		// drop the cache entries of a session.
		return Tokens{}, ErrRefresh
	}
	var r refreshed
	err = s.end(ctx, old.user, []DeviceID{old.device}, func(ctx context.Context, tx *sqldb.Tx) (ended []DeviceID, err error) {
		r, err = s.rotateTokens(ctx, tx, old, inForce)
		return r.ended, err
	})
	s.startReplayWindow(ctx, r.rotated, err)
	if err = errors.Join(err, r.refusal); err != nil {
		return Tokens{}, err
	}
	return r.tokens, nil
}

// A refreshed is the result of a refresh transaction.
type refreshed struct {
	tokens  Tokens
	rotated *sessionRow // the rotated session; nil: not rotated
	ended   []DeviceID
	refusal error // an error that is committed, because the end of the session must stay
}

// rotateTokens is the transaction of Refresh. inForce reports whether the token was current when the request arrived:
// if it no longer is, the same token was rotated in the meantime.
func (s *Service) rotateTokens(ctx context.Context, tx *sqldb.Tx, old token, inForce bool) (r refreshed, err error) {
	now, nonce, presented := tx.Now(), newNonce(), hash(old.text)
	t := Tokens{Device: old.device, Expires: now.Add(s.cfg.AccessLife)}
	t.Access, t.Refresh = s.mint.pair(old.user, old.device, old.text, nonce)
	row := sessionRow{
		Session: Session{Device: old.device, Used: now},
		user:    old.user, accessHash: hash(t.Access), accessExpires: t.Expires,
		refreshHash: hash(t.Refresh), refreshExpires: now.Add(s.cfg.RefreshLife), nonce: nonce,
	}
	rotated, err := rotateSession(ctx, tx, row, presented, now.Add(replayWindow))
	if err != nil {
		return refreshed{}, err
	}
	if rotated {
		r.rotated = &row
	} else {
		last, found, err := selectRotation(ctx, tx, old.user, old.device, tx.Dialect().ForUpdate())
		switch {
		case err != nil:
			return refreshed{}, err
		case found && sameHash(last.hash, presented):
			return refreshed{refusal: ErrRefresh}, nil // the current one, but expired
		case found && sameHash(last.prevHash, presented) && (inForce || now.Before(last.prevUntil)):
			if err := recordReplay(ctx, tx, old.user, old.device, now.Add(replayWindow)); err != nil {
				return refreshed{}, err
			}
			t.Access, t.Refresh = s.mint.pair(old.user, old.device, old.text, last.nonce)
			if s.previous != nil && !sameHash(hash(t.Refresh), last.hash) { // a node rotated it with the previous secret
				t.Access, t.Refresh = s.previous.pair(old.user, old.device, old.text, last.nonce)
			}
			t.Expires = last.accessExpires
		case found && s.issued(old):
			ended := []DeviceID{old.device}
			if _, err = deleteSessions(ctx, tx, old.user, ended); err == nil {
				err = s.write(ctx, tx, old.user, old.device, trail.RefreshReused, clientnet.From(ctx))
			}
			return refreshed{ended: ended, refusal: ErrReused}, err
		case s.issued(old):
			refusal, err := whyEnded(ctx, tx, old.user)
			return refreshed{refusal: refusal}, err
		default:
			return refreshed{refusal: ErrRefresh}, nil
		}
	}
	t.User, err = selectUser(ctx, tx, old.user)
	r.tokens = t
	return r, err
}

// slowAnswer is the delay after which the ten seconds start with the response. Clients retry after three seconds.
const slowAnswer = time.Second

// startReplayWindow starts the replay window of a rotated token when the pair may have reached a client; err is the
// result of the transaction. If no response reached a client, the window starts with the first retry: until then the
// token is as safe as a current one.
func (s *Service) startReplayWindow(ctx context.Context, rotated *sessionRow, err error) {
	switch {
	case rotated == nil:
	case errors.Is(err, sqldb.ErrOutcomeUnknown):
		s.unconfirmed.add(*rotated)
	case err == nil && s.db.Now().Sub(rotated.Used) > slowAnswer:
		s.after(ctx, "begin the time for an answer that got lost", func(ctx context.Context) error {
			return restartReplay(ctx, s.db, *rotated, s.db.Now().Add(replayWindow))
		})
	}
}

// unconfirmed lists sessions whose rotation was sent to SQL without a response.
type unconfirmed struct {
	mu   sync.Mutex
	list []sessionRow
}

func (u *unconfirmed) add(list ...sessionRow) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.list = append(u.list, list...)
}

// drain removes all sessions from u, and returns those whose pair is still valid.
func (u *unconfirmed) drain(now time.Time) []sessionRow {
	u.mu.Lock()
	defer u.mu.Unlock()
	list := u.list
	u.list = nil
	return slices.DeleteFunc(list, func(s sessionRow) bool { return !now.Before(s.accessExpires) })
}

// flushUnconfirmed writes the unconfirmed rotations to SQL. The lock of a running rotation delays it. It ignores
// rotations that did not happen.
func (s *Service) flushUnconfirmed(ctx context.Context) error {
	list := s.unconfirmed.drain(s.db.Now())
	for len(list) > 0 {
		n := min(len(list), idsPerStatement)
		if err := extendReplays(ctx, s.db, list[:n]); err != nil {
			s.unconfirmed.add(list...)
			return asKind(err)
		}
		list = list[n:]
	}
	return nil
}

// Sessions returns the logged-in devices of the user, last used first.
func (s *Service) Sessions(ctx context.Context, user ID) (_ []Session, err error) {
	defer errs.Wrap(&err, "accounts.Sessions %s", user)
	list, err := selectSessions(ctx, s.db, user, s.db.Now())
	if err != nil {
		return nil, asKind(err)
	}
	s.refreshLastUses(ctx, user, list)
	slices.SortFunc(list, func(a, b Session) int {
		return cmp.Or(b.Used.Compare(a.Used), b.Created.Compare(a.Created), strings.Compare(a.Device.String(), b.Device.String()))
	})
	return list, nil
}

// Revoke logs out one device of the user, or returns ErrNoSession.
func (s *Service) Revoke(ctx context.Context, user ID, device DeviceID) (err error) {
	defer errs.Wrap(&err, "accounts.Revoke %s %s", user, device)
	devices := []DeviceID{device}
	return s.end(ctx, user, devices, func(ctx context.Context, tx *sqldb.Tx) ([]DeviceID, error) {
		n, err := deleteSessions(ctx, tx, user, devices)
		if err == nil && n == 0 {
			err = ErrNoSession
		}
		if err != nil {
			return nil, err
		}
		return devices, s.write(ctx, tx, user, device, trail.LoggedOut, clientnet.From(ctx))
	})
}

// RevokeAll logs out all devices of the user except one; the zero device excepts none.
func (s *Service) RevokeAll(ctx context.Context, user ID, except DeviceID) (err error) {
	defer errs.Wrap(&err, "accounts.RevokeAll %s", user)
	return s.endAll(ctx, user, except, func(ctx context.Context, tx *sqldb.Tx) error {
		return s.write(ctx, tx, user, except, trail.LoggedOutAll, clientnet.From(ctx))
	})
}

// endAll runs commit in a transaction that locks the row of the user, and logs out all devices except one in the same
// transaction; the zero device excepts none. After it returns nil, no node accepts an access token of those devices for
// longer than MaxStale. It returns an error of commit unchanged after a rollback. commit may run again after a
// deadlock. also lists further cache targets of the change.
func (s *Service) endAll(ctx context.Context, user ID, except DeviceID,
	commit func(ctx context.Context, tx *sqldb.Tx) error, also ...cache.Target) error {
	likely, err := selectDevices(ctx, s.db, user, except)
	if err != nil {
		return asKind(err)
	}
	return s.end(ctx, user, likely, func(ctx context.Context, tx *sqldb.Tx) (devices []DeviceID, err error) {
		// A log-in locks the user as well, so no device logs in between the list and the commit.
		if _, err := lockUser(ctx, tx, user); err != nil {
			return nil, err
		}
		if devices, err = lockDevices(ctx, tx, user, except); err != nil {
			return nil, err
		}
		if err := commit(ctx, tx); err != nil {
			return nil, err
		}
		_, err = deleteSessions(ctx, tx, user, devices)
		return devices, err
	}, also...)
}

// end runs commit in a transaction that ends sessions of the user and returns their devices. likely lists the devices
// that it probably ends: they are fenced before. A further session was opened a moment ago. Without a fence its drop is
// enqueued in the transaction, as [drops.Tx] does while Redis is unavailable.
func (s *Service) end(ctx context.Context, user ID, likely []DeviceID, commit func(ctx context.Context, tx *sqldb.Tx) ([]DeviceID, error),
	also ...cache.Target) error {
	targets := append(s.targets(user, likely), also...)
	var ended []DeviceID
	var late []cache.Target
	var at time.Time
	err := s.commit(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		at = tx.Now()
		if ended, err = commit(ctx, tx); err != nil {
			return err
		}
		late = s.targets(user, slices.DeleteFunc(slices.Clone(ended), func(d DeviceID) bool { return slices.Contains(likely, d) }))
		return drops.Enqueue(ctx, tx, keysOf(late))
	}, targets...)
	if err != nil {
		return err
	}
	if len(late) > 0 {
		s.after(ctx, "drop copies of sessions", func(ctx context.Context) error { return s.caches.Drop(ctx, late...) })
	}
	s.loggedOut(ctx, user, ended, at)
	return nil
}

// loggedOut deletes the facts of ended sessions, and publishes their end.
func (s *Service) loggedOut(ctx context.Context, user ID, ended []DeviceID, at time.Time) {
	if len(ended) == 0 {
		return
	}
	s.after(ctx, "forget facts of sessions", func(ctx context.Context) error { return s.redis.forgetFacts(ctx, user, ended) })
	for _, d := range ended {
		s.publish(api.EventSessionEnded, user, at, api.SessionEnded{Device: d.String()})
	}
}

func (s *Service) targets(user ID, devices []DeviceID) []cache.Target {
	keys := make([]sessionKey, len(devices))
	for i, d := range devices {
		keys[i] = sessionKey{A: user, B: d}
	}
	return SessionChanged.Of(s.caches.Runtime, keys...)
}

func keysOf(targets []cache.Target) []keyspace.Key {
	keys := make([]keyspace.Key, len(targets))
	for i, t := range targets {
		keys[i] = t.Key()
	}
	return keys
}

// agentRunes is the length of the column.
const agentRunes = 200

// cleanAgent makes a User-Agent header printable. It refuses none, because a device must not be locked out for its
// User-Agent.
func cleanAgent(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == utf8.RuneError || unprintable(r):
			return -1
		case unicode.IsSpace(r):
			return ' '
		}
		return r
	}, s)
	if s = strings.TrimSpace(s); utf8.RuneCountInString(s) > agentRunes {
		s = strings.TrimSpace(string([]rune(s)[:agentRunes]))
	}
	return s
}

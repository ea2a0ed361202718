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

// A sessionKey names a session.
type sessionKey = keyspace.Args2[ID, DeviceID]

// access is what a check needs of a session. As JSON it is what caches hold: see
// Doc.Version before you change that.
type access struct {
	Hash    string `json:"hash"`    // of the access token
	Expires int64  `json:"expires"` // Unix milliseconds
}

// SessionChanged drops a session's copies.
var SessionChanged = cache.NewEvent[sessionKey]("session refreshed or ended")

// replayWindow is how long a refresh token brings the same pair again, once somebody can have been told it.
const replayWindow = 10 * time.Second

// loadBudget bounds a check's own read of SQL.
const loadBudget = 10 * time.Second

// newChecks returns the sessions as checks of access tokens need them. Sessions end
// while Redis is away, too ([cache.Proceed]): see doc.go for what holds then.
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
				return 0 // as the family says, with its jitter
			}
			return max(time.Second, left)
		},
	})
	cache.Drops(rt, SessionChanged, c)
	return c
}

// Verify returns the caller that an access token belongs to, or ErrToken. With copies
// in this process it costs no I/O; it costs one GET for the session and one for the
// user where this process has none. A token that contradicts its copy is looked up in
// SQL. errStrays where the caller's household presents very many that nobody has.
func (s *Service) Verify(ctx context.Context, presented string) (_ Caller, err error) {
	t, ok := parseToken(accessPrefix, presented)
	if !ok {
		return Caller{}, ErrToken
	}
	h, now := hash(presented), s.db.Now()
	key := sessionKey{A: t.user, B: t.device}
	if s.strays.full.Load() && !s.issuedAccess(t) {
		if err := s.strays.tooMany(clientnet.FromFar(ctx), now); err != nil {
			if copied, there := s.checks.Peek(key); !there || !sameHash(copied.Hash, h) {
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
		s.strays.note(clientnet.FromFar(ctx), now)
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
	s.uses.note(key, now)
	return Caller{t.user, t.device, u.Clock, time.UnixMilli(held.Expires)}, nil
}

// Continues returns who c is by now, or ErrToken when c's session has ended. A token
// that a refresh has replaced does not end it. It costs no I/O with copies in this
// process.
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

// held returns what a check needs of a session: from copies, or from SQL while drops
// are pending and a copy may have outlived its session.
func (s *Service) held(ctx context.Context, key sessionKey) (access, error) {
	if s.dropsPending != nil && s.dropsPending() {
		return selectAccess(ctx, s.db, key.A, key.B)
	}
	return s.checks.Get(ctx, key)
}

// recheck asks SQL about a token that the copy held does not know: it may be the
// one that a refresh elsewhere has just issued. A copy that proves to be old is
// dropped.
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

// openSession opens a session for the user in one transaction with admit, which
// decides whether the user may log in, and logs out the least used devices beyond the
// number allowed. from has what is known of the device, kind is how the session came
// to be. Where from has an id, a session with it is that of an earlier try, whose tokens
// the caller was not told: they are replaced.
func (s *Service) openSession(ctx context.Context, user ID, from Session, admit func(ctx context.Context, tx *sqldb.Tx) (User, error), kind trail.Kind) (t Tokens, err error) {
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
		if err := keepLanguage(ctx, tx, u.ID); err != nil {
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
	s.after(ctx, "note a session's facts", func(ctx context.Context) error { return s.redis.keepFacts(ctx, map[sessionKey]Session{key: from}) })
	if again == 0 {
		s.publish(api.EventSessionOpened, user, from.Created, wireSession(from))
	}
	return t, nil
}

// Refresh exchanges a refresh token for a new pair. The same token again within
// ten seconds gets the same pair; later it ends its session: ErrReused. The time in
// which nobody could be told the pair does not count, for SQL may be slow. Any
// other token that is not in force is ErrRefresh.
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
		// The token is made up, unless the server's secret has changed since. To know
		// the name of a session must not suffice to have its copies dropped.
		return Tokens{}, ErrRefresh
	}
	var r refreshed
	err = s.end(ctx, old.user, []DeviceID{old.device}, func(ctx context.Context, tx *sqldb.Tx) (ended []DeviceID, err error) {
		r, err = s.rotateTokens(ctx, tx, old, inForce)
		return r.ended, err
	})
	s.keepUntold(ctx, r.made, err)
	if err = errors.Join(err, r.refusal); err != nil {
		return Tokens{}, err
	}
	return r.tokens, nil
}

// A refreshed is what the transaction of a refresh came to.
type refreshed struct {
	tokens  Tokens
	made    *sessionRow // what it has rotated the session to; nil: it has not
	ended   []DeviceID
	refusal error // it is to be committed, unlike an error: the session's end must stay
}

// rotateTokens is the transaction of Refresh. inForce says that the token was in force when
// it came: if it is not any more, the same token was rotated meanwhile.
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
		r.made = &row
	} else {
		last, found, err := selectRotation(ctx, tx, old.user, old.device, tx.Dialect().ForUpdate())
		switch {
		case err != nil:
			return refreshed{}, err
		case found && sameHash(last.hash, presented):
			return refreshed{refusal: ErrRefresh}, nil // the one in force, but expired
		case found && sameHash(last.prevHash, presented) && (inForce || now.Before(last.prevUntil)):
			if err := noteReplay(ctx, tx, old.user, old.device, now.Add(replayWindow)); err != nil {
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

// slowAnswer is how late a pair is told whose ten seconds begin with the answer. Clients ask a second time after three.
const slowAnswer = time.Second

// keepUntold has the time in which a rotated token brings its pair again begin when somebody can have been told the
// pair; err is how the transaction ended. Where nobody was, that is with the first who asks again: until then it
// is as safe as a token in force.
func (s *Service) keepUntold(ctx context.Context, made *sessionRow, err error) {
	switch {
	case made == nil:
	case errors.Is(err, sqldb.ErrOutcomeUnknown):
		s.untold.add(*made)
	case err == nil && s.db.Now().Sub(made.Used) > slowAnswer:
		s.after(ctx, "begin the time for an answer that got lost", func(ctx context.Context) error {
			return restartReplay(ctx, s.db, *made, s.db.Now().Add(replayWindow))
		})
	}
}

// untold are the sessions whose rotation this node has sent to SQL, and got no answer.
type untold struct {
	mu   sync.Mutex
	list []sessionRow
}

func (u *untold) add(list ...sessionRow) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.list = append(u.list, list...)
}

// take removes them from u, and returns those whose pair is still good.
func (u *untold) take(now time.Time) []sessionRow {
	u.mu.Lock()
	defer u.mu.Unlock()
	list := u.list
	u.list = nil
	return slices.DeleteFunc(list, func(s sessionRow) bool { return !now.Before(s.accessExpires) })
}

// flushUntold tells SQL of them once it answers. A rotation under way holds it up by its lock; one that has
// not happened is left alone.
func (s *Service) flushUntold(ctx context.Context) error {
	list := s.untold.take(s.db.Now())
	for len(list) > 0 {
		n := min(len(list), inOne)
		if err := keepReplays(ctx, s.db, list[:n]); err != nil {
			s.untold.add(list...)
			return asKind(err)
		}
		list = list[n:]
	}
	return nil
}

// Sessions lists the user's logged-in devices, the last used first.
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

// Revoke logs one device of the user out. ErrNoSession.
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

// RevokeAll logs every device of the user out but one; the zero device excepts
// none.
func (s *Service) RevokeAll(ctx context.Context, user ID, except DeviceID) (err error) {
	defer errs.Wrap(&err, "accounts.RevokeAll %s", user)
	return s.endAll(ctx, user, except, func(ctx context.Context, tx *sqldb.Tx) error {
		return s.write(ctx, tx, user, except, trail.LoggedOutAll, clientnet.From(ctx))
	})
}

// endAll calls commit in a transaction, with the user's row locked, and logs out every
// device of the user but one in the same transaction; the zero device excepts none. When it
// returns nil no node accepts an access token of those devices for longer than
// MaxStale. commit's error, which undoes everything, is returned as it is; commit
// may be called again after a deadlock. also names what else it changes
// that is cached. ErrNoUser.
func (s *Service) endAll(ctx context.Context, user ID, except DeviceID, commit func(ctx context.Context, tx *sqldb.Tx) error, also ...cache.Target) error {
	likely, err := selectDevices(ctx, s.db, user, except)
	if err != nil {
		return asKind(err)
	}
	return s.end(ctx, user, likely, func(ctx context.Context, tx *sqldb.Tx) (devices []DeviceID, err error) {
		// A log-in locks the user, too: none comes between the list and the commit.
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

// end calls commit in a transaction that ends sessions of the user and returns their
// devices. likely are the devices that it is expected to end: they are fenced
// beforehand. A session that ends beside them was opened a moment ago; without a fence
// its drop is enqueued in the transaction itself, as [drops.Tx] does where Redis is away.
func (s *Service) end(ctx context.Context, user ID, likely []DeviceID, commit func(ctx context.Context, tx *sqldb.Tx) ([]DeviceID, error), also ...cache.Target) error {
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

// loggedOut removes the facts of sessions that have ended, and publishes their end.
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

// agentRunes is what the column holds.
const agentRunes = 200

// cleanAgent makes a User-Agent header fit to be shown. It refuses none: a device
// must not be kept out by what its program calls itself.
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

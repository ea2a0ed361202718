package accounts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/cache"
	"github.com/stoa-dev/stoa/internal/foundation/civil"
	"github.com/stoa-dev/stoa/internal/foundation/config"
	"github.com/stoa-dev/stoa/internal/foundation/errs"
	"github.com/stoa-dev/stoa/internal/foundation/events"
	"github.com/stoa-dev/stoa/internal/foundation/ids"
	"github.com/stoa-dev/stoa/internal/foundation/mail"
	"github.com/stoa-dev/stoa/internal/foundation/picture"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
	"github.com/stoa-dev/stoa/ratelimit"
	"github.com/stoa-dev/stoa/redis"
)

// Topics of the outbox.
const (
	// TopicSession repeats what a commit did to the copies of sessions. This
	// package handles it itself.
	TopicSession = "accounts.session"
	// TopicCode mails a verification code. This package handles it itself.
	TopicCode = "accounts.code"
	// TopicZone tells that a user's zone will change; the payload is a
	// [ZoneChanged].
	TopicZone = "accounts.zone"
)

// ZoneChanged is the payload of [TopicZone].
type ZoneChanged struct {
	User ID `json:"user"`
}

// Limits bound how often somebody may try.
type Limits struct {
	CodesPerMinute int           `koanf:"codes_per_minute" default:"1" help:"codes mailed to one address per minute"`
	CodesPerDay    int           `koanf:"codes_per_day" default:"10" help:"codes mailed to one address per day"`
	CodesPerIP     int           `koanf:"codes_per_ip" default:"30" help:"codes asked for from one IP address per hour"`
	LoginFails     int           `koanf:"login_fails" default:"5" help:"wrong passwords or codes in a row that lock an address"`
	LoginLock      time.Duration `koanf:"login_lock" default:"30m" help:"how long an address stays locked, at most a day"`
}

// Config has what the domain stands on.
type Config struct {
	DB      *sqldb.DB
	Redis   *redis.DB
	Limiter *ratelimit.Limiter
	Caches  *cache.Runtime // keeps users
	Bus     *events.Bus    // is told what happened to an account, after the commit
	Cache   cache.Policy   // of the users; Unfenced is this domain's to choose
	Mail    mail.Sender
	Log     *slog.Logger

	// Secret is the server's own, at least 32 bytes of chance, the same on all
	// nodes and at every start. With another one, codes and refresh tokens
	// that are on their way are worth nothing; who is logged in stays so.
	Secret []byte

	Settings
}

// Settings are what an operator may choose. The zero value of a field stands
// for its default.
type Settings struct {
	AccessLife  time.Duration `koanf:"access_life" default:"24h" help:"how long an access token lasts"`
	RefreshLife time.Duration `koanf:"refresh_life" default:"1440h" help:"how long a refresh token lasts, not shorter than access_life"`
	CodeLife    time.Duration `koanf:"code_life" default:"5m" help:"how long a mailed code lasts, at most an hour"`
	Devices     int           `koanf:"devices" default:"50" help:"devices a user may have logged in; the least used are logged out"`
	Hashers     int           `koanf:"hashers" help:"passwords hashed at a time, 19 MB and a core each; 0 is half the cores"`
	Limits      Limits        `koanf:"limits"`
}

// Validate returns all faults, joined.
func (c Settings) Validate() error {
	c = c.filled()
	var faults []error
	fault := func(bad bool, key, format string, args ...any) {
		if bad {
			faults = append(faults, &config.Fault{Key: key, Text: fmt.Sprintf(format, args...)})
		}
	}
	fault(c.AccessLife < time.Minute, "access_life", "%s is less than a minute", c.AccessLife)
	fault(c.RefreshLife < c.AccessLife, "refresh_life", "%s is shorter than access_life, %s", c.RefreshLife, c.AccessLife)
	fault(c.CodeLife < time.Minute || c.CodeLife > codeTriesKey.TTL.Base, "code_life", "%s is not between a minute and an hour", c.CodeLife)
	fault(c.Devices < 1 || c.Devices > 1000, "devices", "%d is not between 1 and 1000", c.Devices)
	fault(c.Hashers < 0, "hashers", "%d is less than zero", c.Hashers)
	atLeastOne := func(key string, n int) { fault(n < 1, key, "%d is less than one", n) }
	atLeastOne("limits.codes_per_minute", c.Limits.CodesPerMinute)
	atLeastOne("limits.codes_per_day", c.Limits.CodesPerDay)
	atLeastOne("limits.codes_per_ip", c.Limits.CodesPerIP)
	atLeastOne("limits.login_fails", c.Limits.LoginFails)
	fault(c.Limits.LoginLock < time.Second || c.Limits.LoginLock > loginFailKey.TTL.Base, "limits.login_lock", "%s is not between a second and a day", c.Limits.LoginLock)
	return errors.Join(faults...)
}

// filled returns c with its defaults.
func (c Settings) filled() Settings {
	orDefault(&c.AccessLife, 24*time.Hour)
	orDefault(&c.RefreshLife, 60*24*time.Hour)
	orDefault(&c.CodeLife, 5*time.Minute)
	orDefault(&c.Devices, 50)
	orDefault(&c.Limits.CodesPerMinute, 1)
	orDefault(&c.Limits.CodesPerDay, 10)
	orDefault(&c.Limits.CodesPerIP, 30)
	orDefault(&c.Limits.LoginFails, 5)
	orDefault(&c.Limits.LoginLock, 30*time.Minute)
	return c
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// replayWindow is how long a refresh token brings the same pair again.
const replayWindow = 10 * time.Second

// loadBudget bounds a check's read of SQL.
const loadBudget = 10 * time.Second

// afterBudget bounds the write of copies after a commit; the outbox repeats it.
const afterBudget = 250 * time.Millisecond

// Service is the accounts domain as the rest of the program sees it. It is
// safe for concurrent use.
type Service struct {
	db     *sqldb.DB
	caches *cache.Runtime
	bus    *events.Bus
	users  *Users
	cards  cards
	fast   fast
	cfg    Settings
	mint   mint
	mail   mail.Sender
	hasher *hasher
	studio *picture.Studio
	budget time.Duration
	log    *slog.Logger
}

// New returns the domain on those parts. The error has all faults of the
// settings.
func New(cfg Config) (*Service, error) {
	err := cfg.Settings.Validate()
	if len(cfg.Secret) < 32 {
		err = errors.Join(err, fmt.Errorf("accounts: the secret has %d bytes and needs 32", len(cfg.Secret)))
	}
	if err != nil {
		return nil, err
	}
	return &Service{
		db:     cfg.DB,
		caches: cfg.Caches,
		bus:    cfg.Bus,
		users:  NewUsers(cfg.DB, cfg.Caches, cfg.Cache),
		cards:  newCards(cfg.DB, cfg.Caches, cfg.Cache),
		fast:   fast{db: cfg.Redis, limiter: cfg.Limiter, budget: readBudget},
		cfg:    cfg.Settings.filled(),
		mint:   mint(slices.Clone(cfg.Secret)),
		mail:   cfg.Mail,
		hasher: newHasher(cfg.Hashers),
		studio: picture.New(0),
		budget: afterBudget,
		log:    cfg.Log,
	}, nil
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
	switch r, err := s.fast.mayMail(ctx, e, ip, s.cfg.Limits); {
	case err != nil:
		return 0, err
	case !r.Allowed:
		return 0, ErrTooManyCode.Retry(r.Reset)
	}
	notice := codeNotice{To: e.Given, Purpose: p, Seed: newNonce()}
	row := s.codeRow(e, p, s.mint.code(e, p, notice.Seed))
	err = s.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		var err error
		if notice.Known, err = emailKnown(ctx, tx, e.Key); err != nil {
			return err
		}
		// Known or not, the same is written. A code that is not mailed is one
		// that nobody knows.
		expires := tx.Now().Add(s.cfg.CodeLife)
		if err := upsertCode(ctx, tx, row, expires); err != nil {
			return err
		}
		notice.Expires = expires.UnixMilli()
		payload, err := json.Marshal(notice)
		if err != nil {
			return err
		}
		// By its key this takes the place of a mail still waiting, whose code is
		// worth nothing any more.
		return tx.Enqueue(ctx, sqldb.Message{Topic: TopicCode, Key: row.emailHash + string(p.AppendSegment(nil)), Payload: payload})
	})
	if err != nil {
		return 0, asKind(err)
	}
	s.after(ctx, "forget the tries of a code", func(ctx context.Context) error { return s.fast.forgetTries(ctx, e, p) })
	return s.cfg.CodeLife, nil
}

func (s *Service) codeRow(e Email, p Purpose, code string) codeRow {
	return codeRow{s.mint.emailHash(e), p, s.mint.codeHash(e, p, code)}
}

// checkCode counts a try and compares. The code is not used up by it: that
// belongs into the transaction of what the code is for, see useCode.
func (s *Service) checkCode(ctx context.Context, e Email, p Purpose, code string) (codeRow, error) {
	c := s.codeRow(e, p, code)
	if !s.fast.mayTry(ctx, e, p, s.cfg.CodeLife) {
		return codeRow{}, ErrCode
	}
	stored, err := tryCode(ctx, s.db, c)
	if err != nil {
		return codeRow{}, asKind(err)
	}
	if stored == "" || !sameHash(stored, c.codeHash) {
		return codeRow{}, ErrCode
	}
	return c, nil
}

// Registration is what opens an account.
type Registration struct {
	Email    string
	Code     string // proves the address
	Password string // empty: log-in by code only
	Name     string
	Zone     string // empty: UTC
	Device   string // what the user calls the device
	IP       string
}

// Register opens an account and logs the device in. ErrEmail, ErrName,
// ErrDeviceName, ErrPassword, civil.ErrZone, ErrCode, ErrEmailTaken.
func (s *Service) Register(ctx context.Context, r Registration) (t Tokens, err error) {
	defer errs.Wrap(&err, "accounts.Register")
	e, err := ParseEmail(r.Email)
	if err != nil {
		return Tokens{}, err
	}
	u := User{ID: ids.New[User](), Email: e.Given, Clock: civil.Clock{Zone: r.Zone}, FindByID: true, Requests: true, HasPassword: r.Password != ""}
	if u.Name, err = cleanName(r.Name); err != nil {
		return Tokens{}, err
	}
	if r.Device, err = cleanDevice(r.Device); err != nil {
		return Tokens{}, err
	}
	if r.Zone == "" {
		u.Clock.Zone = "UTC"
	}
	if err := checkZone(u.Clock.Zone); err != nil {
		return Tokens{}, err
	}
	if r.Password != "" {
		if err := checkPassword(r.Password); err != nil {
			return Tokens{}, err
		}
	}
	code, err := s.checkCode(ctx, e, ForRegister, r.Code)
	if errors.Is(err, ErrCode) {
		return Tokens{}, ErrCode.On("body.code", "is wrong, used or expired")
	} else if err != nil {
		return Tokens{}, err
	}
	var passwordHash string
	if r.Password != "" {
		if passwordHash, err = s.hasher.hash(ctx, r.Password); err != nil {
			return Tokens{}, err
		}
	}
	err = s.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if ok, err := useCode(ctx, tx, code); err != nil {
			return err
		} else if !ok {
			return ErrCode.On("body.code", "is wrong, used or expired")
		}
		u.Created = tx.Now()
		if err := insertUser(ctx, tx, u, e.Key, passwordHash); err != nil {
			return err
		}
		t, err = s.open(ctx, tx, u, r.Device, r.IP)
		return err
	})
	if err != nil {
		return Tokens{}, asKind(err)
	}
	s.after(ctx, "forget the tries of a code", func(ctx context.Context) error { return s.fast.forgetTries(ctx, e, ForRegister) })
	return t, nil
}

func checkZone(name string) error {
	if _, err := civil.LoadZone(name); err != nil {
		return civil.ErrZone.On("body.zone", "is not a time zone of the IANA database")
	}
	return nil
}

// A Login is what logs a device in.
type Login struct {
	Email    string
	Password string // either this
	Code     string // or this
	Device   string // what the user calls the device
	IP       string
}

// Login opens a session for one more device. What is wrong is not told:
// ErrCredentials. ErrLocked after too many wrong ones, for known and unknown
// addresses alike. ErrEmail, ErrDeviceName, ErrEither.
func (s *Service) Login(ctx context.Context, l Login) (t Tokens, err error) {
	defer errs.Wrap(&err, "accounts.Login")
	e, err := ParseEmail(l.Email)
	if err != nil {
		return Tokens{}, err
	}
	if l.Device, err = cleanDevice(l.Device); err != nil {
		return Tokens{}, err
	}
	if (l.Password == "") == (l.Code == "") {
		return Tokens{}, ErrEither
	}
	// Every try counts before it is looked at, and a good one clears the count:
	// of a thousand at once five are looked at.
	if allowed, left, err := s.fast.mayLogin(ctx, e, s.cfg.Limits, s.db.Now()); err != nil {
		return Tokens{}, err
	} else if !allowed {
		return Tokens{}, ErrLocked.Retry(left)
	}
	if l.Code != "" {
		t, err = s.loginByCode(ctx, e, l)
	} else {
		t, err = s.loginByPassword(ctx, e, l)
	}
	if err != nil {
		return Tokens{}, err
	}
	s.after(ctx, "forget wrong log-ins", func(ctx context.Context) error { return s.fast.forgetFails(ctx, e) })
	return t, nil
}

func (s *Service) loginByPassword(ctx context.Context, e Email, l Login) (t Tokens, err error) {
	c, err := selectCredential(ctx, s.db, e.Key)
	if err != nil {
		return Tokens{}, asKind(err)
	}
	if ok, err := s.hasher.matches(ctx, l.Password, c.passwordHash); err != nil {
		return Tokens{}, err
	} else if !ok {
		return Tokens{}, ErrCredentials
	}
	err = s.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		t, err = s.openFor(ctx, tx, c.ID, l)
		return err
	})
	return t, asKind(err)
}

func (s *Service) loginByCode(ctx context.Context, e Email, l Login) (t Tokens, err error) {
	code, err := s.checkCode(ctx, e, ForLogin, l.Code)
	if errors.Is(err, ErrCode) {
		return Tokens{}, ErrCredentials
	} else if err != nil {
		return Tokens{}, err
	}
	err = s.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if ok, err := useCode(ctx, tx, code); err != nil {
			return err
		} else if !ok {
			return ErrCredentials
		}
		c, err := selectCredential(ctx, tx, e.Key)
		if err != nil {
			return err
		}
		if c.ID.IsZero() {
			return ErrCredentials
		}
		t, err = s.openFor(ctx, tx, c.ID, l)
		return err
	})
	if err != nil {
		return Tokens{}, asKind(err)
	}
	s.after(ctx, "forget the tries of a code", func(ctx context.Context) error { return s.fast.forgetTries(ctx, e, ForLogin) })
	return t, nil
}

// openFor opens a session for an account that exists. It locks the account, so
// that a change of zone under way finds the session and its copy.
func (s *Service) openFor(ctx context.Context, tx *sqldb.Tx, user ID, l Login) (Tokens, error) {
	u, err := lockUser(ctx, tx, user)
	if err != nil {
		return Tokens{}, err
	}
	return s.open(ctx, tx, u, l.Device, l.IP)
}

// open writes a new session and logs out the least used beyond the number
// allowed.
func (s *Service) open(ctx context.Context, tx *sqldb.Tx, u User, name, ip string) (Tokens, error) {
	device, now := ids.New[Session](), tx.Now()
	access, refresh := s.mint.pair(u.ID, device, newNonce(), newNonce())
	row := sessionRow{
		Session: Session{Device: device, Name: name, IP: ip, Created: now, Used: now},
		user:    u.ID, accessHash: hash(access), accessExpires: now.Add(s.cfg.AccessLife),
		refreshHash: hash(refresh), refreshExpires: now.Add(s.cfg.RefreshLife),
	}
	if err := insertSession(ctx, tx, row); err != nil {
		return Tokens{}, err
	}
	surplus, err := selectSurplus(ctx, tx, u.ID, s.cfg.Devices)
	if err != nil {
		return Tokens{}, err
	}
	if len(surplus) > 0 {
		if _, err := s.end(ctx, tx, u.ID, surplus); err != nil {
			return Tokens{}, err
		}
	}
	return Tokens{Access: access, Refresh: refresh, Expires: row.accessExpires, User: u, Device: device}, nil
}

// Refresh trades a refresh token for a new pair. The same token again within
// ten seconds gets the same pair; later it ends its session: ErrReused. Any
// other token that is not in force is ErrRefresh.
func (s *Service) Refresh(ctx context.Context, presented string) (t Tokens, err error) {
	defer errs.Wrap(&err, "accounts.Refresh")
	old, ok := parseToken(refreshPrefix, presented)
	if !ok {
		return Tokens{}, ErrRefresh
	}
	var refusal error // committed, unlike an error: the session's end must stay
	err = s.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		t, refusal = Tokens{User: User{ID: old.user}, Device: old.device}, nil
		now, nonce := tx.Now(), newNonce()
		t.Access, t.Refresh = s.mint.pair(old.user, old.device, presented, nonce)
		t.Expires = now.Add(s.cfg.AccessLife)
		rotated, err := rotateSession(ctx, tx, sessionRow{
			Session: Session{Device: old.device, Used: now},
			user:    old.user, accessHash: hash(t.Access), accessExpires: t.Expires,
			refreshHash: hash(t.Refresh), refreshExpires: now.Add(s.cfg.RefreshLife), nonce: nonce,
		}, hash(presented), now.Add(replayWindow))
		if err != nil {
			return err
		}
		if rotated {
			if err := s.changed(ctx, tx, old.user, []DeviceID{old.device}); err != nil {
				return err
			}
		} else {
			last, found, err := selectRotation(ctx, tx, old.user, old.device)
			switch {
			case err != nil:
				return err
			case found && sameHash(last.hash, hash(presented)):
				refusal = ErrRefresh // the one in force, but expired
				return nil
			case found && sameHash(last.prevHash, hash(presented)) && now.Before(last.prevUntil):
				t.Access, t.Refresh = s.mint.pair(old.user, old.device, presented, last.nonce)
				t.Expires = last.accessExpires
			case found && s.mint.issued(old):
				refusal = ErrReused
				_, err := s.end(ctx, tx, old.user, []DeviceID{old.device})
				return err
			default:
				refusal = ErrRefresh
				return nil
			}
		}
		t.User, err = selectUser(ctx, tx, old.user)
		return err
	})
	if err = errors.Join(asKind(err), refusal); err != nil {
		return Tokens{}, err
	}
	return t, nil
}

// Verify returns who presented an access token, or ErrToken. Warm it costs one
// GET. What Redis does not know, or knows otherwise, is asked of SQL.
func (s *Service) Verify(ctx context.Context, access string) (Caller, error) {
	t, ok := parseToken(accessPrefix, access)
	if !ok {
		return Caller{}, ErrToken
	}
	h, now := hash(access), s.db.Now()
	held, found, err := s.fast.get(ctx, t.user, t.device)
	switch {
	case ctx.Err() != nil:
		return Caller{}, fmt.Errorf("accounts.Verify: %w", ctx.Err())
	case err == nil && found && held.rev == revoked:
		return Caller{}, ErrToken
	case err == nil && found && held.good(h, now):
		return held.caller(), nil
	}
	return s.load(ctx, t, h, now, err == nil)
}

// good reports whether the copy vouches for a token with that hash.
func (c *sessionCopy) good(hash string, now time.Time) bool {
	return sameHash(c.hash, hash) && now.UnixMilli() < c.expires
}

func (c *sessionCopy) caller() Caller { return Caller{c.user, c.device, c.clock} }

// load is Verify by SQL. While Redis answers it gets the copy that was missing
// or older.
func (s *Service) load(ctx context.Context, t token, h string, now time.Time, fill bool) (_ Caller, err error) {
	defer errs.Wrap(&err, "accounts.Verify")
	ctx, cancel := context.WithTimeout(ctx, loadBudget)
	defer cancel()
	list, err := selectCopies(ctx, s.db, t.user, []DeviceID{t.device})
	if err != nil {
		return Caller{}, asKind(err)
	}
	if len(list) == 0 || !list[0].good(h, now) {
		return Caller{}, ErrToken
	}
	if fill {
		s.after(ctx, "fill a session's copy", func(ctx context.Context) error { return s.fast.put(ctx, now, list...) })
	}
	return list[0].caller(), nil
}

// Sessions lists the user's logged-in devices, the last used first.
func (s *Service) Sessions(ctx context.Context, user ID) (_ []Session, err error) {
	defer errs.Wrap(&err, "accounts.Sessions %s", user)
	list, err := selectSessions(ctx, s.db, user, s.db.Now())
	return list, asKind(err)
}

// Revoke logs one device of the user out. ErrNoSession.
func (s *Service) Revoke(ctx context.Context, user ID, device DeviceID) (err error) {
	defer errs.Wrap(&err, "accounts.Revoke %s %s", user, device)
	return asKind(s.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if n, err := s.end(ctx, tx, user, []DeviceID{device}); err != nil {
			return err
		} else if n == 0 {
			return ErrNoSession
		}
		return nil
	}))
}

// RevokeAll logs every device of the user out.
func (s *Service) RevokeAll(ctx context.Context, user ID) (err error) {
	defer errs.Wrap(&err, "accounts.RevokeAll %s", user)
	return asKind(s.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		devices, err := lockDevices(ctx, tx, user)
		if err != nil || len(devices) == 0 {
			return err
		}
		_, err = s.end(ctx, tx, user, devices)
		return err
	}))
}

// Users returns what keeps the users at hand.
func (s *Service) Users() *Users { return s.users }

// User returns an account, as it was a moment ago: a change made on another node
// shows here within [cache.Policy.MaxStale]. Rules that rest on a calendar ask
// Clocks. ErrNoUser.
func (s *Service) User(ctx context.Context, id ID) (u User, err error) {
	defer errs.Wrap(&err, "accounts.User %s", id)
	return s.users.get(ctx, id)
}

// A Change of an account: what is nil stays.
type Change struct {
	Name        *string
	Bio         *string
	Zone        *string // counts from the next midnight in the zone in force
	FindByID    *bool
	FindByEmail *bool
	Requests    *bool
}

// Update changes an account and returns it as it is then. ErrName, ErrBio,
// civil.ErrZone, ErrNoUser.
func (s *Service) Update(ctx context.Context, id ID, c Change) (u User, err error) {
	defer errs.Wrap(&err, "accounts.Update %s", id)
	if c.Name != nil {
		name, err := cleanName(*c.Name)
		if err != nil {
			return User{}, err
		}
		c.Name = &name
	}
	if c.Bio != nil {
		bio, err := cleanBio(*c.Bio)
		if err != nil {
			return User{}, err
		}
		c.Bio = &bio
	}
	if c.Zone != nil {
		if err := checkZone(*c.Zone); err != nil {
			return User{}, err
		}
	}
	err = s.caches.Change(ctx, func(ctx context.Context) (err error) {
		u, err = s.update(ctx, id, c)
		return err
	}, InfoChanged.Of(s.caches, id)...)
	if err != nil {
		return User{}, loadError(ctx, err)
	}
	now := s.db.Now()
	s.tell(api.EventAccountUpdated, id, now, wireUser(u, now))
	return u, nil
}

// update is the transaction of Update.
func (s *Service) update(ctx context.Context, id ID, c Change) (u User, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		u, err = lockUser(ctx, tx, id)
		if err != nil {
			return err
		}
		before := u
		set(&u.Name, c.Name)
		set(&u.Bio, c.Bio)
		set(&u.FindByID, c.FindByID)
		set(&u.FindByEmail, c.FindByEmail)
		set(&u.Requests, c.Requests)
		if c.Zone != nil {
			if u.Clock, err = u.Clock.Change(*c.Zone, tx.Now()); err != nil {
				return err
			}
		}
		if u == before {
			return nil
		}
		if err := updateUser(ctx, tx, u); err != nil || u.Clock == before.Clock {
			return err
		}
		return s.moved(ctx, tx, id)
	})
	return u, err
}

func set[T any](field *T, value *T) {
	if value != nil {
		*field = *value
	}
}

// moved follows a change of zone: every session's copy has the clock.
func (s *Service) moved(ctx context.Context, tx *sqldb.Tx, user ID) error {
	devices, err := bumpSessions(ctx, tx, user)
	if err != nil {
		return err
	}
	payload, err := json.Marshal(ZoneChanged{User: user})
	if err != nil {
		return err
	}
	if err := tx.Enqueue(ctx, sqldb.Message{Topic: TopicZone, Key: user.String(), Payload: payload}); err != nil {
		return err
	}
	return s.changed(ctx, tx, user, devices)
}

// Names returns the names of those users that exist, as of a moment ago: see User.
func (s *Service) Names(ctx context.Context, ids []ID) (_ map[ID]string, err error) {
	defer errs.Wrap(&err, "accounts.Names")
	users, err := s.users.many(ctx, ids)
	if err != nil {
		return nil, err
	}
	m := make(map[ID]string, len(users))
	for id, u := range users {
		m[id] = u.Name
	}
	return m, nil
}

// Clocks returns the calendars of those users that exist.
func (s *Service) Clocks(ctx context.Context, ids []ID) (_ map[ID]civil.Clock, err error) {
	defer errs.Wrap(&err, "accounts.Clocks")
	m := make(map[ID]civil.Clock, len(ids))
	for chunk := range slices.Chunk(ids, inOne) {
		if err := selectClocks(ctx, s.db, chunk, m); err != nil {
			return nil, asKind(err)
		}
	}
	return m, nil
}

// touched is the payload of [TopicSession].
type touched struct {
	User    ID         `json:"user"`
	Devices []DeviceID `json:"devices"`
	Since   int64      `json:"since"` // Unix milliseconds of the commit
}

// end deletes sessions and has their copies replaced by tombstones after the
// commit. It returns how many there were.
func (s *Service) end(ctx context.Context, tx *sqldb.Tx, user ID, devices []DeviceID) (int64, error) {
	n, err := deleteSessions(ctx, tx, user, devices)
	if err != nil || n == 0 {
		return 0, err
	}
	graves := make([]sessionCopy, 0, len(devices))
	for _, d := range devices {
		graves = append(graves, grave(user, d))
	}
	return n, s.published(ctx, tx, user, devices, graves)
}

// changed has the copies of sessions written anew after the commit.
func (s *Service) changed(ctx context.Context, tx *sqldb.Tx, user ID, devices []DeviceID) error {
	if len(devices) == 0 {
		return nil
	}
	copies, err := selectCopies(ctx, tx, user, devices)
	if err != nil {
		return err
	}
	return s.published(ctx, tx, user, devices, copies)
}

// published writes copies after the commit, and leaves a message that writes
// them again from SQL, should this node or Redis be gone by then.
func (s *Service) published(ctx context.Context, tx *sqldb.Tx, user ID, devices []DeviceID, copies []sessionCopy) error {
	payload, err := json.Marshal(touched{user, devices, tx.Now().UnixMilli()})
	if err != nil {
		return err
	}
	if err := tx.Enqueue(ctx, sqldb.Message{Topic: TopicSession, Payload: payload, Due: tx.Now().Add(time.Second)}); err != nil {
		return err
	}
	now := tx.Now()
	tx.AfterCommit(func() {
		s.after(ctx, "write copies of sessions", func(ctx context.Context) error { return s.fast.put(ctx, now, copies...) })
	})
	return nil
}

// republish handles [TopicSession]: it writes what SQL says now. While Redis is
// away it leaves another message, for as long as an old copy could live.
func (s *Service) republish(ctx context.Context, payload []byte) (err error) {
	defer errs.Wrap(&err, "accounts.republish")
	var m touched
	if err := json.Unmarshal(payload, &m); err != nil {
		return err
	}
	copies, err := selectCopies(ctx, s.db, m.User, m.Devices)
	if err != nil {
		return err
	}
	for _, d := range m.Devices {
		if !slices.ContainsFunc(copies, func(c sessionCopy) bool { return c.device == d }) {
			copies = append(copies, grave(m.User, d))
		}
	}
	err = s.fast.put(ctx, s.db.Now(), copies...)
	if err == nil || s.db.Now().Sub(time.UnixMilli(m.Since)) > maxCopyLife {
		return nil // written, or every copy from before has expired by itself
	}
	if !away(err) {
		return err
	}
	return s.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		return tx.Enqueue(ctx, sqldb.Message{Topic: TopicSession, Payload: payload, Due: tx.Now().Add(republishEvery)})
	})
}

// republishEvery is how often an outage of Redis is asked whether it is over.
const republishEvery = 5 * time.Second

// after runs what follows a commit or a read and may fail: the caller has his
// answer whether it does or not, and does not stop it by going away.
func (s *Service) after(ctx context.Context, what string, fn func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.budget)
	defer cancel()
	if err := fn(ctx); err != nil {
		level := slog.LevelWarn
		if away(err) {
			level = slog.LevelDebug // whoever watches the connection says it once
		}
		s.log.Log(ctx, level, "accounts: after the fact", "what", what, "err", err)
	}
}

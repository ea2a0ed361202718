package accounts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/alexedwards/argon2id"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts/attempts"
	"github.com/stoa-dev/stoa/internal/accounts/codes"
	"github.com/stoa-dev/stoa/internal/accounts/emails"
	"github.com/stoa-dev/stoa/internal/accounts/password"
	"github.com/stoa-dev/stoa/internal/accounts/trail"
	"github.com/stoa-dev/stoa/internal/aggregate"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/clientnet"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/config"
	"github.com/stoa-dev/stoa/internal/mail"
	"github.com/stoa-dev/stoa/internal/picture"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/webhooks"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/ratelimit"
	"github.com/stoa-dev/stoa/lib/redis"
)

// Topics of the outbox.
const (
	// TopicNotice mails a notice about a change of an account. This package handles it.
	TopicNotice = "accounts.notice"
	// TopicZone reports that the time zone of a user will change; the payload is a [ZoneChanged].
	TopicZone = "accounts.zone"
	// TopicAudience reports that a user has changed who sees their online status; the payload is an [AudienceChanged].
	TopicAudience = "accounts.audience"
)

// AudienceChanged is the payload of [TopicAudience].
type AudienceChanged struct {
	User ID `json:"user"`
}

// ZoneChanged is the payload of [TopicZone].
type ZoneChanged struct {
	User ID `json:"user"`
	// Skipped is a date that the user never has, because a change of zone leaves it out; 0 means none.
	Skipped civil.Day `json:"skipped,omitempty"`
}

// Limits bound the codes mailed and the credentials tried.
type Limits struct {
	CodesPerMinute int           `koanf:"codes_per_minute" default:"1" help:"codes mailed to one address for one purpose per minute"`
	CodesPerDay    int           `koanf:"codes_per_day" default:"10" help:"codes mailed to one address for one purpose per day"`
	CodesPerIP     int           `koanf:"codes_per_ip" default:"30" help:"codes requested from one client network (IPv4 address, IPv6 /64) per hour"`
	Codes          int           `koanf:"codes" default:"10000" help:"codes mailed by the whole deployment per hour; a tenth of them, or codes_per_ip, for one network (IPv4 /24, IPv6 /48)"`
	WrongCodes     int           `koanf:"wrong_codes" default:"2000" help:"wrong codes per hour; after that, codes are accepted only from known client networks of the account; a tenth of them, or codes_per_ip, for one network (IPv4 /24, IPv6 /48)"`
	LoginFails     int           `koanf:"login_fails" default:"5" help:"wrong passwords or codes in a row that lock an address for one client network (IPv4 address, IPv6 /64); ten times as many lock it for all client networks that it has not logged in from"`
	ClientNetFails int           `koanf:"household_fails" default:"100" help:"wrong passwords or codes from one client network, for all addresses, until it has paused for an hour"`
	LoginLock      time.Duration `koanf:"login_lock" default:"30m" help:"how long log-in stays locked, at most a day"`
}

// ofCodes returns the limits of package codes.
func (l Limits) ofCodes() codes.Limits {
	return codes.Limits{PerMinute: l.CodesPerMinute, PerDay: l.CodesPerDay, PerClientNet: l.CodesPerIP, All: l.Codes, Wrong: l.WrongCodes}
}

// Config configures the domain.
type Config struct {
	DB      *sqldb.DB
	Redis   *redis.DB
	Limiter *ratelimit.Limiter
	Hooks   *webhooks.Service // called before and after a registration; may be nil
	Caches  *cache.Runtime    // caches users and sessions
	Bus     *events.Bus       // receives the events of accounts after the commit
	Cache   cache.Policy      // of each cache; this domain sets Unfenced
	Mail    mail.Sender
	Page    string // URL of the page for links in mails, such as "https://stoa.example.org"; empty: unknown
	Log     *slog.Logger
	Metrics prometheus.Registerer // nil disables metrics

	// PasswordCost is the cost of hashing a password. Zero means [password.OWASP]; tests use a smaller cost.
	PasswordCost argon2id.Params

	// DropsPending reports whether drops are waiting that this node cannot do, so that Redis may contain ended
	// sessions. Nil means never.
	DropsPending func() bool

	// Notify enqueues a notice for the user in tx; kind is one of api.NoticeAccount…. Nil sends none.
	Notify func(ctx context.Context, tx *sqldb.Tx, user ID, kind string, data api.NoticeOfAccount) error

	// Secret is the server's secret: at least 32 random bytes, the same on all nodes and at each start. A new secret
	// invalidates cards and mailed codes, and a refresh token that is used twice no longer ends its session.
	Secret []byte

	// Previous is another secret whose cards and tokens are accepted while the secret is rotated; nil means none.
	Previous []byte

	Studio *picture.Studio // scales pictures of users; nil creates one

	Settings
}

// The ways to sign in, see Settings.SignIn.
const (
	SignInOwn = "own"
	SignInJWT = "jwt"
)

// Settings are the operator's settings; 0 means the default.
type Settings struct {
	AccessLife  time.Duration `koanf:"access_life" default:"24h" help:"how long an access token lasts"`
	RefreshLife time.Duration `koanf:"refresh_life" default:"1440h" help:"how long a refresh token lasts, not shorter than access_life"`
	CodeLife    time.Duration `koanf:"code_life" default:"5m" help:"how long a mailed code lasts, at most an hour"`
	Devices     int           `koanf:"devices" default:"50" help:"devices a user may have logged in; the least recently used are logged out"`
	SignIn      string        `koanf:"sign_in" default:"own" enum:"own,jwt,both" help:"how users register and log in: own: by address on this server; jwt: only by tokens of the app; or both"`
	Grace       time.Duration `koanf:"grace" default:"168h" help:"how long a deleted account can be brought back by logging in, at most 90 days"`
	Hashers     int           `koanf:"hashers" help:"passwords hashed at a time, 19 MB and a core each; 0 is half the cores"`
	Limits      Limits        `koanf:"limits"`
}

// Validate returns all faults, joined.
func (c Settings) Validate() error {
	config.Defaults(&c)
	atLeastOne := func(key string, n int) error { return config.Refuse(n < 1, key, "%d is less than one", n) }
	return errors.Join(
		config.Refuse(c.AccessLife < time.Minute, "access_life", "%s is less than a minute", c.AccessLife),
		config.Refuse(c.RefreshLife < c.AccessLife, "refresh_life", "%s is shorter than access_life, %s", c.RefreshLife, c.AccessLife),
		config.Refuse(c.CodeLife < time.Minute || c.CodeLife > codes.MaxLife, "code_life", "%s is not between a minute and an hour", c.CodeLife),
		config.Refuse(c.Devices < 1 || c.Devices > 1000, "devices", "%d is not between 1 and 1000", c.Devices),
		config.Refuse(c.Grace < time.Second || c.Grace > MaxGrace, "grace", "%s is not between a second and 90 days", c.Grace),
		config.Refuse(c.Hashers < 0, "hashers", "%d is less than zero", c.Hashers),
		atLeastOne("limits.codes_per_minute", c.Limits.CodesPerMinute),
		atLeastOne("limits.codes_per_day", c.Limits.CodesPerDay),
		atLeastOne("limits.codes_per_ip", c.Limits.CodesPerIP),
		atLeastOne("limits.codes", c.Limits.Codes),
		atLeastOne("limits.wrong_codes", c.Limits.WrongCodes),
		atLeastOne("limits.login_fails", c.Limits.LoginFails),
		atLeastOne("limits.household_fails", c.Limits.ClientNetFails),
		config.Refuse(c.Limits.LoginLock < time.Second || c.Limits.LoginLock > loginFailKeys.TTL.Base, "limits.login_lock",
			"%s is not between a second and a day", c.Limits.LoginLock))
}

// afterBudget bounds the steps after a commit.
const afterBudget = 250 * time.Millisecond

// Service is the accounts domain. It is safe for concurrent use.
type Service struct {
	db          *sqldb.DB
	caches      *aggregate.Caches
	bus         *events.Bus
	users       *Users
	checks      *cache.Cache[sessionKey, access]
	uses        uses
	unconfirmed unconfirmed
	cards       cards
	redis       redisStore
	cfg         Settings
	mint        mint
	previous    mint // see Config.Previous; nil means none
	mail        mail.Sender
	page        string
	hasher      *password.Hasher
	studio      *picture.Studio
	budget      time.Duration
	log         *slog.Logger

	metrics  *metrics
	attempts *attempts.Counter
	notes    trail.Notes
	codes    *codes.Service
	strays   strays
	hooks    *webhooks.Service

	notify       func(ctx context.Context, tx *sqldb.Tx, user ID, kind string, data api.NoticeOfAccount) error
	dropsPending func() bool
}

// New returns the domain. Its error contains all faults of the settings.
func New(cfg Config) (*Service, error) {
	config.Defaults(&cfg.Settings)
	err := cfg.Settings.Validate()
	if len(cfg.Secret) < 32 {
		err = errors.Join(err, fmt.Errorf("accounts: the secret has %d bytes and needs 32", len(cfg.Secret)))
	}
	if err != nil {
		return nil, err
	}
	if cfg.Studio == nil {
		cfg.Studio = picture.New(0)
	}
	s := &Service{
		db:       cfg.DB,
		caches:   aggregate.New(cfg.DB, cfg.Caches),
		bus:      cfg.Bus,
		users:    NewUsers(cfg.DB, cfg.Caches, cfg.Cache),
		checks:   newChecks(cfg.DB, cfg.Caches, cfg.Cache),
		cards:    newCards(cfg.DB, cfg.Caches, cfg.Cache),
		redis:    redisStore{db: cfg.Redis, budget: readBudget},
		cfg:      cfg.Settings,
		mint:     mint(slices.Clone(cfg.Secret)),
		previous: mint(cfg.Previous),
		mail:     cfg.Mail,
		page:     cfg.Page,
		hasher:   password.NewHasher(cfg.Hashers, cmp.Or(cfg.PasswordCost, password.OWASP)),
		studio:   cfg.Studio,
		budget:   afterBudget,
		log:      cfg.Log,

		metrics:  newMetrics(cfg.Metrics),
		attempts: attempts.New(cfg.Redis, cfg.Log),
		hooks:    cfg.Hooks,

		notify:       cfg.Notify,
		dropsPending: cfg.DropsPending,
	}
	s.codes = codes.New(codes.Config{DB: cfg.DB, Limiter: cfg.Limiter, Attempts: s.attempts, Log: cfg.Log, Metrics: cfg.Metrics,
		MAC: s.mint.mac, Life: cfg.CodeLife, Limits: cfg.Limits.ofCodes(), Knows: s.knows, Owner: addressOf})
	return s, nil
}

// Registration is the data for a new account.
type Registration struct {
	Email    string
	Code     string // proves the address
	Password string // empty: log-in only by code
	Name     string
	Zone     string // empty: UTC
	Device   string // the user's name for the device
	Agent    string // User-Agent
	IP       string
}

// Register creates an account and logs the device in.
func (s *Service) Register(ctx context.Context, r Registration) (t Tokens, err error) {
	defer errs.Wrap(&err, "accounts.Register")
	if err := s.ownSignIn(); err != nil {
		return Tokens{}, err
	}
	e, err := emails.Parse(r.Email)
	if err != nil {
		return Tokens{}, err
	}
	u := User{ID: ids.New[User](), Email: e.Given, Clock: civil.Clock{Zone: r.Zone}, FindByID: true, Requests: true, OnBoards: true,
		Presence: ToFriends, HasPassword: r.Password != ""}
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
		if r.Password, err = newPassword(r.Password, e.Given, u.Name); err != nil {
			return Tokens{}, err
		}
	}
	clientNet := clientnet.Parse(r.IP)
	code, err := s.codes.Check(ctx, codes.Proof{Email: e, Purpose: codes.ForRegister}, r.Code, clientNet)
	if err != nil {
		return Tokens{}, asKind(err)
	}
	if _, err := s.hooks.Before(ctx, api.BeforeRegistration, clientNet, api.HookUser{Name: u.Name, Email: u.Email}, nil); err != nil {
		return Tokens{}, err
	}
	var passwordHash string
	if r.Password != "" {
		if passwordHash, err = s.hash(ctx, clientNet, r.Password); err != nil {
			return Tokens{}, err
		}
	}
	return s.openSession(ctx, u.ID, Session{Name: r.Device, Agent: cleanAgent(r.Agent), IP: r.IP},
		func(ctx context.Context, tx *sqldb.Tx) (User, error) {
			if err := code.Consume(ctx, tx); err != nil {
				return User{}, err
			}
			u.Created = tx.Now()
			if err := insertUser(ctx, tx, u, e.Key, passwordHash); err != nil {
				return User{}, err
			}
			return u, s.enqueueRegistered(ctx, tx, External{}, u)
		}, trail.Registered)
}

// ownSignIn returns ErrSignInOff if the operator has disabled registration and log-in by address.
func (s *Service) ownSignIn() error {
	if s.cfg.SignIn == SignInJWT {
		return ErrSignInOff
	}
	return nil
}

func checkZone(name string) error {
	if _, err := civil.LoadZone(name); err != nil {
		return civil.ErrZone.On("body.zone", "is not a time zone of the IANA database")
	}
	return nil
}

// A Login is the data for a log-in.
type Login struct {
	Email    string
	Password string // either Password
	Code     string // or Code
	Device   string // the user's name for the device
	Agent    string // User-Agent
	IP       string

	// Session is the id of the session, the same for each try of one request: a retry replaces the tokens of the
	// earlier try. Zero creates one.
	Session DeviceID
}

// from returns the facts of the device.
func (l Login) from() Session {
	return Session{Device: l.Session, Name: l.Device, Agent: cleanAgent(l.Agent), IP: l.IP}
}

// Login opens a session for one more device. It returns ErrCredentials without saying which part is wrong, and
// ErrLocked after too many failures, for known and unknown addresses alike.
func (s *Service) Login(ctx context.Context, l Login) (t Tokens, err error) {
	defer errs.Wrap(&err, "accounts.Login")
	if err := s.ownSignIn(); err != nil {
		return Tokens{}, err
	}
	e, err := emails.Parse(l.Email)
	if err != nil {
		return Tokens{}, err
	}
	if l.Device, err = cleanDevice(l.Device); err != nil {
		return Tokens{}, err
	}
	if (l.Password == "") == (l.Code == "") {
		return Tokens{}, ErrEither
	}
	c, err := selectCredential(ctx, s.db, e.Given)
	if err != nil {
		return Tokens{}, asKind(err)
	}
	a, err := s.loginAttempt(ctx, e, c, clientnet.Parse(l.IP))
	if err != nil {
		return Tokens{}, err
	}
	if l.Code != "" {
		err = s.counted(ctx, a, func() error {
			t, err = s.loginByCode(ctx, e, l, c)
			return err
		})
	} else {
		t, err = s.loginByPassword(ctx, a, l, c)
	}
	if errors.Is(err, codes.ErrWrong) || errors.Is(err, ErrNoUser) {
		err = ErrCredentials
	}
	if err != nil {
		return Tokens{}, err
	}
	return t, nil
}

func (s *Service) loginByPassword(ctx context.Context, a attempt, l Login, c credential) (Tokens, error) {
	err := s.countedMatch(ctx, a, a.clientNet, func() error {
		ok, err := s.matches(l.Password, c.passwordHash)
		if err == nil && !ok {
			err = ErrCredentials
		}
		return err
	})
	if err != nil {
		return Tokens{}, err
	}
	t, err := s.openSessionAs(ctx, c.ID, l, c.admit)
	if isWrong(err) { // the password was changed or the account erased in the meantime
		s.recordFailure(a, a.failed)
	}
	return t, err
}

func (s *Service) loginByCode(ctx context.Context, e emails.Address, l Login, c credential) (t Tokens, err error) {
	code, err := s.codes.Check(ctx, codes.Proof{Email: e, Purpose: codes.ForLogin}, l.Code, clientnet.Parse(l.IP))
	if err != nil {
		return Tokens{}, asKind(err)
	}
	return s.openSessionAs(ctx, c.ID, l, func(ctx context.Context, tx *sqldb.Tx) (User, error) {
		if err := code.Consume(ctx, tx); err != nil {
			return User{}, err
		}
		u, err := lockUser(ctx, tx, c.ID)
		if err == nil && emails.Key(u.Email) != e.Key { // changed in the meantime
			err = ErrCredentials
		}
		return u, err
	})
}

// Users returns the cached users.
func (s *Service) Users() *Users { return s.users }

// Passwords returns the password hasher, which is shared because it bounds the concurrent hashes of the process.
func (s *Service) Passwords() *password.Hasher { return s.hasher }

// User returns an account as of a moment ago: a change on another node appears here within [cache.Policy.MaxStale].
// Rules that depend on a calendar use Clocks. It returns ErrNoUser for an unknown user.
func (s *Service) User(ctx context.Context, id ID) (User, error) {
	u, err := s.users.get(ctx, id)
	if err != nil { // cached reads should not pay for an error text
		return User{}, fmt.Errorf("accounts.User %s: %w", id, err)
	}
	return u, nil
}

// A Change changes an account; nil fields stay.
type Change struct {
	Name        *string
	Bio         *string
	Zone        *string // applies from the next midnight in the current zone
	FindByID    *bool
	FindByEmail *bool
	Requests    *bool
	OnBoards    *bool
	Presence    *Audience
}

// Update changes an account and returns the updated account.
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
	err = s.commit(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		u, err = s.update(ctx, tx, id, c)
		return err
	}, InfoChanged.Of(s.caches.Runtime, id)...)
	if err != nil {
		return User{}, err
	}
	now := s.db.Now()
	s.publish(api.EventAccountUpdated, id, now, wireUser(u, now))
	return u, nil
}

// update is the transaction of Update.
func (s *Service) update(ctx context.Context, tx *sqldb.Tx, id ID, c Change) (u User, err error) {
	if u, err = lockLiving(ctx, tx, id); err != nil {
		return User{}, err
	}
	if err := storeLanguage(ctx, tx, id); err != nil {
		return User{}, err
	}
	before := u
	aggregate.Set(&u.Name, c.Name)
	aggregate.Set(&u.Bio, c.Bio)
	aggregate.Set(&u.FindByID, c.FindByID)
	aggregate.Set(&u.FindByEmail, c.FindByEmail)
	aggregate.Set(&u.Requests, c.Requests)
	aggregate.Set(&u.OnBoards, c.OnBoards)
	aggregate.Set(&u.Presence, c.Presence)
	if c.Zone != nil {
		if u.Clock, err = u.Clock.Change(*c.Zone, tx.Now()); err != nil {
			return User{}, err
		}
	}
	if u == before {
		return u, nil
	}
	u.Version++
	if err := updateUser(ctx, tx, u); err != nil {
		return u, err
	}
	if trail.Actor(ctx) != "" {
		if err := writeOperators(ctx, tx, id, DeviceID{}, trail.ProfileSet); err != nil {
			return u, err
		}
	}
	if u.Presence != before.Presence {
		if err := tx.EnqueueJSON(ctx, sqldb.Message{Topic: TopicAudience, Key: id.String(), NoDedup: true}, AudienceChanged{id}); err != nil {
			return u, err
		}
	}
	if u.Clock == before.Clock {
		return u, nil
	}
	return u, s.enqueueZoneChange(ctx, tx, id, before.Clock, u.Clock)
}

// enqueueZoneChange enqueues a change of zone for the other domains: at once and, if the change skips a date, again
// when it applies. The key of that message contains its time, so that a later change of zone before that time replaces
// it. A change after that time removes the date from the clock, and enqueues the date once more in case no domain has
// handled it yet.
func (s *Service) enqueueZoneChange(ctx context.Context, tx *sqldb.Tx, user ID, before, after civil.Clock) error {
	enqueue := func(key string, skipped civil.Day, due time.Time) error {
		return tx.EnqueueJSON(ctx, sqldb.Message{Topic: TopicZone, Key: key, Due: due}, ZoneChanged{user, skipped})
	}
	inForce := func(c civil.Clock) string { return fmt.Sprintf("%s@%d", user, c.From) }
	if err := enqueue(user.String(), 0, time.Time{}); err != nil {
		return err
	}
	if day, ok := before.Skipped(); ok {
		due := time.UnixMilli(before.From)
		if tx.Now().Before(due) {
			day = 0 // the skip is canceled
		}
		if err := enqueue(inForce(before), day, due); err != nil {
			return err
		}
	}
	if day, ok := after.Skipped(); ok {
		return enqueue(inForce(after), day, time.UnixMilli(after.From))
	}
	return nil
}

// UsersOf returns the existing users of ids, including deleted ones, as of a moment ago (see User). It costs one round
// trip to Redis per 500 ids.
func (s *Service) UsersOf(ctx context.Context, ids []ID) (_ map[ID]User, err error) {
	defer errs.Wrap(&err, "accounts.UsersOf")
	return s.users.getMany(ctx, ids)
}

// Audiences returns who sees whether users are online, as of a moment ago: see User. For deleted, banned and unknown
// users it is ToNobody.
func (s *Service) Audiences(ctx context.Context, ids []ID) (_ map[ID]Audience, err error) {
	defer errs.Wrap(&err, "accounts.Audiences")
	users, err := s.users.getMany(ctx, ids)
	if err != nil {
		return nil, err
	}
	m, now := make(map[ID]Audience, len(users)), s.db.Now()
	for id, u := range users {
		if !u.Deleted() && !u.BannedAt(now) {
			m[id] = u.Presence
		}
	}
	return m, nil
}

// Clocks returns the calendars of the existing users of ids.
func (s *Service) Clocks(ctx context.Context, ids []ID) (_ map[ID]civil.Clock, err error) {
	defer errs.Wrap(&err, "accounts.Clocks")
	m := make(map[ID]civil.Clock, len(ids))
	for chunk := range slices.Chunk(ids, idsPerStatement) {
		if err := selectClocks(ctx, s.db, chunk, m); err != nil {
			return nil, asKind(err)
		}
	}
	return m, nil
}

// after runs a step that follows a commit or a read and may fail. It does not change the response, and continues if the
// caller disconnects.
func (s *Service) after(ctx context.Context, step string, fn func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.budget)
	defer cancel()
	if err := fn(ctx); err != nil {
		level := slog.LevelWarn
		if isUnavailable(err) {
			level = slog.LevelDebug // the watcher of the connection logs it once
		}
		s.log.Log(ctx, level, "accounts: step after commit failed", "step", step, "err", err)
	}
}

package jwtlogin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/clientnet"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/words"
	"github.com/stoa-dev/stoa/internal/config"
	"github.com/stoa-dev/stoa/internal/webhooks"
)

// Config configures the package.
type Config struct {
	People *accounts.Service
	Hooks  *webhooks.Service // called before an account is created; may be nil
	Log    *slog.Logger
	Now    func() time.Time
	Off    bool // disables log-in by tokens of an app
	// Client fetches the keys; nil means http.DefaultClient.
	Client Fetcher

	Settings
}

// Service logs users in. It is safe for concurrent use.
type Service struct {
	cfg    Config
	parser *jwt.Parser
	public jwt.Keyfunc // nil if there is only a shared secret
}

const (
	fetchEvery   = time.Hour        // interval of fetches of the keys
	fetchTime    = 5 * time.Second  // bounds one fetch
	fetchUnknown = 30 * time.Second // between fetches for unknown keys
)

// New returns a service. Keys that cannot be fetched now are fetched later, until ctx ends. Its error contains all
// faults of the settings.
func New(ctx context.Context, cfg Config) (*Service, error) {
	config.Defaults(&cfg.Settings)
	cfg.IDClaim, cfg.NameClaim = cmp.Or(cfg.IDClaim, "sub"), cmp.Or(cfg.NameClaim, "name")
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("jwt: %w", err)
	}
	s := &Service{cfg: cfg, parser: jwt.NewParser(jwt.WithValidMethods(cfg.Algorithms), jwt.WithIssuer(cfg.Issuer),
		jwt.WithAudience(cfg.Audience),
		jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithLeeway(cfg.Leeway), jwt.WithTimeFunc(cfg.Now))}
	var err error
	var keys keyfunc.Keyfunc
	switch {
	case cfg.Off || !cfg.On():
		return s, nil
	case cfg.JWKSFile != "":
		var text []byte
		if text, err = os.ReadFile(cfg.JWKSFile); err == nil {
			keys, err = keyfunc.NewJWKSetJSON(text)
		}
	case cfg.JWKSURL != "":
		later := true
		keys, err = keyfunc.NewDefaultOverrideCtx(ctx, []string{cfg.JWKSURL}, keyfunc.Override{
			Client:      cfg.Client,
			HTTPTimeout: fetchTime, RefreshInterval: fetchEvery, NoErrorReturnFirstHTTPReq: &later,
			// the latter also bounds the fetch; fetching limits the rate
			RefreshUnknownKID: rate.NewLimiter(rate.Inf, 0), RateLimitWaitMax: fetchTime,
			RefreshErrorHandlerFunc: func(string) func(context.Context, error) {
				return func(_ context.Context, err error) {
					cfg.Log.Error("jwt: keys not fetched, keeping the known ones", "err", err)
				}
			},
		})
	}
	if err != nil {
		return nil, fmt.Errorf("jwt: the public keys: %w", err)
	}
	if keys != nil {
		s.public = fetching(ctx, keys)
	}
	return s, nil
}

// fetching returns the key that a token names. For an unknown key it fetches the keys, and concurrent callers with the
// same key wait for that fetch. For a token without a key name it fetches only if there are no keys.
func fetching(ctx context.Context, keys keyfunc.Keyfunc) jwt.Keyfunc {
	var flight singleflight.Group
	seldom := rate.NewLimiter(rate.Every(fetchUnknown), 1)
	return func(t *jwt.Token) (any, error) {
		kid, named := t.Header[jwkset.HeaderKID].(string)
		key, err, _ := flight.Do(fmt.Sprint(t.Method.Alg(), named, kid), func() (any, error) {
			all, err := keys.Storage().KeyReadAll(ctx)
			if err != nil {
				return nil, err
			}
			if !slices.ContainsFunc(all, func(k jwkset.JWK) bool { return !named || k.Marshal().KID == kid }) {
				if !seldom.Allow() {
					return nil, errors.New("the key is unknown, and the keys were just fetched")
				}
				if !named {
					_, _ = keys.Storage().KeyRead(ctx, "") // fetches; the result is checked below
				}
			}
			return keys.Keyfunc(t) // fetches an unknown key with a name
		})
		return key, err
	}
}

// key returns the key to check a token with. The algorithm selects the kind of key.
func (s *Service) key(t *jwt.Token) (any, error) {
	if extensions, ok := t.Header["crit"]; ok { // RFC 7515, 4.1.11: a token with unsupported critical extensions is invalid
		return nil, fmt.Errorf("crit names extensions that are not supported: %v", extensions)
	}
	if _, shared := t.Method.(*jwt.SigningMethodHMAC); shared {
		return []byte(s.cfg.Secret), nil
	}
	if s.public == nil {
		return nil, errors.New("no public keys")
	}
	return s.public(t)
}

// user returns the user that a token names, or ErrToken.
func (s *Service) user(token string) (u accounts.External, err error) {
	claims := jwt.MapClaims{}
	if _, err = s.parser.ParseWithClaims(token, claims, s.key); err == nil {
		u.ID, err = s.id(claims)
	}
	if err != nil {
		s.cfg.Log.Debug("jwt: token refused", "err", err)
		return accounts.External{}, ErrToken
	}
	name, _ := claims[s.cfg.NameClaim].(string)
	u.Name = shownName(name)
	return u, nil
}

// id returns the app's id of the user. It must be a text, like sub in RFC 7519: as numbers, 42 and 42.0 would be one
// user.
func (s *Service) id(claims jwt.MapClaims) (string, error) {
	exp, err := claims.GetExpirationTime()
	if err != nil {
		return "", err
	}
	if latest := s.cfg.Now().Add(s.cfg.MaxLife + s.cfg.Leeway); exp.After(latest) {
		return "", fmt.Errorf("exp is %s, later than max_life allows", exp.UTC().Format(time.RFC3339))
	}
	switch id := claims[s.cfg.IDClaim].(type) {
	case string:
		if id != "" {
			return id, nil
		}
		return "", fmt.Errorf("the claim %s is empty", s.cfg.IDClaim)
	case nil:
		return "", fmt.Errorf("the claim %s is missing", s.cfg.IDClaim)
	default:
		return "", fmt.Errorf("the claim %s is no string", s.cfg.IDClaim)
	}
}

// shownName returns a valid name for display, because the app's name may be too long.
func shownName(s string) string {
	if runes := []rune(strings.TrimSpace(s)); len(runes) > 40 {
		s = string(runes[:40])
	}
	if name, ok := words.Line(s, 40); ok && name != "" {
		return name
	}
	return "User"
}

// Exchange logs in a device of the user that a token names, and creates an account if there is none.
func (s *Service) Exchange(ctx context.Context, token string, l accounts.Login) (t accounts.Tokens, err error) {
	defer errs.Wrap(&err, "jwtlogin.Exchange")
	if s.cfg.Off || !s.cfg.On() {
		return t, ErrOff
	}
	external, err := s.user(token)
	if err != nil {
		return t, err
	}
	u, err := s.cfg.People.ExternalUser(ctx, external.ID)
	if errors.Is(err, accounts.ErrNoUser) {
		u, err = s.open(ctx, external, l.IP)
	}
	if err != nil {
		return t, err
	}
	t, err = s.cfg.People.SignIn(ctx, u.ID, l)
	if errors.Is(err, accounts.ErrNoUser) { // erased in the meantime
		err = ErrToken
	}
	return t, err
}

func (s *Service) open(ctx context.Context, external accounts.External, ip string) (accounts.User, error) {
	if !s.cfg.Create {
		return accounts.User{}, ErrUnknown
	}
	_, refused := s.cfg.Hooks.Before(ctx, api.BeforeRegistration, clientnet.Parse(ip),
		api.HookUser{ExternalID: external.ID, Name: external.Name}, nil)
	if refused != nil {
		return accounts.User{}, refused
	}
	all, err := s.cfg.People.Provide(ctx, []accounts.External{external})
	if err != nil {
		return accounts.User{}, err
	}
	return all[0].User, nil
}

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

// People is what this package asks accounts for; *accounts.Service is one.
type People interface {
	ExternalUser(ctx context.Context, id string) (accounts.User, error)
	Provide(ctx context.Context, list []accounts.External) ([]accounts.Provided, error)
	SignIn(ctx context.Context, user accounts.ID, l accounts.Login) (accounts.Tokens, error)
	WireTokens(t accounts.Tokens) api.Tokens
}

// Config has what the package stands on.
type Config struct {
	People People
	Hooks  *webhooks.Service // asked before an account is opened; nil: nobody is
	Log    *slog.Logger
	Now    func() time.Time
	Off    bool // nobody is logged in by tokens of an app
	// Client fetches the keys at an address; nil means http.DefaultClient.
	Client Fetcher

	Settings
}

// Service logs users in. It is safe for concurrent use.
type Service struct {
	cfg    Config
	parser *jwt.Parser
	public jwt.Keyfunc // nil: there is a shared secret alone
}

const (
	fetchEvery   = time.Hour        // the keys at an address
	fetchTime    = 5 * time.Second  // for one fetch
	fetchUnknown = 30 * time.Second // between fetches for keys that nobody knows
)

// New returns a service with those settings; keys that cannot be fetched now are fetched later, until ctx ends. The
// error has all faults of the settings.
func New(ctx context.Context, cfg Config) (*Service, error) {
	config.Defaults(&cfg.Settings)
	cfg.IDClaim, cfg.NameClaim = cmp.Or(cfg.IDClaim, "sub"), cmp.Or(cfg.NameClaim, "name")
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("jwt: %w", err)
	}
	s := &Service{cfg: cfg, parser: jwt.NewParser(jwt.WithValidMethods(cfg.Algorithms), jwt.WithIssuer(cfg.Issuer), jwt.WithAudience(cfg.Audience),
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
			RefreshUnknownKID: rate.NewLimiter(rate.Inf, 0), RateLimitWaitMax: fetchTime, // the latter is for the fetch, too; how often is said by fetching
			RefreshErrorHandlerFunc: func(string) func(context.Context, error) {
				return func(_ context.Context, err error) {
					cfg.Log.Error("jwt: the keys cannot be fetched; those that are known stay", "err", err)
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

// fetching returns the key that a token names. For one that nobody knows the keys are fetched, and whoever comes with the
// same one meanwhile waits for that. A token that names none has them fetched where there are none.
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
					return nil, errors.New("nobody knows the key, and the keys were fetched a moment ago")
				}
				if !named {
					_, _ = keys.Storage().KeyRead(ctx, "") // fetches; what came of that is seen below
				}
			}
			return keys.Keyfunc(t) // fetches a key with a name that nobody knows
		})
		return key, err
	}
}

// key returns by which key a token is checked: the algorithm decides which it can be.
func (s *Service) key(t *jwt.Token) (any, error) {
	if extensions, ok := t.Header["crit"]; ok { // RFC 7515, 4.1.11: a token is invalid if its recipient supports none of them
		return nil, fmt.Errorf("crit names extensions that are not supported: %v", extensions)
	}
	if _, shared := t.Method.(*jwt.SigningMethodHMAC); shared {
		return []byte(s.cfg.Secret), nil
	}
	if s.public == nil {
		return nil, errors.New("there are no public keys")
	}
	return s.public(t)
}

// user returns whom a token names. ErrToken.
func (s *Service) user(token string) (u accounts.External, err error) {
	claims := jwt.MapClaims{}
	if _, err = s.parser.ParseWithClaims(token, claims, s.key); err == nil {
		u.ID, err = s.id(claims)
	}
	if err != nil {
		s.cfg.Log.Debug("jwt: a token is refused", "err", err)
		return accounts.External{}, ErrToken
	}
	name, _ := claims[s.cfg.NameClaim].(string)
	u.Name = shownName(name)
	return u, nil
}

// id returns the app's own name for the user. As sub is by RFC 7519, it is a text: as a number, 42 and 42.0 would be one user.
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

// shownName is a name that others can be shown: what the app has may be too long.
func shownName(s string) string {
	if runes := []rune(strings.TrimSpace(s)); len(runes) > 40 {
		s = string(runes[:40])
	}
	if name, ok := words.Line(s, 40); ok && name != "" {
		return name
	}
	return "User"
}

// Exchange logs a device of the user in whom a token names, and opens an account where there is none. ErrOff,
// ErrToken, ErrUnknown, accounts.ErrExternalID, accounts.ErrDeviceName, accounts.ErrBanned, accounts.ErrCredentials, webhooks.ErrRefused, webhooks.ErrAway.
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
	if errors.Is(err, accounts.ErrNoUser) { // erased in this moment
		err = ErrToken
	}
	return t, err
}

func (s *Service) open(ctx context.Context, external accounts.External, ip string) (accounts.User, error) {
	if !s.cfg.Create {
		return accounts.User{}, ErrUnknown
	}
	_, refused := s.cfg.Hooks.Before(ctx, api.BeforeRegistration, clientnet.Parse(ip), api.HookUser{ExternalID: external.ID, Name: external.Name}, nil)
	if refused != nil {
		return accounts.User{}, refused
	}
	all, err := s.cfg.People.Provide(ctx, []accounts.External{external})
	if err != nil {
		return accounts.User{}, err
	}
	return all[0].User, nil
}

package jwtlogin

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/config"
)

// Errors of the package.
var (
	ErrToken   = errs.New(errs.Unauthenticated, "auth.jwt_invalid", "The app's token is wrong or expired, or not for this server.")
	ErrUnknown = errs.New(errs.Forbidden, "auth.jwt_unknown_user", "The user of the app's token has no account here.")
	ErrOff     = errs.New(errs.Forbidden, "auth.jwt_off", "This server does not accept an app's tokens.")
)

// Settings are the operator's settings.
type Settings struct {
	Issuer     string        `koanf:"issuer" help:"the required iss of a token"`
	Audience   string        `koanf:"audience" help:"a value that a token's aud must contain"`
	Algorithms []string      `koanf:"algorithms" help:"the accepted algorithms: HS256 with secret, RS256, ES256, EdDSA and their like with keys of jwks_url or jwks_file"`
	Secret     string        `koanf:"secret" secret:"true" help:"the secret that is shared with the app's backend, for HS256; at least 32 characters"`
	JWKSURL    string        `koanf:"jwks_url" help:"where the public keys are fetched, https://app.example.org/.well-known/jwks.json"`
	JWKSFile   string        `koanf:"jwks_file" help:"a file with the public keys, in place of jwks_url"`
	IDClaim    string        `koanf:"id_claim" default:"sub" help:"the claim with the app's id of the user; an empty one is sub"`
	NameClaim  string        `koanf:"name_claim" default:"name" help:"the claim with the name that others see, taken when the account is opened; an empty one is name"`
	Create     bool          `koanf:"create" default:"true" help:"open an account for a user who has none"`
	Leeway     time.Duration `koanf:"leeway" default:"30s" help:"how far the app's clock may be off, at most 5m"`
	MaxLife    time.Duration `koanf:"max_life" default:"1h" help:"how far ahead a token's exp may lie, at most a day: until then it can be used again"`
}

// On reports whether a key for checking tokens is configured.
func (c Settings) On() bool { return c.Secret != "" || c.JWKSURL != "" || c.JWKSFile != "" }

var (
	symmetric  = []string{"HS256", "HS384", "HS512"}
	asymmetric = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)

// Validate returns all faults, joined.
func (c Settings) Validate() error {
	config.Defaults(&c)
	if !c.On() {
		return config.Refuse(len(c.Algorithms) > 0 || c.Issuer != "" || c.Audience != "", "secret",
			"tokens cannot be checked without secret, jwks_url or jwks_file")
	}
	u, err := url.Parse(c.JWKSURL)
	faults := []error{
		config.Refuse(c.Issuer == "", "issuer", "name the issuer: a token of any other is for another server"),
		config.Refuse(c.Audience == "", "audience", "name the audience: a token for any other is for another server"),
		config.Refuse(len(c.Algorithms) == 0, "algorithms", "name the algorithms that are taken, such as RS256"),
		config.Refuse(c.Secret != "" && len(c.Secret) < 32, "secret", "a secret has at least 32 characters"),
		config.Refuse(c.JWKSURL != "" && c.JWKSFile != "", "jwks_file", "the keys come either from jwks_url or from a file"),
		config.Refuse(c.JWKSURL != "" && (err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http"), "jwks_url",
			"an address is https://app.example.org/.well-known/jwks.json"),
		config.Refuse(c.Leeway < 0 || c.Leeway > 5*time.Minute, "leeway", "%s is not between 0 and 5m", c.Leeway),
		config.Refuse(c.MaxLife < time.Minute || c.MaxLife > 24*time.Hour, "max_life", "%s is not between a minute and a day", c.MaxLife),
	}
	for _, alg := range c.Algorithms {
		switch {
		case slices.Contains(symmetric, alg):
			faults = append(faults, config.Refuse(c.Secret == "", "secret", "%s needs a secret", alg))
		case slices.Contains(asymmetric, alg):
			faults = append(faults, config.Refuse(c.JWKSURL == "" && c.JWKSFile == "", "jwks_url", "%s needs jwks_url or jwks_file", alg))
		default:
			faults = append(faults, config.Refuse(true, "algorithms", "%q is none of %s", alg,
				strings.Join(slices.Concat(symmetric, asymmetric), ", ")))
		}
	}
	return errors.Join(faults...)
}

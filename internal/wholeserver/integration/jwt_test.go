package integration

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/jwtlogin"
	"github.com/stoa-dev/stoa/internal/servicekeys"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

const jwtSecret = "0123456789abcdef0123456789abcdef"

// jwks writes the public keys to a file.
func jwks(t *testing.T, keys map[string]any) string {
	t.Helper()
	store := jwkset.NewMemoryStorage()
	for kid, key := range keys {
		k, err := jwkset.NewJWKFromKey(key, jwkset.JWKOptions{Metadata: jwkset.JWKMetadataOptions{KID: kid}})
		if err == nil {
			err = store.KeyWrite(t.Context(), k)
		}
		must(t, err)
	}
	text, err := store.JSONPublic(t.Context())
	must(t, err)
	file := filepath.Join(t.TempDir(), "jwks.json")
	must(t, os.WriteFile(file, text, 0o600))
	return file
}

func TestATokenOfTheAppsOwnLogsIn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
		must(t, err)
		other, err := rsa.GenerateKey(rand.Reader, 2048)
		must(t, err)
		ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must(t, err)
		public, err := x509.MarshalPKIXPublicKey(&rsaKey.PublicKey)
		must(t, err)
		n := startFor(t, func(c *app.Config) {
			c.Accounts.SignIn = "jwt"
			c.JWT = jwtlogin.Settings{Issuer: "https://app.example.org", Audience: "stoa", Algorithms: []string{"HS256", "RS256", "ES256"},
				Secret: jwtSecret, Create: true,
				JWKSFile: jwks(t, map[string]any{"r": rsaKey.Public(), "e": ecKey.Public()})}
		})
		ctx, now := t.Context(), time.Now()
		sign := func(method jwt.SigningMethod, key any, kid string, change ...func(jwt.MapClaims)) string {
			t.Helper()
			claims := jwt.MapClaims{"iss": "https://app.example.org", "aud": "stoa", "sub": "c-1", "name": "Ann",
				"exp": now.Add(10 * time.Minute).Unix(), "iat": now.Unix()}
			for _, c := range change {
				c(claims)
			}
			token := jwt.NewWithClaims(method, claims)
			if kid != "" {
				token.Header["kid"] = kid
			}
			text, err := token.SignedString(key)
			must(t, err)
			return text
		}
		set := func(name string, value any) func(jwt.MapClaims) {
			return func(c jwt.MapClaims) {
				if c[name] = value; value == nil {
					delete(c, name)
				}
			}
		}
		hs := func(change ...func(jwt.MapClaims)) string {
			return sign(jwt.SigningMethodHS256, []byte(jwtSecret), "", change...)
		}
		login := func(token string) (api.Tokens, string) {
			out, err := n.Client(t).LoginByJWT(ctx, api.JWTRequest{Token: token, Device: "Phone"})
			return out, client.CodeOf(err)
		}
		first, code := login(hs())
		if code != "" || first.User.Name != "Ann" || first.User.Email != "" {
			t.Fatalf("the first log-in: %+v %s", first.User, code)
		}
		for name, token := range map[string]string{
			"again": hs(), "an RSA key": sign(jwt.SigningMethodRS256, rsaKey, "r"), "an EC key": sign(jwt.SigningMethodES256, ecKey, "e"),
			"a clock that is off a little": hs(set("nbf", now.Add(20*time.Second).Unix())),
			"without a key's name":         sign(jwt.SigningMethodRS256, rsaKey, ""),
			"several audiences":            hs(set("aud", []string{"other", "stoa"})),
		} {
			if got, code := login(token); code != "" || got.User.ID != first.User.ID {
				t.Errorf("%s: %+v %s", name, got.User, code)
			}
		}
		pemKey := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
		for name, token := range map[string]string{
			"expired":                         hs(set("exp", now.Add(-time.Minute).Unix())),
			"not yet valid":                   hs(set("nbf", now.Add(time.Minute).Unix())),
			"issued in the future":            hs(set("iat", now.Add(time.Minute).Unix())),
			"without an end":                  hs(set("exp", nil)),
			"good for longer than max_life":   hs(set("exp", now.Add(2*time.Hour).Unix())),
			"of another issuer":               hs(set("iss", "https://evil.example.org")),
			"of no issuer":                    hs(set("iss", nil)),
			"for another audience":            hs(set("aud", "other")),
			"for no audience":                 hs(set("aud", nil)),
			"of nobody":                       hs(set("sub", nil)),
			"of a number":                     hs(set("sub", 7)),
			"with another secret":             sign(jwt.SigningMethodHS256, []byte("fedcba9876543210fedcba9876543210"), ""),
			"the RSA key as the secret":       sign(jwt.SigningMethodHS256, pemKey, "r"),
			"the RSA key in DER as secret":    sign(jwt.SigningMethodHS256, public, "r"),
			"of another RSA key":              sign(jwt.SigningMethodRS256, other, "r"),
			"an unknown key":                  sign(jwt.SigningMethodRS256, rsaKey, "x"),
			"an EC signature by the RSA name": sign(jwt.SigningMethodES256, ecKey, "r"),
			"an algorithm that is not named":  sign(jwt.SigningMethodRS512, rsaKey, "r"),
			"unsigned":                        sign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, ""),
			"nonsense":                        "a.b.c",
		} {
			if _, code := login(token); code != "auth.jwt_invalid" {
				t.Errorf("%s: got %q", name, code)
			}
		}
		if _, code := login(hs(set("sub", "with a space"))); code != "account.external_id_invalid" {
			t.Errorf("no external id: %q", code)
		}
		if nameless, code := login(hs(set("sub", "c-2"), set("name", "\u202e"))); code != "" || nameless.User.Name != "User" ||
			nameless.User.ID == first.User.ID {
			t.Errorf("a name that cannot be shown: %+v %s", nameless.User, code)
		}

		// The sessions are like any other. A ban ends them, and the server refuses further tokens.
		keys := n.key("app", servicekeys.Scopes...)
		n.must(keys.BanUser(ctx, client.External("c-1"), api.ServiceBan{}))
		if status, _, _ := n.Call(t, n.Client(t, client.WithTokens(first)), http.MethodGet, "/v1/me", ""); status != http.StatusUnauthorized {
			t.Errorf("a banned user's session: %d", status)
		}
		if _, code := login(hs()); code != "account.banned" {
			t.Errorf("a banned user's token: %q", code)
		}

		// Stoa's own sign-in is off.
		for path, body := range map[string]string{
			"/v1/auth/codes":    `{"email":"a@example.org","purpose":"register"}`,
			"/v1/auth/register": `{"email":"a@example.org","code":"123456","name":"A"}`,
			"/v1/auth/login":    `{"email":"a@example.org","password":"correct horse"}`,
			"/v1/auth/password": `{"email":"a@example.org","code":"123456","password":"correct horse"}`,
		} {
			_, _, answer := n.Call(t, nil, http.MethodPost, path, body)
			var p api.Problem
			if err := json.Unmarshal([]byte(answer), &p); err != nil || p.Code != "auth.sign_in_off" {
				t.Errorf("%s: %s", path, answer)
			}
		}
	})
}

package jwtlogin

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"

	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/logtest"
)

func settings() Settings {
	return Settings{Issuer: "app", Audience: "stoa", Algorithms: []string{"EdDSA"}}
}

// answers is the address of an app's keys, without a network.
type answers func() ([]byte, error)

func (a answers) RoundTrip(*http.Request) (*http.Response, error) {
	text, err := a()
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(text))}, nil
}

// Unknown names of keys from an attacker do not cause one fetch after the other.
func TestKeys_UnknownAreFetchedRarely(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		_, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		store := jwkset.NewMemoryStorage()
		k, err := jwkset.NewJWKFromKey(private.Public(), jwkset.JWKOptions{Metadata: jwkset.JWKMetadataOptions{KID: "new"}})
		if err != nil {
			t.Fatal(err)
		}
		var fetched atomic.Int32
		cfg := settings()
		cfg.JWKSURL = "https://app.example.org/jwks.json"
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		s, err := New(ctx, Config{Log: slog.New(slog.DiscardHandler), Now: time.Now, Settings: cfg,
			Client: &http.Client{Transport: answers(func() ([]byte, error) {
				fetched.Add(1)
				return store.JSONPublic(ctx)
			})}})
		if err != nil {
			t.Fatal(err)
		}
		if err := store.KeyWrite(t.Context(), k); err != nil { // after the first fetch
			t.Fatal(err)
		}
		sign := func(kid string) string {
			token := jwt.NewWithClaims(jwt.SigningMethodEdDSA,
				jwt.MapClaims{"iss": "app", "aud": "stoa", "sub": "c-1", "exp": time.Now().Add(time.Minute).Unix()})
			token.Header["kid"] = kid
			text, err := token.SignedString(private)
			if err != nil {
				t.Fatal(err)
			}
			return text
		}
		if u, err := s.user(sign("new")); err != nil || u.ID != "c-1" {
			t.Errorf("a key that came after the first fetch: %+v, %v", u, err)
		}
		for round := range int32(3) {
			began := time.Now()
			for range 50 {
				if _, err := s.user(sign("made-up")); err == nil {
					t.Error("a made-up key is taken")
				}
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("50 tokens with a made-up key took %s", took)
			}
			if n := fetched.Load(); n != 2+round {
				t.Errorf("fetched %d times, want once at the start and once in %s for what nobody knew", n, fetchUnknown)
			}
			time.Sleep(fetchUnknown)
		}
	})
}

// begun is a service, and an app whose address has no keys yet.
type begun struct {
	*Service
	t       *testing.T
	private ed25519.PrivateKey
	store   jwkset.Storage
	fetched *atomic.Int32
}

// begin returns one whose app takes some time to return its keys.
func begin(t *testing.T, takes time.Duration) begun {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	b := begun{t: t, private: private, store: jwkset.NewMemoryStorage(), fetched: new(atomic.Int32)}
	cfg := settings()
	cfg.JWKSURL = "https://app.example.org/jwks.json"
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	b.Service, err = New(ctx, Config{Log: slog.New(slog.DiscardHandler), Now: time.Now, Settings: cfg,
		Client: &http.Client{Transport: slow{takes, answers(func() ([]byte, error) {
			b.fetched.Add(1)
			return b.store.JSONPublic(ctx)
		})}}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// signs publishes the app's key from now on, under a name that may be empty.
func (b begun) signs(kid string) {
	b.t.Helper()
	k, err := jwkset.NewJWKFromKey(b.private.Public(), jwkset.JWKOptions{Metadata: jwkset.JWKMetadataOptions{KID: kid}})
	if err == nil {
		err = b.store.KeyWrite(b.t.Context(), k)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// show reports whether a token that names a key, or none, is accepted.
func (b begun) show(kid string) bool {
	b.t.Helper()
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA,
		jwt.MapClaims{"iss": "app", "aud": "stoa", "sub": "c-1", "exp": time.Now().Add(time.Minute).Unix()})
	if kid != "" {
		token.Header["kid"] = kid
	}
	text, err := token.SignedString(b.private)
	if err != nil {
		b.t.Error(err)
	}
	_, err = b.user(text)
	return err == nil
}

// A new key of the app is fetched although the address is slow, once for all requests with it.
func TestANewKeyIsWaitedFor(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := begin(t, 3*time.Second)
		b.signs("new")
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				if !b.show("new") {
					t.Error("a token of the new key is refused")
				}
			})
			time.Sleep(time.Second / 2)
		}
		all.Wait()
		if n := b.fetched.Load(); n != 2 {
			t.Errorf("fetched %d times, want once at the start and once for all three", n)
		}
	})
}

// Constant requests with a deleted key do not prevent the fetch of a new one.
func TestKeys_DeletedDoesNotBlockNew(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := begin(t, time.Second/2)
		b.show("gone") // this causes the present fetch
		b.signs("new")
		var all sync.WaitGroup
		for range 320 {
			all.Go(func() { b.show("gone") })
			time.Sleep(fetchUnknown / 300)
		}
		all.Wait()
		if !b.show("new") {
			t.Error("a token of the new key is refused")
		}
	})
}

// An app with one key need not name it. Its keys are also fetched if the fetch at the start of the node failed.
func TestAKeyWithoutANameIsFetchedLater(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := begin(t, time.Second/2)
		b.signs("")
		if !b.show("") {
			t.Error("a token that names no key is refused")
		}
	})
}

// slow is an address that responds after a time, unless the request has ended.
type slow struct {
	after time.Duration
	answers
}

func (s slow) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-time.After(s.after):
		return s.answers.RoundTrip(r)
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

func TestKeys_FailedFetchDoesNotStopStart(t *testing.T) {
	lines := &logtest.Buffer{}
	cfg := settings()
	cfg.JWKSURL = "http://127.0.0.1:1/jwks.json"
	if _, err := New(t.Context(), Config{Log: lines.Logger(), Now: time.Now, Settings: cfg}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(lines.String(), "jwt: keys not fetched") {
		t.Errorf("logged %q", lines.String())
	}
}

func TestSettingsThatWouldTakeTooMuchAreRefused(t *testing.T) {
	good := settings()
	good.JWKSURL = "https://app.example.org/jwks.json"
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	if err := (Settings{}).Validate(); err != nil {
		t.Errorf("none at all: %v", err)
	}
	for fault, change := range map[string]func(*Settings){
		"algorithms: \"none\"": func(c *Settings) { c.Algorithms = []string{"none"} },
		"name the algorithms":  func(c *Settings) { c.Algorithms = nil },
		"needs a secret":       func(c *Settings) { c.Algorithms = []string{"HS256"} },
		"32 characters":        func(c *Settings) { c.Secret = "short" },
		"needs jwks_url":       func(c *Settings) { c.JWKSURL, c.Secret = "", strings.Repeat("x", 32) },
		"name the issuer":      func(c *Settings) { c.Issuer = "" },
		"name the audience":    func(c *Settings) { c.Audience = "" },
		"an address is":        func(c *Settings) { c.JWKSURL = "app.example.org" },
		"either from":          func(c *Settings) { c.JWKSFile = "keys.json" },
		"leeway":               func(c *Settings) { c.Leeway = time.Hour },
		"max_life":             func(c *Settings) { c.MaxLife = 48 * time.Hour },
		"cannot be checked":    func(c *Settings) { c.JWKSURL = "" },
	} {
		c := good
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%s: got %v", fault, err)
		}
	}
}

func TestToken_RefusalsHaveTheirReasonInTheLog(t *testing.T) {
	const secret = "0123456789abcdef0123456789abcdef"
	for name, test := range map[string]struct {
		header map[string]any
		claims jwt.MapClaims
		reason string
	}{
		"good":                   {},
		"an extension":           {header: map[string]any{"crit": []string{"b64"}}, reason: "crit names extensions"},
		"an empty list":          {header: map[string]any{"crit": []string{}}, reason: "crit names extensions"},
		"an id that is a number": {claims: jwt.MapClaims{"user_id": 42}, reason: "the claim user_id is no string"},
		"no id":                  {claims: jwt.MapClaims{"user_id": nil}, reason: "the claim user_id is missing"},
		"an empty id":            {claims: jwt.MapClaims{"user_id": ""}, reason: "the claim user_id is empty"},
		"a long life":            {claims: jwt.MapClaims{"exp": time.Now().Add(48 * time.Hour).Unix()}, reason: "later than max_life allows"},
	} {
		t.Run(name, func(t *testing.T) {
			var log logtest.Buffer
			cfg := Settings{Issuer: "app", Audience: "stoa", Algorithms: []string{"HS256"}, Secret: secret, IDClaim: "user_id"}
			s, err := New(t.Context(), Config{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})), Now: time.Now,
				Settings: cfg})
			if err != nil {
				t.Fatal(err)
			}
			claims := jwt.MapClaims{"iss": "app", "aud": "stoa", "user_id": "c-1", "exp": time.Now().Add(time.Minute).Unix()}
			maps.Copy(claims, test.claims)
			token := jwt.NewWithClaims(jwt.SigningMethodHS256, claims)
			maps.Copy(token.Header, test.header)
			text, err := token.SignedString([]byte(secret))
			if err != nil {
				t.Fatal(err)
			}
			u, err := s.user(text)
			if (err == nil) != (test.reason == "") || err == nil && u.ID != "c-1" {
				t.Errorf("got %+v, %v", u, err)
			}
			if !strings.Contains(log.String(), test.reason) {
				t.Errorf("the log lacks %q: %s", test.reason, log.String())
			}
		})
	}
}

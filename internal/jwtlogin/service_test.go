package jwtlogin

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"io"
	"log/slog"
	"net/http"
	"strings"
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

// A stranger who makes up names of keys does not have the keys fetched again and again.
func TestKeysThatNobodyKnowsAreFetchedOnceInAWhile(t *testing.T) {
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
		s, err := New(ctx, Config{Log: slog.New(slog.DiscardHandler), Now: time.Now, Settings: cfg, Client: &http.Client{Transport: answers(func() ([]byte, error) {
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
			token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, jwt.MapClaims{"iss": "app", "aud": "stoa", "sub": "c-1", "exp": time.Now().Add(time.Minute).Unix()})
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

func TestANodeStartsWhileTheKeysCannotBeFetched(t *testing.T) {
	lines := &logtest.Buffer{}
	cfg := settings()
	cfg.JWKSURL = "http://127.0.0.1:1/jwks.json"
	if _, err := New(t.Context(), Config{Log: lines.Logger(), Now: time.Now, Settings: cfg}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(lines.String(), "the keys cannot be fetched") {
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

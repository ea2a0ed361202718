package web

import (
	"context"
	"net/http"
	"strings"
)

// maxToken is well above what any token of ours has and keeps hashing cheap.
const maxToken = 512

func (a *API) authenticate(ctx context.Context, r *http.Request) (Caller, error) {
	if c := callOf(ctx); c.caller != nil {
		return c.caller(ctx)
	}
	token, err := bearer(r.Header)
	if err != nil {
		return nil, err
	}
	if a.auth == nil {
		return nil, ErrNoToken
	}
	return a.auth.Authenticate(ctx, token)
}

// bearer returns the one bearer token of a request: scheme, one space and the
// token of RFC 6750, section 2.1.
func bearer(h http.Header) (string, error) {
	lines := h["Authorization"]
	switch len(lines) {
	case 0:
		return "", ErrNoToken
	case 1:
	default:
		return "", ErrMalformedToken
	}
	scheme, token, _ := strings.Cut(lines[0], " ")
	if !strings.EqualFold(scheme, "Bearer") || !wellFormed(token) {
		return "", ErrMalformedToken
	}
	return token, nil
}

// wellFormed reports whether a token is one of RFC 6750's, and not too long.
func wellFormed(token string) bool {
	body := strings.TrimRight(token, "=")
	return body != "" && len(token) <= maxToken && !strings.ContainsFunc(body, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("-._~+/", c)
	})
}

// Identify returns who holds a bearer token, for a connection that is opened with it. It
// refuses as an operation would.
func (a *API) Identify(ctx context.Context, token string) (Caller, error) {
	switch {
	case token == "":
		return nil, ErrNoToken
	case !wellFormed(token):
		return nil, ErrMalformedToken
	case a.auth == nil:
		return nil, ErrNoToken
	}
	return a.auth.Authenticate(ctx, token)
}

package web

import (
	"context"
	"net/http"
	"strings"
)

// maxToken is well above what any token of ours has and keeps hashing cheap.
const maxToken = 512

func (a *API) authenticate(ctx context.Context, r *http.Request) (Caller, error) {
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
	if !strings.EqualFold(scheme, "Bearer") || len(token) > maxToken {
		return "", ErrMalformedToken
	}
	body := strings.TrimRight(token, "=")
	if body == "" {
		return "", ErrMalformedToken
	}
	for i := range len(body) {
		c := body[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && strings.IndexByte("-._~+/", c) < 0 {
			return "", ErrMalformedToken
		}
	}
	return token, nil
}

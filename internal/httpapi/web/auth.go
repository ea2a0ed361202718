package web

import (
	"context"
	"net/http"
	"strings"

	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/lib/ratelimit"
)

// maxToken is well above what any token of ours has and keeps hashing cheap.
const maxToken = 512

// ActAsHeader names the user as whom a [Delegate] calls an operation.
const ActAsHeader = "Stoa-Act-As"

// ErrCaller refuses a caller of another kind than an operation is for.
var ErrCaller = errs.New(errs.Forbidden, "auth.caller", "This operation is not for callers of this kind.")

// Delegate is a caller that is no user, and calls operations of its own or in the name of users.
// Limits, stored answers and log lines are the delegate's.
type Delegate interface {
	Caller

	// Act returns as whom an operation is called, which its handler takes as its caller: the
	// delegate itself, or the user that as names, the value of [ActAsHeader]. It refuses
	// what the delegate may not do.
	Act(ctx context.Context, op Op, as string) (Caller, error)

	// Rate limits all operations of the delegate together, in place of [Op].Limit. Zero: they are not limited.
	Rate() ratelimit.Limit
}

// act finds out as whom the caller calls the operation, and refuses a caller of another kind than it is for.
func (c *call) act(ctx context.Context, r *http.Request) error {
	c.as = c.who
	if d, ok := c.who.(Delegate); ok {
		acting, err := d.Act(ctx, c.route.op, r.Header.Get(ActAsHeader))
		if err != nil {
			return err
		}
		c.as = acting
	}
	if !c.route.suits(c.as) {
		return ErrCaller
	}
	return nil
}

// everything stands for all operations in the limit of a [Delegate].
const everything = "everything"

// limit is what the call is counted as, and the limit for it.
func (c *call) limit(rt *route) (name string, limit ratelimit.Limit) {
	if d, ok := c.who.(Delegate); ok {
		return everything, d.Rate()
	}
	return rt.op.ID, rt.op.Limit
}

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
	who, err := a.auth.Authenticate(ctx, token)
	if _, ok := who.(Delegate); ok && err == nil {
		return nil, ErrCaller // it calls operations one by one
	}
	return who, err
}

package web

import (
	"context"
	"net/http"
	"strings"

	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/lib/ratelimit"
)

// maxToken is the largest length of a token in bytes. It is well above that of our tokens, and it bounds the cost of
// hashing.
const maxToken = 512

// ActAsHeader is the header of a [Delegate]'s call that identifies the user.
const ActAsHeader = "Stoa-Act-As"

// ErrCaller refuses a caller of another kind than the operation accepts.
var ErrCaller = errs.New(errs.Forbidden, "auth.caller", "This kind of caller cannot use this operation.")

// Delegate is a caller that is not a user. It calls operations as itself or in the name of users. Limits, stored
// responses and log lines are the delegate's.
type Delegate interface {
	Caller

	// Act returns the caller that the operation's handler gets: the delegate itself, or the user that as identifies,
	// the value of [ActAsHeader]. It refuses operations that the delegate may not call.
	Act(ctx context.Context, op Op, as string) (Caller, error)

	// Rate returns the limit of all operations of the delegate together, in place of [Op].Limit. Zero means no limit.
	Rate() ratelimit.Limit
}

// act sets the caller that the handler gets, and refuses a caller of another kind than the operation accepts.
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

// allOperations is the operation name in the limit key of a [Delegate].
const allOperations = "everything"

// limit returns the name under which the call is counted, and its limit.
func (c *call) limit(rt *route) (name string, limit ratelimit.Limit) {
	if d, ok := c.who.(Delegate); ok {
		return allOperations, d.Rate()
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

// bearer returns the one bearer token of a request: scheme, one space, token (RFC 6750, section 2.1).
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

// wellFormed reports whether a token has the syntax of RFC 6750, and at most maxToken bytes.
func wellFormed(token string) bool {
	body := strings.TrimRight(token, "=")
	return body != "" && len(token) <= maxToken && !strings.ContainsFunc(body, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("-._~+/", c)
	})
}

// Identify returns the caller that a bearer token belongs to, for a connection that is opened with it. It refuses
// tokens as an operation does.
func (a *API) Identify(ctx context.Context, token string) (Caller, error) {
	switch {
	case token == "":
		return nil, ErrNoToken
	case !wellFormed(token):
		return nil, ErrMalformedToken
	case a.auth == nil:
		return nil, ErrNoToken
	}
	caller, err := a.auth.Authenticate(ctx, token)
	if _, ok := caller.(Delegate); ok && err == nil {
		return nil, ErrCaller // a delegate calls operations one by one
	}
	return caller, err
}

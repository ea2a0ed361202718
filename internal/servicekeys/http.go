package servicekeys

import (
	"context"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
	"github.com/stoa-dev/stoa/lib/ratelimit"
)

// Caller is an app's own backend. It implements [web.Delegate].
type Caller struct {
	Key
	people *accounts.Service
}

// UserID implements web.Caller with the id of the key, which is no user's id.
func (c *Caller) UserID() string { return c.ID.String() }

// Rate implements web.Delegate.
func (c *Caller) Rate() ratelimit.Limit {
	return ratelimit.Limit{Max: c.Key.Rate, Window: time.Minute}
}

// Act implements web.Delegate.
func (c *Caller) Act(ctx context.Context, op web.Op, as string) (web.Caller, error) {
	need, acting := Need(op.ID, op.Method, op.Tags)
	switch {
	case need == "":
		return nil, ErrClosed
	case !slices.Contains(c.Scopes, need):
		return nil, ErrScope
	case acting != (as != ""):
		return nil, ErrAs
	case !acting:
		return c, nil
	}
	user, err := c.people.Resolve(ctx, as)
	if err != nil {
		return nil, err
	}
	caller, err := c.people.Acting(ctx, user, need.reads())
	if err != nil {
		return nil, err
	}
	return caller, nil
}

// Acts returns the scope that calls an operation as a user, for the API description, or "" if there is none.
func Acts(op web.Op) string {
	need, acting := Need(op.ID, op.Method, op.Tags)
	if !acting {
		return ""
	}
	return string(need)
}

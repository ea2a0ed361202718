package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/stoa-dev/stoa/api"
)

// RequestCode requests a verification code by mail.
func (c *Client) RequestCode(ctx context.Context, in api.CodeRequest) (out api.CodeReply, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: "/v1/auth/codes", in: in, out: &out, open: true})
	return out, err
}

// Register creates an account, and makes this client its first device. After a lost response, a retry may be refused
// with auth.code_wrong or auth.email_taken although the account exists.
func (c *Client) Register(ctx context.Context, in api.RegisterRequest) (api.Tokens, error) {
	return c.enter(ctx, "/v1/auth/register", in)
}

// Login logs this client in. After a lost response, the account's list may have another device that no client uses, and
// a code may be used up.
func (c *Client) Login(ctx context.Context, in api.LoginRequest) (api.Tokens, error) {
	return c.enter(ctx, "/v1/auth/login", in)
}

func (c *Client) enter(ctx context.Context, path string, in any) (out api.Tokens, err error) {
	if err = c.do(ctx, call{method: http.MethodPost, path: path, in: in, out: &out, open: true}); err == nil {
		c.setTokens(out)
	}
	return out, err
}

// Refresh renews the tokens now. It is seldom necessary: every call renews them if the server requires it.
func (c *Client) Refresh(ctx context.Context) (api.Tokens, error) {
	old := c.Tokens()
	renewed, err := c.renew(ctx, old.AccessToken)
	if err == nil && !renewed {
		err = &Error{Status: http.StatusUnauthorized, Code: "client.logged_out", Detail: "There are no tokens to renew."}
	}
	return c.Tokens(), err
}

// Logout logs this device out and deletes its tokens.
func (c *Client) Logout(ctx context.Context) error {
	return c.do(ctx, call{method: http.MethodPost, path: "/v1/auth/logout", leaves: true})
}

// Me returns the caller's account.
func (c *Client) Me(ctx context.Context) (out api.User, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/me", out: &out})
	return out, err
}

// UpdateMe changes the fields of the caller's account that in sets.
func (c *Client) UpdateMe(ctx context.Context, in api.UserUpdate) (out api.User, err error) {
	err = c.do(ctx, call{method: http.MethodPatch, path: "/v1/me", in: in, out: &out})
	return out, err
}

// Checkin checks the caller in for today.
func (c *Client) Checkin(ctx context.Context, in api.CheckinRequest) (out api.CheckinReply, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: "/v1/checkin", in: in, out: &out})
	return out, err
}

// CheckinStatus returns the caller's check-in status of today.
func (c *Client) CheckinStatus(ctx context.Context) (out api.CheckinStatus, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/checkin", out: &out})
	return out, err
}

// MakeUp signs a missed day, such as "2026-11-18", for the caller.
func (c *Client) MakeUp(ctx context.Context, in api.MakeupRequest) (out api.MakeupReply, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: "/v1/checkin/makeup", in: in, out: &out})
	return out, err
}

// Makeups returns the days that the caller may make up. It also returns up to limit of the make-ups so far, after the
// cursor. With a zero limit the server chooses the limit.
func (c *Client) Makeups(ctx context.Context, cursor string, limit int) (out api.Makeups, err error) {
	query := url.Values{}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	if limit != 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/checkin/makeup", query: query, out: &out})
	return out, err
}

// CheckinYear returns the caller's days of a year.
func (c *Client) CheckinYear(ctx context.Context, year int) (out api.Calendar, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/checkin/calendar/" + strconv.Itoa(year), out: &out})
	return out, err
}

// CheckinMonth returns the caller's days of a month.
func (c *Client) CheckinMonth(ctx context.Context, year int, month time.Month) (out api.Calendar, err error) {
	path := "/v1/checkin/calendar/" + strconv.Itoa(year) + "/" + strconv.Itoa(int(month))
	err = c.do(ctx, call{method: http.MethodGet, path: path, out: &out})
	return out, err
}

// CheckinStats returns the caller's figures over all time.
func (c *Client) CheckinStats(ctx context.Context) (out api.CheckinStats, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/checkin/stats", out: &out})
	return out, err
}

// BoardQuery selects a part of a board. The server chooses the values of zero fields.
type BoardQuery struct {
	Season string // a week as "2026-W47" or a month as "2026-11"; empty means the present one
	Limit  int    // number of places from the top
	Around int    // number of the caller's neighbours on either side
	Scope  string // "friends" means the caller and the caller's friends; empty means all users
}

// Board returns the top of a leaderboard and the caller's own place. The board is streak, total_days, week or month.
func (c *Client) Board(ctx context.Context, board string, q BoardQuery) (out api.Board, err error) {
	query := url.Values{}
	if q.Scope != "" {
		query.Set("scope", q.Scope)
	}
	if q.Season != "" {
		query.Set("season", q.Season)
	}
	if q.Limit != 0 {
		query.Set("limit", strconv.Itoa(q.Limit))
	}
	if q.Around != 0 {
		query.Set("around", strconv.Itoa(q.Around))
	}
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/checkin/boards/" + url.PathEscape(board), query: query, out: &out})
	return out, err
}

// Healthy returns nil if the server is alive.
func (c *Client) Healthy(ctx context.Context) error {
	return c.do(ctx, call{method: http.MethodGet, path: "/healthz", open: true})
}

// Ready returns nil if the server accepts requests.
func (c *Client) Ready(ctx context.Context) error {
	return c.do(ctx, call{method: http.MethodGet, path: "/readyz", open: true})
}

// DevMail is a mail that a development server stored instead of sending it.
type DevMail struct {
	To      string   `json:"to"`
	Subject string   `json:"subject"`
	Text    string   `json:"text"`
	At      api.Time `json:"at"`
	Code    string   `json:"code"` // the six digits in Text; empty if there are none
}

// DevMails returns the mails to an address, or all mails if it is empty, newest first. A server that sends its mails
// refuses with status 404.
func (c *Client) DevMails(ctx context.Context, to string) (out []DevMail, err error) {
	query := url.Values{}
	if to != "" {
		query.Set("to", to)
	}
	err = c.do(ctx, call{method: http.MethodGet, path: "/dev/mail.json", query: query, out: &out, open: true})
	return out, err
}

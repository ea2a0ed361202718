package client

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/api"
)

const (
	// maxTries is the largest number of tries of a call without a response. The waits between them add up to about three
	// seconds, the time of a server's restart.
	maxTries  = 6
	firstWait = 100 * time.Millisecond
	maxWait   = 2 * time.Second

	// defaultTimeout exceeds 30 s, the time until a server releases the Idempotency-Key of a try that may still run. A
	// write whose node died therefore gets its response.
	defaultTimeout = 35 * time.Second

	// refreshTimeout bounds a renewal of the tokens, which continues even if its caller's context ends.
	refreshTimeout = 15 * time.Second

	// renewalTry bounds the first tries of a renewal, which may wait on a dead connection.
	renewalTry = 3 * time.Second

	maxBody = 16 << 20
)

// Client calls one server for one device.
type Client struct {
	base    *url.URL
	http    *http.Client
	timeout time.Duration
	changed func(api.Tokens)
	wait    time.Duration // before the second try
	idle    time.Duration // a stream that is silent for longer counts as broken

	renewalTry time.Duration

	reconnect time.Duration // wait before a broken stream is opened again

	refreshing chan struct{} // has a value during a renewal of the tokens

	as string // the user in whose name a service key calls; empty for its own

	mu     sync.Mutex
	tokens api.Tokens
	login  int // changes with each log-in and log-out
}

// Option configures a new Client.
type Option func(*Client)

// WithTokens sets the tokens of a device that is already logged in.
func WithTokens(t api.Tokens) Option { return func(c *Client) { c.tokens = t } }

// WithServiceKey creates a client for an app's own backend. It calls with a key that stoa keys-service created. See
// [Client.As].
func WithServiceKey(key string) Option { return WithTokens(api.Tokens{AccessToken: key}) }

// OnTokens sets a function that is called after each change of the tokens, so that the app can store them. Calls do not
// overlap. Zero tokens mean that the device is logged out.
func OnTokens(f func(api.Tokens)) Option { return func(c *Client) { c.changed = f } }

// WithHTTPClient sends requests through h. It should have no Timeout, because that would end the stream of events. The
// default is a client with http.DefaultTransport.
func WithHTTPClient(h *http.Client) Option { return func(c *Client) { c.http = h } }

// WithTimeout bounds each call, including its tries and waits. A call that gets no response within d returns
// [ErrUnreachable]. Zero means 35 s. With less than 31 s, a write may end with idempotency.busy after its node has
// died.
func WithTimeout(d time.Duration) Option { return func(c *Client) { c.timeout = d } }

// New returns a client of the server at base, such as "http://127.0.0.1:8080". The URL may have a path before /v1. New
// does not connect.
func New(base string, opts ...Option) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("client.New: %q is no address such as https://stoa.example.org", base)
	}
	c := &Client{base: u, http: &http.Client{}, wait: firstWait, idle: maxIdle, renewalTry: renewalTry, reconnect: firstReconnect,
		refreshing: make(chan struct{}, 1)}
	for _, opt := range opts {
		opt(c)
	}
	if c.timeout == 0 {
		c.timeout = defaultTimeout
	}
	return c, nil
}

// Tokens returns the current tokens, which are zero while logged out.
func (c *Client) Tokens() api.Tokens {
	t, _ := c.session()
	return t
}

// session returns the current tokens and the number of their log-in.
func (c *Client) session() (t api.Tokens, login int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tokens, c.login
}

// setTokens sets the tokens of a new log-in.
func (c *Client) setTokens(t api.Tokens) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.login++
	c.use(t)
}

// replaceTokens sets the tokens of a log-in; zero tokens end it. It changes nothing and returns false if that log-in is
// already over.
func (c *Client) replaceTokens(login int, t api.Tokens) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.login != login {
		return false
	}
	if t == (api.Tokens{}) {
		c.login++
	}
	c.use(t)
	return true
}

func (c *Client) use(t api.Tokens) {
	c.tokens = t
	if c.changed != nil {
		c.changed(t)
	}
}

type keyOfContext struct{}

// WithKey returns a context that sets the Idempotency-Key of the next write, instead of a random one. Within a day, all
// calls with the same key and content are one write, from any process.
func WithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, keyOfContext{}, key)
}

// call is one request, which may need several tries.
type call struct {
	method, path string
	query        url.Values
	in           any    // encoded as JSON, or raw; nil sends no body
	out          any    // decoded from JSON, or raw; nil ignores the body
	open         bool   // needs no bearer token
	keyless      bool   // happens once without an Idempotency-Key
	leaves       bool   // logs out
	lost         bool   // a try got no response and may still run
	bearer       string // the token of the last try
	login        int    // the log-in of that token
}

// raw is a body that is sent or returned unchanged.
type raw []byte

// do makes the call. If the access token has expired, it renews the tokens and makes the call once more.
func (c *Client) do(ctx context.Context, call call) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s %s: %w", call.method, call.path, err)
		}
	}()
	ctx, cancel := within(ctx, c.timeout)
	defer cancel()
	body, isRaw := call.in.(raw)
	if call.in != nil && !isRaw {
		if body, err = json.Marshal(call.in); err != nil {
			return err
		}
	}
	key := ""
	if call.method != http.MethodGet {
		var ok bool
		if key, ok = ctx.Value(keyOfContext{}).(string); !ok && !call.keyless {
			key = crand.Text()
		}
	}
	err = c.try(ctx, &call, body, key)
	if e, ok := errors.AsType[*Error](err); ok && e.Status == http.StatusUnauthorized && !call.open {
		switch renewed, rerr := c.renew(ctx, call.bearer); {
		case rerr != nil:
			return rerr
		case renewed:
			err = c.try(ctx, &call, body, key)
		}
	}
	if err == nil && call.leaves {
		c.replaceTokens(call.login, api.Tokens{})
	}
	return err
}

// try sends the call until it gets a response.
func (c *Client) try(ctx context.Context, call *call, body []byte, key string) error {
	wait, tries := c.wait, 0
	for {
		err := c.once(ctx, call, body, key)
		e, refused := errors.AsType[*Error](err)
		switch {
		case errors.Is(err, ErrUnreachable):
			if tries++; tries == maxTries {
				return err
			}
			call.lost = true
		case !refused || !call.lost || e.Code != "idempotency.busy": // busy: an earlier try still runs, or its node has died
			return err
		}
		pause := wait/2 + rand.N(wait/2)
		if refused {
			pause = max(pause, e.RetryAfter)
		}
		if sleep(ctx, pause) != nil {
			return err
		}
		wait = min(2*wait, maxWait)
	}
}

// once sends the call and reads the response. It returns ErrUnreachable for all faults of the connection.
func (c *Client) once(ctx context.Context, call *call, body []byte, key string) error {
	req, err := c.request(ctx, call, body)
	if err != nil {
		return err
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return unreachable(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return refusal(resp, time.Now())
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		return unreachable(ctx, err)
	}
	if call.out == nil {
		return nil
	}
	if as, ok := call.out.(*raw); ok {
		*as = text
		return nil
	}
	if err := json.Unmarshal(text, call.out); err != nil {
		return fmt.Errorf("the answer is not understood: %w", err)
	}
	return nil
}

func (c *Client) request(ctx context.Context, call *call, body []byte) (*http.Request, error) {
	u := *c.base
	// The path is already escaped: an address in it remains one segment.
	u.RawPath = strings.TrimSuffix(u.EscapedPath(), "/") + call.path
	path, err := url.PathUnescape(u.RawPath)
	if err != nil {
		return nil, err
	}
	u.Path, u.RawQuery = path, call.query.Encode()
	var r io.Reader
	if body != nil {
		r = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, call.method, u.String(), r)
	if err != nil {
		return nil, err
	}
	if _, ok := call.out.(*raw); !ok {
		req.Header.Set("Accept", "application/json")
	}
	if _, ok := call.in.(raw); ok {
		req.Header.Set("Content-Type", http.DetectContentType(body))
	} else if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.as != "" {
		req.Header.Set("Stoa-Act-As", c.as)
	}
	if !call.open {
		t, login := c.session()
		if call.bearer != "" && call.login != login { // another user may have logged in meanwhile
			return nil, errLoggedOut
		}
		call.bearer, call.login = t.AccessToken, login
		if call.bearer != "" {
			req.Header.Set("Authorization", "Bearer "+call.bearer)
		}
	}
	return req, nil
}

// Server returns the settings of the server that a client needs before the log-in.
func (c *Client) Server(ctx context.Context) (out api.Server, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/server", out: &out, open: true})
	return out, err
}

// errNoAnswer is the cause of a context that a timeout of the client has ended.
var errNoAnswer = fmt.Errorf("%w: no answer in time", ErrUnreachable)

// within bounds ctx by a timeout of the client. [ended] distinguishes it from an end that the caller has set.
func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, errNoAnswer)
}

// ended returns errNoAnswer if a timeout of the client ended ctx, and otherwise ctx.Err().
func ended(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), errNoAnswer) {
		return errNoAnswer
	}
	return ctx.Err()
}

// unreachable returns err as ErrUnreachable, unless the caller has ended ctx.
func unreachable(ctx context.Context, err error) error {
	switch why := ended(ctx); {
	case why == nil:
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	case errors.Is(why, errNoAnswer):
		return why
	}
	return err
}

// renew exchanges the refresh token for new tokens, unless another call has done so since bearer was sent. Of
// concurrent callers, one renews and the others wait. It returns false if there is no refresh token.
func (c *Client) renew(ctx context.Context, bearer string) (bool, error) {
	select {
	case c.refreshing <- struct{}{}:
		defer func() { <-c.refreshing }()
	case <-ctx.Done():
		return false, ended(ctx)
	}
	now, login := c.session()
	if now.AccessToken != bearer {
		return now.AccessToken != "", nil
	}
	if now.RefreshToken == "" {
		return false, nil
	}
	// A refresh token is used as soon as the server receives it. The new tokens must not be lost because a caller's
	// context ends.
	ctx, cancel := within(context.WithoutCancel(ctx), refreshTimeout)
	defer cancel()
	var fresh api.Tokens
	refresh := call{method: http.MethodPost, path: "/v1/auth/refresh", open: true, out: &fresh}
	body, err := json.Marshal(api.RefreshRequest{RefreshToken: now.RefreshToken})
	if err != nil {
		return false, err
	}
	if err := c.tryRenewal(ctx, &refresh, body); err != nil {
		if e, ok := errors.AsType[*Error](err); ok && (e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden) {
			c.replaceTokens(login, api.Tokens{}) // logged out on another device, or banned
		}
		return false, fmt.Errorf("renewing the tokens: %w", err)
	}
	return c.replaceTokens(login, fresh), nil
}

// tryRenewal retries if it gets no response. For ten seconds, the server returns the same tokens to a used refresh
// token, and afterwards it treats the token as stolen. The last try has all the remaining time.
func (c *Client) tryRenewal(ctx context.Context, refresh *call, body []byte) (err error) {
	for range 2 {
		trying, cancel := within(ctx, c.renewalTry)
		err = c.try(trying, refresh, body, crand.Text())
		cancel()
		if !errors.Is(context.Cause(trying), errNoAnswer) || err == nil {
			return err
		}
	}
	return c.try(ctx, refresh, body, crand.Text())
}

// sleep waits for d. It returns ctx's error if ctx ends first.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

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
	// maxTries is the largest number of tries of a call without an answer. The waits between them add up to
	// about three seconds, as long as a server takes to start again.
	maxTries  = 6
	firstWait = 100 * time.Millisecond
	maxWait   = 2 * time.Second

	// defaultTimeout exceeds 30 s, the time until a server frees the Idempotency-Key of a try that may still
	// run, so that a write whose node died gets its answer.
	defaultTimeout = 35 * time.Second

	// refreshTimeout bounds a renewal of the tokens, which is finished even when
	// its caller has gone.
	refreshTimeout = 15 * time.Second

	// renewalTry bounds its first tries, which may wait on a connection that is dead.
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
	idle    time.Duration // after which a silent stream counts as broken

	renewalTry time.Duration

	reconnect time.Duration // before a broken stream is opened again

	refreshing chan struct{} // holds a value while the tokens are being renewed

	as string // in whose name a service key calls; empty: its own

	mu     sync.Mutex
	tokens api.Tokens
	login  int // another one with each log-in and log-out
}

// Option changes a Client that is being made.
type Option func(*Client)

// WithTokens starts the client with the tokens of a device that is logged in
// already.
func WithTokens(t api.Tokens) Option { return func(c *Client) { c.tokens = t } }

// WithServiceKey makes the client that of an app's own backend, which calls with a key of stoa
// keys-service. See [Client.As].
func WithServiceKey(key string) Option { return WithTokens(api.Tokens{AccessToken: key}) }

// OnTokens has f called, one call at a time, whenever the tokens have changed,
// so that they can be kept; zero tokens mean that the device is logged out.
func OnTokens(f func(api.Tokens)) Option { return func(c *Client) { c.changed = f } }

// WithHTTPClient sends through h, which should have no Timeout of its own, as
// that would cut off the stream of events. Without it http.DefaultTransport is
// used.
func WithHTTPClient(h *http.Client) Option { return func(c *Client) { c.http = h } }

// WithTimeout bounds each call, tries and waits included: a call that gets no answer within d returns [ErrUnreachable]. Zero
// means 35 s. With less than 31 s a write may end with idempotency.busy after the node that ran it has died.
func WithTimeout(d time.Duration) Option { return func(c *Client) { c.timeout = d } }

// New returns a client of the server at base, such as "http://127.0.0.1:8080",
// which may have a path before /v1. It does not connect.
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

// Tokens returns the tokens in use, which are zero while logged out.
func (c *Client) Tokens() api.Tokens {
	t, _ := c.session()
	return t
}

// session returns the tokens in use, and of which log-in they are.
func (c *Client) session() (t api.Tokens, login int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tokens, c.login
}

// setTokens sets those of a log-in.
func (c *Client) setTokens(t api.Tokens) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.login++
	c.use(t)
}

// replaceTokens sets the tokens of a log-in, zero ones as it ends, unless it is over: a log-out, or another log-in, was quicker.
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

// WithKey returns a context under which the next write carries this
// Idempotency-Key instead of a random one: the same key and the same content
// within a day, from whatever process, is one and the same write.
func WithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, keyOfContext{}, key)
}

// call is one request to be made, as often as it takes.
type call struct {
	method, path string
	query        url.Values
	in           any    // encoded as JSON, or raw; nil sends no body
	out          any    // decoded from JSON, or raw; nil ignores the body
	open         bool   // needs no bearer token
	leaves       bool   // logs out
	lost         bool   // a try of it got no answer, and may still run
	bearer       string // the token that was sent last
	login        int    // whose token that was
}

// raw is a body that is sent or kept as it is.
type raw []byte

// do makes the call, renews the tokens once if they have run out, and makes it
// again.
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
		if key, ok = ctx.Value(keyOfContext{}).(string); !ok {
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

// try sends the call until there is an answer to it.
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

// once sends the call and reads the answer. Whatever went wrong with the
// connection is ErrUnreachable.
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
	// The path is escaped already: an address in it stays one segment.
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
		if call.bearer != "" && call.login != login { // it is not for somebody who has logged in meanwhile
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

// within bounds ctx by a timeout of the client, which [ended] distinguishes from an end that the caller has set.
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

// renew trades the refresh token for new tokens, unless somebody has done so
// since bearer was sent. Of many callers at once one renews and the others
// wait. It reports false when there is nothing to renew with.
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
	// The refresh token is spent once the server has seen it; what it sends
	// back must not be lost because one of the callers lost patience.
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
			c.replaceTokens(login, api.Tokens{}) // logged out from elsewhere, or banned
		}
		return false, fmt.Errorf("renewing the tokens: %w", err)
	}
	return c.replaceTokens(login, fresh), nil
}

// tryRenewal asks again where the answer does not come: the server answers a refresh token that is used again with the
// same tokens for ten seconds, and takes it for stolen afterwards. The last try has all the time there is.
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

// sleep waits for d, or returns ctx's error when that ends first.
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

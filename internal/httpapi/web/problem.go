package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/i18n"
	"github.com/stoa-dev/stoa/internal/httpapi/bind"
)

// Refusals of this package.
var (
	errInternal = errs.New(errs.Internal, "internal", "The server failed; the error was logged. Try again later.")
	errGone     = errs.New(errs.Internal, "request.cancelled", "The request was cancelled.")
	errSlow     = errs.New(errs.Unavailable, "unavailable", "The request took too long. Try again.")
	errHeavy    = errs.New(errs.Unavailable, "request.busy",
		"Too many such requests are waiting. Try again in 2 seconds.").Retry(2 * time.Second)
	errNoRoute   = errs.New(errs.NotFound, "route.unknown", "There is nothing at this path.")
	errMethod    = errs.New(errs.Invalid, "route.method", "This path does not support this method. See the Allow header.")
	errTimeout   = errs.New(errs.Invalid, "request.timeout", "The body did not arrive in time.")
	errTooLarge  = errs.New(errs.Invalid, "request.too_large", "The body is too large.")
	errMediaType = errs.New(errs.Invalid, "request.media_type", "The body must be application/json in UTF-8.")

	// ErrLimit refuses requests over the rate limit; Retry adds the waiting time.
	ErrLimit = errs.New(errs.TooMany, "limit.exceeded", "Too many requests. Slow down.")
	// ErrNoToken refuses a request without the required bearer token.
	ErrNoToken = errs.New(errs.Unauthenticated, "auth.required", "An access token is required. Send Authorization: Bearer TOKEN.")
	// ErrMalformedToken refuses an Authorization header that is not one bearer token.
	ErrMalformedToken = errs.New(errs.Unauthenticated, "auth.malformed", "The Authorization header must be one bearer token.")
)

// statusOf maps error kinds to HTTP statuses.
var statusOf = [...]int{
	errs.Internal:        http.StatusInternalServerError,
	errs.Invalid:         http.StatusUnprocessableEntity,
	errs.Unauthenticated: http.StatusUnauthorized,
	errs.Forbidden:       http.StatusForbidden,
	errs.NotFound:        http.StatusNotFound,
	errs.Conflict:        http.StatusConflict,
	errs.TooMany:         http.StatusTooManyRequests,
	errs.Unavailable:     http.StatusServiceUnavailable,
}

// statusGone is the status that nginx logs for a client that disconnected early. It appears only in metrics and logs.
const statusGone = 499

// statusOf returns the status of the route's refusal with e.
func (rt *route) statusOf(e *errs.Error) int {
	switch {
	case rt != nil && rt.op.Statuses[e.Code] != 0:
		return rt.op.Statuses[e.Code]
	case e.Code == bind.ErrMalformed.Code:
		return http.StatusBadRequest
	}
	return statusOf[e.Kind]
}

// problem is a refusal that is being sent.
type problem struct {
	api.Problem
	after     time.Duration
	challenge string
}

func newProblem(status int, e *errs.Error) *problem {
	title := http.StatusText(status)
	switch status {
	case statusGone:
		title = "Client Closed Request"
	case 460: // from tus
		title = "Checksum Mismatch"
	}
	p := &problem{Problem: api.Problem{
		Type: "about:blank#" + e.Code, Title: title, Status: status, Detail: e.Text, Code: e.Code,
	}, after: e.After}
	for _, f := range e.Fields {
		p.Errors = append(p.Errors, api.ProblemField{Location: f.Where, Message: f.Text})
	}
	return p
}

func (p *problem) setHeaders(c *call, h http.Header) {
	p.translate(c.language())
	h.Set("Content-Language", string(c.language()))
	h.Add("Vary", "Accept-Language")
	h.Set("Content-Type", "application/problem+json")
	h.Del("Content-Length")
	h.Del("Location") // the ServeMux set Location and Allow before the limit refused
	if p.Status != http.StatusMethodNotAllowed {
		h.Del("Allow")
	}
	h["Cache-Control"] = noStore
	if p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable || p.after > 0 {
		h.Set("Retry-After", strconv.FormatInt(ceilSeconds(p.after), 10))
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("Www-Authenticate", `Bearer realm="stoa"`+p.challenge)
	}
}

// ceilSeconds rounds up, because a client that retries earlier is refused again. It returns at least 1.
func ceilSeconds(d time.Duration) int64 { return max(1, int64((d+time.Second-1)/time.Second)) }

// Refuse responds to a request of a handler of [API.Raw] or [API.RawConnection] with a problem document.
func Refuse(r *http.Request, e *errs.Error) {
	c := callOf(r.Context())
	c.refuse(newProblem(c.route.statusOf(e), e))
}

// RefuseError responds to a request whose http.HandlerFunc failed before it wrote anything, as to an error of an
// operation.
func RefuseError(r *http.Request, err error) {
	c := callOf(r.Context())
	c.refuse(c.api.refusal(r.Context(), err))
}

// refuse writes p, unless a response has begun.
func (c *call) refuse(p *problem) {
	if c.wrote {
		return
	}
	p.setHeaders(c, c.Header())
	c.finishRefusal(p.Status, p.encode())
}

func (c *call) finishRefusal(status int, body []byte) {
	c.wrote, c.status = true, status
	c.extend()
	c.ResponseWriter.WriteHeader(status)
	n, _ := c.ResponseWriter.Write(body) // an error means that the client has disconnected
	c.bytes += int64(n)
}

// isBrowsing reports whether a person opened an address of a page in a browser.
func isBrowsing(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html") && !strings.HasPrefix(r.URL.Path, "/v1/")
}

// refuseByPage writes p as an HTML page, unless a response has begun.
func (c *call) refuseByPage(p *problem) {
	if c.wrote {
		return
	}
	p.setHeaders(c, c.Header())
	c.Header().Set("Content-Type", "text/html; charset=utf-8")
	c.Header().Add("Vary", "Accept")
	const page = `<!doctype html><html lang="%s"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>%s</title><h1>%[2]s</h1><p><a href="/">Stoa</a></p></html>`
	c.finishRefusal(p.Status, fmt.Appendf(nil, page, c.language(), p.Detail))
}

// write is refuse for a response that may be buffered.
func (p *problem) write(c *call, w http.ResponseWriter) {
	p.setHeaders(c, w.Header())
	w.WriteHeader(p.Status)
	// A failed write means that the client has disconnected.
	_, _ = w.Write(p.encode())
}

// translate translates the texts into a language. Code and type stay.
func (p *problem) translate(l i18n.Language) {
	p.Title, p.Detail = l.Translate(p.Title), l.Translate(p.Detail)
	for i := range p.Errors {
		p.Errors[i].Message = l.Translate(p.Errors[i].Message)
	}
}

func (p *problem) encode() []byte {
	var buf bytes.Buffer
	if err := encode(&buf, p.Problem); err != nil {
		panic(err) // strings and numbers only
	}
	return buf.Bytes()
}

// refusal converts an error to a problem and logs what the client must not see.
func (a *API) refusal(ctx context.Context, err error) *problem {
	c := callOf(ctx)
	e, ok := errors.AsType[*errs.Error](err)
	switch {
	case ok && e.Kind != errs.Internal && int(e.Kind) < len(statusOf):
		if c.route != nil && c.route.codes != nil && !c.route.codes[e.Code] {
			a.logFailure(ctx, slog.LevelError, "web: undeclared refusal", err)
		}
		p := newProblem(c.route.statusOf(e), e)
		if e.Kind == errs.Unauthenticated && c.user() == "" && !c.route.public && !errors.Is(err, ErrNoToken) {
			p.challenge = `, error="invalid_token"`
		}
		if e.Kind == errs.Unavailable {
			a.logOutage(ctx, e.Code, "web: dependency unavailable", err)
		}
		return p
	case c.r.Context().Err() != nil:
		return newProblem(statusGone, errGone)
	case errors.Is(err, context.DeadlineExceeded):
		a.logOutage(ctx, errSlow.Code, "request took too long", err)
		return newProblem(http.StatusServiceUnavailable, errSlow)
	}
	a.logFailure(ctx, slog.LevelError, "request failed", err)
	return newProblem(http.StatusInternalServerError, errInternal)
}

func (a *API) logFailure(ctx context.Context, level slog.Level, msg string, err error, more ...slog.Attr) {
	c := callOf(ctx)
	a.log.LogAttrs(ctx, level, msg, append([]slog.Attr{slog.Any("err", err), slog.String("route", c.route.name()),
		slog.String("request", c.trace), slog.String("user", c.user())}, more...)...)
}

// outageLogInterval is the interval of log lines about one outage.
const outageLogInterval = time.Second

// outages are the current outages by the code of their refusal. During one, every request fails in the same way.
type outages struct {
	mu  sync.Mutex
	all map[string]outage
}

type outage struct {
	logged time.Time
	others int // requests since then
}

// logOutage is logFailure for failures of all requests at once. It logs one line a second for each code, with the
// number of other requests since the last line.
func (a *API) logOutage(ctx context.Context, code, msg string, err error) {
	now := time.Now()
	a.outages.mu.Lock()
	last := a.outages.all[code]
	silent := now.Sub(last.logged) < outageLogInterval
	if silent {
		a.outages.all[code] = outage{last.logged, last.others + 1}
	} else {
		a.outages.all[code] = outage{logged: now}
	}
	a.outages.mu.Unlock()
	if !silent {
		a.logFailure(ctx, slog.LevelWarn, msg, err, slog.Int("others", last.others))
	}
}

var problemType = reflect.TypeFor[api.Problem]()

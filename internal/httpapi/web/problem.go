package web

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/i18n"
)

// The refusals of this package itself.
var (
	errInternal  = errs.New(errs.Internal, "internal", "Something went wrong here. It has been logged.")
	errGone      = errs.New(errs.Internal, "request.cancelled", "The request was cancelled.")
	errSlow      = errs.New(errs.Unavailable, "unavailable", "That took too long. Try again.")
	errHeavy     = errs.New(errs.Unavailable, "request.busy", "Too many such requests wait. Try again in some seconds.").Retry(2 * time.Second)
	errNoRoute   = errs.New(errs.NotFound, "route.unknown", "There is nothing at this path.")
	errMethod    = errs.New(errs.Invalid, "route.method", "This path does not take that method; Allow lists those it takes.")
	errMalformed = errs.New(errs.Invalid, "request.malformed", "The request cannot be read.")
	errInvalid   = errs.New(errs.Invalid, "request.invalid", "The request can be read, but is not what this operation takes.")
	errTimeout   = errs.New(errs.Invalid, "request.timeout", "The body did not arrive in time.")
	errTooLarge  = errs.New(errs.Invalid, "request.too_large", "The body is too large.")
	errMediaType = errs.New(errs.Invalid, "request.media_type", "The body must be application/json in UTF-8.")

	// ErrLimit refuses what comes too often; Retry says when it may come again.
	ErrLimit = errs.New(errs.TooMany, "limit.exceeded", "Too many requests. Slow down.")
	// ErrNoToken refuses a request without a bearer token where one is needed.
	ErrNoToken = errs.New(errs.Unauthenticated, "auth.required", "This needs an access token: Authorization: Bearer TOKEN.")
	// ErrMalformedToken refuses an Authorization header that is not one bearer token.
	ErrMalformedToken = errs.New(errs.Unauthenticated, "auth.malformed", "The Authorization header is not one bearer token.")
)

// statusOf is the one table from kinds to HTTP.
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

// statusGone is what nginx logs for a client that did not wait. Nobody sees it
// but the metrics.
const statusGone = 499

// statusOf is the status with which a route answers a refusal.
func (rt *route) statusOf(e *errs.Error) int {
	if rt != nil && rt.op.Statuses[e.Code] != 0 {
		return rt.op.Statuses[e.Code]
	}
	return statusOf[e.Kind]
}

// problem is a refusal on its way to the client.
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
	case 460: // of tus
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
	p.say(c.language())
	h.Set("Content-Language", string(c.language()))
	h.Add("Vary", "Accept-Language")
	h.Set("Content-Type", "application/problem+json")
	h.Del("Content-Length")
	h.Del("Location") // the ServeMux set these two before the limit refused
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

// ceilSeconds rounds up: whoever comes back earlier is refused again. At least 1.
func ceilSeconds(d time.Duration) int64 { return max(1, int64((d+time.Second-1)/time.Second)) }

// Refuse answers a request to a handler of [API.Raw] or [API.RawConnection] with a problem document.
func Refuse(r *http.Request, e *errs.Error) {
	c := callOf(r.Context())
	c.refuse(newProblem(c.route.statusOf(e), e))
}

// RefuseError answers a request whose http.HandlerFunc failed before it wrote anything, as the error of a handler is answered.
func RefuseError(r *http.Request, err error) {
	c := callOf(r.Context())
	c.refuse(c.api.refusal(r.Context(), err))
}

// refuse writes p, unless an answer has begun.
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

// isBrowsing reports whether a person has opened an address of a page in a browser.
func isBrowsing(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html") && !strings.HasPrefix(r.URL.Path, "/v1/")
}

// refuseByPage writes p as a page, for people, unless an answer has begun.
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

// write is refuse for an answer that may be held back.
func (p *problem) write(c *call, w http.ResponseWriter) {
	p.setHeaders(c, w.Header())
	w.WriteHeader(p.Status)
	// A failed write has nobody left to tell.
	_, _ = w.Write(p.encode())
}

// say has people read it in their language. Code and type stay.
func (p *problem) say(l i18n.Language) {
	p.Title, p.Detail = l.Say(p.Title), l.Say(p.Detail)
	for i := range p.Errors {
		p.Errors[i].Message = l.Say(p.Errors[i].Message)
	}
}

func (p *problem) encode() []byte {
	var buf bytes.Buffer
	if err := encode(&buf, p.Problem); err != nil {
		panic(err) // strings and numbers only
	}
	return buf.Bytes()
}

// refusal turns an error into a problem and logs what the client does not get
// to see.
func (a *API) refusal(ctx context.Context, err error) *problem {
	c := callOf(ctx)
	e, ok := errors.AsType[*errs.Error](err)
	switch {
	case ok && e.Kind != errs.Internal && int(e.Kind) < len(statusOf):
		if c.route != nil && c.route.codes != nil && !c.route.codes[e.Code] {
			a.complain(ctx, slog.LevelError, "the description of the API lacks a refusal", err)
		}
		p := newProblem(c.route.statusOf(e), e)
		if e.Kind == errs.Unauthenticated && c.user() == "" && !c.route.public && !errors.Is(err, ErrNoToken) {
			p.challenge = `, error="invalid_token"`
		}
		if e.Kind == errs.Unavailable {
			a.outage(ctx, e.Code, "a part is away", err)
		}
		return p
	case c.r.Context().Err() != nil:
		return newProblem(statusGone, errGone)
	case errors.Is(err, context.DeadlineExceeded):
		a.outage(ctx, errSlow.Code, "request took too long", err)
		return newProblem(http.StatusServiceUnavailable, errSlow)
	}
	a.complain(ctx, slog.LevelError, "request failed", err)
	return newProblem(http.StatusInternalServerError, errInternal)
}

func (a *API) complain(ctx context.Context, level slog.Level, msg string, err error, more ...slog.Attr) {
	c := callOf(ctx)
	a.log.LogAttrs(ctx, level, msg, append([]slog.Attr{slog.Any("err", err), slog.String("route", c.route.name()),
		slog.String("request", c.trace), slog.String("user", c.user())}, more...)...)
}

// outagePause lies between two lines about one outage.
const outagePause = time.Second

// outages are what every request runs into while a part is away, by the code of
// the refusal.
type outages struct {
	mu  sync.Mutex
	all map[string]outage
}

type outage struct {
	logged time.Time
	others int // requests since
}

// outage is complain for what strikes all requests at once: one line a second
// for each code, with how many others there were since the last one.
func (a *API) outage(ctx context.Context, code, msg string, err error) {
	now := time.Now()
	a.outages.mu.Lock()
	last := a.outages.all[code]
	silent := now.Sub(last.logged) < outagePause
	if silent {
		a.outages.all[code] = outage{last.logged, last.others + 1}
	} else {
		a.outages.all[code] = outage{logged: now}
	}
	a.outages.mu.Unlock()
	if !silent {
		a.complain(ctx, slog.LevelWarn, msg, err, slog.Int("others", last.others))
	}
}

// maxFields bounds how much a refusal says about one request.
const maxFields = 10

// huma keeps these in package variables: "Words" would pass for "words", and every
// array would be described as one or null, which no operation takes or answers.
func init() { huma.ValidateStrictCasing, huma.DefaultArrayNullable = true, false }

// faulty is the refusal of a request that cannot be read, 400, or is not what the
// operation takes, 422. It repeats no value of the request, as huma's own would.
func faulty(status int, faults []error) *problem {
	e := errInvalid
	if status == http.StatusBadRequest {
		e = errMalformed
	}
	p := newProblem(status, e)
	for _, fault := range faults {
		d, ok := fault.(huma.ErrorDetailer)
		if !ok {
			continue // text of unknown origin
		}
		// The text after a colon quotes the value: "expected … email: …".
		text, _, _ := strings.Cut(d.ErrorDetail().Message, ": ")
		p.Errors = append(p.Errors, api.ProblemField{Location: clip(d.ErrorDetail().Location), Message: text})
	}
	// huma finds unknown fields in the order of a map.
	slices.SortStableFunc(p.Errors, func(a, b api.ProblemField) int {
		return cmp.Or(strings.Compare(a.Location, b.Location), strings.Compare(a.Message, b.Message))
	})
	p.Errors = slices.Compact(p.Errors)
	p.Errors = p.Errors[:min(len(p.Errors), maxFields)]
	return p
}

// clip shortens a location: it contains names that the client chose.
func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

var problemType = reflect.TypeFor[api.Problem]()

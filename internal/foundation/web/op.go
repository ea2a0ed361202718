package web

import (
	"context"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/internal/foundation/errs"
	"github.com/stoa-dev/stoa/ratelimit"
)

// Op describes one operation of the API.
type Op struct {
	Method string // GET, POST, PUT, PATCH or DELETE; GET answers HEAD too
	Path   string // "/v1/checkin/boards/{board}"

	// ID is the operation's stable name, "checkin.mark", at most 64 bytes: the
	// operation id in the OpenAPI document, part of the keys of its limit and of
	// its stored answers, and the label of its metrics.
	ID string

	Summary, Description string
	Tags                 []string

	// Public operations take no bearer token. [PrincipalOf] is zero in them, and
	// they ignore the Idempotency-Key: without a user nobody can tell whose key
	// it is, and an answer kept for one caller could reach another.
	Public bool

	// NoReplay is for operations whose answer must not be kept, because it holds
	// a secret. The Idempotency-Key then only makes [RequestID] the same for
	// every try.
	NoReplay bool

	// Status is sent on success. Zero means 200, or 204 when the output has no
	// Body.
	Status int

	// Limit is per user, per address when Public. Zero means Config.Limit.
	Limit ratelimit.Limit

	// Errors are the refusals that the handler may return, for the
	// documentation; those of this package are added.
	Errors []*errs.Error

	// MaxBody is the largest request body in bytes. Zero means 64 KiB.
	MaxBody int64

	// BodyTime is how long a request body may take to arrive. Zero means 10 s.
	BodyTime time.Duration

	// Answer is the media type of an output's Body that is no JSON but []byte, for
	// the documentation; the output sets its Content-Type.
	Answer string
}

const defaultMaxBody = 64 << 10

// Handle adds an operation. I and O are structs after huma's fashion: fields
// tagged path:"…", query:"…" and header:"…", and a Body, which is optional when
// it is a pointer. A RawBody []byte in its place takes bytes as they come, of the
// media type in its contentType tag, or of any in a range such as "image/*". What
// does not fit I's tags is refused before fn is called.
// fn's error becomes a problem document: an [errs.Error] is shown, anything
// else is logged and hidden.
//
// Handle panics on a malformed declaration.
func Handle[I, O any](a *API, op Op, fn func(ctx context.Context, in *I) (*O, error)) {
	huma.Register(a.huma, a.declare(op, reflect.TypeFor[I]()), func(ctx context.Context, in *I) (*O, error) {
		out, err := fn(ctx, in)
		if err != nil {
			return nil, a.refusal(ctx, err)
		}
		return out, nil
	})
}

// route is an operation, or a pattern of [API.Raw], at work.
type route struct {
	label    string
	op       Op
	body     bool   // one is read
	media    string // of a raw body; empty: it is JSON
	duration prometheus.Observer
	stream   bool
}

func (rt *route) name() string {
	if rt == nil {
		return "unmatched"
	}
	return rt.label
}

// declare checks op and makes its route; the adapter picks it up by op.ID.
func (a *API) declare(op Op, in reflect.Type) huma.Operation {
	switch {
	case op.ID == "" || len(op.ID) > 64:
		panic("web: an operation's ID is 1 to 64 bytes: " + op.Method + " " + op.Path)
	case a.routes[op.ID] != nil:
		panic("web: two operations are called " + op.ID)
	case op.Method != http.MethodGet && !isWrite(op.Method):
		panic("web: " + op.ID + " has the method " + op.Method)
	}
	if op.MaxBody == 0 {
		op.MaxBody = defaultMaxBody
	}
	if op.Limit == (ratelimit.Limit{}) {
		op.Limit = a.cfg.Limit
	}
	if a.cfg.Limiter == nil {
		op.Limit = ratelimit.Limit{}
	}
	if op.Limit.Window > maxWindow {
		panic("web: " + op.ID + " has a limit over more than a day")
	}
	rt := a.newRoute(op.ID)
	rt.op = op
	_, rt.body = in.FieldByName("Body")
	if raw, ok := in.FieldByName("RawBody"); ok {
		rt.body, rt.media = true, raw.Tag.Get("contentType")
	}
	a.routes[op.ID] = rt
	return a.describe(rt)
}

func (a *API) newRoute(label string) *route {
	return &route{label: label, duration: a.stats.duration.WithLabelValues(label)}
}

func isWrite(method string) bool {
	switch method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return true
	}
	return false
}

// serveOp is what happens between the ServeMux and huma.
func (a *API) serveOp(rt *route, c *call, r *http.Request, next http.HandlerFunc) {
	c.route = rt
	c.Header()["Cache-Control"] = noStore
	ctx := r.Context()
	if !rt.op.Public {
		who, err := a.authenticate(ctx, r)
		if err != nil {
			c.refuse(a.refusal(ctx, err))
			return
		}
		c.who = who
	}
	if rt.op.Limit.Max > 0 && !a.allow(ctx, c) {
		return
	}
	if !plainText(r.URL.Path) || !validQuery(r.URL.RawQuery) {
		c.refuse(newProblem(http.StatusBadRequest, errMalformed.On("url", "is badly escaped, not UTF-8 or has a NUL")))
		return
	}
	var body []byte
	if rt.body {
		var p *problem
		if body, p = readBody(c, r, rt); p != nil {
			c.refuse(p)
			return
		}
	}
	if isWrite(rt.op.Method) && !rt.op.Public && len(r.Header["Idempotency-Key"]) > 0 {
		a.once(ctx, c, r, body, next)
		return
	}
	next(c, r)
}

// validQuery reports whether the query is properly escaped text.
func validQuery(raw string) bool {
	if !strings.Contains(raw, "%") {
		return plainText(raw)
	}
	s, err := url.QueryUnescape(raw)
	return err == nil && plainText(s)
}

// plainText reports whether s is UTF-8 without a NUL; see [decode].
func plainText(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

package web

import (
	"context"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/httpapi/bind"
	"github.com/stoa-dev/stoa/lib/ratelimit"
)

// Op describes one operation of the API.
type Op struct {
	Method string // GET, POST, PUT, PATCH or DELETE; GET serves HEAD as well
	Path   string // "/v1/checkin/boards/{board}"

	// ID is the operation's stable name, such as "checkin.mark", with at most 64 bytes. It is the operation id in the
	// OpenAPI document, a part of the keys of its limit and stored responses, and the label of its metrics.
	ID string

	Summary, Description string
	Tags                 []string

	// NoReplay is for operations whose response must not be stored, because it contains a secret or data that other
	// users may withdraw. Then every try with one Idempotency-Key runs, with the same [RequestID].
	NoReplay bool

	// Creates marks an operation with NoReplay that creates something. Its tries are recorded without their
	// responses, so that [NewID] is the same for all of them, and two tries do not run at once.
	Creates bool

	// Status is the status of success. Zero means 200, or 204 if the output has no Body.
	Status int

	// Limit is the rate limit for each user, or for each client network if the operation is public. Zero means
	// Config.Limit.
	Limit ratelimit.Limit

	// Heavy is for operations that read far more than they return. A node runs a few of them at a time, in turn for
	// each user.
	Heavy bool

	// HeavyQuery is a query parameter that makes a call heavy, such as the search text of a list; empty: none.
	HeavyQuery string

	// Errors are the refusals that the handler may return; those of this package and of Config.AuthErrors are added.
	// The API description lists them. A returned error that is missing here is logged as a fault.
	Errors []*errs.Error

	// Statuses maps codes of refusals to the status that a protocol requires instead of that of their kind.
	Statuses map[string]int

	// Replay sets the headers of a replayed success, because only status, Content-Type and body are stored. Nil: it
	// has no other headers.
	Replay func(h http.Header, body []byte)

	// MaxBody is the largest request body in bytes. Zero means 64 KiB.
	MaxBody int64

	// BodyTime bounds the arrival of a request body. Zero means 10 s.
	BodyTime time.Duration

	// Time bounds the operation from its request, or from the end of the request's body, to its response. Zero means
	// 5.3 s. An operation with a [Stream] or an http.HandlerFunc, and a stream of events, has no bound as a whole.
	// Each of its SQL statements has one of 5.3 s.
	Time time.Duration

	// Events documents the events of a stream: it maps each name to a value of the type of its data.
	Events map[string]any

	// MediaType documents the media type of an output whose Body is []byte instead of JSON; the output sets its
	// Content-Type.
	MediaType string
}

const defaultMaxBody = 64 << 10

// opTime is the default of [Op.Time]. It exceeds the five seconds of a batch, so that the batch's error, which names
// the unavailable dependency, arrives first.
const opTime = 5300 * time.Millisecond

// Handle adds an operation for callers with a bearer token; C is the type of the authenticator's callers. I and O are
// pointers to structs in the style of huma, with fields tagged path:"…", query:"…" and header:"…", and a Body, which
// is optional if it is a pointer. A RawBody []byte instead of the Body accepts raw bytes of the media type in its
// contentType tag, or of any in a range such as "image/*". A Stream *[Stream] instead of the Body is read by fn
// itself. A request that does not fit I's tags is refused before fn is called. A path's [ids.ID] has a tag unknown with
// codes; the first of them that is in op.Errors refuses a malformed id. O's headers and Body are sent; an
// http.HandlerFunc in place of the Body writes it. fn's error becomes a problem document: an [errs.Error] is shown,
// any other error is logged and hidden.
//
// A caller of another type than C is refused with [ErrCaller], because an authenticator may accept callers that most
// operations are not for.
//
// Handle panics on a malformed declaration.
//
// All pointers share one compiled copy of this function; the rest of an operation works by reflection in code that is
// compiled once.
func Handle[C Caller, I, O any](a *API, op Op, fn func(ctx context.Context, caller C, in I) (O, error)) {
	a.add(op, reflect.TypeFor[I](), reflect.TypeFor[O](),
		&route{suits: isA[C], run: func(ctx context.Context, caller Caller, in any) (any, error) {
			return fn(ctx, caller.(C), in.(I))
		}})
}

// isA reports whether a caller is a C.
func isA[C Caller](caller Caller) bool {
	_, ok := caller.(C)
	return ok
}

// HandlePublic adds an operation that takes no bearer token; see [Handle]. It ignores the Idempotency-Key: without a
// user the owner of a key is unknown, and a response stored for one caller could reach another.
func HandlePublic[I, O any](a *API, op Op, fn func(ctx context.Context, in I) (O, error)) {
	a.add(op, reflect.TypeFor[I](), reflect.TypeFor[O](), &route{public: true, run: func(ctx context.Context, _ Caller, in any) (any, error) {
		return fn(ctx, in.(I))
	}})
}

// Body is an input or an output that consists of a body only.
type Body[T any] struct{ Body T }

// NewBody returns an output with a body.
func NewBody[T any](body T) *Body[T] { return &Body[T]{body} }

// Empty is an input or an output without fields.
type Empty struct{}

// PageQuery selects a page of a list.
type PageQuery struct {
	Cursor string `query:"cursor" maxLength:"120" doc:"the next field of the previous page"`
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"100" doc:"maximum number of results"`
}

// Value returns the value of a name that the schema of the API allows, which is its index. It returns nil for an absent
// name.
func Value[T ~int](name *string, names []string) *T {
	if name == nil {
		return nil
	}
	return new(T(slices.Index(names, *name)))
}

// List returns f of each element of list. The result is never nil, so that its JSON is [] and not null.
func List[T, U any](list []T, f func(T) U) []U {
	out := make([]U, len(list))
	for i, v := range list {
		out[i] = f(v)
	}
	return out
}

// route is a registered operation, or a pattern of [API.Raw].
type route struct {
	label     string
	op        Op
	public    bool
	in        *bind.Input
	out       *output
	suits     func(caller Caller) bool // nil in a public operation
	run       func(ctx context.Context, caller Caller, in any) (out any, err error)
	longLived bool                                                              // a pattern with long-lived connections
	listen    func(ctx context.Context, caller Caller, in any, send Send) error // only for a stream, which has no run and no out
	duration  prometheus.Observer
	codes     map[string]bool // codes of the refusals in the description
}

func (rt *route) name() string {
	if rt == nil {
		return "unmatched"
	}
	return rt.label
}

// pattern returns the path as declared, without values from the client.
func (rt *route) pattern() string {
	switch {
	case rt == nil:
		return ""
	case rt.op.Path != "":
		return rt.op.Path
	}
	_, path, _ := strings.Cut(rt.label, " ")
	return path
}

// add checks op, describes it and serves it by rt. in and out are the pointers to structs of rt's functions. A stream
// has no out.
func (a *API) add(op Op, in, out reflect.Type, rt *route) {
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
	if op.Time == 0 {
		op.Time = max(opTime, a.cfg.OpTime)
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
	rt.label, rt.op, rt.duration = op.ID, op, a.stats.observer(op.ID)
	rt.in = bind.New(a.schemas(), in.Elem(), bind.Operation{ID: op.ID, Refusals: op.Errors, Stream: reflect.TypeFor[*Stream]()})
	if out != nil {
		rt.out = newOutput(out.Elem(), op.Status)
	}
	a.routes[op.ID] = rt
	if a.unserved {
		return
	}
	a.doc.AddOperation(a.describe(rt, out))
	a.mux.HandleFunc(op.Method+" "+op.Path, func(_ http.ResponseWriter, r *http.Request) {
		a.serveOp(rt, callOf(r.Context()), r)
	})
}

// isReplayed reports whether a call with an Idempotency-Key happens only once. A stream is not replayed, because it is
// not read before the call and so cannot be compared.
func (rt *route) isReplayed() bool { return isWrite(rt.op.Method) && !rt.public && !rt.in.IsStream() }

func isWrite(method string) bool {
	switch method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return true
	}
	return false
}

// isOpenEnded reports whether the operation lasts as long as its client reads or sends.
func (rt *route) isOpenEnded() bool {
	return rt.listen != nil || rt.in.IsStream() || rt.out.serve != nil
}

// serveOp runs the steps between the ServeMux and the handler.
func (a *API) serveOp(rt *route, c *call, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), rt.op.Time)
	defer cancel()
	if !a.admit(ctx, rt, c, r) {
		return
	}
	left := rt.op.Time - time.Since(c.start)
	var body []byte
	if rt.in.HasBody() {
		var p *problem
		if body, p = readBody(c, r, rt); p != nil {
			c.refuse(p)
			return
		}
	}
	switch {
	case rt.isOpenEnded():
		ctx = r.Context()
	case len(body) > 0: // the arrival of the body does not count
		var end context.CancelFunc
		ctx, end = context.WithTimeout(r.Context(), left)
		defer end()
	}
	a.perform(ctx, c, r, body)
}

// admit authenticates the caller, counts the call, and refuses requests without a token, over the limit or with a
// malformed URL.
func (a *API) admit(ctx context.Context, rt *route, c *call, r *http.Request) bool {
	c.route = rt
	c.Header()["Cache-Control"] = noStore
	if !rt.public {
		caller, err := a.authenticate(ctx, r)
		if err != nil {
			c.refuse(a.refusal(ctx, err))
			return false
		}
		c.who = caller
	}
	if !a.allow(ctx, c, rt) {
		return false
	}
	if !plainText(r.URL.Path) || !validQuery(r.URL.RawQuery) {
		c.refuse(newProblem(http.StatusBadRequest, bind.ErrMalformed.On("url", "is badly escaped, not UTF-8 or has a NUL")))
		return false
	}
	if name := repeated(rt.in, r); name != "" {
		c.refuse(newProblem(http.StatusBadRequest, bind.ErrMalformed.On(name, "was sent twice")))
		return false
	}
	if !rt.public {
		if err := c.act(ctx, r); err != nil {
			c.refuse(a.refusal(ctx, err))
			return false
		}
	}
	return true
}

// perform runs an admitted call whose body has been read, once for each Idempotency-Key.
func (a *API) perform(ctx context.Context, c *call, r *http.Request, body []byte) {
	if c.route.isReplayed() && len(r.Header["Idempotency-Key"]) > 0 {
		a.runOnce(ctx, c, r, body)
		return
	}
	a.answer(ctx, c, c, r, body)
}

// answer runs the handler and writes its response to w, which is c itself or a recorder.
func (a *API) answer(ctx context.Context, c *call, w http.ResponseWriter, r *http.Request, body []byte) {
	rt := c.route
	in, err := rt.in.Bind(r, body)
	switch {
	case err != nil:
		a.refusal(ctx, err).write(c, w)
		return
	case rt.listen != nil:
		a.stream(ctx, c, func(ctx context.Context, send Send) error { return rt.listen(ctx, c.as, in, send) })
		return
	}
	if rt.in.IsStream() {
		s, p := openStream(c, r, rt)
		if p != nil {
			p.write(c, w)
			return
		}
		rt.in.SetStream(in, s)
	}
	release, err := a.enter(ctx, c, r)
	if err != nil {
		a.refusal(ctx, err).write(c, w)
		return
	}
	defer release()
	out, err := rt.run(ctx, c.as, in)
	if err == nil {
		err = rt.out.write(w, r, out)
	}
	if err != nil {
		a.refusal(ctx, err).write(c, w)
	}
}

// repeated returns the name of a parameter that a request has twice; see [bind.Input.Repeated].
func repeated(in *bind.Input, r *http.Request) string {
	if len(r.Header[ActAsHeader]) > 1 {
		return "header." + ActAsHeader
	}
	return in.Repeated(r)
}

// validQuery reports whether the query is properly escaped text.
func validQuery(raw string) bool {
	if !strings.Contains(raw, "%") {
		return plainText(raw)
	}
	s, err := url.QueryUnescape(raw)
	return err == nil && plainText(s)
}

// plainText reports whether s is UTF-8 without a NUL. [bind.Decode] refuses the same in bodies.
func plainText(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

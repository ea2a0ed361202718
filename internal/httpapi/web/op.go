package web

import (
	"context"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/lib/ratelimit"
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

	// NoReplay is for operations whose answer must not be kept, because it holds
	// a secret, or what others may take back. Every try with one Idempotency-Key runs then, and has the same [RequestID].
	NoReplay bool

	// Creates says of an operation with NoReplay that it makes something: its tries are noted
	// without their answers, so that [NewID] is the same for all of them, and two do not run at once.
	Creates bool

	// Status is sent on success. Zero means 200, or 204 when the output has no
	// Body.
	Status int

	// Limit is per user, per address when public. Zero means Config.Limit.
	Limit ratelimit.Limit

	// Heavy is for operations that read far more than they return. A node runs a few of them at a time, users in rotation.
	Heavy bool

	// HeavyQuery is a query parameter that makes a call heavy, such as the text of a search in a list; empty: none.
	HeavyQuery string

	// Errors are the refusals that the handler may return; those of this package
	// and of Config.AuthErrors are added. The description of the API lists them: one
	// that is missing here is a fault, which is logged.
	Errors []*errs.Error

	// Statuses are those of refusals, by their code, for which a protocol wants another
	// status than that of their kind.
	Statuses map[string]int

	// Replay sets the headers of an answer without a refusal that is sent again, of which status, Content-Type
	// and body are kept. Nil: it has no others.
	Replay func(h http.Header, body []byte)

	// MaxBody is the largest request body in bytes. Zero means 64 KiB.
	MaxBody int64

	// BodyTime is how long a request body may take to arrive. Zero means 10 s.
	BodyTime time.Duration

	// Time bounds the operation from its request, or from the end of the request's body, to its answer. Zero means 5.3 s.
	// An operation with a [Stream] or an http.HandlerFunc, and a stream of events, has no bound as a whole. Each of
	// its SQL statements has one of 5.3 s.
	Time time.Duration

	// Events are what a stream sends, by the name of the event: a value of the type of
	// its data, for the documentation.
	Events map[string]any

	// Answer is the media type of an output's Body that is no JSON but []byte, for
	// the documentation; the output sets its Content-Type.
	Answer string
}

const defaultMaxBody = 64 << 10

// opTime is the default of [Op.Time]. It exceeds the five seconds of a batch, whose error names the part that is away.
const opTime = 5300 * time.Millisecond

// Handle adds an operation for callers with a bearer token; C is the type of the
// authenticator's callers. I and O are pointers to structs after huma's fashion:
// fields tagged path:"…", query:"…" and header:"…", and a Body, which is optional
// when it is a pointer. A RawBody []byte in its place takes bytes as they come, of
// the media type in its contentType tag, or of any in a range such as "image/*"; a Stream
// *[Stream] is read by fn itself. What does not fit I's tags is refused before fn is called.
// O's headers and Body are sent; an http.HandlerFunc in place of the Body writes it.
// fn's error becomes a problem document: an [errs.Error] is shown, anything
// else is logged and hidden.
//
// A caller of another type than C is refused as one without a token: an authenticator may know callers for whom
// most operations are not.
//
// Handle panics on a malformed declaration.
//
// All pointers share one compiled copy of this function; everything else about an
// operation happens by reflection in code that is compiled once.
func Handle[C Caller, I, O any](a *API, op Op, fn func(ctx context.Context, caller C, in I) (O, error)) {
	a.add(op, reflect.TypeFor[I](), reflect.TypeFor[O](), &route{suits: isA[C], run: func(ctx context.Context, caller Caller, in any) (any, error) {
		return fn(ctx, caller.(C), in.(I))
	}})
}

// isA reports whether a caller is a C.
func isA[C Caller](caller Caller) bool {
	_, ok := caller.(C)
	return ok
}

// HandlePublic adds an operation that takes no bearer token; see [Handle]. It
// ignores the Idempotency-Key: without a user nobody can tell whose key it is, and
// an answer kept for one caller could reach another.
func HandlePublic[I, O any](a *API, op Op, fn func(ctx context.Context, in I) (O, error)) {
	a.add(op, reflect.TypeFor[I](), reflect.TypeFor[O](), &route{public: true, run: func(ctx context.Context, _ Caller, in any) (any, error) {
		return fn(ctx, in.(I))
	}})
}

// Body is an input or an output that is a body and nothing else.
type Body[T any] struct{ Body T }

// NewBody answers with a body.
func NewBody[T any](body T) *Body[T] { return &Body[T]{body} }

// Empty is an input or an output that has nothing.
type Empty struct{}

// List returns what f makes of each of list. It is never nil: in JSON it is [] then, and not null.
func List[T, U any](list []T, f func(T) U) []U {
	out := make([]U, len(list))
	for i, v := range list {
		out[i] = f(v)
	}
	return out
}

// route is an operation, or a pattern of [API.Raw], at work.
type route struct {
	label    string
	op       Op
	public   bool
	in       *input
	out      *output
	suits    func(caller Caller) bool // nil in a public operation
	run      func(ctx context.Context, caller Caller, in any) (out any, err error)
	stays    bool                                                              // a pattern whose connections stay open
	listen   func(ctx context.Context, caller Caller, in any, send Send) error // of a stream, which has no run and no out
	duration prometheus.Observer
	codes    map[string]bool // of the refusals that the description lists
}

func (rt *route) name() string {
	if rt == nil {
		return "unmatched"
	}
	return rt.label
}

// pattern is the path as it was declared, without what a client put into it.
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

// add checks op, describes it and serves it by rt, whose functions take in and
// return out, both pointers to structs. A stream has no out.
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
	rt.in = newInput(a.schemas(), in.Elem(), op.ID)
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

// replays reports whether an Idempotency-Key has a call happen once. A stream is not read
// before it happens, so that nobody can tell whether it is the same one.
func (rt *route) replays() bool { return isWrite(rt.op.Method) && !rt.public && !rt.in.stream }

func isWrite(method string) bool {
	switch method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return true
	}
	return false
}

// open reports whether the operation lasts as long as its client reads or sends.
func (rt *route) open() bool { return rt.listen != nil || rt.in.stream || rt.out.serve != nil }

// serveOp is what happens between the ServeMux and the handler.
func (a *API) serveOp(rt *route, c *call, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), rt.op.Time)
	defer cancel()
	if !a.admit(ctx, rt, c, r) {
		return
	}
	left := rt.op.Time - time.Since(c.start)
	var body []byte
	if rt.in.body != nil && !rt.in.stream {
		var p *problem
		if body, p = readBody(c, r, rt); p != nil {
			c.refuse(p)
			return
		}
	}
	switch {
	case rt.open():
		ctx = r.Context()
	case len(body) > 0: // its arrival does not count
		var end context.CancelFunc
		ctx, end = context.WithTimeout(r.Context(), left)
		defer end()
	}
	a.perform(ctx, c, r, body)
}

// admit finds out who calls, counts the call, and refuses what has no token, comes too
// often or has a URL that cannot be read.
func (a *API) admit(ctx context.Context, rt *route, c *call, r *http.Request) bool {
	c.route = rt
	c.Header()["Cache-Control"] = noStore
	if !rt.public {
		who, err := a.authenticate(ctx, r)
		if err != nil {
			c.refuse(a.refusal(ctx, err))
			return false
		}
		c.who = who
	}
	if !a.allow(ctx, c, rt) {
		return false
	}
	if !plainText(r.URL.Path) || !validQuery(r.URL.RawQuery) {
		c.refuse(newProblem(http.StatusBadRequest, errMalformed.On("url", "is badly escaped, not UTF-8 or has a NUL")))
		return false
	}
	if name := rt.in.repeated(r); name != "" {
		c.refuse(newProblem(http.StatusBadRequest, errMalformed.On(name, "was sent twice")))
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

// perform answers an admitted call whose body has been read, once for each
// Idempotency-Key.
func (a *API) perform(ctx context.Context, c *call, r *http.Request, body []byte) {
	if c.route.replays() && len(r.Header["Idempotency-Key"]) > 0 {
		a.once(ctx, c, r, body)
		return
	}
	a.answer(ctx, c, c, r, body)
}

// answer lets the handler run and writes what it says to w: c itself, or a recorder
// before it.
func (a *API) answer(ctx context.Context, c *call, w http.ResponseWriter, r *http.Request, body []byte) {
	rt := c.route
	in, p := rt.in.bind(a.schemas(), func(p *param) string { return p.from(r) }, body)
	switch {
	case p != nil:
		p.write(c, w)
		return
	case rt.listen != nil:
		a.stream(ctx, c, func(ctx context.Context, send Send) error { return rt.listen(ctx, c.as, in, send) })
		return
	}
	if rt.in.stream {
		s, p := openStream(c, r, rt)
		if p != nil {
			p.write(c, w)
			return
		}
		reflect.ValueOf(in).Elem().FieldByIndex(rt.in.body).Set(reflect.ValueOf(s))
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

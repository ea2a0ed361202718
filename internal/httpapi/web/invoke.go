package web

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/httpapi/bind"
)

// Invocation is a call of an operation by its id over an open socket, instead of an HTTP request.
type Invocation struct {
	Op    string            // [Op].ID
	Path  map[string]string // values of the path's wildcards, unescaped
	Query map[string]string // values of the query, unescaped
	Body  []byte            // JSON; empty: no body
	Key   string            // an Idempotency-Key; empty: no key

	// Caller returns the caller, or refuses like an [Authenticator]. Nil means that there is no caller; then only
	// public operations can be called.
	Caller func(context.Context) (Caller, error)

	// Opened is the request that opened the connection. It gives the caller's address and user agent.
	Opened *http.Request
}

// Response is the response of an operation to an [Invocation].
type Response struct {
	Status int         // as HTTP has it
	Header http.Header // as in HTTP: RateLimit-Remaining, Retry-After, Idempotency-Replayed
	Body   []byte      // JSON: the operation's own, or a problem document if Status is 400 or more
}

var (
	errNoOperation = errs.New(errs.NotFound, "operation.unknown", "There is no operation with this id.")
	errOnlyHTTP    = errs.New(errs.Invalid, "operation.http_only", "This operation uses other formats than JSON. Call it over HTTP.")
)

// Invoke calls an operation that was added by [Handle] or [HandlePublic]. An invocation goes through the same steps
// as an HTTP request: token, limit, checks, Idempotency-Key, refusals, metrics and log lines. An Idempotency-Key is
// valid over both transports, if the query of the HTTP request has its names in alphabetical order. Invoke refuses
// streams, and operations with a body or response that is not JSON.
func (a *API) Invoke(ctx context.Context, in Invocation) Response {
	w := &memory{header: http.Header{}}
	rt := a.routes[in.Op]
	r := in.request(rt).WithContext(ctx)
	c := a.newCall(w, r)
	c.caller = in.Caller
	ctx = callContext{ctx, c}
	a.invoke(ctx, rt, c, r.WithContext(ctx), in.Body)
	if w.status == 0 { // the handler wrote nothing
		w.status = http.StatusOK
	}
	return Response{Status: w.status, Header: w.header, Body: bytes.TrimSuffix(w.body.Bytes(), []byte{'\n'})}
}

func (a *API) invoke(ctx context.Context, rt *route, c *call, r *http.Request, body []byte) {
	defer func() { // finish panics again if a part of the response was sent; here none was
		if recover() != nil {
			*c.ResponseWriter.(*memory) = memory{header: http.Header{}}
			c.wrote = false
			c.refuse(newProblem(http.StatusInternalServerError, errInternal))
		}
	}()
	defer a.finish(c)
	switch {
	case rt == nil:
		if a.allowPublic(ctx, c, unmatched) {
			c.refuse(newProblem(http.StatusNotFound, errNoOperation))
		}
		return
	case rt.listen != nil || rt.in.Media() != "" || rt.op.MediaType != "":
		c.route = rt
		c.refuse(newProblem(http.StatusUnprocessableEntity, errOnlyHTTP))
		return
	}
	ctx, cancel := context.WithTimeout(ctx, rt.op.Time)
	defer cancel()
	if !a.admit(ctx, rt, c, r) {
		return
	}
	switch {
	case int64(len(body)) > rt.op.MaxBody:
		c.refuse(newProblem(http.StatusRequestEntityTooLarge, errTooLarge))
	case !utf8.Valid(body):
		c.refuse(newProblem(http.StatusBadRequest, bind.ErrMalformed.On("body", "is not UTF-8")))
	default:
		a.perform(ctx, c, r, body)
	}
}

// Opening returns the parts of the opening request that invocations need: the caller's address, user agent and
// languages.
func Opening(r *http.Request) *http.Request {
	slim := &http.Request{RemoteAddr: r.RemoteAddr, Host: r.Host, TLS: r.TLS, Header: http.Header{}}
	for _, name := range []string{"User-Agent", "X-Forwarded-For", "X-Forwarded-Proto", "Accept-Language"} {
		if lines := r.Header[name]; len(lines) > 0 {
			slim.Header[name] = slices.Clone(lines)
		}
	}
	return slim
}

// request returns the equivalent HTTP request.
func (in Invocation) request(rt *route) *http.Request {
	r := &http.Request{Method: http.MethodPost, URL: &url.URL{Path: "/"}, Header: http.Header{}, Proto: "HTTP/1.1", ProtoMajor: 1,
		ProtoMinor: 1, Body: http.NoBody}
	if in.Opened != nil {
		from := Opening(in.Opened)
		r.RemoteAddr, r.Host, r.TLS, r.Header = from.RemoteAddr, from.Host, from.TLS, from.Header
	}
	if in.Key != "" {
		r.Header["Idempotency-Key"] = []string{in.Key}
	}
	if rt == nil {
		return r
	}
	r.Method = rt.op.Method
	r.URL.Path = fillPath(rt.op.Path, in.Path)
	for name, value := range in.Path {
		r.SetPathValue(name, value)
	}
	if len(in.Query) > 0 {
		query := make(url.Values, len(in.Query))
		for name, value := range in.Query {
			query.Set(name, value)
		}
		r.URL.RawQuery = query.Encode()
	}
	return r
}

// fillPath replaces a pattern's wildcards by values.
func fillPath(pattern string, values map[string]string) string {
	var path strings.Builder
	for {
		before, after, found := strings.Cut(pattern, "{")
		path.WriteString(before)
		if !found {
			return path.String()
		}
		name, rest, _ := strings.Cut(after, "}")
		path.WriteString(values[strings.TrimSuffix(name, "...")])
		pattern = rest
	}
}

// memory is a ResponseWriter that stores the response.
type memory struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (m *memory) Header() http.Header { return m.header }

// WriteHeader implements http.ResponseWriter.
func (m *memory) WriteHeader(status int) {
	if m.status == 0 && status >= 200 {
		m.status = status
	}
}

// Write implements http.ResponseWriter.
func (m *memory) Write(b []byte) (int, error) {
	m.WriteHeader(http.StatusOK)
	return m.body.Write(b)
}

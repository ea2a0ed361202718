package web

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/httpapi/bind"
	"github.com/stoa-dev/stoa/internal/httpapi/idempotency"
	"github.com/stoa-dev/stoa/internal/httpapi/openapi"
)

const conventions = `Each error response is an RFC 9457 problem document with a stable ` + "`code`" + `. An operation lists its own codes by status. Its ` + "`default`" + ` response has the codes that many operations share. The text of each code is in ` + "`components.x-codes`" + `.

Each response has an ` + "`X-Request-ID`" + `: the client's own (1 to 64 letters, digits, dots, dashes and underscores) or a new one.

Responses of rate-limited operations have ` + "`RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset`" + ` (in seconds). Responses 429, 503 and 409 ` + "`idempotency.busy`" + ` have ` + "`Retry-After`" + `.

A write with an ` + "`Idempotency-Key`" + ` happens once in 24 hours. The same request again gets the stored response, marked ` + "`Idempotency-Replayed: true`" + `. If no response was stored, the request runs again: after a crash or a database failure during the first run, and for responses with secrets. The second run creates nothing twice; it makes the same change again, or is refused because the change already happened. Only a code may be mailed twice. Operations without a token ignore the key.`

// describe returns a document without operations.
func describe(cfg Config) *huma.OpenAPI {
	doc := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{Title: cfg.Title, Version: cfg.Version, Description: conventions,
			License: &huma.License{Name: "Apache License 2.0", Identifier: "Apache-2.0"}},
		Servers: []*huma.Server{{URL: "/", Description: "The server of this document"}},
		Components: &huma.Components{
			Schemas: newSchemas(),
			Headers: headers(),
			SecuritySchemes: map[string]*huma.SecurityScheme{
				"bearer": {Type: "http", Scheme: "bearer", Description: "The access token from log-in or registration."},
			},
		},
	}
	for _, t := range cfg.Tags {
		doc.Tags = append(doc.Tags, &huma.Tag{Name: t.Name, Description: t.Description})
	}
	return doc
}

// newSchemas returns an empty registry. It gives [api.Time] the schema of [time.Time].
func newSchemas() huma.Registry {
	schemas := huma.NewMapRegistry(openapi.SchemaRef, huma.DefaultSchemaNamer)
	schemas.RegisterTypeAlias(reflect.TypeFor[api.Time](), reflect.TypeFor[time.Time]())
	return schemas
}

// headers returns the headers that many responses have.
func headers() map[string]*huma.Header {
	text := func(description, example string) *huma.Header {
		return &huma.Header{Description: description, Schema: &huma.Schema{Type: huma.TypeString}, Example: example}
	}
	number := func(description string, example int) *huma.Header {
		return &huma.Header{Description: description, Schema: &huma.Schema{Type: huma.TypeInteger}, Example: example}
	}
	return map[string]*huma.Header{
		"X-Request-ID":         text("Identifies this request in the server's log.", "3w5e11264sgsf"),
		"RateLimit-Limit":      number("The number of requests that the window allows.", 60),
		"RateLimit-Remaining":  number("The number of requests left in the window.", 59),
		"RateLimit-Reset":      number("Seconds until the full number is available again.", 1),
		"Retry-After":          number("Seconds after which to retry.", 2),
		"WWW-Authenticate":     text("The required authentication scheme.", `Bearer realm="stoa"`),
		"Idempotency-Replayed": text("true: this is the stored response of an earlier request with the same Idempotency-Key.", "true"),
	}
}

// refer returns references to headers of the document.
func refer(names ...string) map[string]*huma.Param {
	m := map[string]*huma.Param{}
	for _, name := range names {
		m[name] = &huma.Header{Ref: "#/components/headers/" + name}
	}
	return m
}

func (a *API) schemas() huma.Registry { return a.doc.Components.Schemas }

// describe returns the description of rt, with every refusal that it may return.
func (a *API) describe(rt *route, out reflect.Type) *huma.Operation {
	op := rt.op
	h := &huma.Operation{
		OperationID: op.ID,
		Method:      op.Method,
		Path:        op.Path,
		Summary:     op.Summary,
		Description: op.Description,
		Tags:        op.Tags,
		Responses:   map[string]*huma.Response{},
		Security:    []map[string][]string{}, // an empty list; a nil list would mean that of the document
	}
	refusals := map[int][]*errs.Error{
		http.StatusBadRequest:          {bind.ErrMalformed},
		http.StatusUnprocessableEntity: {bind.ErrInvalid},
		http.StatusInternalServerError: {errInternal},
		http.StatusServiceUnavailable:  {errSlow},
	}
	if !rt.public {
		h.Security = []map[string][]string{{"bearer": {}}}
		refusals[http.StatusUnauthorized] = []*errs.Error{ErrNoToken, ErrMalformedToken}
		refusals[http.StatusForbidden] = []*errs.Error{ErrCaller}
		if as := a.cfg.ActAs; as != nil && as(op) != "" {
			h.Parameters = append(h.Parameters, &huma.Param{
				Name: ActAsHeader, In: "header",
				Description: "The user of a call with a service key. The key needs the scope " + as(op) + ".",
				Schema:      &huma.Schema{Type: huma.TypeString},
			})
		}
		for _, e := range a.cfg.AuthErrors {
			refusals[statusOf[e.Kind]] = append(refusals[statusOf[e.Kind]], e)
		}
	}
	if op.Limit.Max > 0 {
		refusals[http.StatusTooManyRequests] = []*errs.Error{ErrLimit}
	}
	if op.Heavy || op.HeavyQuery != "" {
		refusals[http.StatusServiceUnavailable] = append(refusals[http.StatusServiceUnavailable], errHeavy)
	}
	if rt.listen != nil {
		refusals[http.StatusTooManyRequests] = append(refusals[http.StatusTooManyRequests], errStreams)
		refusals[http.StatusServiceUnavailable] = append(refusals[http.StatusServiceUnavailable], ErrNoPlace)
	}
	if rt.in.HasBody() || rt.in.IsStream() {
		if rt.in.HasBody() {
			refusals[http.StatusRequestTimeout] = []*errs.Error{errTimeout}
			refusals[http.StatusRequestEntityTooLarge] = []*errs.Error{errTooLarge}
		}
		refusals[http.StatusUnsupportedMediaType] = []*errs.Error{rt.errMediaType()}
	}
	if rt.isReplayed() {
		refusals[http.StatusBadRequest] = append(refusals[http.StatusBadRequest], idempotency.ErrKey)
		description := "Identifies this write, so that a retry does not repeat it: 1 to 128 printable ASCII characters."
		if op.NoReplay {
			description = "Identifies this write: 1 to 128 printable ASCII characters. The response is not stored: a retry runs again."
		}
		h.Parameters = append(h.Parameters, &huma.Param{
			Name: "Idempotency-Key", In: "header",
			Description: description,
			Schema:      &huma.Schema{Type: huma.TypeString},
		})
		if !op.NoReplay || op.Creates {
			refusals[http.StatusConflict] = []*errs.Error{idempotency.ErrBusy, idempotency.ErrMismatch}
		}
	}
	for _, e := range op.Errors {
		refusals[rt.statusOf(e)] = append(refusals[rt.statusOf(e)], e)
	}
	rt.in.Describe(h)
	a.describeResponse(h, rt, out)
	rt.codes = map[string]bool{}
	for status, list := range refusals {
		h.Responses[strconv.Itoa(status)] = a.describeRefusal(rt, status, list)
	}
	return h
}

// describeRefusal returns the description of a status with its codes, and adds the codes to rt.
func (a *API) describeRefusal(rt *route, status int, list []*errs.Error) *huma.Response {
	var codes []string
	for _, e := range list {
		codes = append(codes, e.Code)
		rt.codes[e.Code] = true
	}
	slices.Sort(codes)
	codes = slices.Compact(codes)
	names := []string{"X-Request-ID"}
	switch status {
	case http.StatusUnauthorized:
		names = append(names, "WWW-Authenticate")
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		names = append(names, "Retry-After")
	}
	return &huma.Response{
		Description: codeTexts(list),
		Headers:     refer(names...),
		Content: map[string]*huma.MediaType{"application/problem+json": {
			Schema: a.schemas().Schema(problemType, true, "Problem"),
		}},
		Extensions: map[string]any{"x-codes": codes},
	}
}

func (a *API) describeResponse(h *huma.Operation, rt *route, out reflect.Type) {
	names := []string{"X-Request-ID"}
	if rt.op.Limit.Max > 0 {
		names = append(names, "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")
	}
	if rt.isReplayed() && !rt.op.NoReplay {
		names = append(names, "Idempotency-Replayed")
	}
	if rt.listen != nil {
		h.Responses["200"] = &huma.Response{
			Description: "Server-sent events. The `data` of each event is one JSON document of this schema, on one line. Without events, the " +
				"server sends a comment every 15 s.",
			Headers: refer(names...),
			Content: map[string]*huma.MediaType{"text/event-stream": {Schema: a.describeEvents(rt)}},
		}
		return
	}
	status := strconv.Itoa(rt.out.status)
	r := &huma.Response{Description: http.StatusText(rt.out.status), Headers: refer(names...)}
	h.Responses[status] = r
	if rt.out.serve != nil {
		r.Content = map[string]*huma.MediaType{rt.op.MediaType: {Schema: bind.Octets()}}
	}
	if rt.out.body != nil {
		f := out.Elem().FieldByIndex(rt.out.body)
		schema := huma.SchemaFromField(a.schemas(), f, bind.Hint(out.Elem(), f, rt.op.ID+"Response"))
		media := onlyJSON[0]
		if rt.op.MediaType != "" {
			media, schema = rt.op.MediaType, bind.Octets()
		}
		r.Content = map[string]*huma.MediaType{media: {Schema: schema}}
	}
	for _, o := range rt.out.headers {
		f := out.Elem().FieldByIndex(o.index)
		r.Headers[f.Tag.Get("header")] = &huma.Header{
			Schema: huma.SchemaFromField(a.schemas(), f, bind.Hint(out.Elem(), f, rt.op.ID+status+f.Tag.Get("header"))),
		}
	}
}

// describeEvents adds a schema for each event of a stream and returns their union, with the property type as the
// discriminator.
func (a *API) describeEvents(rt *route) *huma.Schema {
	all := &huma.Schema{Discriminator: &huma.Discriminator{PropertyName: "type", Mapping: map[string]string{}}}
	components := a.schemas().Map()
	for _, event := range slices.Sorted(maps.Keys(rt.op.Events)) {
		data := a.schemas().Schema(reflect.TypeOf(rt.op.Events[event]), true, "")
		name := "Event"
		for _, part := range strings.FieldsFunc(event, func(r rune) bool { return r == '.' || r == '_' }) {
			name += strings.ToUpper(part[:1]) + part[1:]
		}
		components[name] = &huma.Schema{
			Type: huma.TypeObject, Required: []string{"type", "time", "data"},
			Properties: map[string]*huma.Schema{
				"type": {Type: huma.TypeString, Enum: []any{event}},
				"time": {Type: huma.TypeString, Format: "date-time"},
				"data": data,
			},
		}
		all.OneOf = append(all.OneOf, &huma.Schema{Ref: openapi.SchemaRef + name})
		all.Discriminator.Mapping[event] = openapi.SchemaRef + name
	}
	components["Event"] = all
	return &huma.Schema{Ref: openapi.SchemaRef + "Event"}
}

// codeTexts lists refusals by code, with their texts.
func codeTexts(list []*errs.Error) string {
	var lines []string
	for _, e := range list {
		lines = append(lines, fmt.Sprintf("`%s`: %s", e.Code, e.Text))
	}
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "\n\n")
}

func (a *API) writeSpec() []byte {
	codes := map[string]bool{errNoRoute.Code: true, errMethod.Code: true}
	var bodies []*huma.Schema
	for _, rt := range a.routes {
		maps.Copy(codes, rt.codes)
		bodies = append(bodies, rt.in.Schema())
	}
	openapi.Complete(a.doc, bodies, slices.Sorted(maps.Keys(codes)))
	b, err := json.Marshal(a.doc)
	if err == nil {
		b, err = openapi.Compact(b)
	}
	if err != nil {
		panic(err) // a type in an operation cannot be described
	}
	return b
}

func (a *API) serveSpec(w http.ResponseWriter, r *http.Request) { a.specFile().ServeHTTP(w, r) }

package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stoa-dev/stoa/internal/foundation/errs"
)

const conventions = `Every refusal is an RFC 9457 problem document with a stable ` + "`code`" + `.

Every answer has an ` + "`X-Request-ID`" + `: the client's own (1 to 64 letters, digits, dots, dashes and underscores) or a new one.

Limited operations answer with ` + "`RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset`" + ` (in seconds); 429 and 503 come with ` + "`Retry-After`" + `.

A write with an ` + "`Idempotency-Key`" + ` happens once in 24 hours: the same request again gets the first answer, marked ` + "`Idempotency-Replayed: true`" + `. Operations without a token ignore the key.`

// describe begins the document.
func describe(title, version string) *huma.OpenAPI {
	return &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info:    &huma.Info{Title: title, Version: version, Description: conventions},
		Components: &huma.Components{
			Schemas: huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer),
			SecuritySchemes: map[string]*huma.SecurityScheme{
				"bearer": {Type: "http", Scheme: "bearer", Description: "The access token from log-in or registration."},
			},
		},
	}
}

func (a *API) schemas() huma.Registry { return a.doc.Components.Schemas }

// describe returns the description of rt, with every refusal it may answer.
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
	}
	refusals := map[int][]*errs.Error{
		http.StatusBadRequest:          {errMalformed},
		http.StatusUnprocessableEntity: {errInvalid},
		http.StatusInternalServerError: {errInternal},
		http.StatusServiceUnavailable:  {errSlow},
	}
	if !rt.public {
		h.Security = []map[string][]string{{"bearer": {}}}
		refusals[http.StatusUnauthorized] = []*errs.Error{ErrNoToken, ErrMalformedToken}
	}
	if op.Limit.Max > 0 {
		refusals[http.StatusTooManyRequests] = []*errs.Error{errLimit}
	}
	if rt.listen != nil {
		refusals[http.StatusTooManyRequests] = append(refusals[http.StatusTooManyRequests], errStreams)
	}
	if rt.in.body != nil {
		refusals[http.StatusRequestTimeout] = []*errs.Error{errTimeout}
		refusals[http.StatusRequestEntityTooLarge] = []*errs.Error{errTooLarge}
		refusals[http.StatusUnsupportedMediaType] = []*errs.Error{rt.errMediaType()}
	}
	if isWrite(op.Method) && !rt.public {
		refusals[http.StatusBadRequest] = append(refusals[http.StatusBadRequest], errKey)
		h.Parameters = append(h.Parameters, &huma.Param{
			Name: "Idempotency-Key", In: "header",
			Description: "Names this write, so that a retry does not repeat it: 1 to 128 printable ASCII characters.",
			Schema:      &huma.Schema{Type: huma.TypeString},
		})
		if !op.NoReplay {
			refusals[http.StatusConflict] = []*errs.Error{errBusy, errMismatch}
		}
	}
	for _, e := range op.Errors {
		refusals[statusOf[e.Kind]] = append(refusals[statusOf[e.Kind]], e)
	}
	a.describeInput(h, rt.in)
	a.describeAnswer(h, rt, out)
	schema := a.schemas().Schema(problemType, true, "Problem")
	for status, list := range refusals {
		h.Responses[strconv.Itoa(status)] = &huma.Response{
			Description: codes(list),
			Content:     map[string]*huma.MediaType{"application/problem+json": {Schema: schema}},
		}
	}
	return h
}

func (a *API) describeInput(h *huma.Operation, in *input) {
	for _, p := range in.params {
		d := &huma.Param{Name: p.name, In: p.in, Description: p.schema.Description, Required: p.required, Schema: p.schema}
		if p.in == "query" {
			d.Explode = new(bool) // lists come with commas
		}
		h.Parameters = append(h.Parameters, d)
	}
	switch {
	case in.media != "":
		h.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{in.media: {Schema: octets()}}}
	case in.body != nil:
		h.RequestBody = &huma.RequestBody{Required: in.required, Content: map[string]*huma.MediaType{onlyJSON[0]: {Schema: in.schema}}}
	}
}

func (a *API) describeAnswer(h *huma.Operation, rt *route, out reflect.Type) {
	if rt.listen != nil {
		h.Responses["200"] = &huma.Response{
			Description: "Server-sent events. A comment comes every 15 s while there are none.",
			Content:     map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString}}},
		}
		return
	}
	status := strconv.Itoa(rt.out.status)
	r := &huma.Response{Description: http.StatusText(rt.out.status)}
	h.Responses[status] = r
	if rt.out.body != nil {
		f := out.Elem().FieldByIndex(rt.out.body)
		schema := huma.SchemaFromField(a.schemas(), f, hint(out.Elem(), f, rt.op.ID+"Response"))
		media := onlyJSON[0]
		if rt.op.Answer != "" {
			media, schema = rt.op.Answer, octets()
		}
		r.Content = map[string]*huma.MediaType{media: {Schema: schema}}
	}
	for _, o := range rt.out.headers {
		f := out.Elem().FieldByIndex(o.index)
		if r.Headers == nil {
			r.Headers = map[string]*huma.Param{}
		}
		r.Headers[f.Tag.Get("header")] = &huma.Header{
			Schema: huma.SchemaFromField(a.schemas(), f, hint(out.Elem(), f, rt.op.ID+status+f.Tag.Get("header"))),
		}
	}
}

// octets is the schema of bytes that are not JSON.
func octets() *huma.Schema { return &huma.Schema{Type: huma.TypeString, Format: "binary"} }

// codes lists refusals by code.
func codes(list []*errs.Error) string {
	var lines []string
	for _, e := range list {
		lines = append(lines, fmt.Sprintf("`%s`: %s", e.Code, e.Text))
	}
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "\n\n")
}

func (a *API) writeSpec() []byte {
	b, err := json.Marshal(a.doc)
	if err != nil {
		panic(err) // a type in an operation cannot be described
	}
	return b
}

func (a *API) serveSpec(w http.ResponseWriter, r *http.Request) { a.specFile().ServeHTTP(w, r) }

package web

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
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

// describe is huma's configuration: no paths of its own, no schema links, JSON
// only.
func describe(title, version string) huma.Config {
	return huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info:    &huma.Info{Title: title, Version: version, Description: conventions},
			Components: &huma.Components{
				Schemas: huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer),
				SecuritySchemes: map[string]*huma.SecurityScheme{
					"bearer": {Type: "http", Scheme: "bearer", Description: "The access token from log-in or registration."},
				},
			},
		},
		// "json" is what huma looks up for application/problem+json.
		Formats:       map[string]huma.Format{"application/json": jsonFormat, "json": jsonFormat},
		DefaultFormat: "application/json",
	}
}

// describe makes huma's operation for rt, with every refusal it may answer.
func (a *API) describe(rt *route) huma.Operation {
	op := rt.op
	h := huma.Operation{
		OperationID:     op.ID,
		Method:          op.Method,
		Path:            op.Path,
		Summary:         op.Summary,
		Description:     op.Description,
		Tags:            op.Tags,
		DefaultStatus:   op.Status,
		MaxBodyBytes:    -1, // readBody has seen to it
		BodyReadTimeout: -1, // lifts the deadline, before the handler runs
		Responses:       map[string]*huma.Response{},
	}
	refusals := map[int][]*errs.Error{
		http.StatusBadRequest:          {errMalformed},
		http.StatusUnprocessableEntity: {errInvalid},
		http.StatusInternalServerError: {errInternal},
		http.StatusServiceUnavailable:  {errSlow},
	}
	if !op.Public {
		h.Security = []map[string][]string{{"bearer": {}}}
		refusals[http.StatusUnauthorized] = []*errs.Error{ErrNoToken, ErrMalformedToken}
	}
	if op.Limit.Max > 0 {
		refusals[http.StatusTooManyRequests] = []*errs.Error{errLimit}
	}
	if rt.body {
		refusals[http.StatusRequestTimeout] = []*errs.Error{errTimeout}
		refusals[http.StatusRequestEntityTooLarge] = []*errs.Error{errTooLarge}
		refusals[http.StatusUnsupportedMediaType] = []*errs.Error{rt.errMediaType()}
	}
	if isWrite(op.Method) && !op.Public {
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
	if op.Answer != "" {
		status := cmp.Or(op.Status, http.StatusOK)
		h.Responses[strconv.Itoa(status)] = &huma.Response{Description: http.StatusText(status), Content: map[string]*huma.MediaType{
			op.Answer: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}},
		}}
	}
	schema := a.huma.OpenAPI().Components.Schemas.Schema(problemType, true, "Problem")
	for status, list := range refusals {
		h.Responses[strconv.Itoa(status)] = &huma.Response{
			Description: codes(list),
			Content:     map[string]*huma.MediaType{"application/problem+json": {Schema: schema}},
		}
	}
	return h
}

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
	b, err := json.Marshal(a.huma.OpenAPI())
	if err != nil {
		panic(err) // a type in an operation cannot be described
	}
	return b
}

func (a *API) serveSpec(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	// A failed write has nobody left to tell.
	_, _ = w.Write(a.spec())
}

package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/httpapi/bind"
)

type Page struct {
	Cursor string `query:"cursor" maxLength:"5" doc:"end of the previous page"`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"10"`
}

type everyIn struct {
	Name string `path:"name" maxLength:"6"`
	Page
	Since int64    `query:"since" minimum:"0" default:"0"`
	IDs   []string `query:"ids" required:"true" minItems:"1" maxItems:"2"`
	Flag  bool     `query:"flag"`
	Kind  string   `header:"X-Kind" enum:"a,b" default:"a"`
	Body  thing
}

// optionalIn may have no body, and its body's type has no name.
type optionalIn struct {
	Body *struct {
		Parts []part `json:"parts" minItems:"1"`
		Text  string `json:"text,omitempty" maxLength:"3"`
	}
}

type everyOut struct {
	Status int
	Kind   string `header:"X-Kind" doc:"which kind it was"`
	Body   everyReply
}

type everyReply struct {
	Got everyIn `json:"got"`
}

func every(_ context.Context, in *everyIn) (*everyOut, error) {
	return &everyOut{Status: 203, Kind: in.Kind, Body: everyReply{*in}}, nil
}

type optionalOut struct{ Body *optionalIn }

func optional(_ context.Context, in *optionalIn) (*optionalOut, error) {
	return &optionalOut{in}, nil
}

func nothing(context.Context, *struct{}) (*struct{}, error) { return nil, nil }

// Inputs and their description equal those that huma.Register makes of the same types. Handle does not use it,
// because each call of it is compiled separately.
func TestOperation_ReadsAndDescribesLikeHuma(t *testing.T) {
	refuse := huma.NewErrorWithContext
	t.Cleanup(func() { huma.NewErrorWithContext = refuse })
	huma.NewErrorWithContext = func(_ huma.Context, status int, msg string, faults ...error) huma.StatusError {
		if len(faults) == 0 {
			faults = []error{&huma.ErrorDetail{Location: "body", Message: msg}}
		}
		refusal := bind.ErrInvalid
		if status == http.StatusBadRequest {
			refusal = bind.ErrMalformed
		}
		e, _ := errors.AsType[*errs.Error](bind.Refusal(refusal, faults))
		return humaProblem{newProblem(status, e)}
	}
	mux := http.NewServeMux()
	format := huma.Format{Marshal: huma.DefaultJSONFormat.Marshal, Unmarshal: func(data []byte, v any) (err error) {
		if parsed, ok := v.(*any); ok {
			*parsed, err = bind.Decode(data)
			return err
		}
		return bind.Fill(data, v)
	}}
	theirs := humago.New(mux, huma.Config{OpenAPI: describe(Config{Title: "Things", Version: "1"}), DefaultFormat: "application/json",
		Formats: map[string]huma.Format{"application/json": format, "json": format}})
	ours := New(Config{Title: "Things", Version: "1"})
	both(t, theirs, ours, Op{Method: "PUT", Path: "/v1/every/{name}", ID: "every"}, every)
	both(t, theirs, ours, Op{Method: "POST", Path: "/v1/optional", ID: "optional", Status: 201}, optional)
	both(t, theirs, ours, Op{Method: "DELETE", Path: "/v1/nothing", ID: "nothing"}, nothing)

	for path, item := range theirs.OpenAPI().Paths {
		for method, op := range map[string][2]*huma.Operation{
			"PUT": {item.Put, ours.doc.Paths[path].Put}, "POST": {item.Post, ours.doc.Paths[path].Post},
			"DELETE": {item.Delete, ours.doc.Paths[path].Delete},
		} {
			// Refusals, the headers of every response, and the missing security of public operations are this
			// package's own.
			if op[0] == nil {
				continue
			}
			for _, o := range op {
				o.Security = nil
				for status := range o.Responses {
					if status == "default" || status >= "400" {
						delete(o.Responses, status)
						continue
					}
					r := o.Responses[status]
					maps.DeleteFunc(r.Headers, func(_ string, h *huma.Param) bool { return h.Ref != "" })
				}
			}
			same(t, method+" "+path, text(t, op[0]), text(t, op[1]))
		}
	}
	schemas := ours.doc.Components.Schemas.Map()
	for name, s := range theirs.OpenAPI().Components.Schemas.Map() {
		if !strings.HasPrefix(name, "Error") { // huma's own refusals
			same(t, name, text(t, s), text(t, schemas[name]))
		}
	}

	good := 0
	ask := func(r func() *http.Request) {
		t.Helper()
		want, got := httptest.NewRecorder(), httptest.NewRecorder()
		mux.ServeHTTP(want, r())
		ours.Handler().ServeHTTP(got, r())
		if got.Code != want.Code || got.Header().Get("X-Kind") != want.Header().Get("X-Kind") ||
			got.Header().Get("Content-Type") != want.Header().Get("Content-Type") {
			t.Errorf("%s: got %d %v, want %d %v", r().URL, got.Code, got.Header(), want.Code, want.Header())
		}
		if got.Code < 300 {
			good++
		}
		same(t, r().URL.String(), want.Body.String(), got.Body.String())
	}
	bodies := []string{"", "null", "[]", `{"name":"a"}`, `{"name":"","zeta":1}`, `{"name":"a","count":1.5}`,
		`{"name":"a","count":101,"at":"2026-01-02T03:04:05Z"}`,
		`{"name":"<&>","parts":[{"kind":"red"}]}`, `{"name":"b","parts":[{"kind":"red"},{"kind":"blue"}]}`}
	asked := 0
	for _, name := range []string{"a", "too long", "%41"} {
		for _, limit := range []string{"", "0", "7", "101", "1.5", "x", "9223372036854775808"} {
			for _, ids := range []string{"", "a", "a,b", "a,,c", ",", "%2C"} {
				for _, more := range []string{"", "&flag", "&flag=1&cursor=abc", "&flag=perhaps&cursor=abcdef&since=-1"} {
					for _, body := range bodies {
						asked++
						kind := []string{"", "a", "b", "c", ""}[asked%5]
						ask(func() *http.Request {
							r := httptest.NewRequest("PUT", "/v1/every/x?limit="+limit+"&ids="+ids+more, strings.NewReader(body))
							r.URL.Path = "/v1/every/" + name
							r.Header.Set("Content-Type", "application/json")
							if kind != "" {
								r.Header.Set("X-Kind", kind)
							}
							return r
						})
					}
				}
			}
		}
	}
	for _, body := range append(bodies, `{"parts":[{"kind":"green"}]}`, `{"parts":[]}`, `{"parts":[{"kind":"red"}],"text":"long"}`) {
		ask(func() *http.Request {
			r := httptest.NewRequest("POST", "/v1/optional", strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			return r
		})
	}
	ask(func() *http.Request { return httptest.NewRequest("DELETE", "/v1/nothing", nil) })
	if good < 50 || asked < 1000 {
		t.Errorf("%d of %d requests were good", good, asked)
	}
}

// humaProblem makes a problem document an error for huma.
type humaProblem struct{ *problem }

func (p humaProblem) Error() string                { return p.Code }
func (p humaProblem) GetStatus() int               { return p.Status }
func (p humaProblem) ContentType(string) string    { return "application/problem+json" }
func (p humaProblem) MarshalJSON() ([]byte, error) { return bytes.TrimSpace(p.encode()), nil }

func both[I, O any](t *testing.T, theirs huma.API, ours *API, op Op, fn func(context.Context, *I) (*O, error)) {
	t.Helper()
	HandlePublic(ours, op, fn)
	h := huma.Operation{OperationID: op.ID, Method: op.Method, Path: op.Path, DefaultStatus: op.Status, Responses: map[string]*huma.Response{}}
	huma.Register(theirs, h, fn)
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func same(t *testing.T, what, want, got string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got\n%s\nwant\n%s", what, got, want)
	}
}

func TestRequest_RefusesRepeatedParameters(t *testing.T) {
	s := newSite(t)
	for name, change := range map[string]func(r *http.Request){
		"header.Stoa-Act-As": func(r *http.Request) { r.Header["Stoa-Act-As"] = []string{"ann", "bob"} },
		"query.limit":        func(r *http.Request) { r.URL.RawQuery = "limit=1&x=2&%6cimit=3" },
	} {
		r := httptest.NewRequest("GET", "/v1/things/a", nil)
		r.Header.Set("Authorization", "Bearer good-ann")
		change(r)
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		if w.Code != 400 || code(w) != "request.malformed" || !strings.Contains(w.Body.String(), name) {
			t.Errorf("%s twice: got %d %s", name, w.Code, w.Body)
		}
	}
}

// idIn has ids in all places where an input may have them.
type idIn struct {
	Thing ids.ID[thing]   `path:"thing" maxLength:"64" unknown:"other.unknown,thing.unknown"`
	Owner ids.ID[Page]    `query:"owner"`
	Parts []ids.ID[thing] `query:"parts" maxItems:"2"`
	Body  *struct {
		Count int `json:"count"`
	}
}

func TestInput_BindsIDs(t *testing.T) {
	unknown := errs.New(errs.NotFound, "thing.unknown", "There is no such thing.")
	op := Op{Method: "PUT", Path: "/v1/ids/{thing}", ID: "ids", Errors: []*errs.Error{ids.ErrMalformed, unknown}}
	a := New(Config{})
	var got idIn
	HandlePublic(a, op, func(_ context.Context, in *idIn) (*Empty, error) {
		got = *in
		return &Empty{}, nil
	})
	const first, second = "AAAAAAAAAAAA", "BBBBBBBBBBBB"
	long := strings.Repeat("x", 65)
	for _, test := range []struct{ path, query, body, want string }{
		{path: first},
		{path: first, query: "owner=" + second + "&parts=" + first + "," + second, body: `{"count":1}`},
		{path: "bad", want: "404 thing.unknown"},
		{path: long, want: "422 request.invalid path.thing"},
		{path: first, query: "owner=bad", want: "422 id.malformed query.owner"},
		{path: first, query: "parts=" + first + ",bad", want: "422 id.malformed query.parts[1]"},
		{path: first, query: "parts=" + first + ",", want: "422 id.malformed query.parts[1]"},
		{path: first, query: "parts=bad,bad,bad", want: "422 request.invalid query.parts"},
		{path: "bad", query: "owner=bad", want: "404 thing.unknown"},
		{path: "bad", body: `{"count":"x"}`, want: "422 request.invalid body.count"},
		{path: "bad", body: `{`, want: "400 request.malformed body"},
	} {
		got = idIn{}
		r := httptest.NewRequest("PUT", "/v1/ids/"+test.path+"?"+test.query, strings.NewReader(test.body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		a.Handler().ServeHTTP(w, r)
		if test.want == "" {
			bound := url.Values{}
			if !got.Owner.IsZero() {
				bound.Set("owner", got.Owner.String())
			}
			if got.Parts != nil {
				bound.Set("parts", strings.Join(List(got.Parts, ids.ID[thing].String), ","))
			}
			if query, _ := url.QueryUnescape(bound.Encode()); w.Code != 204 || got.Thing.String() != test.path || query != test.query {
				t.Errorf("%s?%s: got %d %+v", test.path, test.query, w.Code, got)
			}
			continue
		}
		var p api.Problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		answer := fmt.Sprint(p.Status, " ", p.Code)
		for _, e := range p.Errors {
			answer += " " + e.Location
		}
		if answer != test.want || w.Code != p.Status {
			t.Errorf("%s?%s %s: got %s, want %s", test.path, test.query, test.body, answer, test.want)
		}
	}
	for i, want := range []string{`{"maxLength":64,"type":"string"}`, `{"type":"string"}`,
		`{"items":{"type":"string"},"maxItems":2,"type":"array"}`} {
		schema, err := json.Marshal(a.doc.Paths["/v1/ids/{thing}"].Put.Parameters[i].Schema)
		if err != nil || string(schema) != want {
			t.Errorf("parameter %d: got %s, %v, want %s", i, schema, err, want)
		}
	}

	defer func() {
		if recover() == nil {
			t.Error("an operation without a refusal of a malformed id was added")
		}
	}()
	op.ID, op.Errors = "ids.without", nil
	HandlePublic(New(Config{}), op, func(context.Context, *idIn) (*Empty, error) { return nil, nil })
}

package web

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stoa-dev/stoa/internal/httpapi/openapi"
)

func TestOpenAPI_IsCompleteAndStable(t *testing.T) {
	s := newSite(t)
	w := s.ask(t, "GET", "/openapi.json", "", "Authorization", "")
	if w.Code != 200 || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("got %d %v", w.Code, w.Header())
	}
	if !bytes.Equal(w.Body.Bytes(), newSite(t).OpenAPI()) {
		t.Error("two servers describe themselves differently")
	}
	var doc struct {
		OpenAPI    string
		Components struct {
			Schemas map[string]struct {
				AdditionalProperties *bool
				Properties           map[string]struct {
					Type any
					Enum []string
				}
			}
			SecuritySchemes map[string]struct{ Type, Scheme string }
		}
		Paths map[string]map[string]struct {
			OperationID string
			Security    []map[string][]string
			Parameters  []struct{ Name string }
			Responses   map[string]struct {
				Description string
				Headers     map[string]any
				Codes       []string `json:"x-codes"`
				Content     map[string]struct {
					Schema struct {
						Ref string `json:"$ref"`
					}
				}
			}
		}
	}
	if err := openapi.Unmarshal(w.Body.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.OpenAPI != "3.1.0" || doc.Components.SecuritySchemes["bearer"].Scheme != "bearer" ||
		doc.Components.Schemas["Problem"].Properties == nil {
		t.Errorf("got %s %v", doc.OpenAPI, doc.Components.SecuritySchemes)
	}
	for name := range doc.Components.Schemas {
		if name == "problem" || strings.Contains(name, "ErrorModel") {
			t.Errorf("unexpected schema %s", name)
		}
	}
	for path, methods := range doc.Paths {
		for method, op := range methods {
			var statuses []string
			for status, res := range op.Responses {
				statuses = append(statuses, status)
				if len(res.Headers) == 0 {
					t.Errorf("%s %s: %s has no headers", method, path, status)
				}
				if status >= "400" {
					for _, code := range res.Codes {
						if !slices.Contains(doc.Components.Schemas["Problem"].Properties["code"].Enum, code) {
							t.Errorf("%s is no code of a problem", code)
						}
					}
					if len(res.Codes) == 0 || !strings.Contains(res.Description, "`"+res.Codes[0]+"`") {
						t.Errorf("%s %s: %s lists the codes %q and says %q", method, path, status, res.Codes, res.Description)
					}
				}
				if status >= "400" && res.Content["application/problem+json"].Schema.Ref != "#/components/schemas/Problem" {
					t.Errorf("%s %s: %s is not a problem document", method, path, status)
				}
			}
			public := op.OperationID == "thing.public"
			if public == slices.Contains(statuses, "401") || public == (len(op.Security) > 0) {
				t.Errorf("%s %s: wrong about tokens", method, path)
			}
			keyed := false
			for _, p := range op.Parameters {
				keyed = keyed || p.Name == "Idempotency-Key"
			}
			if want := method != "get" && !public; keyed != want {
				t.Errorf("%s %s: has the Idempotency-Key %v, want %v", method, path, keyed, want)
			}
		}
	}
	makes := doc.Paths["/v1/things"]["post"].Responses
	for status, code := range map[string]string{
		"201": "Created", "400": "request.malformed", "401": "auth.required", "408": "request.timeout", "409": "thing.full",
		"413": "request.too_large", "415": "request.media_type", "422": "request.invalid", "500": "internal", "503": "thing.away",
	} {
		if !strings.Contains(makes[status].Description, code) {
			t.Errorf("%s: got no %s in %q", status, code, makes[status].Description)
		}
	}
	if !strings.Contains(makes["409"].Description, "idempotency.mismatch") {
		t.Errorf("409 lacks the idempotency codes: %q", makes["409"].Description)
	}
}

func TestOpenAPI_ExpandsToAllDescriptions(t *testing.T) {
	s := newSite(t)
	got, err := openapi.Expand(s.OpenAPI())
	if err != nil {
		t.Fatal(err)
	}
	want, err := json.Marshal(s.doc)
	if err != nil {
		t.Fatal(err)
	}
	var is, should any
	if err := errors.Join(json.Unmarshal(got, &is), json.Unmarshal(want, &should)); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(is, should) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestDocs_LoadOnlyFromTheServer(t *testing.T) {
	s := newSite(t)
	page := s.ask(t, "GET", "/docs/", "", "Authorization", "")
	if page.Code != 200 || !strings.HasPrefix(page.Header().Get("Content-Type"), "text/html") ||
		!strings.Contains(page.Header().Get("Content-Security-Policy"), "script-src 'self';") {
		t.Fatalf("got %d %v", page.Code, page.Header())
	}
	if w := s.ask(t, "GET", "/docs", "", "Authorization", ""); w.Code/100 != 3 || w.Header().Get("Location") != "/docs/" {
		t.Errorf("/docs: got %d %v", w.Code, w.Header())
	}
	links := regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(page.Body.String(), -1)
	if len(links) != 5 {
		t.Errorf("got the links %v, want 5", links)
	}
	for _, link := range links {
		for _, accept := range []string{"gzip", ""} {
			w := s.ask(t, "GET", link[1], "", "Authorization", "", "Accept-Encoding", accept)
			var body io.Reader = w.Body
			if w.Header().Get("Content-Encoding") == "gzip" {
				if accept == "" {
					t.Errorf("%s: gzip for a client that did not ask", link[1])
				}
				var err error
				if body, err = gzip.NewReader(body); err != nil {
					t.Fatal(err)
				}
			}
			text, err := io.ReadAll(body)
			if w.Code != 200 || err != nil || len(text) < 100 {
				t.Errorf("%s: got %d with %d bytes (%v)", link[1], w.Code, len(text), err)
			}
			if strings.HasSuffix(link[1], ".css") && regexp.MustCompile(`url\((['"]?)(https?:)?//`).Match(text) {
				t.Errorf("%s loads from another host", link[1])
			}
			for _, cdn := range []string{"unpkg.com", "jsdelivr", "cdnjs", "googleapis.com"} {
				if strings.Contains(string(text), cdn) {
					t.Errorf("%s names %s", link[1], cdn)
				}
			}
		}
	}
	if script := s.ask(t, "GET", "/docs/start.js", "").Body.String(); !strings.Contains(script, "validatorUrl: null") {
		t.Errorf("the page would ask the online validator: %s", script)
	}
	if w := s.ask(t, "GET", "/docs/swagger-ui.js.gz", ""); w.Code != 404 || code(w) != "route.unknown" {
		t.Errorf("other files: got %d %s", w.Code, w.Body)
	}
}

package app

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/httpapi/openapi"
)

// Generators of clients depend on these properties of the description.
func TestTheDescriptionIsFitForGenerators(t *testing.T) {
	d, err := Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	type schema struct {
		Type                 any
		Ref                  string `json:"$ref"`
		Enum                 []string
		AdditionalProperties any
		Properties           map[string]schema
		Items                *schema
		OneOf                []schema
	}
	type content map[string]struct {
		Schema  schema
		Example json.RawMessage
	}
	var doc struct {
		Info       struct{ License struct{ Identifier string } }
		Servers    []struct{ URL string }
		Tags       []struct{ Name, Description string }
		Components struct{ Schemas map[string]schema }
		Paths      map[string]map[string]struct {
			OperationID string
			Tags        []string
			Security    *[]any
			RequestBody *struct{ Content content }
			Responses   map[string]struct {
				Headers map[string]any
				Content content
			}
		}
	}
	if err := openapi.Unmarshal(d.OpenAPI, &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Info.License.Identifier != "Apache-2.0" || len(doc.Servers) == 0 {
		t.Errorf("license %+v, servers %+v", doc.Info.License, doc.Servers)
	}
	var described []string
	for _, tag := range doc.Tags {
		described = append(described, tag.Name)
	}
	requests := map[string]bool{} // schemas of requests, also nested ones
	var sends func(schema)
	sends = func(s schema) {
		if name := strings.TrimPrefix(s.Ref, "#/components/schemas/"); name != "" && !requests[name] {
			requests[name] = true
			sends(doc.Components.Schemas[name])
		}
		for _, p := range s.Properties {
			sends(p)
		}
		if s.Items != nil {
			sends(*s.Items)
		}
	}
	body := func(op string, c content) {
		t.Helper()
		for media, m := range c {
			if media == "application/json" && (len(m.Example) == 0 ||
				strings.Contains(strings.ReplaceAll(string(m.Example), `"kind":"text"`, ""), `:"text"`)) {
				t.Errorf("%s: a body has no example of its own, but %s", op, m.Example)
			}
		}
	}
	for _, methods := range doc.Paths {
		for _, op := range methods {
			if op.Security == nil {
				t.Errorf("%s does not say whether it takes a token", op.OperationID)
			}
			for _, tag := range op.Tags {
				if !slices.Contains(described, tag) {
					t.Errorf("%s: the tag %s has no description", op.OperationID, tag)
				}
			}
			if op.RequestBody != nil {
				body(op.OperationID, op.RequestBody.Content)
				sends(op.RequestBody.Content["application/json"].Schema)
			}
			for status, r := range op.Responses {
				if r.Headers["X-Request-ID"] == nil || (status == "429" || status == "503") && r.Headers["Retry-After"] == nil {
					t.Errorf("%s: %s has the headers %v", op.OperationID, status, slices.Sorted(maps.Keys(r.Headers)))
				}
				body(op.OperationID, r.Content)
			}
		}
	}
	var look func(name string, s schema)
	look = func(name string, s schema) {
		if _, several := s.Type.([]any); several && s.Items != nil {
			t.Errorf("%s is an array or null", name)
		}
		if s.Properties != nil && (s.AdditionalProperties == false) != requests[name] && !strings.Contains(name, ".") {
			t.Errorf("%s: additionalProperties is %v, and that clients send it %v", name, s.AdditionalProperties, requests[name])
		}
		for property, p := range s.Properties {
			look(name+"."+property, p)
		}
	}
	for name, s := range doc.Components.Schemas {
		look(name, s)
	}
	if got := len(doc.Components.Schemas["Event"].OneOf); got != len(api.EventData) {
		t.Errorf("the stream has %d events, want %d", got, len(api.EventData))
	}
	if got := doc.Components.Schemas["EventCheckinMarked"].Properties["data"].Ref; got != "#/components/schemas/CheckinStatus" {
		t.Errorf("checkin.marked has %q", got)
	}
	if codes := doc.Components.Schemas["Problem"].Properties["code"].Enum; !slices.IsSorted(codes) ||
		!slices.Contains(codes, "auth.token_invalid") || !slices.Contains(codes, "route.unknown") {
		t.Errorf("codes: %q", codes)
	}
}

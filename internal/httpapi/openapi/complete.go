package openapi

import (
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// SchemaRef is the prefix of references to schemas of a document.
const SchemaRef = "#/components/schemas/"

// Complete completes the schemas of a document when all operations are known. The enum of a problem's code lists codes,
// responses may get more fields later, and each JSON body gets an example. bodies are the schemas of request bodies, which
// refuse unknown fields.
func Complete(doc *huma.OpenAPI, bodies []*huma.Schema, codes []string) {
	sent := map[string]bool{} // names of the schemas of bodies
	for _, s := range bodies {
		collectRefs(doc, s, sent)
	}
	schemas := doc.Components.Schemas.Map()
	for name, s := range schemas {
		if !sent[name] && s.AdditionalProperties == false {
			s.AdditionalProperties = nil
		}
	}
	if p := schemas["Problem"]; p != nil {
		code := p.Properties["code"]
		code.Enum = nil
		for _, c := range codes {
			code.Enum = append(code.Enum, c)
		}
	}
	for _, item := range doc.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
			if op == nil {
				continue
			}
			if op.RequestBody != nil {
				exemplify(doc, op.RequestBody.Content)
			}
			for _, r := range op.Responses {
				exemplify(doc, r.Content)
			}
		}
	}
}

// collectRefs adds the names of all schemas that s refers to.
func collectRefs(doc *huma.OpenAPI, s *huma.Schema, names map[string]bool) {
	if s == nil {
		return
	}
	if name, ok := strings.CutPrefix(s.Ref, SchemaRef); ok {
		if !names[name] {
			names[name] = true
			collectRefs(doc, doc.Components.Schemas.Map()[name], names)
		}
		return
	}
	collectRefs(doc, s.Items, names)
	for _, p := range s.Properties {
		collectRefs(doc, p, names)
	}
}

func exemplify(doc *huma.OpenAPI, content map[string]*huma.MediaType) {
	for media, m := range content {
		if media == "application/json" && m.Example == nil {
			m.Example = example(doc, m.Schema)
		}
	}
}

// example returns a value of a schema, made of the example tags of its fields. It omits optional fields without an
// example.
func example(doc *huma.OpenAPI, s *huma.Schema) any {
	if s.Ref != "" {
		s = doc.Components.Schemas.SchemaFromRef(s.Ref)
	}
	switch {
	case len(s.Examples) > 0:
		return s.Examples[0]
	case len(s.Enum) > 0:
		return s.Enum[0]
	case s.Default != nil:
		return s.Default
	}
	switch s.Type {
	case huma.TypeObject:
		object := map[string]any{}
		for name, p := range s.Properties {
			if slices.Contains(s.Required, name) || len(p.Examples) > 0 {
				object[name] = example(doc, p)
			}
		}
		return object
	case huma.TypeArray:
		return []any{example(doc, s.Items)}
	case huma.TypeInteger, huma.TypeNumber:
		return 1
	case huma.TypeBoolean:
		return true
	}
	switch s.Format {
	case "date":
		return "2026-11-23"
	case "date-time":
		return "2026-11-23T09:30:00.000Z"
	case "email":
		return "ada@example.org"
	}
	return "text"
}

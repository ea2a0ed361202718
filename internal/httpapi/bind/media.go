package bind

import (
	"mime"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// JSON is the media type of a body that has no contentType tag.
const JSON = "application/json"

// Octets returns the schema of bytes that are not JSON.
func Octets() *huma.Schema { return &huma.Schema{Type: huma.TypeString, Format: "binary"} }

// Describe adds the parameters and the body of the input to h.
func (in *Input) Describe(h *huma.Operation) {
	for _, p := range in.params {
		d := &huma.Param{Name: p.name, In: p.in, Description: p.schema.Description, Required: p.required, Schema: p.schema}
		if p.in == "query" {
			d.Explode = new(bool) // lists have commas
		}
		h.Parameters = append(h.Parameters, d)
	}
	switch {
	case in.media != "":
		h.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{in.media: {Schema: Octets()}}}
	case in.body != nil:
		h.RequestBody = &huma.RequestBody{Required: in.required, Content: map[string]*huma.MediaType{JSON: {Schema: in.schema}}}
	}
}

// Schema returns the schema of a JSON body, or nil.
func (in *Input) Schema() *huma.Schema { return in.schema }

// Accepts reports whether the input reads bodies of that Content-Type.
func (in *Input) Accepts(lines []string) bool {
	if in.media == "" {
		return isJSON(lines)
	}
	if len(lines) != 1 {
		return false
	}
	media, _, err := mime.ParseMediaType(lines[0])
	if kind, ok := strings.CutSuffix(in.media, "*"); ok {
		return err == nil && strings.HasPrefix(media, kind)
	}
	return err == nil && media == in.media
}

func isJSON(lines []string) bool {
	if len(lines) != 1 {
		return false
	}
	if lines[0] == JSON {
		return true
	}
	media, params, err := mime.ParseMediaType(lines[0])
	if err != nil || media != JSON {
		return false
	}
	for name, value := range params {
		if name != "charset" || !strings.EqualFold(value, "utf-8") {
			return false
		}
	}
	return true
}

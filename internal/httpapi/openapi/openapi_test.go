package openapi

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
)

func parse(t *testing.T, text []byte) (doc object) {
	t.Helper()
	doc, err := decode(text)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// The description of the whole API, written out, becomes the same compact document again.
func TestCompact_RevertsExpand(t *testing.T) {
	compacted, err := os.ReadFile("../../../docs/reference/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	whole, err := Expand(compacted)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(whole), responseRef) || strings.Contains(string(whole), parameterRef) {
		t.Error("a reference is not written out")
	}
	again, err := Compact(whole)
	if err != nil {
		t.Fatal(err)
	}
	if 3*len(again) > len(whole) {
		t.Errorf("%d bytes are %d in the compact document, want at most a third", len(whole), len(again))
	}
	if !reflect.DeepEqual(parse(t, again), parse(t, compacted)) {
		t.Error("the compact document is another")
	}
}

func TestExpand_RevertsCompact(t *testing.T) {
	headers := object{everyHeader: object{"$ref": headerRef + everyHeader}}
	refusal := func(codes ...string) object {
		var lines []string
		for _, c := range codes {
			lines = append(lines, "`"+c+"`: The text of "+c+".")
		}
		return object{
			"description": strings.Join(lines, "\n\n"), "x-codes": codes, "headers": headers,
			"content": object{problemMedia: object{"schema": object{"$ref": problemRef}}},
		}
	}
	other := refusal("limit")
	other["description"] = "`limit`: Another text."
	secret := []any{object{"bearer": []any{}}}
	user := object{"name": "user", "in": "path"}
	doc := object{
		"components": object{"schemas": object{}},
		"paths": object{
			"/a": object{
				"get": object{"security": secret, "parameters": []any{user},
					"responses": object{"204": object{"description": "No Content", "headers": headers}, "400": refusal("malformed"),
						"404": refusal("gone", "unknown")}},
				"post": object{"security": []any{}, "responses": object{"204": object{"description": "No Content", "headers": headers},
					"400": refusal("key", "malformed"), "429": refusal("limit")}},
			},
			"/b": object{
				"put": object{"security": secret, "parameters": []any{user, object{"name": "user", "in": "query"}},
					"responses": object{"200": object{"description": "OK", "headers": headers}, "429": other}},
			},
		},
	}
	text, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	compacted, err := Compact(text)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := Expand(compacted)
	if err != nil {
		t.Fatal(err)
	}
	if want := parse(t, text); !reflect.DeepEqual(parse(t, whole), want) {
		t.Errorf("got\n%s\nwant\n%s\nfrom\n%s", whole, text, compacted)
	}
	if !strings.Contains(string(compacted), `"$ref":"`+parameterRef+`user"`) {
		t.Errorf("the parameter is not shared: %s", compacted)
	}
}

func TestCompact_AcceptsADocumentWithoutOperations(t *testing.T) {
	compacted, err := Compact([]byte(`{"components":{"schemas":{}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if whole, err := Expand(compacted); err != nil || string(whole) != `{"components":{"schemas":{}}}` {
		t.Errorf("got %s, %v", whole, err)
	}
}

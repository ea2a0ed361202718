package api_test

import (
	"encoding/json"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
)

func TestTime_HasThreeDigitsInUTC(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000Z"},
		{"2026-01-02T03:04:05.1Z", "2026-01-02T03:04:05.100Z"},
		{"2026-01-02T03:04:05.678Z", "2026-01-02T03:04:05.678Z"},
		{"2026-01-02T03:04:05.6789999Z", "2026-01-02T03:04:05.678Z"},
		{"2026-01-02T03:04:05.5+08:00", "2026-01-01T19:04:05.500Z"},
		{"9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"},
	} {
		var at struct {
			At   api.Time         `json:"at"`
			Each map[api.Time]int `json:"each"`
			None *api.Time        `json:"none,omitempty"`
		}
		if err := json.Unmarshal([]byte(`{"at":"`+tt.in+`","each":{"`+tt.in+`":1}}`), &at); err != nil {
			t.Fatalf("%s: %v", tt.in, err)
		}
		got, err := json.Marshal(at)
		if want := `{"at":"` + tt.want + `","each":{"` + tt.want + `":1}}`; err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v; want %s", tt.in, got, err, want)
		}
	}
	if api.AtOrNil(time.Time{}) != nil {
		t.Error("the zero time of an optional field is written")
	}
}

func TestWireTypes_DoNotUseTheStandardTime(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if name == "time.go" || strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, imported := range file.Imports {
			if imported.Path.Value == `"time"` {
				t.Errorf("%s imports time; use Time", name)
			}
		}
	}
}

func TestTime_RefusesOtherText(t *testing.T) {
	for _, text := range []string{`"tomorrow"`, `"2026-01-02"`, `5`} {
		var at api.Time
		if err := json.Unmarshal([]byte(text), &at); err == nil {
			t.Errorf("%s is read as %v", text, at)
		}
	}
}

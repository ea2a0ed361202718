package wholeserver

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stoa-dev/stoa/api"
)

// A malformed id is refused as an unknown one. The golden file has the refusal of each path and of each field of a query
// or a body that has ids.
func TestBadIDs_GetTheRefusalOfTheirOperation(t *testing.T) {
	w := newWorld(t)
	w.populate()
	fields := []string{"query.id", "query.ids", "query.users", "body.after", "body.link", "body.members", "body.to", "body.user", "body.users"}
	var lines []string
	for _, o := range w.ops {
		for _, p := range o.places() {
			isPath := p.in == "path" && p.text() && len(p.schema.Enum) == 0
			if !isPath && !slices.Contains(fields, p.String()) || strings.HasPrefix(o.path, "/v1/service/") { // a user is refused earlier
				continue
			}
			var bad any = "bad"
			if p.in == "body" && p.schema.is("array") {
				bad = []string{"bad"}
			}
			a := w.asMal(o.request(t, map[string]any{p.String(): bad}))
			line := fmt.Sprintf("%s %s: %d %s", o, p, a.status, a.code())
			var problem api.Problem
			_ = json.Unmarshal([]byte(a.body), &problem) // a success has none
			for _, e := range problem.Errors {
				line += " " + e.Location
			}
			lines = append(lines, line)
		}
	}
	const golden = "testdata/malformed_ids.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSpace(string(text)), "\n")
	for _, line := range lines {
		if !slices.Contains(want, line) {
			t.Errorf("got %s, which is not in %s", line, golden)
		}
	}
	if len(lines) != len(want) {
		t.Errorf("got %d refusals, want %d", len(lines), len(want))
	}
}

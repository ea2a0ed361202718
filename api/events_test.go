package api_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stoa-dev/stoa/api"
)

func TestEveryTypeOfEventHasItsData(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			spec, ok := node.(*ast.ValueSpec)
			if !ok || len(spec.Names) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Event") || len(spec.Values) != 1 {
				return true
			}
			if lit, ok := spec.Values[0].(*ast.BasicLit); ok {
				n++
				name, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
				if api.EventData[name] == nil {
					t.Errorf("EventData has nothing for %s", name)
				}
			}
			return true
		})
	}
	if n == 0 || n != len(api.EventData) {
		t.Errorf("there are %d types of events, and EventData has %d", n, len(api.EventData))
	}
}

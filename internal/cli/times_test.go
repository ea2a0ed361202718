package cli

import (
	"go/ast"
	goparser "go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestJSON_HasTimesOfTheAPI finds time fields in the commands' JSON that encoding/json would write without trailing
// zeros.
func TestJSON_HasTimesOfTheAPI(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	fset := token.NewFileSet()
	for _, name := range names {
		file, err := goparser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			field, ok := n.(*ast.Field)
			if !ok || field.Tag == nil || !strings.Contains(field.Tag.Value, `json:"`) {
				return true
			}
			typ := field.Type
			if pointer, ok := typ.(*ast.StarExpr); ok {
				typ = pointer.X
			}
			if sel, ok := typ.(*ast.SelectorExpr); ok && sel.Sel.Name == "Time" {
				if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "time" {
					t.Errorf("%s: got time.Time, want api.Time", fset.Position(field.Pos()))
				}
			}
			return true
		})
	}
}

package sqldbtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"
)

// Reads calls all functions with a SELECT in a Go file, on a database that has rows for each of them, because only a
// row shows that the destination lacks a column. It fails if calls lacks such a function, or if a function returns an
// error or no rows.
func Reads(t *testing.T, file string, calls map[string]func() (rows int, err error)) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	reading := map[string]bool{}
	for _, d := range parsed.Decls {
		fn, is := d.(*ast.FuncDecl)
		if !is {
			continue
		}
		ast.Inspect(fn, func(n ast.Node) bool {
			text, is := n.(*ast.BasicLit)
			if is && text.Kind == token.STRING && strings.Contains(text.Value, "SELECT ") {
				reading[fn.Name.Name] = true
			}
			return true
		})
	}
	for _, name := range slices.Sorted(maps.Keys(reading)) {
		call := calls[name]
		if call == nil {
			t.Errorf("%s has a SELECT and is missing in calls", name)
			continue
		}
		if n, err := call(); err != nil || n == 0 {
			t.Errorf("%s: %d rows are read (%v)", name, n, err)
		}
	}
	for name := range calls {
		if !reading[name] {
			t.Errorf("%s has no SELECT in %s", name, file)
		}
	}
}

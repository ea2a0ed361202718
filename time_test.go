package stoa

import (
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// byRealTime lists the test files that still sleep or depend on real time. Entries may only be removed; the list is
// deleted when it is empty.
var byRealTime = []string{
	"lib/cache/cachetest/stoa_test.go",
	"e2e/chats_test.go", "e2e/failures_test.go",
	"e2e/newcomers_test.go",
	"e2e/people_test.go",
	"e2e/world_test.go",
	"internal/checkin/reconcile_test.go",
	"internal/checkin/redisfirst_test.go",
	"internal/checkin/service_test.go",
	"internal/cli/cli_test.go",
	"internal/cluster/service_test.go",
	"internal/mail/smtp_test.go",
}

// checkRealTime finds code that makes a test depend on the speed of its machine. This is time.Sleep, a comparison with
// a result of time.Since, and synctest.Test. The last sometimes crashes under the race detector (see package bubble).
// The first two are allowed in virtual time, which is in functions passed to bubble.Test or synctest.Test. They are
// also allowed in benchmarks, and in files with the build tag timing, which the ordinary run excludes. Test helpers in
// bubbles call bubble.Sleep, which panics elsewhere.
func checkRealTime(fset *token.FileSet, name string, f *ast.File) (faults []string) {
	if forTiming(f) {
		return nil
	}
	for _, decl := range f.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && strings.HasPrefix(fn.Name.Name, "Benchmark") {
			continue
		}
		measured := measurements(decl)
		ast.Inspect(decl, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if isBubble(n) {
					return false
				}
				if isCall(n, "synctest", "Test") && !strings.HasPrefix(name, "lib/testing/bubble/") {
					faults = append(faults, fmt.Sprintf("%s:%d calls synctest.Test; call bubble.Test", name, fset.Position(n.Pos()).Line))
				}
				if isCall(n, "time", "Sleep") {
					faults = append(faults, fmt.Sprintf("%s:%d sleeps; wait with package eventually, or in a bubble", name, fset.Position(n.Pos()).Line))
				}
			case *ast.BinaryExpr:
				compares := slices.Contains([]token.Token{token.LSS, token.GTR, token.LEQ, token.GEQ}, n.Op)
				if compares && (isMeasured(n.X, measured) || isMeasured(n.Y, measured)) {
					faults = append(faults, fmt.Sprintf("%s:%d judges by real time; count, look at states, or run in a bubble", name,
						fset.Position(n.Pos()).Line))
				}
			}
			return true
		})
	}
	return faults
}

// forTiming reports whether only `make test-timing` runs a file.
func forTiming(f *ast.File) bool {
	for _, group := range f.Comments {
		for _, c := range group.List {
			if expr, err := constraint.Parse(c.Text); err == nil && c.Pos() < f.Package {
				return !expr.Eval(func(tag string) bool { return tag != "timing" })
			}
		}
	}
	return false
}

func isCall(n ast.Node, pkg, fn string) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != fn {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	return ok && x.Name == pkg
}

// isBubble reports whether a function that is passed to n runs in virtual time.
func isBubble(n ast.Node) bool {
	return isCall(n, "bubble", "Test") || isCall(n, "redistest", "Bubble")
}

// measurements returns the variables that have a result of time.Since.
func measurements(n ast.Node) map[string]bool {
	names := map[string]bool{}
	ast.Inspect(n, func(n ast.Node) bool {
		if isBubble(n) {
			return false
		}
		if a, ok := n.(*ast.AssignStmt); ok && len(a.Lhs) == len(a.Rhs) {
			for i, to := range a.Lhs {
				if id, ok := to.(*ast.Ident); ok && isMeasured(a.Rhs[i], nil) {
					names[id.Name] = true
				}
			}
		}
		return true
	})
	return names
}

func isMeasured(e ast.Expr, measured map[string]bool) (found bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || isCall(n, "time", "Since") || ok && measured[id.Name]
		return !found
	})
	return found
}

func TestNoTestGoesByRealTime(t *testing.T) {
	parse := func(name, src string) (*token.FileSet, *ast.File) {
		fset := token.NewFileSet()
		var text any
		if src != "" {
			text = src
		}
		f, err := parser.ParseFile(fset, name, text, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		return fset, f
	}
	check := func(body string) []string {
		fset, f := parse("x_test.go", body)
		return checkRealTime(fset, "x_test.go", f)
	}
	planted(t, check("package x\nfunc TestX(t *testing.T) { time.Sleep(1) }"), "a sleep")
	planted(t, check("package x\nfunc TestX(t *testing.T) { if time.Since(began) > limit { t.Fail() } }"), "a bound on real time")
	planted(t, check("package x\nfunc TestX(t *testing.T) { if d := time.Since(began); limit < d { t.Fail() } }"), "a bound on a variable")
	planted(t, check("package x\nfunc TestX(t *testing.T) { bubble.Test(t, f); go func() { time.Sleep(1) }() }"), "a sleep beside a bubble")
	planted(t, check("package x\nfunc TestX(t *testing.T) { synctest.Test(t, f) }"), "a bubble that the race detector crashes in")
	planted(t, check("//go:build unix || timing\n\npackage x\nfunc TestX(t *testing.T) { time.Sleep(1) }"),
		"a sleep in a file that is built without the tag")
	for _, allowed := range []string{
		"package x\nfunc TestX(t *testing.T) { bubble.Test(t, func(t *testing.T) { time.Sleep(1); if time.Since(began) > 1 { t.Fail() } }) }",
		"package x\nfunc BenchmarkX(b *testing.B) { time.Sleep(1) }",
		"//go:build unix && timing\n\npackage x\nfunc TestX(t *testing.T) { time.Sleep(1) }",
	} {
		report(t, check(allowed))
	}

	var guilty []string
	looked := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && slices.Contains([]string{"node_modules", ".git", "testdata"}, d.Name()) {
			return filepath.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		looked++
		fset, f := parse(path, "")
		if faults := checkRealTime(fset, path, f); len(faults) > 0 {
			guilty = append(guilty, path)
			if !slices.Contains(byRealTime, path) {
				report(t, faults)
			}
		}
		return nil
	})
	if err != nil || looked < 100 {
		t.Fatalf("looked at %d files: %v", looked, err)
	}
	for _, path := range byRealTime {
		if !slices.Contains(guilty, path) {
			t.Errorf("%s goes by real time no longer: take it off the list", path)
		}
	}
	t.Logf("%d test files still go by real time: %s", len(guilty), strings.Join(guilty, " "))
}

package stoa

import (
	"go/ast"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gopackages "golang.org/x/tools/go/packages"
)

// Users copy from examples. Each exported name appears in an example that runs, or belongs to a name that does: as the
// type of a value, as a parameter of a function, or as a constant of such a type.
func TestExamples_CoverEveryName(t *testing.T) {
	t.Parallel()
	loaded, err := gopackages.Load(&gopackages.Config{Tests: true, Env: append(os.Environ(), "GOWORK=off"), // without the adapters
		Mode: gopackages.NeedName | gopackages.NeedFiles | gopackages.NeedSyntax | gopackages.NeedTypes |
			gopackages.NeedTypesInfo | gopackages.NeedImports | gopackages.NeedDeps}, module+"/lib/...")
	if err != nil {
		t.Fatal(err)
	}
	shown, names := map[string]bool{}, map[string]string{}
	for _, p := range loaded {
		for _, err := range p.Errors {
			t.Fatal(err)
		}
		for _, f := range p.Syntax {
			runs := func(d ast.Decl) bool {
				fn, ok := d.(*ast.FuncDecl)
				return ok && strings.HasPrefix(fn.Name.Name, "Example")
			}
			forTests := strings.HasSuffix(p.PkgPath, "test_test") // an example of a test helper is a test
			if forTests || strings.HasPrefix(filepath.Base(p.Fset.File(f.Pos()).Name()), "example") {
				show(shown, f, p.TypesInfo)
			} else if slices.ContainsFunc(f.Decls, runs) { // in a test file, only examples and declarations that are not functions count
				for _, d := range f.Decls {
					if _, ok := d.(*ast.GenDecl); ok || runs(d) {
						show(shown, d, p.TypesInfo)
					}
				}
			}
		}
		if forUsers(p) {
			for _, name := range p.Types.Scope().Names() {
				if o := p.Types.Scope().Lookup(name); o.Exported() {
					names[nameOf(o)] = ""
					if _, ok := o.(*types.Const); ok {
						if named, ok := o.Type().(*types.Named); ok {
							names[nameOf(o)] = nameOf(named.Obj())
						}
					}
				}
			}
		}
	}
	if len(names) < 300 {
		t.Fatalf("only %d names were found", len(names))
	}
	delete(names, "cache.Collection") // it only has the common methods of the types of package cache/collection, as its comment states
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !shown[name] && !shown[names[name]] {
			t.Errorf("%s is in no example", name)
		}
	}
}

// forUsers reports whether users import the package: it is not a test, not a command and not internal.
func forUsers(p *gopackages.Package) bool {
	return p.ID == p.PkgPath && p.Name != "main" && !strings.Contains(p.PkgPath, "/internal/") &&
		!strings.Contains(p.PkgPath, "/lib/testing/") && !strings.HasSuffix(p.PkgPath, "/conformance") &&
		!strings.HasSuffix(p.PkgPath, "_test") && p.Types != nil
}

// show adds the names that in uses, and the types of all its expressions.
func show(shown map[string]bool, in ast.Node, info *types.Info) {
	seen := map[types.Type]bool{}
	var showType func(types.Type)
	showType = func(t types.Type) {
		if t == nil || seen[t] {
			return
		}
		seen[t] = true
		switch t := t.(type) {
		case *types.Alias:
			shown[nameOf(t.Obj())] = true
			showType(t.Rhs())
		case *types.Named:
			shown[nameOf(t.Obj())] = true
			for arg := range t.TypeArgs().Types() {
				showType(arg)
			}
		case *types.Pointer:
			showType(t.Elem())
		case *types.Slice:
			showType(t.Elem())
		case *types.Array:
			showType(t.Elem())
		case *types.Chan:
			showType(t.Elem())
		case *types.Map:
			showType(t.Key())
			showType(t.Elem())
		case *types.Signature: // the parameters and results of a function
			showType(t.Params())
			showType(t.Results())
		case *types.Tuple:
			for v := range t.Variables() {
				showType(v.Type())
			}
		}
	}
	ast.Inspect(in, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			if o := info.Uses[id]; o != nil && o.Pkg() != nil {
				shown[nameOf(o)] = true
			}
		}
		if e, ok := n.(ast.Expr); ok {
			showType(info.TypeOf(e))
		}
		return true
	})
}

func nameOf(o types.Object) string {
	if o.Pkg() == nil {
		return o.Name()
	}
	return strings.TrimPrefix(o.Pkg().Path(), module+"/lib/") + "." + o.Name()
}

package stoa

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// firstName matches a name at the start of a comment: a word in lower case, or one with an inner capital.
	firstName = regexp.MustCompile(`^(?:[a-z]\w*|[A-Z]\w*[a-z][A-Z]\w*)\b`)
	// wrappedName matches the exported name at the start of a text of errs.Wrap, such as "rooms.Join %s".
	wrappedName = regexp.MustCompile(`^"\w+\.([A-Z]\w*)`)
)

// checkNames finds names of other declarations at the start of a declaration's comment, or of its text of errs.Wrap.
func checkNames(name string, src []byte) (faults []string) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return []string{err.Error()}
	}
	check := func(doc *ast.CommentGroup, names ...*ast.Ident) {
		first := firstName.FindString(doc.Text())
		if first != "" && !slices.ContainsFunc(names, func(n *ast.Ident) bool { return n.Name == first }) {
			faults = append(faults, fmt.Sprintf("%s: the comment of %s begins with %s", fset.Position(doc.Pos()), names[0].Name, first))
		}
	}
	checkWrap := func(call *ast.CallExpr, declared string) {
		if text, ok := call.Args[1].(*ast.BasicLit); ok {
			if m := wrappedName.FindStringSubmatch(text.Value); m != nil && !strings.EqualFold(m[1], declared) {
				faults = append(faults, fmt.Sprintf("%s: an error of %s has the name %s", fset.Position(text.Pos()), declared, m[1]))
			}
		}
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			check(d.Doc, d.Name)
			ast.Inspect(d, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok && called(call) == "errs.Wrap" {
					checkWrap(call, d.Name.Name)
				}
				return true
			})
		case *ast.GenDecl:
			for _, s := range d.Specs {
				doc := d.Doc
				if d.Lparen.IsValid() {
					doc = nil // of the group
				}
				switch s := s.(type) {
				case *ast.ValueSpec:
					check(cmp.Or(s.Doc, doc), s.Names...)
				case *ast.TypeSpec:
					check(cmp.Or(s.Doc, doc), s.Name)
				}
			}
		}
	}
	return faults
}

func TestNames_CommentsHaveTheirDeclarations(t *testing.T) {
	for _, text := range []string{
		"// answers calls g.\nfunc f() {}", "// LoadAll calls g.\nfunc f() {}", "// g is a number.\nconst f = 1",
		"const (\n\t// listenLife is a time.\n\tf = 1\n)", "// g is a T.\ntype f T",
		"func F() (err error) { defer errs.Wrap(&err, \"p.G %s\", 1) }",
	} {
		planted(t, checkNames("a.go", []byte("package p\n\n"+text)), text)
	}
	report(t, checkNames("a.go", []byte("package p\n\n// f calls g.\nfunc f() (err error) { defer errs.Wrap(&err, \"p.F\") }\n\n"+
		"// The limits.\nconst (\n\tA = 1 // of g\n)")))

	files := 0
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{"node_modules", ".git", "testdata"}, d.Name()):
			return fs.SkipDir
		case !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		files++
		src, err := os.ReadFile(name)
		if !generated.Match(src) {
			report(t, checkNames(name, src))
		}
		return err
	})
	if err != nil || files < 500 {
		t.Errorf("read %d files, which cannot be all: %v", files, err)
	}
}

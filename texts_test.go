package stoa

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/base/i18n"
)

// TestNoTextLacksATranslation finds the texts for users: those of refusals, of invalid fields, of huma's checks, and of
// mails.
func TestNoTextLacksATranslation(t *testing.T) {
	found := 0
	want := func(text string) {
		t.Helper()
		found++
		if !i18n.Chinese.Has(text) && i18n.Chinese.Translate(text) == text {
			t.Errorf("internal/base/i18n/zh.go lacks %q", text)
		}
	}
	parse := func(name string) *ast.File {
		t.Helper()
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	err := filepath.WalkDir("internal", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		file := parse(name)
		consts := constants(file)
		say := func(e ast.Expr) {
			t.Helper()
			if text, ok := textOf(e, consts); ok {
				want(text)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				switch called(n) {
				case "errs.New":
					say(n.Args[2])
				case "On":
					if len(n.Args) == 2 {
						say(n.Args[1])
					}
				case "Say", "Sprintf":
					if len(n.Args) > 0 {
						say(n.Args[0])
					}
				case "noCode":
					say(n.Args[1])
					say(n.Args[2])
				}
			case *ast.AssignStmt: // subject, what = "…", "…" of a code's mail
				for i, left := range n.Lhs {
					if id, ok := left.(*ast.Ident); ok && (id.Name == "subject" || id.Name == "what") && i < len(n.Rhs) && len(n.Lhs) == len(n.Rhs) {
						say(n.Rhs[i])
					}
				}
			case *ast.KeyValueExpr: // of a mail.Message
				if id, ok := n.Key.(*ast.Ident); ok && (id.Name == "Subject" || id.Name == "Text") &&
					strings.HasPrefix(name, filepath.Join("internal", "accounts")) {
					say(n.Value)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 130 {
		t.Errorf("found %d texts, which cannot be all", found)
	}
	for status := 400; status < 600; status++ {
		switch status { // the refusals of package web
		case 400, 401, 403, 404, 405, 408, 409, 413, 415, 422, 429, 500, 503:
			want(http.StatusText(status))
		}
	}
	out, err := exec.Command("go", "list", "-f", "{{.Dir}}", "github.com/danielgtaylor/huma/v2/validation").Output()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no messages of huma: %v", err)
	}
	for _, name := range files {
		ast.Inspect(parse(name), func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, "Msg") {
				text, _ := textOf(spec.Values[0], nil)
				text, _, _ = strings.Cut(text, ": ") // the rest quotes the value, and is omitted
				want(text)
			}
			return true
		})
	}
}

// called returns the name of the called function. It includes the package name if that is written, and of a method it
// is only the name.
func called(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		if x, ok := f.X.(*ast.Ident); ok && (x.Name == "errs" || x.Name == "fmt") {
			return x.Name + "." + f.Sel.Name
		}
		return f.Sel.Name
	}
	return ""
}

// textOf returns the text of joined literals, of a constant, or of the format of a fmt.Sprintf.
func textOf(e ast.Expr, consts map[string]string) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.Ident:
		text, ok := consts[e.Name]
		return text, ok
	case *ast.BinaryExpr:
		x, okX := textOf(e.X, consts)
		y, okY := textOf(e.Y, consts)
		return x + y, okX && okY && e.Op == token.ADD
	case *ast.CallExpr:
		if called(e) == "fmt.Sprintf" {
			return textOf(e.Args[0], consts)
		}
	}
	return "", false
}

func constants(file *ast.File) map[string]string {
	consts := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Names) == 1 && len(spec.Values) == 1 {
			if text, ok := textOf(spec.Values[0], nil); ok {
				consts[spec.Names[0].Name] = text
			}
		}
		return true
	})
	return consts
}

var (
	testDeclared = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	testNamed    = regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w+)`")
)

func TestThePagesNameTestsThatExist(t *testing.T) {
	declared, named := map[string]bool{}, map[string]string{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && slices.Contains([]string{"node_modules", ".git", "testdata"}, d.Name()) {
			return filepath.SkipDir
		}
		page := strings.HasPrefix(path, "docs"+string(filepath.Separator)) && strings.HasSuffix(path, ".md")
		if err != nil || !page && !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if page {
			for _, m := range testNamed.FindAllSubmatch(text, -1) {
				named[string(m[1])] = path
			}
		} else {
			for _, m := range testDeclared.FindAllSubmatch(text, -1) {
				declared[string(m[1])] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(named) < 100 {
		t.Errorf("found %d names, which cannot be all", len(named))
	}
	for name, page := range named {
		if !declared[name] {
			t.Errorf("%s names %s, which is nowhere", page, name)
		}
	}
}

func TestThePageAboutEventsNamesTheTypesOfTheirData(t *testing.T) {
	page, err := os.ReadFile("docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile("`([^`]+)`")
	rows := regexp.MustCompile("(?m)^\\| (`.*?) \\| (`.*?) \\|").FindAllStringSubmatch(string(page), -1)
	if len(rows) < 9 {
		t.Fatalf("found %d rows", len(rows))
	}
	for _, row := range rows {
		types, data := name.FindAllStringSubmatch(row[1], -1), name.FindAllStringSubmatch(row[2], -1)
		for i, typ := range types {
			if got, want := data[min(i, len(data)-1)][1], reflect.TypeOf(api.EventData[typ[1]]); want == nil || got != want.Name() {
				t.Errorf("the data of %s is called %s, and is %v", typ[1], got, want)
			}
		}
	}
}

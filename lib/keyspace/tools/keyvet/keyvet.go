package keyvet

import (
	"errors"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/tools/go/analysis"

	"github.com/stoa-dev/stoa/lib/keyspace/lock"
)

// Analyzer is for other drivers of package analysis than [Main]. A driver that caches results has to include
// keyspace.lock in its cache key.
var Analyzer = &analysis.Analyzer{
	Name: "keyvet",
	Doc:  "find Redis keys and channels that are written outside keys.go",
	URL:  "https://pkg.go.dev/github.com/stoa-dev/stoa/lib/keyspace/tools/keyvet",
	Run:  run,
}

// lockName is the name of the file that lists the declared keys.
const lockName = "keyspace.lock"

const (
	module     = "github.com/stoa-dev/stoa/lib"
	keyspaceAt = module + "/keyspace"
	redisAt    = module + "/redis"
)

// clients are the import paths of Redis clients, including former paths. Package redis uses the first one.
var clients = []string{
	"github.com/redis/", "github.com/go-redis/", "github.com/rueian/rueidis", "github.com/valkey-io/", "github.com/gomodule/redigo",
	"github.com/mediocregopher/radix",
}

func run(pass *analysis.Pass) (any, error) {
	if pass.Pkg.Path() == keyspaceAt {
		return nil, nil // the package itself is exempt
	}
	families := (&visitor{pass: pass}).familiesOf(pass.Files)
	for _, file := range pass.Files {
		name := pass.Fset.Position(file.Package).Filename
		if strings.HasSuffix(name, "_test.go") || filepath.Base(name) == "keys.go" {
			continue
		}
		known, err := headsFor(filepath.Dir(name))
		if err != nil {
			return nil, err
		}
		v := &visitor{pass: pass, heads: known, families: families, exempt: exemptLines(pass.Fset, file), reported: map[ast.Node]bool{}}
		for _, imp := range file.Imports {
			v.client(imp)
		}
		ast.PreorderStack(file, nil, v.visit)
	}
	return nil, nil
}

// exemptLines returns the lines with a comment that exempts them.
func exemptLines(fset *token.FileSet, file *ast.File) map[int]bool {
	lines := map[int]bool{}
	for _, group := range file.Comments {
		for _, c := range group.List {
			if reason, ok := strings.CutPrefix(c.Text, "//keyvet:ok "); ok && strings.TrimSpace(reason) != "" {
				lines[fset.Position(c.Pos()).Line] = true
			}
		}
	}
	return lines
}

type visitor struct {
	pass     *analysis.Pass
	heads    heads
	families []family // of this package
	exempt   map[int]bool
	reported map[ast.Node]bool // formats that were already reported
}

func (v *visitor) report(n ast.Node, format string, args ...any) {
	if !v.exempt[v.pass.Fset.Position(n.Pos()).Line] {
		v.pass.Reportf(n.Pos(), format, args...)
	}
}

func (v *visitor) client(imp *ast.ImportSpec) {
	path, _ := strconv.Unquote(imp.Path.Value)
	self := v.pass.Pkg.Path()
	for _, c := range clients {
		if strings.HasPrefix(path, c) && self != redisAt && !strings.HasPrefix(self, redisAt+"/") {
			v.report(imp, "%s bypasses package redis, so its commands have no declared keys", path)
		}
	}
}

func (v *visitor) visit(n ast.Node, above []ast.Node) bool {
	switch n := n.(type) {
	case *ast.ImportSpec:
		return false
	case *ast.Field: // a struct tag is not a string of the program
		return n.Tag == nil || v.onlyType(n, above)
	case *ast.CallExpr:
		v.call(n)
	case *ast.BasicLit:
		if n.Kind == token.STRING {
			v.text(n, above)
		}
	}
	return true
}

// onlyType visits a field without its tag.
func (v *visitor) onlyType(n *ast.Field, above []ast.Node) bool {
	ast.PreorderStack(n.Type, append(above, n), v.visit)
	return false
}

// call checks declarations and formats.
func (v *visitor) call(call *ast.CallExpr) {
	fn := v.callee(call)
	if fn == nil || fn.Pkg() == nil {
		return
	}
	name := fn.Name()
	switch fn.Pkg().Path() {
	case keyspaceAt:
		if fn.Signature().Recv() == nil && (name == "New" || strings.HasPrefix(name, "Def")) {
			v.report(call, "keyspace.%s belongs in keys.go", name)
		}
	case "fmt":
		if name == "Sprintf" && len(call.Args) > 0 && v.sprintf(call) {
			v.reported[call.Args[0]] = true
			return
		}
		for _, arg := range call.Args {
			if s, ok := v.constant(arg); ok && v.heads.isKeyFormat(s) && v.heads.familyOf(s) == "" { // otherwise text reports it
				v.report(arg, "%q builds a key; declare its family in keys.go", s)
			}
		}
	}
}

func (v *visitor) callee(call *ast.CallExpr) *types.Func {
	fun := ast.Unparen(call.Fun)
	switch f := fun.(type) { // without the type arguments of Def1[UserID](…)
	case *ast.IndexExpr:
		fun = f.X
	case *ast.IndexListExpr:
		fun = f.X
	}
	var id *ast.Ident
	switch f := fun.(type) {
	case *ast.Ident:
		id = f
	case *ast.SelectorExpr:
		id = f.Sel
	}
	fn, _ := v.pass.TypesInfo.Uses[id].(*types.Func)
	return fn
}

func (v *visitor) constant(e ast.Expr) (string, bool) {
	value := v.pass.TypesInfo.Types[e].Value
	if value == nil || value.Kind() != constant.String {
		return "", false
	}
	return constant.StringVal(value), true
}

var (
	// scriptKey matches a script that contains a key instead of using KEYS.
	scriptKey = regexp.MustCompile(`redis\.p?call\(\s*["'][A-Za-z]+["']\s*,\s*["'][^"']*:`)
	// keyPattern matches strings that look like a key.
	keyPattern = regexp.MustCompile(`^[a-z][a-z0-9_]*(:[^\s:/]+)+$`)
	// keyHeadPattern matches strings that look like the beginning of a key.
	keyHeadPattern = regexp.MustCompile(`^([a-z][a-z0-9_]*:){2,}\{?$`)
	// keyFormat matches formats that build a key.
	keyFormat = regexp.MustCompile(`^(%s:)?[a-z][a-z0-9_]*(:(\{?%[-+#0-9.]*[a-z]\}?|[a-z0-9_]+))+$`)
)

func (v *visitor) text(lit *ast.BasicLit, above []ast.Node) {
	s, ok := v.constant(lit)
	if !ok || v.reported[lit] {
		return
	}
	if family := v.heads.familyOf(s); family != "" {
		v.report(lit, "%q is a key of %s; use its family in keys.go", s, family)
		return
	}
	if scriptKey.MatchString(s) {
		v.report(lit, "this script contains a key; pass it as one of KEYS")
		return
	}
	switch parent := above[len(above)-1].(type) {
	case *ast.BinaryExpr:
		if parent.Op == token.ADD && keyHeadPattern.MatchString(s) {
			v.report(lit, "%q begins a key; declare its family in keys.go", s)
		}
	case *ast.CompositeLit:
		if keyPattern.MatchString(s) && v.inCmd(above) {
			v.report(lit, "%q is a key among the arguments of a command; set it as Key", s)
		}
	}
}

// inCmd reports whether a string is in the Args of a command.
func (v *visitor) inCmd(above []ast.Node) bool {
	for i := len(above) - 1; i >= max(0, len(above)-3); i-- {
		lit, ok := above[i].(*ast.CompositeLit)
		if !ok {
			continue
		}
		if named, ok := types.Unalias(v.pass.TypesInfo.TypeOf(lit)).(*types.Named); ok {
			obj := named.Obj()
			return obj.Name() == "Cmd" && obj.Pkg() != nil && obj.Pkg().Path() == keyspaceAt
		}
	}
	return false
}

// heads maps the beginnings of declared keys and channels, up to the first argument, to the patterns of their families.
type heads map[string]string

// familyOf returns the pattern of the family whose keys begin like s. s may have a prefix.
func (h heads) familyOf(s string) string {
	if strings.ContainsAny(s, " \t\n") {
		return "" // prose
	}
	_, rest, _ := strings.Cut(s, ":")
	for head, pattern := range h {
		for _, name := range []string{s, rest} {
			if name == head || strings.HasSuffix(head, ":") && strings.HasPrefix(name, head) {
				return pattern
			}
		}
	}
	return ""
}

// isKeyFormat reports whether a format builds keys. It has two levels and begins like a declared key, or it has more
// levels.
func (h heads) isKeyFormat(s string) bool {
	if !keyFormat.MatchString(s) || !strings.Contains(s, "%") {
		return false
	}
	if strings.Count(s, ":") > 1 {
		return true
	}
	first, _, _ := strings.Cut(s, ":")
	for head := range h {
		if strings.HasPrefix(head, first+":") {
			return true
		}
	}
	return false
}

// headsFor reads the nearest keyspace.lock in dir or above it. Without one, only the look of a string identifies a key.
func headsFor(dir string) (heads, error) {
	for {
		text, err := os.ReadFile(filepath.Join(dir, lockName))
		if err == nil {
			return headsOf(string(text))
		}
		up := filepath.Dir(dir)
		switch {
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		case up == dir:
			return heads{}, nil
		}
		dir = up
	}
}

func headsOf(text string) (heads, error) {
	agreed, err := lock.Parse(text)
	if err != nil {
		return nil, err
	}
	h := heads{}
	for _, f := range agreed.Families {
		if head, _, _ := strings.Cut(f.Pattern, "{"); head != "" { // otherwise every string would match
			h[head] = f.Pattern
		}
	}
	return h, nil
}

package keyvet

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/printer"
	"go/token"
	"go/types"
	"regexp"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// family is a family that the current package declares.
type family struct {
	variable, pattern string
	formats           *regexp.Regexp // matches the Sprintf formats that make its keys
	args              []types.Type
}

var (
	placeholder = regexp.MustCompile(`\\\{[^{}\\]*\\\}`)
	defName     = regexp.MustCompile(`^Def([0-3])$`)
)

// familiesOf returns the families that variables of the package declare.
func (v *visitor) familiesOf(files []*ast.File) (all []family) {
	for _, file := range files {
		for _, decl := range file.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok || gen.Tok != token.VAR {
				continue
			}
			for _, spec := range gen.Specs {
				if spec := spec.(*ast.ValueSpec); len(spec.Names) == len(spec.Values) {
					for i, value := range spec.Values {
						if f, ok := v.declared(spec.Names[i].Name, value); ok {
							all = append(all, f)
						}
					}
				}
			}
		}
	}
	return all
}

func (v *visitor) declared(variable string, value ast.Expr) (f family, ok bool) {
	call, ok := value.(*ast.CallExpr)
	if !ok || len(call.Args) < 2 {
		return f, false
	}
	fn := v.callee(call)
	if fn == nil || fn.Pkg() == nil || fn.Pkg().Path() != keyspaceAt || !defName.MatchString(fn.Name()) {
		return f, false
	}
	f.variable = variable
	if f.pattern, ok = v.constant(call.Args[1]); !ok {
		return f, false
	}
	var indices []ast.Expr
	switch fun := ast.Unparen(call.Fun).(type) {
	case *ast.IndexExpr:
		indices = []ast.Expr{fun.Index}
	case *ast.IndexListExpr:
		indices = fun.Indices
	}
	for _, index := range indices {
		f.args = append(f.args, v.pass.TypesInfo.TypeOf(index))
	}
	f.formats = regexp.MustCompile("^" + placeholder.ReplaceAllString(regexp.QuoteMeta(f.pattern), "(%[-+#0-9.]*[dsvqx])") + "$")
	return f, true
}

// sprintf reports a Sprintf that makes keys of a family of this package. It suggests the family as a fix if it can
// convert the arguments.
func (v *visitor) sprintf(call *ast.CallExpr) (reported bool) {
	text, ok := v.constant(call.Args[0])
	if !ok || !strings.Contains(text, "%") {
		return false
	}
	for _, f := range v.families {
		verbs := f.formats.FindStringSubmatch(text)
		if verbs == nil {
			continue
		}
		d := analysis.Diagnostic{Pos: call.Args[0].Pos(), End: call.Args[0].End(),
			Message: fmt.Sprintf("%q builds a key of %s; use %s", text, f.pattern, f.variable)}
		if code, ok := v.atCall(f, verbs[1:], call.Args[1:]); ok {
			d.SuggestedFixes = []analysis.SuggestedFix{{
				Message:   "Use " + f.variable,
				TextEdits: append(v.imports(call), analysis.TextEdit{Pos: call.Pos(), End: call.End(), NewText: []byte(code)}),
			}}
		}
		if !v.exempt[v.pass.Fset.Position(call.Pos()).Line] {
			v.pass.Report(d)
		}
		return true
	}
	return false
}

// atCall returns the source of the call that makes a family's key.
func (v *visitor) atCall(f family, verbs []string, args []ast.Expr) (code string, ok bool) {
	if len(args) != len(f.args) {
		return "", false
	}
	var parts []string
	for i, arg := range args {
		if !formatsPlainly(verbs[i], v.pass.TypesInfo.TypeOf(arg)) {
			return "", false
		}
		part, ok := v.segment(f.args[i], arg)
		if !ok {
			return "", false
		}
		parts = append(parts, part)
	}
	return fmt.Sprintf("%s.At(%s).String()", f.variable, strings.Join(parts, ", ")), true
}

// formatsPlainly reports whether a verb formats a value like a segment: without a width, in decimal, and without a
// method of the value.
func formatsPlainly(verb string, t types.Type) bool {
	if verb != "%d" && verb != "%s" && verb != "%v" {
		return false
	}
	methods := types.NewMethodSet(t)
	for _, name := range []string{"Format", "Error", "String"} {
		if methods.Lookup(nil, name) != nil && (name == "Format" || verb != "%d") {
			return false
		}
	}
	return true
}

// segment converts an argument of Sprintf to an argument of a family: a whole number to an Int, a string to a text. It
// also supports types of the program that embed one of them.
func (v *visitor) segment(want types.Type, arg ast.Expr) (code string, ok bool) {
	named, ok := types.Unalias(want).(*types.Named)
	if !ok {
		return "", false
	}
	name := types.TypeString(named, func(p *types.Package) string {
		if p == v.pass.Pkg {
			return ""
		}
		return p.Name()
	})
	if pkg := named.Obj().Pkg(); pkg == nil || pkg.Path() != keyspaceAt {
		st, ok := named.Underlying().(*types.Struct)
		if !ok || st.NumFields() != 1 || !st.Field(0).Embedded() || pkg != v.pass.Pkg {
			return "", false
		}
		inner, ok := v.segment(st.Field(0).Type(), arg)
		return name + "{" + inner + "}", ok
	}
	basic, ok := v.pass.TypesInfo.TypeOf(arg).Underlying().(*types.Basic)
	if !ok {
		return "", false
	}
	var text bytes.Buffer
	if err := printer.Fprint(&text, v.pass.Fset, arg); err != nil {
		return "", false
	}
	field, plain := "", ""
	switch named.Obj().Name() {
	case "Int":
		field, plain = "N", "int64"
		kind := basic.Kind() // not every value of the excluded types fits in an int64
		ok = basic.Info()&types.IsInteger != 0 && kind != types.Uint && kind != types.Uint64 && kind != types.Uintptr
	case "Text", "Raw": // a Hashed would make another key
		field, plain = "S", "string"
		ok = basic.Info()&types.IsString != 0
	default:
		return "", false
	}
	value := text.String()
	if _, literal := arg.(*ast.BasicLit); !literal && types.TypeString(v.pass.TypesInfo.TypeOf(arg), nil) != plain {
		value = plain + "(" + value + ")"
	}
	return name + "{" + field + ": " + value + "}", ok
}

// imports adds package keyspace to the file of a call, if the import is missing.
func (v *visitor) imports(call *ast.CallExpr) []analysis.TextEdit {
	for _, file := range v.pass.Files {
		if file.FileStart > call.Pos() || call.Pos() >= file.FileEnd {
			continue
		}
		for _, imp := range file.Imports {
			if imp.Path.Value == `"`+keyspaceAt+`"` {
				return nil
			}
		}
		return []analysis.TextEdit{{Pos: file.Name.End(), End: file.Name.End(), NewText: []byte("\n\nimport \"" + keyspaceAt + "\"")}}
	}
	return nil
}

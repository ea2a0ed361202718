package stoa

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A passage is a paragraph, an item of a list, a cell of a table, or a text of the program.
type passage struct {
	line int
	text string
}

var (
	logMethods = strings.Fields("Debug DebugContext Info InfoContext Warn WarnContext Error ErrorContext Log LogAttrs")
	described  = strings.Fields("Summary Description Doc Help About") // fields of operations, commands and settings
	listItem   = regexp.MustCompile(`^\s*([-*]|\d+\.) `)
)

// paragraphs divides Markdown, or a comment without its markers. It omits code, headings and HTML.
func paragraphs(line int, text string) (found []passage) {
	fenced, open := false, false
	for i, l := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(l)
		fence := strings.HasPrefix(trimmed, "```")
		fenced = fenced != fence
		switch {
		case fenced || fence || trimmed == "" || strings.ContainsAny(l[:1], "\t#<"):
			open = false
		case trimmed[0] == '|':
			for cell := range strings.SplitSeq(trimmed, "|") {
				found = append(found, passage{line + i, cell})
			}
			open = false
		case open && !listItem.MatchString(l):
			found[len(found)-1].text += "\n" + l
		default:
			found = append(found, passage{line + i, listItem.ReplaceAllString(l, "")})
			open = true
		}
	}
	return found
}

// uncomment removes the markers of a comment, and one space after each.
func uncomment(comment string) string {
	lines := strings.Split(strings.TrimSuffix(comment, "*/"), "\n")
	for i, l := range lines {
		for _, marker := range []string{"//", "/**", "/*", "*"} {
			if rest, ok := strings.CutPrefix(strings.TrimLeft(l, " \t"), marker); ok {
				lines[i] = strings.TrimPrefix(rest, " ")
				break
			}
		}
	}
	return strings.Join(lines, "\n")
}

// goPassages returns comments, log messages, texts of errors, and descriptions of operations, fields and commands.
func goPassages(name string, src []byte) (found []passage, err error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || ast.IsGenerated(file) {
		return nil, err
	}
	add := func(n ast.Node, text string) { found = append(found, paragraphs(fset.Position(n.Pos()).Line, text)...) }
	addString := func(e ast.Expr) bool {
		text, ok := textOf(e, nil)
		add(e, text)
		return ok
	}
	for _, group := range file.Comments {
		var lines []string
		for _, c := range group.List {
			lines = append(lines, uncomment(c.Text))
		}
		if !strings.HasPrefix(lines[0], "Output:") { // of an example
			add(group, strings.Join(lines, "\n"))
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			fun, ok := n.Fun.(*ast.SelectorExpr)
			if !ok {
				break
			}
			pkg, _ := fun.X.(*ast.Ident)
			switch {
			case pkg != nil && slices.Contains([]string{"errs.New", "errors.New", "fmt.Errorf"}, pkg.Name+"."+fun.Sel.Name):
				for _, arg := range n.Args {
					addString(arg)
				}
			case slices.Contains(logMethods, fun.Sel.Name) && !strings.HasSuffix(name, "_test.go"): // t.Error is not a log
				_ = slices.ContainsFunc(n.Args, addString) // arguments up to the message
			}
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && slices.Contains(described, key.Name) {
				addString(n.Value)
			}
		case *ast.Field:
			if n.Tag != nil {
				tag, _ := strconv.Unquote(n.Tag.Value)
				add(n.Tag, reflect.StructTag(tag).Get("doc")+"\n\n"+reflect.StructTag(tag).Get("help"))
			}
		}
		return true
	})
	return found, nil
}

// tsPassages returns comments and, for the page, all strings, because these include its texts.
func tsPassages(name string, src string) (found []passage) {
	comment, end, line := passage{}, 0, 1
	for {
		start, stop := tsToken(src, end)
		if start < 0 {
			return append(found, paragraphs(comment.line, comment.text)...)
		}
		between, token := src[end:start], src[start:stop]
		line += strings.Count(between, "\n")
		if token[0] != '/' || strings.TrimSpace(between) != "" || strings.Count(between, "\n") != 1 { // the last comment ends here
			found = append(found, paragraphs(comment.line, comment.text)...)
			comment = passage{line: line}
		}
		if token[0] == '/' {
			comment.text += uncomment(token) + "\n"
		} else if strings.HasPrefix(name, "web/src/") {
			found = append(found, paragraphs(line, strings.Trim(token, "\"'`"))...)
		}
		line, end = line+strings.Count(token, "\n"), stop
	}
}

// tsToken finds the next comment or string.
func tsToken(src string, from int) (start, stop int) {
	for from < len(src) {
		i := strings.IndexAny(src[from:], "/\"'`")
		if i < 0 {
			break
		}
		start = from + i
		token := src[start:]
		switch {
		case strings.HasPrefix(token, "//"):
			i = strings.Index(token, "\n")
		case strings.HasPrefix(token, "/*"):
			i = strings.Index(token, "*/") + 2
		case token[0] == '/': // a division
			from = start + 1
			continue
		default:
			i = 1
			for i < len(token) && token[i] != token[0] && (token[i] != '\n' || token[0] == '`') {
				if token[i] == '\\' {
					i++
				}
				i++
			}
			i++
		}
		if i < 2 || i > len(token) {
			i = len(token)
		}
		return start, start + i
	}
	return -1, -1
}

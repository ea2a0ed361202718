package stoa

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
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
	listItem      = regexp.MustCompile(`^\s*([-*]|\d+\.) `)
	commentMarker = regexp.MustCompile(`(?m)^[ \t]*(//|/\*\*?|\*/?) ?|\*/$`)
	logMethod     = regexp.MustCompile(`\.(Debug|Info|Warn|Error|Log)(Context|Attrs)?$`)
	tsToken       = regexp.MustCompile(`(?s)//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|` + "`(?:[^`\\\\]|\\\\.)*`")
)

// paragraphs divides Markdown, or a comment without its markers. It leaves out code, headings and HTML.
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
			lines = append(lines, commentMarker.ReplaceAllString(c.Text, ""))
		}
		if !strings.HasPrefix(lines[0], "Output:") { // of an example
			add(group, strings.Join(lines, "\n"))
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			switch fun := types.ExprString(n.Fun); {
			case fun == "errs.New", fun == "errors.New", fun == "fmt.Errorf":
				for _, arg := range n.Args {
					addString(arg)
				}
			case logMethod.MatchString(fun) && !strings.HasSuffix(name, "_test.go"): // t.Error is not a log
				_ = slices.ContainsFunc(n.Args, addString) // up to the message
			}
		case *ast.KeyValueExpr:
			if slices.Contains([]string{"Summary", "Description", "Doc", "Help", "About"}, types.ExprString(n.Key)) {
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

// tsPassages returns comments and, of the page, all strings: its texts are among them.
func tsPassages(name string, src []byte) (found []passage) {
	comment, end, line := passage{}, 0, 1
	for _, at := range tsToken.FindAllIndex(src, -1) {
		between, token := string(src[end:at[0]]), string(src[at[0]:at[1]])
		line += strings.Count(between, "\n")
		if token[0] != '/' || strings.TrimSpace(between) != "" || strings.Count(between, "\n") != 1 { // the last comment ends here
			found = append(found, paragraphs(comment.line, comment.text)...)
			comment = passage{line: line}
		}
		if token[0] == '/' {
			comment.text += commentMarker.ReplaceAllString(token, "") + "\n"
		} else if strings.HasPrefix(name, "web/src/") {
			found = append(found, paragraphs(line, strings.Trim(token, "\"'`"))...)
		}
		line, end = line+strings.Count(token, "\n"), at[1]
	}
	return append(found, paragraphs(comment.line, comment.text)...)
}

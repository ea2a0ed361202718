package stoa

import (
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxLine is the largest length of a line of Go, in characters.
const maxLine = 140

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// checkLines finds lines that are too long. Lines with a raw string or with the output of an example are allowed,
// because they cannot be divided.
func checkLines(name string, src []byte) (faults []string) {
	if generated.Match(src) {
		return nil
	}
	var s scanner.Scanner
	file := token.NewFileSet().AddFile(name, -1, len(src))
	s.Init(file, src, nil, scanner.ScanComments)
	raw := map[int]bool{} // by line
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			break
		}
		output := tok == token.COMMENT && strings.HasSuffix(name, "example_test.go")
		for i := range 1 + strings.Count(text, "\n") {
			raw[file.Line(pos)+i] = raw[file.Line(pos)+i] || output || tok == token.STRING && text[0] == '`'
		}
	}
	n := 0
	for line := range strings.Lines(string(src)) {
		n++
		if length := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); length > maxLine && !raw[n] {
			faults = append(faults, fmt.Sprintf("%s:%d: the line has %d characters, and at most %d are allowed", name, n, length, maxLine))
		}
	}
	return faults
}

func TestLines_LengthIsBounded(t *testing.T) {
	long := strings.Repeat("x", maxLine)
	planted(t, checkLines("a.go", []byte("package "+long)), "a long line")
	planted(t, checkLines("a.go", []byte("package x\n\nconst a = `b`\n\n// "+long+"\n")), "a long comment")
	report(t, checkLines("a.go", []byte("package x\n\nconst a = `\n"+long+"x`\n")))
	report(t, checkLines("a.go", []byte("package x\n\n// "+long[3:]+"\n")))

	files := 0
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		name = filepath.ToSlash(name)
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{"node_modules", ".git", "testdata"}, d.Name()):
			return fs.SkipDir
		case !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "/zh.go"): // a text and its translation are one line
			return nil
		}
		files++
		src, err := os.ReadFile(name)
		report(t, checkLines(name, src))
		return err
	})
	if err != nil || files < 1000 {
		t.Errorf("read %d files, which cannot be all: %v", files, err)
	}
}

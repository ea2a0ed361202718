package config

import (
	"bytes"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// keyLines returns the line of each key's value in a valid TOML text, counting from 1. Keys inside inline tables have
// the line where the table begins.
func keyLines(text []byte) map[string]int {
	lines := map[string]int{}
	var p unstable.Parser
	p.Reset(text)
	var table []string
	for p.NextExpression() {
		e := p.Expression()
		names, line := nameOf(text, e)
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = names
			lines[strings.Join(table, ".")] = line
		case unstable.KeyValue:
			addLines(lines, append(table[:len(table):len(table)], names...), line, e)
		}
	}
	return lines
}

func addLines(lines map[string]int, path []string, line int, kv *unstable.Node) {
	lines[strings.Join(path, ".")] = line
	if value := kv.Value(); value.Kind == unstable.InlineTable {
		for it := value.Children(); it.Next(); {
			names, _ := nameOf(nil, it.Node())
			addLines(lines, append(path[:len(path):len(path)], names...), line, it.Node())
		}
	}
}

// nameOf returns the parts of n's key, and its line in text.
func nameOf(text []byte, n *unstable.Node) (names []string, line int) {
	for it := n.Key(); it.Next(); {
		part := it.Node()
		names = append(names, string(part.Data))
		if line == 0 && text != nil {
			line = 1 + bytes.Count(text[:part.Raw.Offset], []byte{'\n'})
		}
	}
	return names, line
}

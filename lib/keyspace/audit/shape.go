package audit

import (
	"strconv"
	"strings"
)

// maxShapeLen is the largest length of a shape; longer ones contain user data.
const maxShapeLen = 120

// appendShape replaces the variable parts of a key, so that keys of one kind can be counted together. Numbers become
// {n}, identifiers {id}, and other text that is not a word {text}. Levels and hash tags remain.
func appendShape(b []byte, logical string) []byte {
	for i := 0; ; i++ {
		level, rest, more := strings.Cut(logical, ":")
		if i > 0 {
			b = append(b, ':')
		}
		if n := len(level); n > 2 && level[0] == '{' && level[n-1] == '}' {
			b = append(b, '{')
			b = appendFolded(b, level[1:n-1])
			b = append(b, '}')
		} else {
			b = appendFolded(b, level)
		}
		if len(b) > maxShapeLen {
			return append(b[:maxShapeLen], "…"...)
		}
		if !more {
			return b
		}
		logical = rest
	}
}

// appendFolded replaces the variable parts of one level.
func appendFolded(b []byte, s string) []byte {
	const (
		other = iota
		digit
		lower
		upper
	)
	changes, last := 0, other
	for i := range len(s) {
		class := other
		switch c := s[i]; {
		case c >= '0' && c <= '9':
			class = digit
		case c >= 'a' && c <= 'z':
			class = lower
		case c >= 'A' && c <= 'Z':
			class = upper
		case c == '_' || c == '-' || c == '.':
			continue
		default:
			return append(b, "{text}"...)
		}
		if last != other && class != last {
			changes++
		}
		last = class
	}
	switch {
	case len(s) >= 8 && changes >= 3:
		return append(b, "{id}"...)
	case len(s) > 40:
		return append(b, "{text}"...)
	}
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			b = append(b, s[i])
			continue
		}
		b = append(b, "{n}"...)
		for i+1 < len(s) && s[i+1] >= '0' && s[i+1] <= '9' {
			i++
		}
	}
	return b
}

// printable escapes and shortens a key for terminals and JSON.
func printable(key string) string {
	const longest = 200
	cut := ""
	if len(key) > longest {
		key, cut = key[:longest], "…"
	}
	for i := range len(key) {
		if key[i] < 0x20 || key[i] > 0x7e {
			quoted := strconv.QuoteToASCII(key)
			return quoted[1:len(quoted)-1] + cut
		}
	}
	return key + cut
}

package keyspace

import "strings"

// plain has the bytes that are not escaped.
var plain = func() (safe [256]bool) {
	for c := 0x21; c <= 0x7e; c++ {
		safe[c] = !strings.ContainsRune(`:{}%*?[]^\"'`, rune(c))
	}
	return safe
}()

// appendEscaped appends s, percent-encoded in lower case. It escapes ':', braces, '%', glob characters, quotes, control
// characters, space and all bytes outside ASCII; each takes three bytes. An empty s becomes a lone '%'. No other text
// has that form, so unescape restores every string.
func appendEscaped(b []byte, s string) []byte {
	if s == "" {
		return append(b, '%')
	}
	for i := range len(s) {
		if c := s[i]; plain[c] {
			b = append(b, c)
		} else {
			b = append(b, '%', hexits[c>>4], hexits[c&15])
		}
	}
	return b
}

// unescape decodes the output of appendEscaped. ok is false for everything that appendEscaped does not write: another
// spelling of the same text, and the hash that replaces a long [Text].
func unescape(s string) (text string, ok bool) {
	if !automata[AnyText].accepts(s) || strings.HasPrefix(s, "%%") {
		return "", false
	}
	if s == "%" {
		return "", true
	}
	if !strings.Contains(s, "%") {
		return s, true
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b = append(b, s[i])
			continue
		}
		b = append(b, nibble(s[i+1])<<4|nibble(s[i+2]))
		i += 2
	}
	return string(b), true
}

func nibble(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c - 'a' + 10
}

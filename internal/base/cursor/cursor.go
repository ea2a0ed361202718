// Package cursor encodes the cursors of lists that are sorted by numbers and, among equals, by an id. Clients return
// a cursor unchanged; its content may change between versions.
package cursor

import (
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/stoa-dev/stoa/internal/base/ids"
)

// Of returns the cursor of a place in a list: the id at that place, and its sort keys.
func Of(id string, numbers ...int64) string {
	var text []byte
	for _, n := range numbers {
		text = append(strconv.AppendInt(text, n, 10), '.')
	}
	return base64.RawURLEncoding.EncodeToString(append(text, id...))
}

// Parse returns the n numbers and the id of a cursor. It accepts only results of [Of] with n numbers and an
// identifier.
func Parse(cursor string, n int) (numbers []int64, id string, ok bool) {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	parts := strings.Split(string(text), ".")
	if err != nil || len(parts) != n+1 {
		return nil, "", false
	}
	if _, err := ids.Parse[any](parts[n]); err != nil {
		return nil, "", false
	}
	for _, part := range parts[:n] {
		number, err := strconv.ParseInt(part, 10, 64)
		if err != nil {
			return nil, "", false
		}
		numbers = append(numbers, number)
	}
	return numbers, parts[n], Of(parts[n], numbers...) == cursor
}

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

// Place is the position where a page of a list ends: two numbers in the order of the list, and an id.
type Place struct {
	Primary, Secondary int64
	ID                 string
}

// String returns the cursor of the place.
func (p Place) String() string { return Of(p.ID, p.Primary, p.Secondary) }

// ParsePlace returns the place of a cursor, or first for an empty cursor. It returns invalid for any other text.
func ParsePlace(cursor string, first Place, invalid error) (Place, error) {
	if cursor == "" {
		return first, nil
	}
	n, id, ok := Parse(cursor, 2)
	if !ok {
		return Place{}, invalid
	}
	return Place{n[0], n[1], id}, nil
}

// Page returns the first limit elements of a list, and the cursor of the next page, which is empty if the list has no
// more elements.
func Page[T any](list []T, limit int, at func(T) Place) (_ []T, next string) {
	if len(list) <= limit {
		return list, ""
	}
	return list[:limit], at(list[limit-1]).String()
}

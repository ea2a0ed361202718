package bind

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

var (
	errDuplicate = errors.New("has an object with a duplicate name")
	errNumber    = errors.New("has a number that is too large")
	errNUL       = errors.New("has a string with the character U+0000")
)

// Decode reads exactly one JSON value. It refuses objects with duplicate names, because two readers may use different
// ones of them, which bypasses checks. It refuses strings with NUL, because some databases drop the character and
// others end the string there.
func Decode(data []byte) (v any, err error) {
	if err := json.Unmarshal(data, &v); err != nil {
		if e, ok := errors.AsType[*json.SyntaxError](err); ok {
			return nil, fmt.Errorf("is not one JSON value, see byte %d", e.Offset)
		}
		return nil, errNumber
	}
	if colons(data) != members(v) {
		return nil, errDuplicate
	}
	if bytes.Contains(data, []byte("u0000")) && hasNUL(v) {
		return nil, errNUL
	}
	return v, nil
}

// Fill decodes a body that satisfies the schema into v, whose type it may still not fit. Its error contains no value
// of the body.
func Fill(body []byte, v any) error {
	err := json.Unmarshal(body, v)
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && strings.HasPrefix(e.Value, "number ") {
		err = json.Unmarshal(wholeNumbers(body), v) // in the schema, 1e2 and 40.0 are integers
	}
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && e.Field != "" {
		return errors.New("has a value of the wrong type at " + e.Field)
	}
	return errors.New("has a value of the wrong type")
}

// wholeNumbers returns valid JSON with each number in the form of [Whole].
func wholeNumbers(data []byte) []byte {
	out := make([]byte, 0, len(data))
	quoted := false
	for i := 0; i < len(data); i++ {
		c := data[i]
		if quoted || c != '-' && (c < '0' || c > '9') {
			out = append(out, c)
			switch {
			case c == '"':
				quoted = !quoted
			case c == '\\': // occurs only in strings
				i++
				out = append(out, data[i])
			}
			continue
		}
		end := i + 1
		for end < len(data) && strings.IndexByte("0123456789+-.eE", data[end]) >= 0 {
			end++
		}
		out = append(out, Whole(string(data[i:end]))...)
		i = end - 1
	}
	return out
}

// Whole returns a JSON number without fraction and exponent, such as 1234 for 1.234e3, if it is an integer of a usual length. It
// returns any other text as it is, and never rounds.
func Whole(number string) string {
	mantissa, exponent, scaled := strings.Cut(strings.ToLower(number), "e")
	if len(number) > 64 || !scaled && !strings.Contains(number, ".") {
		return number
	}
	if n, err := strconv.Atoi(exponent); scaled && (err != nil || n < -64 || n > 64) { // SetString computes the power
		return number
	}
	if c := mantissa[len(mantissa)-1]; c < '0' || c > '9' { // a text, such as true
		return number
	}
	exact, ok := new(big.Rat).SetString(number)
	if !ok || !exact.IsInt() {
		return number
	}
	return exact.Num().String()
}

// colons counts the colons of valid JSON that are not in a string: one for each
// member of an object.
func colons(data []byte) (n int) {
	quoted := false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\': // occurs only in strings
			i++
		case c == ':' && !quoted:
			n++
		}
	}
	return n
}

// members counts the members that are left of all objects in v.
func members(v any) (n int) {
	switch v := v.(type) {
	case map[string]any:
		n = len(v)
		for _, e := range v {
			n += members(e)
		}
	case []any:
		for _, e := range v {
			n += members(e)
		}
	}
	return n
}

// hasNUL reports whether a name or a text in v has the character U+0000.
func hasNUL(v any) bool {
	switch v := v.(type) {
	case string:
		return strings.IndexByte(v, 0) >= 0
	case map[string]any:
		for name, e := range v {
			if hasNUL(name) || hasNUL(e) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, hasNUL)
	}
	return false
}

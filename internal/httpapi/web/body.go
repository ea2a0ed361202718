package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"mime"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/stoa-dev/stoa/internal/base/errs"
)

// readBody reads the body. Its deadline is already set, unless the operation has its own; net/http clears it at the
// end of the body.
func readBody(c *call, r *http.Request, rt *route) ([]byte, *problem) {
	if r.ContentLength == 0 {
		return nil, nil // bind checks whether the body is required
	}
	if !rt.accepts(r.Header["Content-Type"]) {
		return nil, newProblem(http.StatusUnsupportedMediaType, rt.errMediaType())
	}
	if r.ContentLength > rt.op.MaxBody {
		c.Header().Set("Connection", "close")
		return nil, newProblem(http.StatusRequestEntityTooLarge, errTooLarge)
	}
	if rt.op.BodyTime > 0 {
		_ = http.NewResponseController(c).SetReadDeadline(c.start.Add(rt.op.BodyTime))
	}
	var buf bytes.Buffer
	if r.ContentLength > 0 {
		buf.Grow(int(r.ContentLength) + bytes.MinRead)
	}
	// MaxBytesReader can only make the server's own ResponseWriter close the connection.
	_, err := buf.ReadFrom(http.MaxBytesReader(c.ResponseWriter, r.Body, rt.op.MaxBody))
	body := buf.Bytes()
	switch {
	case err == nil && rt.in.media == "" && !utf8.Valid(body):
		return nil, newProblem(http.StatusBadRequest, errMalformed.On("body", "is not UTF-8"))
	case err == nil:
		return body, nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.Header().Set("Connection", "close")
		return nil, newProblem(http.StatusRequestTimeout, errTimeout)
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, newProblem(http.StatusRequestEntityTooLarge, errTooLarge)
	}
	return nil, newProblem(http.StatusBadRequest, errMalformed.On("body", "ended too early"))
}

// accepts reports whether the route reads bodies of that Content-Type.
func (rt *route) accepts(lines []string) bool {
	if rt.in.media == "" {
		return isJSON(lines)
	}
	if len(lines) != 1 {
		return false
	}
	media, _, err := mime.ParseMediaType(lines[0])
	if kind, ok := strings.CutSuffix(rt.in.media, "*"); ok {
		return err == nil && strings.HasPrefix(media, kind)
	}
	return err == nil && media == rt.in.media
}

func (rt *route) errMediaType() *errs.Error {
	if rt.in.media == "" {
		return errMediaType
	}
	return errs.New(errMediaType.Kind, errMediaType.Code, "The body must be "+rt.in.media+".")
}

var onlyJSON = []string{"application/json"}

func isJSON(lines []string) bool {
	if len(lines) != 1 {
		return false
	}
	if lines[0] == onlyJSON[0] {
		return true
	}
	media, params, err := mime.ParseMediaType(lines[0])
	if err != nil || media != "application/json" {
		return false
	}
	for name, value := range params {
		if name != "charset" || !strings.EqualFold(value, "utf-8") {
			return false
		}
	}
	return true
}

var (
	errDuplicate = errors.New("has an object with a duplicate name")
	errNumber    = errors.New("has a number that is too large")
	errNUL       = errors.New("has a string with the character U+0000")
)

// decode reads exactly one JSON value. It refuses objects with duplicate names, because two readers may use different
// ones of them, which bypasses checks. It refuses strings with NUL, because some databases drop the character and
// others end the string there.
func decode(data []byte) (v any, err error) {
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

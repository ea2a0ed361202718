package collection

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"

	"github.com/stoa-dev/stoa/lib/cache/internal/shapes"
)

// A codec encodes members and fields, which can be any type that encoding/json accepts as a map key.
type codec[M comparable] struct {
	text  func(M) (string, error)
	parse func(string) (M, error)
}

// codecOf panics when M is neither a string, nor a whole number, nor both an
// encoding.TextMarshaler and, by pointer, an encoding.TextUnmarshaler.
func codecOf[M comparable]() codec[M] {
	var zero M
	_, marshals := any(zero).(encoding.TextMarshaler)
	_, unmarshals := any(&zero).(encoding.TextUnmarshaler)
	kind := reflect.TypeFor[M]().Kind()
	switch {
	case marshals && unmarshals:
		return codec[M]{
			func(m M) (string, error) {
				b, err := any(m).(encoding.TextMarshaler).MarshalText()
				return shapes.Escape(string(b)), err
			},
			func(s string) (m M, err error) {
				s, _ = shapes.Unescape(s)
				return m, any(&m).(encoding.TextUnmarshaler).UnmarshalText([]byte(s))
			}}
	case kind == reflect.String:
		return codec[M]{
			func(m M) (string, error) {
				if s, ok := any(m).(string); ok {
					return shapes.Escape(s), nil
				}
				return shapes.Escape(reflect.ValueOf(m).String()), nil
			},
			func(s string) (m M, err error) {
				s, _ = shapes.Unescape(s)
				reflect.ValueOf(&m).Elem().SetString(s)
				return m, nil
			}}
	case kind >= reflect.Int && kind <= reflect.Int64:
		return codec[M]{
			func(m M) (string, error) { return strconv.FormatInt(reflect.ValueOf(m).Int(), 10), nil },
			func(s string) (m M, err error) {
				n, err := strconv.ParseInt(s, 10, reflect.TypeFor[M]().Bits())
				reflect.ValueOf(&m).Elem().SetInt(n)
				return m, err
			}}
	}
	panic(fmt.Sprintf("cache: %T cannot be written as text", zero))
}

// texts returns the texts of several members, in order.
func (c *codec[M]) texts(ms []M) ([]string, error) {
	args, err := c.args(ms)
	if err != nil {
		return nil, err
	}
	return args[1:], nil
}

// args returns the texts of several members, in order, after an empty string for the mark. See memberQuery.
func (c *codec[M]) args(ms []M) ([]string, error) {
	args := make([]string, 1+len(ms))
	for i, m := range ms {
		var err error
		if args[1+i], err = c.text(m); err != nil {
			return nil, fmt.Errorf("cache: %v: %w", m, err)
		}
	}
	return args, nil
}

// members parses texts.
func (c *codec[M]) members(texts []string) ([]M, error) {
	ms := make([]M, len(texts))
	for i, t := range texts {
		var err error
		if ms[i], err = c.parse(t); err != nil {
			return nil, err
		}
	}
	return ms, nil
}

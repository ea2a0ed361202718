package keyspace

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
)

// A coding converts a Go value to the text of a hash field or of a script's argument, and back.
type coding struct {
	name  string // for the catalogue
	whole bool   // whether the type is a whole number
	write func(reflect.Value) (string, error)
	read  func(string, reflect.Value) error
}

var (
	writesText = reflect.TypeFor[encoding.TextMarshaler]()
	readsText  = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// codingOf returns the coding of a type. Supported types are types with MarshalText and UnmarshalText, strings, whole
// numbers, floating-point numbers, bools ("1" or "0") and []byte. ok is false for other types.
func codingOf(t reflect.Type) (c coding, ok bool) {
	c.name = t.Kind().String()
	switch {
	case t.Implements(writesText) && reflect.PointerTo(t).Implements(readsText):
		return coding{t.String(), false,
			func(v reflect.Value) (string, error) {
				b, err := v.Interface().(encoding.TextMarshaler).MarshalText()
				return string(b), err
			},
			func(s string, v reflect.Value) error {
				return v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(s))
			}}, true
	case t.Kind() == reflect.String:
		c.write = func(v reflect.Value) (string, error) { return v.String(), nil }
		c.read = func(s string, v reflect.Value) error { v.SetString(s); return nil }
	case t.Kind() == reflect.Bool:
		c.write = func(v reflect.Value) (string, error) {
			if v.Bool() {
				return "1", nil
			}
			return "0", nil
		}
		c.read = func(s string, v reflect.Value) error {
			b, err := strconv.ParseBool(s)
			v.SetBool(b)
			return err
		}
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		c.name = "bytes"
		c.write = func(v reflect.Value) (string, error) { return string(v.Bytes()), nil }
		c.read = func(s string, v reflect.Value) error { v.SetBytes([]byte(s)); return nil }
	case reflect.Zero(t).CanInt():
		c.whole = true
		c.write = func(v reflect.Value) (string, error) { return intText(v.Int()), nil }
		c.read = func(s string, v reflect.Value) error {
			n, err := strconv.ParseInt(s, 10, t.Bits())
			v.SetInt(n)
			return err
		}
	case reflect.Zero(t).CanUint():
		c.whole = true
		c.write = func(v reflect.Value) (string, error) { return strconv.FormatUint(v.Uint(), 10), nil }
		c.read = func(s string, v reflect.Value) error {
			n, err := strconv.ParseUint(s, 10, t.Bits())
			v.SetUint(n)
			return err
		}
	case reflect.Zero(t).CanFloat():
		c.write = func(v reflect.Value) (string, error) { return strconv.FormatFloat(v.Float(), 'g', -1, t.Bits()), nil }
		c.read = func(s string, v reflect.Value) error {
			f, err := strconv.ParseFloat(s, t.Bits())
			v.SetFloat(f)
			return err
		}
	default:
		return coding{}, false
	}
	return c, true
}

// A field is a struct field that is stored as text in Redis.
type field struct {
	name  string
	index []int
	typ   reflect.Type
	coding
}

// fieldsOf returns the exported fields of a struct, including those of embedded structs. The tag `redis:"name"` sets
// another name than the field's own, and "-" excludes a field.
func fieldsOf(t reflect.Type) (all []field, err error) {
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%s is not a struct", t)
	}
	seen := map[string]bool{}
	for _, f := range reflect.VisibleFields(t) {
		name := f.Tag.Get("redis")
		coding, ok := codingOf(f.Type)
		switch {
		case !f.IsExported() && !f.Anonymous, name == "-", f.Anonymous && f.Type.Kind() == reflect.Struct && !ok:
			continue
		case !ok:
			return nil, fmt.Errorf("the field %s of %s is a %s, which has no text encoding: add MarshalText and UnmarshalText", f.Name, t, f.Type)
		case name == "":
			name = f.Name
		}
		if seen[name] {
			return nil, fmt.Errorf("%s has two fields %q", t, name)
		}
		seen[name] = true
		all = append(all, field{name, f.Index, f.Type, coding})
	}
	return all, nil
}

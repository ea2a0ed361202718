package keyspace

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// jsonForm is the form of JSON values: "json" and the structure that encoding/json writes for V. A field that is added,
// renamed or changes its type is therefore a change of layout, which the lock file detects.
func jsonForm[V any]() string {
	return "json " + shape(reflect.TypeFor[V](), nil)
}

var (
	marshalsJSON = reflect.TypeFor[json.Marshaler]()
	marshalsText = reflect.TypeFor[encoding.TextMarshaler]()
)

// shape describes the output of encoding/json for a type: "{age int, tags [string]}". For types that encode themselves,
// it is the name of the type. above has the types that contain this one.
func shape(t reflect.Type, above []reflect.Type) string {
	pointer := reflect.PointerTo(t)
	switch {
	case t.Name() != "" && slices.Contains(above, t):
		return t.String()
	case t.Implements(marshalsJSON), pointer.Implements(marshalsJSON), t.Implements(marshalsText), pointer.Implements(marshalsText):
		return t.String()
	}
	above = append(slices.Clip(above), t)
	switch t.Kind() {
	case reflect.Pointer:
		return shape(t.Elem(), above)
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 && t.Kind() == reflect.Slice {
			return "base64"
		}
		return "[" + shape(t.Elem(), above) + "]"
	case reflect.Map:
		return "{" + shape(t.Key(), above) + ": " + shape(t.Elem(), above) + "}"
	case reflect.Struct:
		var fields []string
		appendFields(&fields, t, above)
		return "{" + strings.Join(fields, ", ") + "}"
	case reflect.Interface:
		return "any"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "int"
	case reflect.Float32, reflect.Float64:
		return "float"
	}
	return t.Kind().String()
}

// appendFields adds the fields of a struct, including those of embedded structs.
func appendFields(to *[]string, t reflect.Type, above []reflect.Type) {
	for f := range t.Fields() {
		tag := f.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case tag == "-":
		case f.Anonymous && name == "" && inner.Kind() == reflect.Struct && !slices.Contains(above, inner):
			appendFields(to, inner, append(slices.Clip(above), inner))
		case !f.IsExported():
		default:
			if name == "" {
				name = f.Name
			}
			kind := shape(f.Type, above)
			if slices.Contains(strings.Split(options, ","), "string") {
				kind = "string of " + kind
			}
			*to = append(*to, fmt.Sprintf("%s %s", name, kind))
		}
	}
}

package config

import (
	"encoding"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	envPrefix  = "STOA_"
	fileSuffix = "_FILE"
	masked     = "*****"
)

// Setting is one setting as its tags declare it.
type Setting struct {
	Key     string   `json:"key"`               // in the file: "smtp.port" is port in the table smtp
	Env     string   `json:"env"`               // in the environment: "STOA_SMTP_PORT"
	Flag    string   `json:"flag"`              // on the command line, without dashes: "smtp-port"
	Type    string   `json:"type"`              // in words: "text", "switch", "whole number", "number", "duration", "list of text" …
	Default string   `json:"default"`           // as written in the environment
	Help    string   `json:"help"`              // one line
	Secret  bool     `json:"secret"`            // masked in every output
	Allowed []string `json:"allowed,omitempty"` // the allowed values; empty means any
}

// Switch reports whether the setting can be on or off, so that its flag needs no value: a boolean, or an enum that
// contains true and false.
func (s Setting) Switch() bool {
	return s.Type == "switch" || slices.Contains(s.Allowed, "true") && slices.Contains(s.Allowed, "false")
}

// Reference lists the settings of the struct that dst points to, in the order of its fields. It panics on invalid
// tags, like Load.
func Reference(dst any) []Setting {
	fields := reflectOn(dst)
	out := make([]Setting, len(fields))
	for i, f := range fields {
		out[i] = f.Setting
	}
	return out
}

// Defaults sets each zero field of the struct that dst points to to its default, unless zero is a value of its own.
// So settings made in code equal those of [Load]. It panics on invalid tags.
func Defaults(dst any) {
	defaults := reflectOn(reflect.New(reflect.TypeOf(dst).Elem()).Interface())
	for i, f := range fieldsOf(dst) {
		if f.value.IsZero() && f.zeroIsDefault() {
			f.value.Set(defaults[i].value)
		}
	}
}

// field is a setting and its struct field.
type field struct {
	Setting
	value reflect.Value
	url   bool   // secret only if it contains a password
	zero  string // the meaning of 0, if it is not the default
}

// zeroIsDefault reports whether the zero value means the default: for a number without the tag zero, and for an enum.
func (f *field) zeroIsDefault() bool {
	switch f.value.Kind() {
	case reflect.Bool, reflect.Slice, reflect.Struct:
		return false
	case reflect.String:
		return f.Allowed != nil
	}
	return f.zero == ""
}

// reflectOn reads the tags and sets the defaults.
func reflectOn(dst any) []field {
	fields := fieldsOf(dst)
	for _, f := range fields {
		if fault := f.set(f.Default, nil); fault != nil {
			panic("config: the default of " + f.Key + ": " + fault.Error())
		}
	}
	return fields
}

// fieldsOf reads the tags.
func fieldsOf(dst any) []field {
	v := reflect.ValueOf(dst)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		panic(fmt.Sprintf("config: got a %T, want a pointer to a struct", dst))
	}
	fields := walk("", v.Elem())
	names := map[string]string{}
	for _, f := range fields {
		for _, name := range []string{f.Key, f.Env, f.Flag} {
			if other, twice := names[name]; twice && other != f.Key {
				panic("config: " + f.Key + " and " + other + " are both called " + name)
			}
			names[name] = f.Key
		}
	}
	return fields
}

func walk(prefix string, v reflect.Value) (out []field) {
	for i := range v.NumField() {
		sf := v.Type().Field(i)
		name, tagged := sf.Tag.Lookup("koanf")
		switch {
		case !tagged && sf.Anonymous && sf.Type.Kind() == reflect.Struct:
			out = append(out, walk(prefix, v.Field(i))...)
			continue
		case !tagged || name == "-":
			continue
		case !sf.IsExported():
			panic("config: the field " + sf.Name + " has a tag and cannot be set")
		}
		key := join(prefix, name)
		if isTable(sf.Type) {
			out = append(out, walk(key, v.Field(i))...)
			continue
		}
		f := field{value: v.Field(i), url: sf.Tag.Get("secret") == "url", zero: sf.Tag.Get("zero"), Setting: Setting{
			Key:     key,
			Env:     envPrefix + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(key)),
			Flag:    strings.NewReplacer(".", "-", "_", "-").Replace(key),
			Type:    typeName(sf.Type),
			Default: sf.Tag.Get("default"),
			Help:    sf.Tag.Get("help"),
			Secret:  sf.Tag.Get("secret") != "",
		}}
		if enum := sf.Tag.Get("enum"); enum != "" {
			f.Allowed = strings.Split(enum, ",")
		}
		if f.zero != "" {
			f.Help += "; 0: " + f.zero
		}
		out = append(out, f)
	}
	return out
}

// table is a nested struct; name is empty for one that adds its fields to its parent.
type table struct {
	name  string
	value reflect.Value
}

func tables(v reflect.Value) (out []table) {
	for i := range v.NumField() {
		sf := v.Type().Field(i)
		name, tagged := sf.Tag.Lookup("koanf")
		if isTable(sf.Type) && name != "-" && (tagged || sf.Anonymous) {
			out = append(out, table{name, v.Field(i)})
		}
	}
	return out
}

var textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()

func isTable(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && !reflect.PointerTo(t).Implements(textUnmarshaler)
}

func typeName(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "duration"
	case reflect.PointerTo(t).Implements(textUnmarshaler):
		return strings.ToLower(t.Name())
	}
	switch t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "switch"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "whole number"
	case reflect.Float32, reflect.Float64:
		return "number"
	case reflect.Slice:
		return "list of " + typeName(t.Elem())
	}
	panic("config: a setting cannot be a " + t.String())
}

// set parses a value into the field: list for a TOML array, text otherwise. The error is for people and contains no
// value of a secret.
func (f *field) set(text string, list []string) error {
	v := f.value
	if v.Kind() == reflect.Slice && !reflect.PointerTo(v.Type()).Implements(textUnmarshaler) {
		if list == nil && text != "" {
			list = strings.Split(text, ",")
		}
		made := reflect.MakeSlice(v.Type(), len(list), len(list))
		for i, item := range list {
			if err := f.setOne(made.Index(i), strings.TrimSpace(item)); err != nil {
				return err
			}
		}
		v.Set(made)
		return nil
	}
	if list != nil {
		return fmt.Errorf("want one %s, not a list", f.Type)
	}
	return f.setOne(v, text)
}

func (f *field) setOne(v reflect.Value, text string) error {
	if f.Allowed != nil && text != f.Default && !slices.Contains(f.Allowed, text) {
		return f.refuse(text, "one of "+strings.Join(f.Allowed, ", "))
	}
	if text == "" { // the zero value, for every type
		v.SetZero()
		return nil
	}
	if v.Type() == reflect.TypeFor[time.Duration]() {
		d, err := parseDuration(text)
		if err != nil {
			return f.refuse(text, "a duration such as 90s, 15m, 12h or 30d")
		}
		v.SetInt(int64(d))
		return nil
	}
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		if err := u.UnmarshalText([]byte(text)); err != nil {
			if f.Secret {
				return fmt.Errorf("not a %s", f.Type)
			}
			return err
		}
		return nil
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		on, ok := switches[strings.ToLower(text)]
		if !ok {
			return f.refuse(text, "true or false")
		}
		v.SetBool(on)
	case reflect.Float32, reflect.Float64:
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return f.refuse(text, "a number")
		}
		v.SetFloat(n)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		n, err := strconv.ParseUint(text, 10, v.Type().Bits())
		if err != nil {
			return f.refuse(text, fmt.Sprintf("a whole number from 0 to %d", ^uint64(0)>>(64-v.Type().Bits())))
		}
		v.SetUint(n)
	default: // typeName accepts no other kind
		n, err := strconv.ParseInt(text, 10, v.Type().Bits())
		if err != nil {
			return f.refuse(text, "a whole number")
		}
		v.SetInt(n)
	}
	return nil
}

var switches = map[string]bool{
	"true": true, "on": true, "yes": true, "1": true,
	"false": false, "off": false, "no": false, "0": false,
}

func (f *field) refuse(text, want string) error {
	if f.Secret {
		return fmt.Errorf("want %s", want)
	}
	return fmt.Errorf("%q is not %s", text, want)
}

// parseDuration accepts days, unlike the standard library.
func parseDuration(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * 24 * time.Hour, err
	}
	return time.ParseDuration(text)
}

// mask returns text as it may be shown.
func (f *field) mask(text string) string {
	switch {
	case !f.Secret || text == "":
		return text
	case f.url && !strings.ContainsAny(text, "@?"):
		return text // "embedded", "sqlite:/path", "redis://host"
	}
	u, err := url.Parse(text)
	if !f.url || err != nil || u.Host == "" || u.Fragment != "" || strings.Contains(u.Path+u.RawQuery, "@") {
		return masked // if a password contains '/', '?' or '#', the '@' is in the wrong part
	}
	if _, has := u.User.Password(); has {
		u.User = url.UserPassword(u.User.Username(), masked)
	}
	if q := u.Query(); len(q) > 0 { // any parameter may be a credential
		for name := range q {
			q.Set(name, masked)
		}
		u.RawQuery = q.Encode()
	}
	return strings.ReplaceAll(u.String(), url.QueryEscape(masked), masked)
}

// textOf returns a value of a source as text, or as a list of texts.
func textOf(v any) (text string, list []string) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case []any:
		list = []string{}
		for _, item := range v {
			text, _ := textOf(item)
			list = append(list, text)
		}
		return "", list
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	}
	return fmt.Sprint(v), nil
}

func join(prefix, name string) string {
	if prefix == "" || name == "" {
		return prefix + name
	}
	return prefix + "." + name
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

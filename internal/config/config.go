package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/knadh/koanf/maps"
	"github.com/knadh/koanf/parsers/toml/v2"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"
	parser "github.com/pelletier/go-toml/v2"
)

// FromDefault is the origin of a value that no source sets.
const FromDefault = "default"

// Sources are the sources of values. Each may be omitted.
type Sources struct {
	// File is the path of a TOML file, which must exist. Empty means none.
	File string

	// Env has "NAME=value" entries, as from os.Environ. An empty value counts as not set.
	Env []string

	// Flags has values by the key of their setting: "smtp.port", not "smtp-port".
	Flags map[string]string
}

// Fault is one error in the configuration. It never contains the value of a secret.
type Fault struct {
	Key    string `json:"key,omitempty"`    // "smtp.port"; in a Validate method the field's own name suffices
	Origin string `json:"origin,omitempty"` // "stoa.toml:12", "STOA_SMTP_PORT", "--smtp-port" or FromDefault; set by Load
	Text   string `json:"text"`             // the fault
}

// Error returns the origin, the key and the text of the fault.
func (f *Fault) Error() string {
	switch {
	case f.Origin == "" && f.Key == "":
		return f.Text
	case f.Origin == "" || f.Origin == FromDefault:
		return f.Key + ": " + f.Text
	case f.Key == "" || strings.HasPrefix(f.Origin, envPrefix) || strings.HasPrefix(f.Origin, "--"):
		return f.Origin + ": " + f.Text // the origin names the setting
	}
	return f.Origin + ": " + f.Key + ": " + f.Text
}

// Refuse returns a [Fault] of the setting with that key if bad is true, and nil otherwise. Validate methods join
// several.
func Refuse(bad bool, key, format string, args ...any) error {
	if !bad {
		return nil
	}
	return &Fault{Key: key, Text: fmt.Sprintf(format, args...)}
}

// Faults returns every [Fault] in err's tree.
func Faults(err error) []*Fault {
	switch e := err.(type) {
	case nil:
		return nil
	case *Fault:
		return []*Fault{e}
	case interface{ Unwrap() []error }:
		var all []*Fault
		for _, err := range e.Unwrap() {
			all = append(all, Faults(err)...)
		}
		return all
	}
	return Faults(errors.Unwrap(err))
}

// Load fills the struct that dst points to and reports the origin of each value. It finds all faults and returns them
// joined, each as a [Fault], together with the report. Load panics if dst is not a pointer to a struct with valid
// tags, because that is the programmer's fault.
func Load(dst any, src Sources) (*Report, error) {
	fields := reflectOn(dst)
	l := loader{k: koanf.New("."), fields: fields, origin: map[string]string{}}

	defaults := map[string]any{}
	for _, f := range fields {
		defaults[f.Key] = f.Default
		l.origin[f.Key] = FromDefault
	}
	l.merge(defaults)
	l.file(src.File)
	l.env(src.Env)
	l.flags(src.Flags)

	rep := &Report{Warnings: l.warnings}
	sound := true
	for _, f := range fields {
		text, list := textOf(l.k.Get(f.Key))
		if fault := f.set(text, list); fault != nil {
			l.fault(f.Key, l.origin[f.Key], "%s", fault)
			sound = false
		}
		if list != nil {
			text = strings.Join(list, ",")
		}
		rep.Values = append(rep.Values, Value{Setting: f.Setting, Value: f.mask(text), Origin: l.origin[f.Key]})
	}
	Defaults(dst)
	if sound { // a partly filled struct cannot be validated
		l.validate("", reflect.ValueOf(dst))
	}
	return rep, errors.Join(l.faults...)
}

type loader struct {
	k        *koanf.Koanf
	fields   []field
	origin   map[string]string
	faults   []error
	warnings []string
}

func (l *loader) fault(key, origin, format string, args ...any) {
	fault := Fault{Key: key, Origin: origin, Text: fmt.Sprintf(format, args...)}
	for _, err := range l.faults {
		if *err.(*Fault) == fault { // the Validate method of an embedded struct is its parent's as well
			return
		}
	}
	l.faults = append(l.faults, &fault)
}

// merge sets values by full key; they replace earlier ones.
func (l *loader) merge(values map[string]any) {
	if err := l.k.Load(confmap.Provider(values, "."), nil); err != nil {
		panic("config: " + err.Error()) // loading a map from memory does not fail
	}
}

func (l *loader) file(path string) {
	if path == "" {
		return
	}
	text, err := os.ReadFile(path)
	if err != nil {
		l.fault("", path, "%s", plain(err))
		return
	}
	tree, err := toml.Parser().Unmarshal(text)
	if err != nil {
		origin := path
		if bad, ok := errors.AsType[*parser.DecodeError](err); ok {
			line, _ := bad.Position()
			origin = fmt.Sprintf("%s:%d", path, line)
		}
		l.fault("", origin, "not TOML: %s", strings.TrimPrefix(err.Error(), "toml: "))
		return
	}
	lines := keyLines(text)
	values, _ := maps.Flatten(tree, nil, ".")
	known := map[string]any{}
	keys := sortedKeys(values)
	slices.SortStableFunc(keys, func(a, b string) int { return cmp.Compare(lines[a], lines[b]) })
	for _, key := range keys {
		origin := path
		if line := lines[key]; line > 0 {
			origin = fmt.Sprintf("%s:%d", path, line)
		}
		if table, ok := values[key].(map[string]any); ok && len(table) == 0 {
			continue // a table whose entries are all commented out
		}
		if !l.has(key) {
			l.fault(key, origin, "no such setting%s", l.suggest(key, func(f field) string { return f.Key }))
			continue
		}
		known[key] = values[key]
		l.origin[key] = origin
	}
	l.merge(known)
}

func (l *loader) env(entries []string) {
	env := map[string]string{}
	for _, e := range entries {
		if name, value, _ := strings.Cut(e, "="); strings.HasPrefix(name, envPrefix) && value != "" {
			env[name] = value
		}
	}
	values := map[string]any{}
	for _, f := range l.fields {
		if value, ok := env[f.Env]; ok {
			values[f.Key] = value
			l.origin[f.Key] = f.Env
			delete(env, f.Env)
		}
		name := f.Env + fileSuffix
		path, ok := env[name]
		if !ok || !f.Secret {
			continue
		}
		delete(env, name)
		if _, twice := values[f.Key]; twice {
			l.fault(f.Key, name, "is set together with %s; set only one of them", f.Env)
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			l.fault(f.Key, name, "%s", plain(err))
			continue
		}
		value := strings.TrimRight(string(text), "\r\n")
		if value == "" { // the program that writes the file has failed; an empty value could make the server use other data
			l.fault(f.Key, name, "the file %s is empty", path)
			continue
		}
		values[f.Key] = value
		l.origin[f.Key] = name
	}
	l.merge(values)

	// Other variables are not faults but cause warnings, because another program may use them.
	for _, name := range sortedKeys(env) {
		hint := l.suggest(name, func(f field) string { return f.Env })
		if hint == "" && ofKubernetes.MatchString(name) {
			continue
		}
		l.warnings = append(l.warnings, name+" is not a setting"+cmp.Or(hint, l.shorter(name)))
	}
}

// ofKubernetes matches the variables that Kubernetes sets in every container if a service is called stoa or
// stoa-something.
var ofKubernetes = regexp.MustCompile(`_SERVICE_HOST$|_SERVICE_PORT(_[A-Z0-9_]+)?$|_PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?$`)

// shorter suggests the setting whose variable is a prefix of name: STOA_SQL for STOA_SQL_URL.
func (l *loader) shorter(name string) string {
	best := ""
	for _, f := range l.fields {
		if strings.HasPrefix(name, f.Env+"_") && len(f.Env) > len(best) {
			best = f.Env
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

func (l *loader) flags(flags map[string]string) {
	values := map[string]any{}
	for _, f := range l.fields {
		if value, ok := flags[f.Key]; ok {
			values[f.Key] = value
			l.origin[f.Key] = "--" + f.Flag
		}
	}
	l.merge(values)
}

func (l *loader) has(key string) bool {
	_, ok := l.origin[key]
	return ok
}

// validate calls Validate of every struct, the innermost first.
func (l *loader) validate(prefix string, v reflect.Value) {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	for _, sub := range tables(v) {
		l.validate(join(prefix, sub.name), sub.value)
	}
	if !v.CanInterface() {
		return // an embedded struct with a lower-case name: its Validate is its parent's
	}
	validator, ok := v.Addr().Interface().(interface{ Validate() error })
	if !ok {
		return
	}
	for _, err := range flatten(validator.Validate()) {
		fault, ok := err.(*Fault)
		if !ok {
			fault = &Fault{Text: err.Error()}
		}
		key := join(prefix, fault.Key)
		l.fault(key, l.origin[key], "%s", fault.Text)
	}
}

// flatten returns the errors that errors.Join joined.
func flatten(err error) []error {
	if err == nil {
		return nil
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, e := range many.Unwrap() {
			all = append(all, flatten(e)...)
		}
		return all
	}
	return []error{err}
}

// plain returns the text of err without the operation and the path, which the fault names.
func plain(err error) string {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		return pe.Err.Error()
	}
	return err.Error()
}

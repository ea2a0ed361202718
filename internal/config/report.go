package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Report contains the loaded values and their origins, without secrets.
type Report struct {
	Values   []Value  `json:"settings"`           // in the order of the struct's fields
	Warnings []string `json:"warnings,omitempty"` // for the log: variables that look misspelt
}

// Value is a setting with its value.
type Value struct {
	Setting
	Value  string `json:"value"`  // as written; masked if secret
	Origin string `json:"origin"` // "stoa.toml:12", "STOA_SMTP_PORT", "--smtp-port" or FromDefault
}

// Get returns the value of the setting with that key, and whether it exists.
func (r *Report) Get(key string) (Value, bool) {
	for _, v := range r.Values {
		if v.Key == key {
			return v, true
		}
	}
	return Value{}, false
}

// Locate returns the faults in err, joined, with the origins of their settings. It is for faults that are found after
// Load.
func (r *Report) Locate(err error) error {
	var located []error
	for _, f := range Faults(err) {
		from := *f
		if v, ok := r.Get(f.Key); ok {
			from.Origin = v.Origin
		}
		located = append(located, &from)
	}
	return errors.Join(located...)
}

// Print writes key, value and origin of every setting: as a table for people, or as one JSON object.
func (r *Report) Print(w io.Writer, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	tab := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(tab, "SETTING\tVALUE\tFROM")
	for _, v := range r.Values {
		value := v.Value
		if value == "" {
			value = "-"
		}
		fmt.Fprintf(tab, "%s\t%s\t%s\n", v.Key, value, v.Origin)
	}
	if err := tab.Flush(); err != nil {
		return err
	}
	for _, warning := range r.Warnings {
		if _, err := fmt.Fprintln(w, "\nwarning: "+warning); err != nil {
			return err
		}
	}
	return nil
}

// Markdown writes a table of settings for the reference.
func Markdown(w io.Writer, settings []Setting) error {
	var b strings.Builder
	b.WriteString("| Setting | Flag | Environment | Type | Default | Meaning |\n|---|---|---|---|---|---|\n")
	cell := strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace
	for _, s := range settings {
		flag, kind, def := "--"+s.Flag, s.Type, "–"
		if s.Switch() {
			flag = "--[no-]" + s.Flag
		}
		if s.Allowed != nil {
			kind = strings.Join(s.Allowed, ", ")
		}
		if s.Default != "" {
			def = "`" + cell(s.Default) + "`"
		}
		env := "`" + s.Env + "`"
		if s.Secret {
			env += ", `" + s.Env + fileSuffix + "`"
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s | %s | %s |\n", s.Key, flag, env, cell(kind), def, cell(s.Help))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

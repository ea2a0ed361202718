// Package catalogue describes every family of keys and channels that a program declares, as JSON, as Markdown and as a
// page.
//
//	fmt.Print(catalogue.New(shop.Keys).Markdown())
//
// Package keyspace/tools/cli offers it to programs as the command doc.
package catalogue

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
)

// Catalogue describes every family of a program, sorted by owner, pattern and type. The same declarations always give
// the same text.
type Catalogue struct {
	Families []Entry `json:"families"`
}

// Entry describes one family.
type Entry struct {
	Owner         string     `json:"owner"`
	Pattern       string     `json:"pattern"`
	Type          string     `json:"type"`
	Form          string     `json:"form"`
	Arguments     []Argument `json:"arguments"`
	Life          Life       `json:"life"`
	Delivery      string     `json:"delivery,omitempty"` // of a channel's messages
	Purpose       string     `json:"purpose"`
	InvalidatedBy []string   `json:"invalidated_by"`
	Together      string     `json:"together,omitempty"`
	Version       int        `json:"version"`
	Migration     string     `json:"migration,omitempty"`
	MaxKeyBytes   int        `json:"max_key_bytes"`   // without the prefix; 0 means no maximum
	MaxValueBytes int        `json:"max_value_bytes"` // expected
}

// Argument describes one placeholder.
type Argument struct {
	Name    string `json:"name"`
	Form    string `json:"form"`
	HashTag bool   `json:"hash_tag"`
}

// Life is a [keyspace.TTL] in milliseconds.
type Life struct {
	Millis       int64  `json:"ms"` // 0 means that the key never expires
	JitterMillis int64  `json:"jitter_ms"`
	EmptyMillis  int64  `json:"empty_ms"`
	StaleMillis  int64  `json:"stale_ms"`
	Lease        bool   `json:"lease"`
	Variable     bool   `json:"variable"`
	Reason       string `json:"reason,omitempty"`
}

// New describes the families of schemas.
func New(schemas ...*keyspace.Schema) Catalogue {
	c := Catalogue{Families: []Entry{}}
	for _, s := range schemas {
		for _, f := range s.Families() {
			c.Families = append(c.Families, Describe(f))
		}
	}
	slices.SortFunc(c.Families, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Pattern, b.Pattern), cmp.Compare(a.Type, b.Type))
	})
	return c
}

// Describe describes one family.
func Describe(f *keyspace.Family) Entry {
	e := Entry{
		Owner: f.Doc.Owner, Pattern: f.Pattern, Type: f.Type, Form: f.Form,
		Arguments: []Argument{}, InvalidatedBy: append([]string{}, f.Doc.InvalidatedBy...),
		Life: Life{
			Millis: f.TTL.Base.Milliseconds(), JitterMillis: f.TTL.Spread.Milliseconds(), EmptyMillis: f.TTL.Empty.Milliseconds(),
			StaleMillis: f.TTL.Stale.Milliseconds(),
			Lease:       f.TTL.IsLease, Variable: f.TTL.Variable, Reason: f.TTL.Reason,
		},
		Purpose: f.Doc.Purpose, Together: f.Doc.Together, Version: cmp.Or(f.Doc.Version, 1), Migration: f.Doc.Migration,
		MaxKeyBytes: f.MaxKeyBytes(), MaxValueBytes: f.MaxValueBytes(),
	}
	for i, form := range f.Args {
		name, hashTag := f.Placeholder(i)
		e.Arguments = append(e.Arguments, Argument{name, form.String(), hashTag})
	}
	if f.IsChannel() {
		e.Delivery = "at most once"
		if f.Log != nil {
			e.Delivery = "logged in " + f.Log.Pattern
		}
	}
	return e
}

// JSON returns the catalogue as indented JSON with a final line break.
func (c Catalogue) JSON() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(c)
	return b.Bytes(), err
}

// Markdown returns the catalogue as one table for each owner, under a second-level heading.
func (c Catalogue) Markdown() string {
	var b strings.Builder
	for i, e := range c.Families {
		if i == 0 || e.Owner != c.Families[i-1].Owner {
			if i > 0 {
				b.WriteString("\n")
			}
			fmt.Fprintf(&b, "## %s\n\n", e.Owner)
			b.WriteString("| pattern | type | form | arguments | life | purpose | invalidated by | max bytes |\n")
			b.WriteString("|---|---|---|---|---|---|---|---|\n")
		}
		b.WriteString("|")
		for _, cell := range []string{
			"`" + e.Pattern + "`", e.Type, e.Form, e.arguments(), e.Lives(), e.Purpose,
			strings.Join(e.InvalidatedBy, ", "), size(e.MaxValueBytes),
		} {
			b.WriteString(" " + cells.Replace(cell) + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// cells escapes the characters that would end a table cell.
var cells = strings.NewReplacer("|", `\|`, "\n", " ")

func (e Entry) arguments() string {
	var s []string
	for _, a := range e.Arguments {
		s = append(s, a.Name+": "+a.Form)
	}
	return strings.Join(s, "; ")
}

// Lives describes the TTL of a key, or the delivery of a channel's messages.
func (e Entry) Lives() string {
	if e.Delivery != "" {
		return e.Delivery
	}
	return e.Life.String()
}

// String describes the TTL, for example "1 h ± 5 min, empty 5 min".
func (l Life) String() string {
	if l.Millis == 0 {
		return strings.TrimSuffix("none: "+l.Reason, ": ")
	}
	s := span(l.Millis)
	switch {
	case l.Lease:
		s = "lease of " + s
	case l.Variable:
		s = "up to " + s
	}
	if l.JitterMillis > 0 {
		s += " ± " + span(l.JitterMillis)
	}
	if l.EmptyMillis > 0 {
		s += ", empty " + span(l.EmptyMillis)
	}
	if l.StaleMillis > 0 {
		s += ", stale " + span(l.StaleMillis) + " more"
	}
	return s
}

// span formats milliseconds in the largest unit that gives a whole number. It uses days only from two on, because a TTL
// of 24 hours is not a calendar day.
func span(ms int64) string {
	const day = 24 * 60 * 60 * 1000
	for _, u := range []struct {
		ms   int64
		name string
	}{{day, "d"}, {time.Hour.Milliseconds(), "h"}, {time.Minute.Milliseconds(), "min"}, {1000, "s"}} {
		if ms%u.ms == 0 && (u.ms < day || ms >= 2*day) {
			return strconv.FormatInt(ms/u.ms, 10) + " " + u.name
		}
	}
	return strconv.FormatInt(ms, 10) + " ms"
}

// size formats bytes in the largest binary unit that gives a whole number.
func size(n int) string {
	units := []string{"B", "KiB", "MiB", "GiB"}
	for len(units) > 1 && n%1024 == 0 {
		n /= 1024
		units = units[1:]
	}
	return strconv.Itoa(n) + " " + units[0]
}

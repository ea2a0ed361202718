package adopt

import (
	"fmt"
	"go/format"
	"go/token"
	"maps"
	"slices"
	"strings"
	"time"
)

// maxArgs is the largest number of arguments of a family.
const maxArgs = 3

// Source returns a keys.go for package pkg: a [keyspace.Schema.Brownfield] schema with a declaration for each family. A
// comment above each declaration shows the evidence. A family that cannot be declared is only a comment.
//
// The source compiles. A developer has to add the purposes and the reasons why keys never expire.
func (l *Layout) Source(pkg string) ([]byte, error) {
	if !token.IsIdentifier(pkg) {
		return nil, fmt.Errorf("adopt: %q is no name of a package", pkg)
	}
	var b, declarations strings.Builder
	timed := false
	names := map[string]bool{"Keys": true}
	for _, f := range l.Families {
		fmt.Fprintf(&declarations, "\n\t// %s, such as %s\n", count(f.Keys), strings.Join(quoted(f.Examples), ", "))
		for _, note := range f.notes() {
			fmt.Fprintf(&declarations, "\t// %s\n", note)
		}
		if why := f.undeclarable(); why != "" {
			fmt.Fprintf(&declarations, "\t// It cannot be declared: %s. Pattern %q\n", why, f.Pattern)
			continue
		}
		name := variable(f.Pattern)
		for word, n := name, 2; names[name]; n++ { // another pattern may end in this number
			name = fmt.Sprint(word, n)
		}
		names[name] = true
		var types []string
		for _, a := range f.Args {
			types = append(types, "keyspace."+a.Type)
		}
		def := fmt.Sprintf("Def%d", len(f.Args))
		if len(types) > 0 {
			def += "[" + strings.Join(types, ", ") + "]"
		}
		life := f.ttl()
		timed = timed || strings.Contains(life, "time.")
		fmt.Fprintf(&declarations, "\t%s = keyspace.%s(Keys, %q, %s,\n\t\t%s,\n\t\tkeyspace.Doc{Purpose: \"say what it is for\"})\n", name, def,
			f.Pattern, f.kind(), life)
	}
	fmt.Fprintf(&b, "package %s\n\nimport (\n", pkg)
	if timed {
		b.WriteString("\t\"time\"\n\n")
	}
	b.WriteString("\t\"github.com/stoa-dev/stoa/lib/keyspace\"\n)\n\n")
	fmt.Fprintf(&b, "// Keys are the keys that \"keyspace adopt\" found in a Redis.\nvar Keys = keyspace.New(%q).Brownfield()\n", pkg)
	if declarations.Len() > 0 {
		fmt.Fprintf(&b, "\nvar (%s)\n", declarations.String())
	}
	return format.Source([]byte(b.String()))
}

func count(n int64) string {
	if n == 1 {
		return "1 key"
	}
	return fmt.Sprint(n, " keys")
}

func quoted(keys []string) (out []string) {
	for _, k := range keys {
		if len(k) > 60 {
			k = k[:60] + "…"
		}
		out = append(out, fmt.Sprintf("%q", k))
	}
	return out
}

// notes returns what a developer has to decide.
func (f *Family) notes() (notes []string) {
	if len(f.Types) > 1 {
		var types []string
		for _, typ := range slices.Sorted(maps.Keys(f.Types)) {
			types = append(types, fmt.Sprintf("%d %s", f.Types[typ], typ))
		}
		notes = append(notes, "The sample of "+fmt.Sprint(f.Sampled)+" keys has "+strings.Join(types, ", ")+": these are two families.")
	}
	if f.Value == "JSON" {
		notes = append(notes, "The values are JSON: with a type of the program, keyspace.JSONOf[T]().")
	}
	for _, name := range f.padded {
		notes = append(notes, fmt.Sprintf("Numbers of {%s} begin with 0, which keyspace.Int does not write: use a type of your own.", name))
	}
	if f.Lasting > 0 && f.Lasting < f.Sampled {
		notes = append(notes, fmt.Sprintf("%d of %d sampled keys have no TTL.", f.Lasting, f.Sampled))
	}
	return notes
}

// undeclarable returns why a family cannot be declared, or "".
func (f *Family) undeclarable() string {
	plain := f.Pattern
	for _, a := range f.Args {
		plain = strings.ReplaceAll(plain, "{"+a.Name+"}", "")
	}
	switch {
	case len(f.Args) > maxArgs:
		return fmt.Sprintf("it has more than %d arguments", maxArgs)
	case strings.ContainsAny(strings.ReplaceAll(plain, "{}", ""), "{}"):
		return "it has braces around a word"
	case f.long != "":
		return fmt.Sprintf("{%s} has more than %d bytes", f.long, maxRaw)
	case f.Sampled == 0:
		return "its keys were deleted before they could be sampled"
	case f.kind() == "":
		return "values of " + f.commonest() + " have no kind"
	}
	return ""
}

func (f *Family) commonest() string {
	return slices.MaxFunc(slices.Sorted(maps.Keys(f.Types)), func(a, b string) int { return f.Types[a] - f.Types[b] })
}

func (f *Family) kind() string {
	if f.Sampled == 0 {
		return ""
	}
	const form = `("say what is in it")`
	switch f.commonest() {
	case "string":
		if f.Value == "number" {
			return "keyspace.CounterKind()"
		}
		return "keyspace.BytesOf" + form
	case "hash":
		return "keyspace.HashOf" + form
	case "list":
		return "keyspace.ListOf" + form
	case "set":
		return "keyspace.SetOf" + form
	case "zset":
		return "keyspace.ZSetOf" + form
	case "stream":
		return "keyspace.StreamOf" + form
	}
	return ""
}

// ttl rounds the largest remaining TTL up to a duration that a developer would have chosen.
func (f *Family) ttl() string {
	if f.Longest == 0 {
		return `keyspace.Forever("say what removes it")`
	}
	for _, unit := range []struct {
		name string
		d    time.Duration
		most int
	}{{"time.Second", time.Second, 60}, {"time.Minute", time.Minute, 60}, {"time.Hour", time.Hour, 72}} {
		if n := int((f.Longest + unit.d - 1) / unit.d); n == 1 {
			return "keyspace.UpTo(" + unit.name + ")"
		} else if n < unit.most {
			return fmt.Sprintf("keyspace.UpTo(%d * %s)", n, unit.name)
		}
	}
	return fmt.Sprintf("keyspace.UpTo(%d * 24 * time.Hour)", int((f.Longest+24*time.Hour-1)/(24*time.Hour)))
}

// variable converts the words of a pattern to the name of a variable.
func variable(pattern string) string {
	var b strings.Builder
	depth, up := 0, false
	for _, c := range pattern {
		switch {
		case c == '{':
			depth++
		case c == '}':
			depth--
		case depth > 0:
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' && b.Len() > 0:
			s := string(c)
			if b.Len() == 0 {
				s = strings.ToLower(s)
			} else if up {
				s = strings.ToUpper(s)
			}
			b.WriteString(s)
			up = false
			continue
		}
		up = true
	}
	name := b.String()
	if name == "" || token.IsKeyword(name) || name == "time" || name == "keyspace" || name == "init" || name == "main" {
		name = "key" + strings.ToUpper(name[:min(1, len(name))]) + name[min(1, len(name)):]
	}
	return name
}

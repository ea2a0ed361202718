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

// mostArgs is how many arguments a family can have.
const mostArgs = 3

// Source returns a keys.go of a package: a schema of [keyspace.Schema.Brownfield] with a declaration for each
// family, and above it what it was guessed from. What cannot be declared is a comment.
//
// The source compiles. Its purposes, and the reasons to live for ever, are for a reader to write.
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
		if why := f.impossible(); why != "" {
			fmt.Fprintf(&declarations, "\t// It cannot be declared: %s. Pattern %q\n", why, f.Pattern)
			continue
		}
		name := variable(f.Pattern)
		for word, n := name, 2; names[name]; n++ { // another pattern may have a number of its own
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
		life := f.life()
		timed = timed || strings.Contains(life, "time.")
		fmt.Fprintf(&declarations, "\t%s = keyspace.%s(Keys, %q, %s,\n\t\t%s,\n\t\tkeyspace.Doc{Purpose: \"say what it is for\"})\n", name, def, f.Pattern, f.kind(), life)
	}
	fmt.Fprintf(&b, "package %s\n\nimport (\n", pkg)
	if timed {
		b.WriteString("\t\"time\"\n\n")
	}
	b.WriteString("\t\"github.com/stoa-dev/stoa/lib/keyspace\"\n)\n\n")
	fmt.Fprintf(&b, "// Keys are the keys that a Redis had, as \"keyspace adopt\" has read them.\nvar Keys = keyspace.New(%q).Brownfield()\n", pkg)
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

// notes are what a reader has to decide.
func (f *Family) notes() (notes []string) {
	if len(f.Types) > 1 {
		var types []string
		for _, typ := range slices.Sorted(maps.Keys(f.Types)) {
			types = append(types, fmt.Sprintf("%d %s", f.Types[typ], typ))
		}
		notes = append(notes, "Of "+fmt.Sprint(f.Sampled)+" that were looked at "+strings.Join(types, ", ")+": these are two families.")
	}
	if f.Value == "JSON" {
		notes = append(notes, "The values are JSON: with a type of the program, keyspace.JSONOf[T]().")
	}
	for _, name := range f.padded {
		notes = append(notes, fmt.Sprintf("Numbers of {%s} begin with 0, which keyspace.Int does not write: it needs a type of the program.", name))
	}
	if f.Lasting > 0 && f.Lasting < f.Sampled {
		notes = append(notes, fmt.Sprintf("%d of %d that were looked at have no life.", f.Lasting, f.Sampled))
	}
	return notes
}

// impossible returns what keeps a family from being declared.
func (f *Family) impossible() string {
	plain := f.Pattern
	for _, a := range f.Args {
		plain = strings.ReplaceAll(plain, "{"+a.Name+"}", "")
	}
	switch {
	case len(f.Args) > mostArgs:
		return fmt.Sprintf("it has more than %d arguments", mostArgs)
	case strings.ContainsAny(strings.ReplaceAll(plain, "{}", ""), "{}"):
		return "it has braces around a word"
	case f.long != "":
		return fmt.Sprintf("{%s} has more than %d bytes", f.long, longestRaw)
	case f.Sampled == 0:
		return "its keys went before they were looked at"
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

// life rounds what is left of the longest life up to a length that somebody would have chosen.
func (f *Family) life() string {
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

// variable makes a name of a pattern's words.
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

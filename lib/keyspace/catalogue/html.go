package catalogue

import (
	_ "embed"
	"fmt"
	"html"
	"net/url"
	"strings"
)

//go:embed catalogue.css
var style string

// HTML returns the catalogue as one page that needs no other file, no script and no network.
func (c Catalogue) HTML(title string) string {
	b := &strings.Builder{}
	esc := html.EscapeString
	fmt.Fprintf(b, "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"+
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>%s</title>\n<style>\n%s</style>\n<h1>%[1]s</h1>\n",
		esc(title), style)
	fmt.Fprintf(b, "<p>%d families. "+
		"<code>{name}</code> is an argument, and <code>{{name}}</code> one that keeps a pair of braces in the key: "+
		"the hash tag of Redis Cluster. The deployment’s prefix comes before each key.</p>\n<nav><ul>\n", len(c.Families))
	for _, e := range c.Families {
		fmt.Fprintf(b, "<li>%s</li>\n", e.link())
	}
	b.WriteString("</ul></nav>\n")
	for i, e := range c.Families {
		if i == 0 || e.Owner != c.Families[i-1].Owner {
			fmt.Fprintf(b, "<h2>%s</h2>\n", esc(e.Owner))
		}
		fmt.Fprintf(b, "<article id=\"%s\">\n<h3>%s</h3>\n<p>%s</p>\n<dl>\n", esc(e.id()), e.link(), esc(e.Purpose))
		for _, f := range e.facts() {
			fmt.Fprintf(b, "<dt>%s</dt><dd>%s</dd>\n", esc(f.name), esc(f.text))
		}
		b.WriteString("</dl>\n</article>\n")
	}
	b.WriteString("</html>\n")
	return b.String()
}

// id is unique: a key and a channel may have the same pattern, so it includes the type.
func (e Entry) id() string { return e.Type + ":" + e.Pattern }

func (e Entry) link() string {
	return fmt.Sprintf("<a href=\"#%s\"><code>%s</code></a>", url.PathEscape(e.id()), html.EscapeString(e.Pattern))
}

// fact is one line about a family.
type fact struct{ name, text string }

// facts returns the properties of a family, except its purpose.
func (e Entry) facts() []fact {
	all := []fact{{"type", e.Type}, {"form", e.Form}}
	for _, a := range e.Arguments {
		text := a.Form
		if a.HashTag {
			text += "; hash tag"
		}
		all = append(all, fact{a.Name, text})
	}
	if e.Delivery != "" {
		all = append(all, fact{"delivery", e.Delivery})
	} else {
		all = append(all, fact{"life", e.Lives()})
	}
	if len(e.InvalidatedBy) > 0 {
		all = append(all, fact{"dropped by", strings.Join(e.InvalidatedBy, ", ")})
	}
	if e.Together != "" {
		all = append(all, fact{"together", e.Together})
	}
	name := "unbounded"
	if e.MaxKeyBytes > 0 {
		name = fmt.Sprintf("up to %d B and the prefix", e.MaxKeyBytes)
	}
	return append(all, fact{"value", size(e.MaxValueBytes) + " expected"}, fact{"name", name}, fact{"version", fmt.Sprint(e.Version)})
}

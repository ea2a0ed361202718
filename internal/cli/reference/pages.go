package reference

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/httpapi/openapi"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
	"github.com/stoa-dev/stoa/internal/obs"
	"github.com/stoa-dev/stoa/lib/keyspace/catalogue"
)

const keysIntro = "Every key and channel of a server. In Redis the deployment's prefix stands before each " +
	"(`stoa:` unless the setting `key_prefix` says otherwise), and `{{uid}}` is the argument in one pair of braces: " +
	"the hash tag of Redis Cluster. All of it is derived from SQL or may be lost.\n\n"

// keyFamilies writes the catalogue of keys.
func keyFamilies(_ context.Context, w io.Writer, _ Program) error {
	_, err := io.WriteString(w, catalogue.New(app.Keys()...).Markdown())
	return err
}

const metricsIntro = "`GET /metrics` has these in the Prometheus format, besides those of the Go runtime (`go_…`) and of the process " +
	"(`process_…`).\n\n"

// metrics writes the server's own metrics. It omits those of the runtime and the operating system, because they differ
// between builds.
func metrics(ctx context.Context, w io.Writer, _ Program) error {
	d, err := app.Describe(ctx)
	if err != nil {
		return err
	}
	return obs.Markdown(w, slices.DeleteFunc(d.Metrics, func(m obs.Metric) bool { return !strings.HasPrefix(m.Name, "stoa_") }))
}

var routesIntro = fmt.Sprintf("`GET /openapi.json` has all of this for machines, and every field; `/docs` shows it. "+
	"Send the access token as `Authorization: Bearer TOKEN` where the table says so. "+
	"Each operation takes %d requests in %.0f seconds from one user (one address, where there is no token), unless its own limit is "+
	"another one; "+
	"answers say with `RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset` what is left, and 429 and 503 with `Retry-After` when "+
	"to come back. "+
	"A write with a token also takes an `Idempotency-Key`.\n\n"+
	"## Pages and probes\n\nThese take no token.\n\n| Route | What it is |\n|---|---|\n"+
	"| `GET /` | the page: sign up, check in, the year, the boards |\n"+
	"| `GET /docs/` | the operations below, to be read and tried; needs no network; setting `docs` |\n"+
	"| `GET /openapi.json` | the OpenAPI 3.1 document; setting `docs` |\n"+
	"| `GET /healthz` | 200 while the process answers |\n"+
	"| `GET /readyz` | 200 while requests can be served, perhaps degraded, else 503; says to operators which part it is |\n"+
	"| `GET /metrics` | [metrics](metrics.md); for operators |\n"+
	"| `GET /docs/keys` | [keys](keys.md), as a page; for operators |\n"+
	"| `GET /debug/pprof/` | profiles of the process, for `go tool pprof`; for operators, setting `pprof` |\n"+
	"| `GET /dev/mail` | mails that were not sent, development only |\n"+
	"| `GET /dev/mail.json?to=ADDRESS` | the same for programs, newest first |\n\n"+
	"What is for operators is served at `admin_addr`; without that at `addr`, if it is loopback and no proxy is trusted, else nowhere.\n",
	web.DefaultLimit.Max, web.DefaultLimit.Window.Seconds())

// document has the parts of an OpenAPI document that the reference uses.
type document struct {
	Paths map[string]map[string]struct {
		OperationID, Summary, Description string
		Tags                              []string
		Security                          []map[string][]string
		RequestBody                       *payload
		Responses                         map[string]payload
	}
}

type payload struct {
	Description string
	Content     map[string]struct {
		Schema struct {
			Ref string `json:"$ref"`
		}
	}
}

// name returns the name of the JSON type, or else the media type. It returns "" if there is neither.
func (p *payload) name() string {
	if p == nil {
		return ""
	}
	for media, c := range p.Content { // there is only one
		if c.Schema.Ref != "" {
			return path.Base(c.Schema.Ref)
		}
		return media
	}
	return ""
}

// operation is a row of the reference.
type operation struct {
	method, path, id, summary, tag string
	token                          bool
	takes, gives                   string
	refusals                       []refusal
}

type refusal struct{ status, code, text string }

// refusalText matches one refusal in the list that package web writes for a status.
var refusalText = regexp.MustCompile("^`([^`]+)`: (.+)$")

func operations(openAPI []byte) ([]operation, error) {
	var doc document
	if err := openapi.Unmarshal(openAPI, &doc); err != nil {
		return nil, err
	}
	var all []operation
	for path, methods := range doc.Paths {
		for method, op := range methods {
			if len(op.Tags) != 1 {
				return nil, fmt.Errorf("%s has the tags %q, want one", op.OperationID, op.Tags)
			}
			o := operation{
				method: strings.ToUpper(method), path: path, id: op.OperationID, tag: op.Tags[0],
				summary: op.Summary + ".", token: len(op.Security) > 0, takes: op.RequestBody.name(),
			}
			if op.Description != "" {
				o.summary += " " + op.Description
			}
			for _, status := range slices.Sorted(maps.Keys(op.Responses)) {
				answer := op.Responses[status]
				if status < "400" {
					o.gives = strings.TrimSpace(status + " " + quoted(answer.name()))
					continue
				}
				for line := range strings.SplitSeq(answer.Description, "\n\n") {
					m := refusalText.FindStringSubmatch(line)
					if m == nil {
						return nil, fmt.Errorf("%s explains %s with %q", o.id, status, line)
					}
					o.refusals = append(o.refusals, refusal{status, m[1], m[2]})
				}
			}
			all = append(all, o)
		}
	}
	order := "GET POST PUT PATCH DELETE"
	slices.SortFunc(all, func(a, b operation) int {
		return cmp.Or(cmp.Compare(a.tag, b.tag), cmp.Compare(a.path, b.path), strings.Index(order, a.method)-strings.Index(order, b.method))
	})
	return all, nil
}

func quoted(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

// routes writes the operations by tag. Refusals that operations of several tags share are in a separate table.
func routes(ctx context.Context, w io.Writer, _ Program) error {
	d, err := app.Describe(ctx)
	if err != nil {
		return err
	}
	all, err := operations(d.OpenAPI)
	if err != nil {
		return err
	}
	tags := map[refusal][]string{}
	for _, o := range all {
		for _, r := range o.refusals {
			if !slices.Contains(tags[r], o.tag) {
				tags[r] = append(tags[r], o.tag)
			}
		}
	}
	var b strings.Builder
	tag := ""
	for _, o := range all {
		if o.tag != tag {
			tag = o.tag
			fmt.Fprintf(&b, "\n## %s\n\n| Route | Token | What it does | Takes | Answers | Refuses, besides the common "+
				"|\n|---|---|---|---|---|---|\n", tag)
		}
		var own []string
		for _, r := range o.refusals {
			if len(tags[r]) == 1 {
				own = append(own, fmt.Sprintf("%s `%s`", r.status, r.code))
			}
		}
		token := "–"
		if o.token {
			token = "yes"
		}
		fmt.Fprintf(&b, "| `%s %s` (`%s`) | %s | %s | %s | %s | %s |\n",
			o.method, o.path, o.id, token, cell(o.summary), cmp.Or(quoted(o.takes), "–"), o.gives, cmp.Or(strings.Join(own, ", "), "–"))
	}
	b.WriteString("\n## Refusals\n\nEvery refusal is an RFC 9457 problem document with a stable `code`. Common ones, where they apply:\n\n")
	writeRefusals(&b, tags, true)
	b.WriteString("\nThose of single operations:\n\n")
	writeRefusals(&b, tags, false)
	_, err = io.WriteString(w, b.String())
	return err
}

func writeRefusals(b *strings.Builder, tags map[refusal][]string, common bool) {
	b.WriteString("| Status | Code | What it says |\n|---|---|---|\n")
	for _, r := range slices.SortedFunc(maps.Keys(tags), func(a, b refusal) int {
		return cmp.Or(cmp.Compare(a.status, b.status), cmp.Compare(a.code, b.code), cmp.Compare(a.text, b.text))
	}) {
		if len(tags[r]) > 1 == common {
			fmt.Fprintf(b, "| %s | `%s` | %s |\n", r.status, r.code, cell(r.text))
		}
	}
}

var cell = strings.NewReplacer("|", `\|`, "\n", " ").Replace

package deploy

import (
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stoa-dev/stoa/internal/app"
)

const (
	rulesFile = "alerts/stoa.rules.yml"
	testsFile = "alerts/stoa.rules_test.yml"
	runbook   = "../docs/operate.md"
	runbookAt = "https://github.com/stoa-dev/stoa/blob/main/docs/operate.md#"
)

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// promtool runs promtool in dir and returns its output.
func promtool(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	_ = os.Getenv("STOA_TEST_RUN") // a new value for each run, because Go's cache of test results does not track the files of the program
	bin, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatal("promtool is not in PATH: run make deps")
	}
	cmd := exec.CommandContext(t.Context(), bin, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// An alert is one rule of the file.
type alert struct{ name, text, expr string }

var (
	alertName = regexp.MustCompile(`(?m)^ +- alert: (\w+)\n`)
	alertExpr = regexp.MustCompile(`(?s) +expr: (.*?)\n +(?:for|labels): `)
)

func alerts(t *testing.T) (all []alert) {
	t.Helper()
	text := read(t, rulesFile)
	at := alertName.FindAllStringSubmatchIndex(text, -1)
	for i, m := range at {
		end := len(text)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		a := alert{name: text[m[2]:m[3]], text: text[m[0]:end]}
		expr := alertExpr.FindStringSubmatch(a.text)
		if expr == nil {
			t.Fatalf("%s has no expr", a.name)
		}
		a.expr = expr[1]
		all = append(all, a)
	}
	if len(all) < 15 {
		t.Fatalf("found %d alerts; the reading is broken", len(all))
	}
	return all
}

func TestAlertsFireWhenTheyShouldAndOnlyThen(t *testing.T) {
	if out, err := promtool(t, "alerts", "check", "rules", filepath.Base(rulesFile)); err != nil {
		t.Fatalf("promtool check rules: %v\n%s", err, out)
	}
	if out, err := promtool(t, "alerts", "test", "rules", filepath.Base(testsFile)); err != nil {
		t.Fatalf("promtool test rules: %v\n%s", err, out)
	}
}

// If no alert ever fires, the cases must miss every alert. An alert that always fires fails the first case.
func TestEveryAlertIsTested(t *testing.T) {
	all, silent, dir := alerts(t), read(t, rulesFile), t.TempDir()
	for _, a := range all {
		silent = strings.Replace(silent, a.text, strings.Replace(a.text, a.expr, "vector(0) > 1", 1), 1)
	}
	for name, text := range map[string]string{rulesFile: silent, testsFile: read(t, testsFile)} {
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := promtool(t, dir, "test", "rules", filepath.Base(testsFile))
	if err == nil {
		t.Fatalf("nothing notices when no alert fires:\n%s", out)
	}
	for _, a := range all {
		if !strings.Contains(out, `alertname="`+a.name+`"`) {
			t.Errorf("nothing notices when %s never fires", a.name)
		}
	}
}

var (
	severity = regexp.MustCompile(`labels: \{severity: (?:critical|warning)\}\n`)
	summary  = regexp.MustCompile(`\n +summary: ['\w]`)
)

func TestEveryAlertSaysHowBadItIsAndWhatToDo(t *testing.T) {
	guide := read(t, runbook)
	var known []string
	for _, m := range regexp.MustCompile(`(?m)^#+ (Stoa\w+)\n\n\S`).FindAllStringSubmatch(guide, -1) {
		known = append(known, m[1])
	}
	for _, a := range alerts(t) {
		if !severity.MatchString(a.text) || !summary.MatchString(a.text) {
			t.Errorf("%s lacks a severity or a summary", a.name)
		}
		if !strings.Contains(a.text, "runbook_url: "+runbookAt+strings.ToLower(a.name)+"\n") {
			t.Errorf("%s does not lead to its place in %s", a.name, runbook)
		}
		if i := slices.Index(known, a.name); i >= 0 {
			known = slices.Delete(known, i, i+1)
		} else {
			t.Errorf("%s has no section in %s", a.name, runbook)
		}
	}
	for _, name := range known {
		t.Errorf("%s explains %s, which is no alert", runbook, name)
	}
}

// registered returns every metric of a node by name, with its type.
func registered(t *testing.T) map[string]string {
	t.Helper()
	d, err := app.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]string{}
	for _, m := range d.Metrics {
		types[m.Name] = m.Type
	}
	return types
}

var (
	metricName = regexp.MustCompile(`\b(?:stoa|go|process|promhttp)_[a-z0-9_]+`)
	sampleOf   = regexp.MustCompile(`_(?:bucket|sum|count)$`)
)

// unknown returns the metrics of a query that are not registered.
func unknown(query string, types map[string]string) (names []string) {
	for _, name := range metricName.FindAllString(query, -1) {
		base := sampleOf.ReplaceAllString(name, "")
		if types[name] == "" && (base == name || types[base] != "histogram") {
			names = append(names, name)
		}
	}
	return names
}

func TestAlertsAndDashboardNameMetricsThatExist(t *testing.T) {
	types := registered(t)
	if got := unknown(`rate(stoa_nosuch_total[5m]) / stoa_build_info + stoa_redis_up_bucket`, types); len(got) != 2 {
		t.Errorf("of two unknown metrics %v were found", got)
	}
	var queries []string
	for _, a := range alerts(t) {
		queries = append(queries, a.expr)
	}
	board := panels(t)
	for _, p := range board {
		for _, target := range p.Targets {
			queries = append(queries, target.Expr)
		}
	}
	for _, q := range queries {
		if got := unknown(q, types); len(got) > 0 {
			t.Errorf("no node has %v, named in %s", got, q)
		}
	}
}

// A panel has the fields of a panel that the tests use.
type panel struct {
	ID      int
	Title   string
	GridPos struct{ X, Y, W, H int }
	Targets []struct{ Expr, LegendFormat string }
}

func panels(t *testing.T) []panel {
	t.Helper()
	var board struct {
		Title, UID string
		Panels     []panel
	}
	if err := json.Unmarshal([]byte(read(t, "grafana/stoa.json")), &board); err != nil {
		t.Fatal(err)
	}
	if board.Title == "" || board.UID == "" || len(board.Panels) < 10 {
		t.Fatalf("the dashboard %q has %d panels", cmp.Or(board.Title, board.UID), len(board.Panels))
	}
	return board.Panels
}

// Prometheus parses the dashboard's queries as rules, with the interval that Grafana inserts.
func TestTheDashboardsQueriesAreQueries(t *testing.T) {
	var rules strings.Builder
	rules.WriteString("groups:\n  - name: dashboard\n    rules:\n")
	taken := map[[2]int]string{}
	for _, p := range panels(t) {
		if p.Title == "" || len(p.Targets) == 0 {
			t.Errorf("panel %d has no title or asks nothing", p.ID)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					t.Fatalf("the panels %q and %q overlap", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		for _, target := range p.Targets {
			query, err := json.Marshal(strings.ReplaceAll(target.Expr, "$__rate_interval", "1m")) // JSON text is also YAML
			if err != nil {
				t.Fatal(err)
			}
			rules.WriteString("      - record: panel\n        expr: " + string(query) + "\n        labels: {title: " + string(query) + "}\n")
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "dashboard.yml"), []byte(rules.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := promtool(t, dir, "check", "rules", "dashboard.yml"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestTheDashboardCountsANodeOnceWhateverItHasInRedis(t *testing.T) {
	var query []byte
	for _, p := range panels(t) {
		for _, target := range p.Targets {
			if target.LegendFormat != "with Redis complete" {
				continue
			}
			var err error
			if query, err = json.Marshal(target.Expr); err != nil {
				t.Fatal(err)
			}
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "nodes.yml"), []byte(`tests:
  - interval: 15s
    input_series:
      - {series: 'stoa_projection_up{job="stoa",instance="a",projection="checkin"}', values: '1x8'}
      - {series: 'stoa_projection_up{job="stoa",instance="a",projection="chats"}', values: '1x8'}
      - {series: 'stoa_projection_up{job="stoa",instance="b",projection="checkin"}', values: '1x8'}
      - {series: 'stoa_projection_up{job="stoa",instance="b",projection="chats"}', values: '0x8'}
    promql_expr_test:
      - expr: `+string(query)+`
        eval_time: 1m
        exp_samples:
          - {labels: '{}', value: 1}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := promtool(t, dir, "test", "rules", "nodes.yml"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

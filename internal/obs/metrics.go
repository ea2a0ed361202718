package obs

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Registry contains a process's metrics. It is a prometheus.Registerer for the components that count. It records all
// collectors, so that [Describe] lists metrics without a value.
type Registry struct {
	*prometheus.Registry

	mu    sync.Mutex
	known []prometheus.Collector
}

var _ prometheus.Registerer = (*Registry)(nil)

// NewRegistry returns a registry with the metrics of the Go runtime, the process and the build.
func NewRegistry() *Registry {
	r := &Registry{Registry: prometheus.NewRegistry()}
	b := Build()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "stoa_build_info",
		Help:        "Always 1; the labels describe the build.",
		ConstLabels: prometheus.Labels{"version": b.Version, "commit": b.Commit, "goversion": b.Go},
	})
	build.Set(1)
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), build)
	return r
}

// Register implements prometheus.Registerer.
func (r *Registry) Register(c prometheus.Collector) error {
	if err := r.Registry.Register(c); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known = append(r.known, c)
	return nil
}

// MustRegister implements prometheus.Registerer: it panics if Register returns an error.
func (r *Registry) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		if err := r.Register(c); err != nil {
			panic(err)
		}
	}
}

// Unregister implements prometheus.Registerer.
func (r *Registry) Unregister(c prometheus.Collector) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known = slices.DeleteFunc(r.known, func(k prometheus.Collector) bool { return k == c })
	return r.Registry.Unregister(c)
}

// Handler serves the metrics in the Prometheus or the OpenMetrics format, as the client requests. It omits a metric
// that cannot be collected, and logs the error to log.
func (r *Registry) Handler(log *slog.Logger) http.Handler {
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{
		EnableOpenMetrics: true,
		ErrorHandling:     promhttp.ContinueOnError,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelError),
	})
}

// Metric is one metric in the reference.
type Metric struct {
	Name   string   `json:"name"`
	Type   string   `json:"type"` // "counter", "gauge", "histogram", "summary" or "untyped"
	Help   string   `json:"help"`
	Labels []string `json:"labels,omitempty"` // the constant ones first
}

// Describe lists the metrics in r by name, including those without a value.
func Describe(r *Registry) ([]Metric, error) {
	families, err := r.Gather()
	if err != nil {
		return nil, fmt.Errorf("obs.Describe: %w", err)
	}
	types := map[string]string{}
	for _, f := range families {
		types[f.GetName()] = strings.ToLower(f.GetType().String())
	}
	r.mu.Lock()
	known := slices.Clone(r.known)
	r.mu.Unlock()
	byName := map[string]Metric{}
	for _, c := range known {
		for _, m := range describe(c) {
			m.Type = cmp.Or(types[m.Name], m.Type)
			byName[m.Name] = m
		}
	}
	var out []Metric
	for _, m := range byName {
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b Metric) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// A Desc exposes its content only as text.
var (
	descText   = regexp.MustCompile(`^Desc\{fqName: ("(?:[^"\\]|\\.)*"), help: ("(?:[^"\\]|\\.)*"),.* constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)
	constLabel = regexp.MustCompile(`(\w+)="(?:[^"\\]|\\.)*"`)
)

func describe(c prometheus.Collector) (out []Metric) {
	var kind string
	switch c.(type) {
	case *prometheus.CounterVec:
		kind = "counter"
	case *prometheus.GaugeVec:
		kind = "gauge"
	case *prometheus.HistogramVec:
		kind = "histogram"
	case *prometheus.SummaryVec:
		kind = "summary"
	default: // has a value from the start, or determines its types later
		kind = "untyped"
	}
	var kinds map[*prometheus.Desc]string
	if k, ok := c.(interface {
		kinds() map[*prometheus.Desc]string
	}); ok {
		kinds = k.kinds()
	}
	descs := make(chan *prometheus.Desc)
	go func() {
		c.Describe(descs)
		close(descs) // ends the loop below, which waits for it
	}()
	for d := range descs {
		m := descText.FindStringSubmatch(d.String())
		if m == nil {
			continue
		}
		metric := Metric{Type: cmp.Or(kinds[d], kind)}
		metric.Name, _ = strconv.Unquote(m[1])
		metric.Help, _ = strconv.Unquote(m[2])
		for _, label := range constLabel.FindAllStringSubmatch(m[3], -1) {
			metric.Labels = append(metric.Labels, label[1])
		}
		if m[4] != "" {
			metric.Labels = append(metric.Labels, strings.Split(m[4], ",")...)
		}
		out = append(out, metric)
	}
	return out
}

// Markdown writes a table of metrics for the reference.
func Markdown(w io.Writer, metrics []Metric) error {
	var b strings.Builder
	b.WriteString("| Metric | Type | Labels | Meaning |\n|---|---|---|---|\n")
	cell := strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace
	for _, m := range metrics {
		labels := "–"
		if len(m.Labels) > 0 {
			labels = "`" + strings.Join(m.Labels, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, m.Type, labels, cell(m.Help))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

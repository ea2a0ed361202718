package obs

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

func TestLog_ParsesLevelAndFormatInAnyOrder(t *testing.T) {
	for text, want := range map[string]Log{
		"debug":      {Level: slog.LevelDebug},
		"json":       {Format: "json"},
		"warn, json": {Level: slog.LevelWarn, Format: "json"},
		"TEXT,error": {Level: slog.LevelError, Format: "text"},
	} {
		var got Log
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q: got %+v, %v; want %+v", text, got, err, want)
		}
	}
	got := Log{Format: "json"}
	if err := got.UnmarshalText([]byte("debug,xml")); err == nil || got != (Log{Format: "json"}) {
		t.Errorf("debug,xml: got %+v, %v; want an error and no change", got, err)
	}
}

func TestNewLogger_RedactsSecretsInEveryFormat(t *testing.T) {
	for _, format := range []string{"pretty", "text", "json", ""} {
		var out bytes.Buffer
		log := NewLogger(&out, Log{Format: format}).With("refresh_token", "hunter2")
		log.Info("signed in", "user", "V1StGXR8_Z5j", "password", "hunter2", "code", 482913, "Authorization", "Bearer hunter2",
			"newPassword", "hunter2", slog.Group("form", "secret", "hunter2", "zone", "UTC"),
			slog.Group("cookie", "value", "hunter2"), "barcode", "4006381333931", "codes", 3, "token_count", 7)
		for _, secret := range []string{"hunter2", "482913"} {
			if strings.Contains(out.String(), secret) {
				t.Errorf("%q format shows %s: %s", format, secret, &out)
			}
		}
		for _, shown := range []string{"signed in", "V1StGXR8_Z5j", "UTC", "4006381333931", "3", "7", Redacted} {
			if !strings.Contains(out.String(), shown) {
				t.Errorf("%q format lacks %s: %s", format, shown, &out)
			}
		}
	}
}

func TestNewLogger_AppliesLevelAndFormat(t *testing.T) {
	var out bytes.Buffer
	log := NewLogger(&out, Log{Level: slog.LevelWarn, Format: "json"})
	log.Info("quiet")
	log.Warn("loud")
	var line struct{ Msg string }
	if err := json.Unmarshal(out.Bytes(), &line); err != nil || line.Msg != "loud" {
		t.Errorf("got %q (%v), want one JSON line with loud", &out, err)
	}
}

func TestTerminal_IsFalseForAFile(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/log")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if Terminal(f) || Terminal(io.Discard) {
		t.Error("got a terminal, want none")
	}
	NewLogger(f, Log{}).Info("hello")
	text, err := os.ReadFile(f.Name())
	if err != nil || !strings.Contains(string(text), "level=INFO msg=hello") {
		t.Errorf("got %q (%v), want a line key=value", text, err)
	}
}

func TestDescribe_ListsMetricsWithoutAValue(t *testing.T) {
	r := NewRegistry()
	f := promauto.With(r)
	f.NewCounterVec(prometheus.CounterOpts{Name: "stoa_a_total", Help: `Says "a", {b}.`}, []string{"route", "status"})
	f.NewHistogramVec(prometheus.HistogramOpts{Name: "stoa_b_seconds", Help: "B.", ConstLabels: prometheus.Labels{"x": "y"}}, []string{"op"})
	f.NewGauge(prometheus.GaugeOpts{Name: "stoa_c", Help: "C."})
	f.NewCounterFunc(prometheus.CounterOpts{Name: "stoa_d_total", Help: "D."}, func() float64 { return 1 })
	f.NewGaugeVec(prometheus.GaugeOpts{Name: "stoa_e", Help: "E."}, []string{"part"}).WithLabelValues("redis").Set(1)
	gone := f.NewGauge(prometheus.GaugeOpts{Name: "stoa_gone", Help: "Gone."})
	r.Unregister(gone)

	all, err := Describe(r)
	if err != nil {
		t.Fatal(err)
	}
	var got []Metric
	names := map[string]string{}
	for _, m := range all {
		names[m.Name] = m.Type
		if strings.HasPrefix(m.Name, "stoa_") && m.Name != "stoa_build_info" {
			got = append(got, m)
		}
	}
	want := []Metric{
		{"stoa_a_total", "counter", `Says "a", {b}.`, []string{"route", "status"}},
		{"stoa_b_seconds", "histogram", "B.", []string{"x", "op"}},
		{"stoa_c", "gauge", "C.", nil},
		{"stoa_d_total", "counter", "D.", nil},
		{"stoa_e", "gauge", "E.", []string{"part"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Describe: got\n%+v, want\n%+v", got, want)
	}
	for name, kind := range map[string]string{"go_goroutines": "gauge", "process_cpu_seconds_total": "counter", "stoa_build_info": "gauge"} {
		if names[name] != kind {
			t.Errorf("%s: got type %q, want %q", name, names[name], kind)
		}
	}

	var out bytes.Buffer
	if err := Markdown(&out, want[:1]); err != nil {
		t.Fatal(err)
	}
	if want := "| `stoa_a_total` | counter | `route`, `status` | Says \"a\", {b}. |\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("Markdown: got %s, want it to end in %s", &out, want)
	}
}

func TestRegistry_RefusesDuplicates(t *testing.T) {
	a, b := NewRegistry(), NewRegistry()
	gauge := func() prometheus.Collector {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "stoa_x", Help: "X."})
	}
	a.MustRegister(gauge())
	b.MustRegister(gauge())
	if err := a.Register(gauge()); err == nil {
		t.Error("Register of a name twice: got no error, want one")
	}
	defer func() {
		if recover() == nil {
			t.Error("MustRegister of a name twice: got no panic, want one")
		}
	}()
	a.MustRegister(gauge())
}

func TestHandler_ServesMetrics(t *testing.T) {
	rec := httptest.NewRecorder()
	NewRegistry().Handler(slog.New(slog.DiscardHandler)).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{"go_goroutines ", "stoa_build_info{", "process_start_time_seconds "} {
		if !strings.Contains(rec.Body.String(), "\n"+want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
}

func TestBuildOf_ReturnsTheRevision(t *testing.T) {
	vcs := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef0123"}, {Key: "vcs.time", Value: "2026-03-01T00:00:00Z"},
			{Key: "vcs.modified", Value: modified}}
	}
	for name, tc := range map[string]struct {
		version string
		vcs     []debug.BuildSetting
		want    string
	}{
		"a release":              {"v1.2.0", vcs("false"), "v1.2.0"},
		"a checkout":             {"v0.0.0-20260301000000-0123456789ab+dirty", vcs("true"), "v0.0.0-20260301000000-0123456789ab+dirty"},
		"a workspace":            {"(devel)", vcs("false"), "devel-0123456789ab"},
		"a modified workspace":   {"(devel)", vcs("true"), "devel-0123456789ab+dirty"},
		"without VCS":            {"(devel)", nil, "devel"},
		"without any build info": {"", nil, "devel"},
	} {
		got := buildOf(&debug.BuildInfo{Main: debug.Module{Version: tc.version}, Settings: tc.vcs})
		if got.Version != tc.want || len(tc.vcs) > 0 && (got.Commit != "0123456789abcdef0123" || got.Time != "2026-03-01T00:00:00Z") {
			t.Errorf("%s: got %+v, want %s", name, got, tc.want)
		}
	}
}

func TestBuild_ReturnsTheGoVersion(t *testing.T) {
	if b := Build(); !strings.HasPrefix(b.Go, "go1.") || b.Version == "" || !strings.Contains(b.Platform, "/") {
		t.Errorf("Build: got %+v, want version, Go and platform", b)
	}
}

func TestNewLogger_JSONDurationsAreMilliseconds(t *testing.T) {
	var out bytes.Buffer
	NewLogger(&out, Log{Format: "json"}).Info("done", "took", 1500*time.Microsecond, slog.Group("a", "wait", time.Second))
	if got := out.String(); !strings.Contains(got, `"took_ms":1.5`) || !strings.Contains(got, `"wait_ms":1000`) {
		t.Errorf("got %s", got)
	}
}

package cacheotel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/cache/cacheotel"
	_ "github.com/stoa-dev/stoa/lib/redis/embedded"
)

func Example() {
	ctx := context.Background()
	spans := tracetest.NewSpanRecorder() // in a program: an exporter
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))

	telemetry, err := cacheotel.New(cacheotel.Config{Tracers: tracers})
	if err != nil {
		fmt.Println(err)
		return
	}
	rt, err := cache.Open(ctx, cache.Options{Config: cache.Config{Hooks: telemetry.Hooks()}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	stop, err := telemetry.Watch(rt) // metrics of the global meter provider
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	load := func(_ context.Context, id int) (string, error) { return "lamp " + strconv.Itoa(id), nil }
	products := cache.Keyed(rt, "product", strconv.Itoa, load)

	ctx, request := tracers.Tracer("shop").Start(ctx, "GET /product/7")
	for range 2 { // the second read is in process
		if _, err := products.Get(ctx, 7); err != nil {
			fmt.Println(err)
		}
	}
	request.End()
	rt.Wait()

	ended := spans.Ended()
	for _, s := range ended {
		fmt.Println(s.Name(), "below", nameOf(ended, s.Parent()), attributes(s))
	}
	// Output:
	// cache load below cache read cache=product:{key} cache.keys=1 cache.outcome=found cache.tier=source
	// cache read below GET /product/7 cache=product:{key} cache.keys=1 cache.outcome=found cache.tier=source
	// GET /product/7 below nothing
}

func nameOf(spans []sdktrace.ReadOnlySpan, of trace.SpanContext) string {
	for _, s := range spans {
		if s.SpanContext().SpanID() == of.SpanID() {
			return s.Name()
		}
	}
	return "nothing"
}

func attributes(s sdktrace.ReadOnlySpan) string {
	return strings.TrimSpace(series("", attribute.NewSet(s.Attributes()...)))
}

// opened returns a runtime with its spans and metrics.
func opened(t *testing.T) (rt *cache.Runtime, tracer trace.Tracer, spans *tracetest.SpanRecorder, meters *sdkmetric.ManualReader) {
	t.Helper()
	spans, meters = tracetest.NewSpanRecorder(), sdkmetric.NewManualReader()
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	telemetry, err := cacheotel.New(cacheotel.Config{Tracers: tracers, Meters: sdkmetric.NewMeterProvider(sdkmetric.WithReader(meters))})
	if err != nil {
		t.Fatal(err)
	}
	rt, err = cache.Open(t.Context(), cache.Options{Config: cache.Config{Hooks: telemetry.Hooks()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rt.Close() })
	if _, err := telemetry.Watch(rt); err != nil {
		t.Fatal(err)
	}
	return rt, tracers.Tracer("test"), spans, meters
}

var errAway = errors.New("the source is unavailable")

func source(_ context.Context, id int) (string, error) {
	switch id {
	case 404:
		return "", cache.ErrNotFound
	case 500:
		return "", errAway
	}
	return "thing", nil
}

func TestSpans_HaveTierAndOutcome(t *testing.T) {
	rt, tracer, spans, _ := opened(t)
	things := cache.Keyed(rt, "thing", strconv.Itoa, source, cache.With(cache.Policy{MaxStale: 10 * time.Second}))
	if _, err := things.Get(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if n := len(spans.Started()); n != 0 {
		t.Errorf("a caller without a span began %d spans", n)
	}
	for _, c := range []struct {
		name string
		read func(context.Context) error
		err  error
		want []string
	}{
		{"redis", func(ctx context.Context) error { things.Clear(); _, err := things.Get(ctx, 1); return err }, nil,
			[]string{"cache read: cache=thing:{key} cache.keys=1 cache.outcome=found cache.tier=redis"}},
		{"process", func(ctx context.Context) error { _, err := things.Get(ctx, 1); return err }, nil, nil},
		{"missing", func(ctx context.Context) error { _, err := things.Get(ctx, 404); return err }, cache.ErrNotFound,
			[]string{"cache load: cache=thing:{key} cache.keys=1 cache.outcome=missing cache.tier=source",
				"cache read: cache=thing:{key} cache.keys=1 cache.outcome=missing cache.tier=source"}},
		{"failed", func(ctx context.Context) error { _, err := things.Get(ctx, 500); return err }, errAway,
			[]string{"cache load: cache=thing:{key} cache.keys=1 cache.outcome=failed cache.tier=source",
				"cache read: cache=thing:{key} cache.keys=1 cache.outcome=failed"}},
		{"batch in redis", func(ctx context.Context) error { things.Clear(); _, err := things.GetMany(ctx, []int{1}); return err }, nil,
			[]string{"cache read: cache=thing:{key} cache.keys=1 cache.outcome=found cache.tier=redis"}},
		{"batch", func(ctx context.Context) error { _, err := things.GetMany(ctx, []int{1, 2, 3}); return err }, nil,
			[]string{"cache load: cache=thing:{key} cache.keys=1 cache.outcome=found cache.tier=source",
				"cache load: cache=thing:{key} cache.keys=1 cache.outcome=found cache.tier=source",
				"cache read: cache=thing:{key} cache.keys=2 cache.outcome=found cache.tier=source"}},
	} {
		before := len(spans.Ended())
		ctx, parent := tracer.Start(t.Context(), "parent")
		if err := c.read(ctx); !errors.Is(err, c.err) {
			t.Errorf("%s: %v", c.name, err)
		}
		rt.Wait()
		ended := spans.Ended()[before:]
		var got []string
		for _, s := range ended {
			got = append(got, s.Name()+": "+attributes(s))
			above := parent.SpanContext()
			if s.Name() == "cache load" {
				above = ended[len(ended)-1].SpanContext()
			}
			if s.Parent().SpanID() != above.SpanID() {
				t.Errorf("%s: %s is below another span", c.name, s.Name())
			}
			if failed := s.Status().Code == codes.Error; failed != errors.Is(c.err, errAway) {
				t.Errorf("%s: the status of %s is %v", c.name, s.Name(), s.Status())
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
		parent.End()
	}
}

func TestMetrics_CountCacheEvents(t *testing.T) {
	rt, _, _, meters := opened(t)
	things := cache.Keyed(rt, "thing", strconv.Itoa, source, cache.With(cache.Policy{MaxStale: 10 * time.Second}))
	for _, id := range []int{1, 1, 1, 404, 500} {
		_, _ = things.Get(t.Context(), id)
	}
	things.Clear()
	_, _ = things.Get(t.Context(), 1)
	if err := things.Invalidate(t.Context(), 1, 2); err != nil {
		t.Fatal(err)
	}
	rt.Wait()
	var all metricdata.ResourceMetrics
	if err := meters.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, m := range all.ScopeMetrics[0].Metrics {
		switch d := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range d.DataPoints {
				got[series(m.Name, p.Attributes)] = float64(p.Value)
			}
		case metricdata.Gauge[int64]:
			for _, p := range d.DataPoints {
				got[series(m.Name, p.Attributes)] = float64(p.Value)
			}
		case metricdata.Gauge[float64]:
			for _, p := range d.DataPoints {
				got[series(m.Name, p.Attributes)] = p.Value
			}
		case metricdata.Histogram[float64]:
			for _, p := range d.DataPoints {
				got[series(m.Name, p.Attributes)] = float64(p.Count)
			}
		}
	}
	for name, want := range map[string]float64{
		"stoa.cache.reads cache=thing:{key} result=process":      2,
		"stoa.cache.reads cache=thing:{key} result=redis":        1,
		"stoa.cache.reads cache=thing:{key} result=load":         3,
		"stoa.cache.reads cache=thing:{key} result=stale":        0,
		"stoa.cache.load cache=thing:{key}":                      3,
		"stoa.cache.age cache=thing:{key} tier=redis":            1,
		"stoa.cache.missing cache=thing:{key}":                   1,
		"stoa.cache.load_errors cache=thing:{key}":               1,
		"stoa.cache.dropped_keys":                                2,
		"stoa.cache.fallbacks cache=thing:{key} reason=redis":    0,
		"stoa.cache.unstored cache=thing:{key} reason=overtaken": 0,
		"stoa.cache.breakers_open":                               0,
	} {
		if n, ok := got[name]; !ok || n != want {
			t.Errorf("%s: got %v (%v), want %v", name, n, ok, want)
		}
	}
	if got["stoa.cache.entries cache=thing:{key}"] == 0 || got["stoa.cache.behind"] < 0 {
		t.Errorf("got %v", got)
	}
}

func series(name string, of attribute.Set) string {
	for _, a := range of.ToSlice() {
		name += " " + string(a.Key) + "=" + a.Value.String()
	}
	return name
}

// Package cacheotel exports traces and metrics of a process' caches to OpenTelemetry. Reads beyond this process' memory
// and loads have spans. The package is a module of its own:
//
//	telemetry, err := cacheotel.New(cacheotel.Config{})
//	rt, err := cache.Open(ctx, cache.Options{Config: cache.Config{Hooks: telemetry.Hooks()}})
//	stop, err := telemetry.Watch(rt)
//
// A span is a child of the span in the caller's context; without that one there is no span. A hit in process has no
// span, a read of Redis has a span "cache read", and a load has a span "cache load" below the read that caused it. A
// caller that waits for the load of another caller only has the span of its read. The attributes are the cache's name,
// the number of requested keys, the tier that had the value, and the outcome:
//
//	cache          user:{key}
//	cache.keys     1
//	cache.tier     redis, source, or process for a value past its life; absent without a result
//	cache.outcome  found, missing or failed
//
// The table in docs/cache.md lists the metrics; OpenTelemetry has no conventions for caches yet.
package cacheotel

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/stoa-dev/stoa/lib/cache"
)

const scope = "github.com/stoa-dev/stoa/lib/cache/cacheotel"

// Config sets the destinations of traces and metrics.
type Config struct {
	// Tracers creates the spans; nil means the global provider.
	Tracers trace.TracerProvider
	// Meters creates the instruments; nil means the global provider.
	Meters metric.MeterProvider
}

// Telemetry contains the spans and metrics of one runtime's caches.
type Telemetry struct {
	tracer  trace.Tracer
	meter   metric.Meter
	load    metric.Float64Histogram
	age     metric.Float64Histogram
	dropped metric.Int64Counter
}

// New returns the telemetry. It returns an error if the meter refuses an instrument.
func New(cfg Config) (*Telemetry, error) {
	if cfg.Tracers == nil {
		cfg.Tracers = otel.GetTracerProvider()
	}
	if cfg.Meters == nil {
		cfg.Meters = otel.GetMeterProvider()
	}
	t := &Telemetry{tracer: cfg.Tracers.Tracer(scope), meter: cfg.Meters.Meter(scope)}
	var errs [3]error
	t.load, errs[0] = t.meter.Float64Histogram("stoa.cache.load", metric.WithUnit("s"),
		metric.WithDescription("Time of one load from the source, of one key or several."),
		metric.WithExplicitBucketBoundaries(0.0002, 0.0008, 0.0032, 0.0128, 0.0512, 0.2048, 0.8192, 3.2768, 13.1072))
	t.age, errs[1] = t.meter.Float64Histogram("stoa.cache.age", metric.WithUnit("s"),
		metric.WithDescription("Age of returned values by tier: one in 64 from process, each one from redis."),
		metric.WithExplicitBucketBoundaries(0.01, 0.04, 0.16, 0.64, 2.56, 10.24, 40.96, 163.84, 655.36, 2621.44, 10485.76))
	t.dropped, errs[2] = t.meter.Int64Counter("stoa.cache.dropped_keys", metric.WithUnit("{key}"),
		metric.WithDescription("Keys dropped on all nodes by changes on this node."))
	return t, errors.Join(errs[:]...)
}

func cacheName(name string) attribute.KeyValue { return attribute.String("cache", name) }

// noContext is the context for hooks that are called without a reader's context.
var noContext = context.Background()

// Hooks returns the hooks that record spans and metrics; combine them with others by [cache.Hooks.And].
func (t *Telemetry) Hooks() cache.Hooks {
	return cache.Hooks{
		Asking: t.asking,
		Answered: func(name string, from cache.Tier, age time.Duration) {
			t.age.Record(noContext, age.Seconds(), metric.WithAttributes(cacheName(name), attribute.String("tier", string(from))))
		},
		Dropped: func(keys int) { t.dropped.Add(noContext, int64(keys)) },
	}
}

// asking begins a read or a load. The duration of a load is recorded within its span, so that it can become an
// exemplar.
func (t *Telemetry) asking(ctx context.Context, of cache.Tier, name string, keys int) (context.Context, func(cache.Tier, error)) {
	if of != cache.Origin {
		return t.span(ctx, "cache read", name, keys)
	}
	ctx, end := t.span(ctx, "cache load", name, keys)
	began := time.Now()
	return ctx, func(from cache.Tier, err error) {
		t.load.Record(ctx, time.Since(began).Seconds(), metric.WithAttributes(cacheName(name)))
		if end != nil {
			end(from, err)
		}
	}
}

// span begins a child of the span in ctx, if there is one.
func (t *Telemetry) span(ctx context.Context, what, name string, keys int) (context.Context, func(cache.Tier, error)) {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ctx, nil
	}
	ctx, span := t.tracer.Start(ctx, what, trace.WithAttributes(cacheName(name), attribute.Int("cache.keys", keys)))
	return ctx, func(from cache.Tier, err error) {
		defer span.End()
		outcome := "found"
		switch {
		case errors.Is(err, cache.ErrNotFound):
			outcome = "missing"
		case err != nil:
			outcome = "failed"
			span.RecordError(err)
			span.SetStatus(codes.Error, err.Error())
		}
		span.SetAttributes(attribute.String("cache.outcome", outcome))
		if from != "" {
			span.SetAttributes(attribute.String("cache.tier", string(from)))
		}
	}
}

// Watch registers a callback with the meter that reads the counts of rt's caches at each collection, until stop is
// called.
func (t *Telemetry) Watch(rt *cache.Runtime) (stop func() error, err error) {
	var errs []error
	counter := func(name, unit, help string) metric.Int64ObservableCounter {
		c, err := t.meter.Int64ObservableCounter("stoa.cache."+name, metric.WithUnit(unit), metric.WithDescription(help))
		errs = append(errs, err)
		return c
	}
	gauge := func(name, unit, help string) metric.Int64ObservableGauge {
		g, err := t.meter.Int64ObservableGauge("stoa.cache."+name, metric.WithUnit(unit), metric.WithDescription(help))
		errs = append(errs, err)
		return g
	}
	reads := counter("reads", "{key}", "Keys read, by result: process (its memory), redis, load (from the source), or stale (past its "+
		"life, because the source failed or was slow).")
	missing := counter("missing", "{load}", "Loads that found nothing.")
	failures := counter("load_errors", "{load}", "Loads that failed.")
	fallbacks := counter("fallbacks", "{read}", "Reads that bypassed Redis and asked the source: redis (it failed) or behind (changes may "+
		"have been missed).")
	unstored := counter("unstored", "{key}", "Loaded keys that were not stored: fenced (a change was under way) or overtaken (a change "+
		"happened in between).")
	renewals := counter("renewals", "{value}", "Values renewed before the end of their life: loaded (again, early) or extended (at random).")
	entries := gauge("entries", "{value}", "Values in this process' memory.")
	breakers := gauge("breakers_open", "{part}", "Parts of Redis (slot ranges) that failed and are bypassed for half a second at a time.")
	behind, err := t.meter.Float64ObservableGauge("stoa.cache.behind", metric.WithUnit("s"),
		metric.WithDescription("How long this node may have missed changes; beyond MaxStale, reads go to the source."))
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	registered, err := t.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for name, s := range rt.Stats() {
			of := cacheName(name)
			observe := func(c metric.Int64ObservableCounter, n uint64, more ...attribute.KeyValue) {
				o.ObserveInt64(c, int64(n), metric.WithAttributes(append(more, of)...))
			}
			for result, n := range map[string]uint64{"process": s.Hits, "redis": s.RedisHits, "load": s.Loaded, "stale": s.Stale} {
				observe(reads, n, attribute.String("result", result))
			}
			observe(missing, s.NotFound)
			observe(failures, s.Errors)
			observe(fallbacks, s.Failed, attribute.String("reason", "redis"))
			observe(fallbacks, s.Bypassed, attribute.String("reason", "behind"))
			observe(unstored, s.Fenced, attribute.String("reason", "fenced"))
			observe(unstored, s.Refused, attribute.String("reason", "overtaken"))
			observe(renewals, s.Refreshed, attribute.String("how", "loaded"))
			observe(renewals, s.Renewed, attribute.String("how", "extended"))
			o.ObserveInt64(entries, int64(s.Entries), metric.WithAttributes(of))
		}
		h := rt.Health()
		o.ObserveInt64(breakers, int64(h.Open))
		o.ObserveFloat64(behind, h.Behind.Seconds())
		return nil
	}, reads, missing, failures, fallbacks, unstored, renewals, entries, breakers, behind)
	if err != nil {
		return nil, err
	}
	return registered.Unregister, nil
}

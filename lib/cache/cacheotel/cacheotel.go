// Package cacheotel shows OpenTelemetry what the caches of a process do: spans of reads that go
// beyond this process' memory and of loads, and metrics. It is a module of its own:
//
//	telemetry, err := cacheotel.New(cacheotel.Config{})
//	rt, err := cache.Open(ctx, cache.Options{Config: cache.Config{Hooks: telemetry.Hooks()}})
//	stop, err := telemetry.Watch(rt)
//
// A span is a child of the one in the context of the caller, and there is none without it: a
// hit in process has no span, a read of Redis has a span "cache read", and a load has one
// "cache load", which is below the read that has caused it. Callers that wait for the load of
// another caller have a span of their read alone. Their attributes are the cache's name, how
// many keys were asked for, the tier that had the answer, and the outcome:
//
//	cache          user:{key}
//	cache.keys     1
//	cache.tier     redis, source, or process for a value past its life; absent without an answer
//	cache.outcome  found, missing or failed
//
// Metrics have the names of the table in docs/cache.md; OpenTelemetry has no conventions for
// caches yet.
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

// Config says whom to tell.
type Config struct {
	// Tracers make the spans; nil means the global provider.
	Tracers trace.TracerProvider
	// Meters make the instruments; nil means the global provider.
	Meters metric.MeterProvider
}

// Telemetry is the spans and metrics of one runtime's caches.
type Telemetry struct {
	tracer  trace.Tracer
	meter   metric.Meter
	load    metric.Float64Histogram
	age     metric.Float64Histogram
	dropped metric.Int64Counter
}

// New returns what tells of caches. The error is that of a meter that refuses an instrument.
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
		metric.WithDescription("Age of answered values, by where they were: of one in 64 from process, of each from redis."),
		metric.WithExplicitBucketBoundaries(0.01, 0.04, 0.16, 0.64, 2.56, 10.24, 40.96, 163.84, 655.36, 2621.44, 10485.76))
	t.dropped, errs[2] = t.meter.Int64Counter("stoa.cache.dropped_keys", metric.WithUnit("{key}"),
		metric.WithDescription("Keys that changes on this node have dropped everywhere."))
	return t, errors.Join(errs[:]...)
}

func cacheName(name string) attribute.KeyValue { return attribute.String("cache", name) }

// noContext is what hooks without a reader's context record with.
var noContext = context.Background()

// Hooks tell of what the caches do; see [cache.Hooks.And] for more than one set of hooks.
func (t *Telemetry) Hooks() cache.Hooks {
	return cache.Hooks{
		Asking: t.asking,
		Answered: func(name string, from cache.Tier, age time.Duration) {
			t.age.Record(noContext, age.Seconds(), metric.WithAttributes(cacheName(name), attribute.String("tier", string(from))))
		},
		Dropped: func(keys int) { t.dropped.Add(noContext, int64(keys)) },
	}
}

// asking begins a read or a load, whose time is recorded within its span: it may become an
// exemplar of it.
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

// Watch has the meter ask the caches of rt for their counts whenever it collects, until stop is
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
	reads := counter("reads", "{key}", "Keys read, by where the answer was: process (its memory), redis, load (the source was asked), or stale (a value past its life, for the source failed or was slow).")
	missing := counter("missing", "{load}", "Loads that found nothing.")
	failures := counter("load_errors", "{load}", "Loads that failed.")
	fallbacks := counter("fallbacks", "{read}", "Reads that did without Redis, and asked the source: redis (it failed) or behind (changes may have been missed).")
	unstored := counter("unstored", "{key}", "Loaded keys that were not stored: fenced (a change was under way) or overtaken (one came between).")
	renewals := counter("renewals", "{value}", "Values that did not reach the end of their life: loaded (again, early) or extended (by chance).")
	entries := gauge("entries", "{value}", "Values in this process' memory.")
	breakers := gauge("breakers_open", "{part}", "Parts of Redis that failed and are left alone for half a second at a time.")
	behind, err := t.meter.Float64ObservableGauge("stoa.cache.behind", metric.WithUnit("s"), metric.WithDescription("For how long this node may have missed changes; beyond MaxStale, reads go to the source."))
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

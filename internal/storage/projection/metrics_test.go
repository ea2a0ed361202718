package projection

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
	"github.com/stoa-dev/stoa/lib/testing/logtest"
)

// shown returns the values of a registry by name. The registry must have the metrics of one projection.
func shown(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		m := f.GetMetric()[0]
		if label := m.GetLabel()[0]; len(f.GetMetric()) != 1 || label.GetName() != "projection" || label.GetValue() != "test" {
			t.Errorf("%s: got %v, want one value labelled projection=test", f.GetName(), f.GetMetric())
		}
		values[f.GetName()] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
	}
	return values
}

func TestMetricsFollowAnOutageAndItsReplay(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		reg := prometheus.NewRegistry()
		d := newDomain(t, server.Open(t), "node")
		cfg := d.cfg
		cfg.Metrics, cfg.Name, cfg.Log = reg, "test", slog.New(slog.DiscardHandler)
		d.Projection = New(cfg)
		if v := shown(t, reg); v["stoa_projection_up"] != 0 || len(v) != 8 {
			t.Errorf("before the first round: got %v", v)
		}
		d.run(t)
		eventually.True(t, "the projection is up", d.Up)
		if v := shown(t, reg); v["stoa_projection_up"] != 1 || v["stoa_projection_replays_total"] != 0 ||
			v["stoa_projection_last_replay_timestamp_seconds"] != 0 || v["stoa_projection_mark_age_seconds"] > 5 {
			t.Errorf("in order: got %v", v)
		}

		// A pending row stops the mark at the second of its arrival.
		at := time.Now().Add(-20 * time.Second)
		d.Begin(at)
		eventually.True(t, "the mark grows old", func() bool { return shown(t, reg)["stoa_projection_mark_age_seconds"] >= 20 })

		server.Kill()
		d.commit(1, at)
		d.Missed(at, 1)
		d.Begin(at)
		d.Unsure(at, 2)
		v := shown(t, reg)
		if v["stoa_projection_up"] != 0 || v["stoa_projection_missed_rows"] != 1 || v["stoa_projection_unsure_rows"] != 1 {
			t.Errorf("while Redis is away: got %v", v)
		}

		restarted := time.Now()
		server.RestartEmpty()
		eventually.True(t, "the projection is up again", d.Up)
		eventually.True(t, "nothing is left over", func() bool {
			v = shown(t, reg)
			return v["stoa_projection_missed_rows"] == 0 && v["stoa_projection_unsure_rows"] == 0 && v["stoa_projection_mark_age_seconds"] < 5
		})
		if v["stoa_projection_replays_total"] == 0 || int64(v["stoa_projection_last_replay_timestamp_seconds"]) < restarted.Unix() {
			t.Errorf("after the replay: got %v", v)
		}
		d.has(t, 1, 2)
	})
}

func TestAReplayThatFailsIsNoneThatHappened(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := newDomain(t, redistest.Open(t, "embedded"), "node")
		d.failing = true
		d.commit(1, time.Now())
		if err := d.Projection.replay(t.Context(), time.Time{}); err == nil {
			t.Error("got no error, want the domain's")
		}
		if n := d.Projection.replays.count.Load(); n != 0 {
			t.Errorf("%d replays are counted, want 0", n)
		}
	})
}

func TestEveryFailedReplayIsToldAndCounted(t *testing.T) {
	server := redistest.Server(t)
	reg, log := prometheus.NewRegistry(), &logtest.Buffer{}
	d := newDomain(t, redistest.Open(t, server.URL), "node")
	cfg := d.cfg
	cfg.Metrics, cfg.Name, cfg.Log = reg, "test", slog.New(slog.NewTextHandler(log, nil))
	var broken atomic.Bool
	changed := cfg.Changed
	cfg.Changed = func(ctx context.Context, since time.Time, fn func([]int) error) error {
		if broken.Load() {
			return errors.New("a statement is wrong")
		}
		return changed(ctx, since, fn)
	}
	d.Projection = New(cfg)
	d.run(t)
	eventually.True(t, "the projection is up", d.Up)
	broken.Store(true)
	server.Restart()
	eventually.True(t, "three replays have failed, and a line tells of each", func() bool {
		failed := shown(t, reg)["stoa_projection_replay_failures_total"] // read first, because a log line is written after it
		return failed >= 3 && float64(log.Count("a replay into redis failed")) >= failed
	})
	if d.Up() {
		t.Error("it is up after replays that have failed")
	}
	broken.Store(false)
	eventually.True(t, "the projection is up", d.Up)
}

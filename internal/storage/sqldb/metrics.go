package sqldb

import (
	"database/sql"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// poolCollector reads the state of the pools at each scrape.
type poolCollector struct {
	pools map[string]*sql.DB // by label
	db    *DB
	turns *turns

	up, writable, open, maxConns, waits, waited, turn *prometheus.Desc
}

// Metrics returns a collector of stoa_sql_*: whether the database answers and accepts writes according to [DB.Watch],
// open connections, waits for a connection, and changes that wait for a row. MySQL and MariaDB have one pool, "all";
// SQLite has "writer" and "reader".
func (db *DB) Metrics() prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("stoa_sql_"+name, help, append([]string{"pool"}, labels...), nil)
	}
	pools := map[string]*sql.DB{"all": db.w.DB}
	if db.r != db.w {
		pools = map[string]*sql.DB{"writer": db.w.DB, "reader": db.r.DB}
	}
	return &poolCollector{
		pools:    pools,
		db:       db,
		turns:    &db.turns,
		up:       prometheus.NewDesc("stoa_sql_up", "Whether the database answers: 1 or 0.", nil, nil),
		writable: prometheus.NewDesc("stoa_sql_writable", "Whether the database accepted the last trial write: 1 or 0.", nil, nil),
		open:     desc("connections", "Open connections, by state: in_use or idle.", "state"),
		maxConns: desc("connections_max", "The largest number of connections that the pool opens."),
		waits:    desc("waits_total", "Number of waits for a connection."),
		waited:   desc("wait_seconds_total", "Total time spent waiting for a connection."),
		turn: prometheus.NewDesc("stoa_sql_turns_waiting",
			"Changes that wait, without a connection, for other changes of the same row in this process.", nil, nil),
	}
}

func (c *poolCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.up, c.writable, c.open, c.maxConns, c.waits, c.waited, c.turn} {
		ch <- d
	}
}

func (c *poolCollector) Collect(ch chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	bit := func(b bool) float64 { return float64(Bit(b)) }
	send(c.up, prometheus.GaugeValue, bit(c.db.Away().IsZero()))
	send(c.writable, prometheus.GaugeValue, bit(c.db.Refuses() == ""))
	send(c.turn, prometheus.GaugeValue, float64(c.turns.waiting.Load()))
	for name, pool := range c.pools {
		s := pool.Stats()
		send(c.open, prometheus.GaugeValue, float64(s.InUse), name, "in_use")
		send(c.open, prometheus.GaugeValue, float64(s.Idle), name, "idle")
		send(c.maxConns, prometheus.GaugeValue, float64(s.MaxOpenConnections), name)
		// SQLite has no turns.
		send(c.waits, prometheus.CounterValue, float64(s.WaitCount+c.turns.waits.Load()), name)
		send(c.waited, prometheus.CounterValue, (s.WaitDuration + time.Duration(c.turns.waited.Load())).Seconds(), name)
	}
}

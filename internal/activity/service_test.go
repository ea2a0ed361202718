package activity

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// world has nodes on one database and one Redis. The test runs their jobs.
type world struct {
	t           *testing.T
	memory      *redistest.Memory
	db          *sqldb.DB
	settings    Settings
	clockOffset atomic.Int64 // how far the nodes' clock is ahead of the bubble's
}

// A node has its own connection to Redis.
type node struct {
	*Service
	redis *redis.DB
	reg   *prometheus.Registry
	wire  *redistest.Wire
	stop  func()
}

func newWorld(t *testing.T, settings Settings) *world {
	w := &world{t: t, memory: redistest.InMemory(t), settings: settings}
	w.db = sqldbtest.Engine{Name: "sqlite"}.Open(t, func(c *sqldb.Config) {
		c.Now = func() time.Time { return time.Now().Add(time.Duration(w.clockOffset.Load())) }
	})
	return w
}

// advance moves the clock of the database forward. It does not sleep, because ten heartbeats a second of the bus would
// make hours expensive.
func (w *world) advance(d time.Duration) { w.clockOffset.Add(int64(d)) }

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) start() *node {
	w.t.Helper()
	n := &node{wire: w.memory.Wire(), reg: prometheus.NewRegistry()}
	n.redis = redistest.OpenConfig(w.t, n.wire.Config())
	b := events.NewBus(n.redis, ids.New[dayUsers]().String(), slog.New(slog.DiscardHandler))
	n.Service = New(Config{DB: w.db, Redis: n.redis, Bus: b.Nodes(), Metrics: n.reg, Log: slog.New(slog.NewTextHandler(w.t.Output(), nil)),
		Settings: w.settings})
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = b.Run(ctx, func() {}) })
	running.Go(func() { _ = n.Run(ctx, func() {}) })
	n.stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	w.t.Cleanup(n.stop)
	w.must(b.Nodes().Wait(w.t.Context()))
	return n
}

func (n *node) recordActive(users ...accounts.ID) {
	for _, u := range users {
		n.RecordActive(u)
	}
}

// metric returns a counter or a gauge.
func (n *node) metric(name string) float64 {
	families, err := n.reg.Gather()
	if err != nil {
		panic(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue() + f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	panic("unknown metric " + name)
}

func (w *world) today() civil.Day { return w.settings.clock().Today(w.db.Now()) }

// redisCount returns the number of users of a day in Redis.
func (w *world) redisCount(n *node, d civil.Day) int64 {
	w.t.Helper()
	counts, err := n.Service.redis.readCounts(w.t.Context(), []civil.Day{d})
	w.must(err)
	return counts[0].count().Actives
}

// storedDay returns the data of a day in SQL.
func (w *world) storedDay(d civil.Day) Day {
	w.t.Helper()
	all, err := selectDays(w.t.Context(), w.db, Span{d, d}, 1)
	w.must(err)
	if len(all) == 0 {
		return Day{}
	}
	return all[0]
}

func TestRecordActive_SendsUserOnceADay(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, Settings{})
		n := w.start()
		users := newUsers(2500)
		bubble.Sleep(3 * time.Second)
		sent := func() float64 { return n.metric("stoa_activity_sent_total") }
		for range 100 {
			n.recordActive(users...)
		}
		if sent() != 0 {
			t.Error("a request waited for Redis")
		}
		bubble.Sleep(2 * time.Second)
		if got := w.redisCount(n, w.today()); got != 2500 || sent() != 2500 {
			t.Errorf("Redis has %d users, %v were sent; want 2500 and 2500", got, sent())
		}
		for range 100 {
			n.recordActive(users...)
			bubble.Sleep(time.Second)
		}
		if sent() != 2500 {
			t.Errorf("%v users were sent after two minutes, want 2500", sent())
		}
		w.advance(12 * time.Hour) // it is the next day
		n.recordActive(users[:100]...)
		bubble.Sleep(2 * time.Second)
		if got := w.redisCount(n, w.today()); got != 100 || sent() != 2600 {
			t.Errorf("Redis has %d users, %v were sent; want 100 and 2600", got, sent())
		}
		if got := n.metric("stoa_activity_put_back_total") + n.metric("stoa_activity_refused_total"); got != 0 {
			t.Errorf("%v users were sent again or refused", got)
		}
	})
}

func TestRecordActive_DayStartsAtMidnightOfZone(t *testing.T) {
	bubble.Test(t, func(t *testing.T) { // at noon, which is 20:00 in Shanghai
		w := newWorld(t, Settings{Zone: "Asia/Shanghai"})
		n, users := w.start(), newUsers(2)
		first := w.today()
		w.advance(w.db.Now().Truncate(24 * time.Hour).Add(16*time.Hour - 100*time.Millisecond).Sub(w.db.Now()))
		n.recordActive(users...)
		bubble.Sleep(200 * time.Millisecond)
		n.recordActive(users[0])
		bubble.Sleep(2 * time.Second)
		if a, b := w.redisCount(n, first), w.redisCount(n, first+1); w.today() != first+1 || a != 2 || b != 1 {
			t.Errorf("the days have %d and %d users, want 2 and 1", a, b)
		}
	})
}

func TestEmptiedRedis_UsersAreSentAgain(t *testing.T) {
	for name, fail := range map[string]func(w *world){
		"emptied":           func(w *world) { w.memory.FlushAll() },
		"restarted empty":   func(w *world) { w.memory.RestartEmpty() },
		"restarted as is":   func(w *world) { w.memory.Restart() },
		"killed for a time": func(w *world) { w.memory.Kill(); bubble.Sleep(time.Minute); w.memory.RestartEmpty() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w := newWorld(t, Settings{})
				a, b, users := w.start(), w.start(), newUsers(300)
				a.recordActive(users[:200]...)
				b.recordActive(users[100:]...)
				bubble.Sleep(3 * time.Second)
				if got := w.redisCount(a, w.today()); got != 300 {
					t.Fatalf("Redis has %d users, want 300", got)
				}
				fail(w)
				bubble.Sleep(10 * time.Second)
				if got := w.redisCount(a, w.today()); got != 300 {
					t.Errorf("Redis has %d users, want 300", got)
				}
			})
		})
	}
}

// The bus does not report an eviction, or a command of an operator.
func TestPoll_DetectsLostSet(t *testing.T) {
	for _, settings := range []Settings{{}, {Count: approximate}} {
		t.Run(settings.Count, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w := newWorld(t, settings)
				a, b, users := w.start(), w.start(), newUsers(1000)
				a.recordActive(users[:600]...)
				b.recordActive(users[400:]...)
				bubble.Sleep(2 * time.Minute)
				before := w.redisCount(a, w.today())
				d := w.today()
				w.must(a.redis.Do(t.Context(), keyspace.Cmd{Name: "UNLINK", Key: setKey(d).Key}).Err)
				w.must(a.redis.Do(t.Context(), keyspace.Cmd{Name: "UNLINK", Key: estimateKey(d)}).Err)
				if got := w.redisCount(a, d); got != 0 {
					t.Fatalf("Redis has %d users", got)
				}
				bubble.Sleep(pollInterval + 3*time.Second)
				if got := w.redisCount(a, d); got != before {
					t.Errorf("Redis has %d users, want %d", got, before)
				}
				if got := a.metric("stoa_activity_today"); settings.Count == "" && got < 600 {
					t.Errorf("the gauge is %v, want at least 600", got)
				}
			})
		})
	}
}

func TestUnavailableRedis_UsersWaitOverMidnight(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, Settings{})
		n, users := w.start(), newUsers(500)
		first := w.today()
		n.recordActive(users[:100]...)
		bubble.Sleep(2 * time.Second)
		n.wire.Refuse()
		w.advance(11 * time.Hour)
		n.recordActive(users[100:300]...)
		w.advance(3 * time.Hour)
		bubble.Sleep(5 * time.Second)
		n.recordActive(users[50:80]...)
		if got := n.metric("stoa_activity_waiting"); got != 230 {
			t.Errorf("%v users wait, want 230", got)
		}
		n.wire.Heal()
		bubble.Sleep(10 * time.Second)
		if a, b := w.redisCount(n, first), w.redisCount(n, first+1); a != 300 || b != 30 {
			t.Errorf("the days have %d and %d users, want 300 and 30", a, b)
		}
		if got := n.metric("stoa_activity_refused_total"); got != 0 || n.metric("stoa_activity_waiting") != 0 {
			t.Errorf("%v users are refused, %v wait", got, n.metric("stoa_activity_waiting"))
		}
		if got := len(n.days.Load().all()); got != 1 {
			t.Errorf("%d days are remembered two hours after midnight", got)
		}
	})
}

func TestUnavailableRedis_RemembersTwoDays(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, Settings{})
		n, users := w.start(), newUsers(60)
		first := w.today()
		n.wire.Refuse()
		for i := range 3 {
			n.recordActive(users[20*i : 20*(i+1)]...)
			bubble.Sleep(5 * time.Second)
			w.advance(24 * time.Hour)
		}
		n.recordActive(users[0])
		if got := len(n.days.Load().all()); got != 2 {
			t.Errorf("%d days are remembered", got)
		}
		if got := n.metric("stoa_activity_refused_total"); got != 40 {
			t.Errorf("%v users are discarded, want 40", got)
		}
		n.wire.Heal()
		bubble.Sleep(10 * time.Second)
		for i, want := range []int64{0, 0, 20, 1} {
			if got := w.redisCount(n, first+civil.Day(i)); got != want {
				t.Errorf("day %d has %d users, want %d", i, got, want)
			}
		}
	})
}

func TestRun_SendsWaitingUsersAtStop(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, Settings{})
		n, other, users := w.start(), w.start(), newUsers(3)
		bubble.Sleep(time.Second + time.Second/2)
		n.recordActive(users...)
		n.stop()
		if got := w.redisCount(other, w.today()); got != 3 {
			t.Errorf("Redis has %d users, want 3", got)
		}
	})
}

func TestCount_KeepsNumberAndMarksLoss(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, Settings{})
		n, users := w.start(), newUsers(50)
		n.recordActive(users[:40]...)
		bubble.Sleep(2 * time.Second)
		w.must(n.count(t.Context()))
		if got := w.storedDay(w.today()).Count; got != (Count{40, true, false}) {
			t.Fatalf("stored: %+v", got)
		}
		n.stop() // so that no node has the users in memory
		w.memory.RestartEmpty()
		m := w.start()
		m.recordActive(users[30:45]...)
		bubble.Sleep(2 * time.Second)
		for range 2 {
			w.must(m.count(t.Context()))
			if got := w.storedDay(w.today()).Count; got != (Count{40, true, true}) {
				t.Errorf("after the loss: %+v, want at least 40", got)
			}
		}
		m.recordActive(users...)
		bubble.Sleep(2 * time.Second)
		w.must(m.count(t.Context()))
		if got := w.storedDay(w.today()).Count; got != (Count{50, true, true}) {
			t.Errorf("later: %+v, want at least 50", got)
		}
	})
}

// Redis loses all data, or only the set. The job counts before the node has detected the loss.
func TestCount_RepairedLossLeavesNoMark(t *testing.T) {
	for name, fail := range map[string]func(w *world, n *node){
		"emptied": func(w *world, _ *node) { w.memory.FlushAll() },
		"evicted": func(w *world, n *node) {
			w.must(n.redis.Do(w.t.Context(), keyspace.Cmd{Name: "UNLINK", Key: setKey(w.today()).Key}).Err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w := newWorld(t, Settings{})
				n, users := w.start(), newUsers(50)
				n.recordActive(users...)
				bubble.Sleep(2 * time.Second)
				w.must(n.count(t.Context()))
				fail(w, n)
				w.must(n.count(t.Context()))
				if got := w.storedDay(w.today()).Count; got != (Count{50, true, false}) {
					t.Errorf("stored: %+v, want 50 without a mark", got)
				}
			})
		})
	}
}

func TestUnavailableRedis_CountWritesNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, Settings{})
		n, users := w.start(), newUsers(5)
		n.recordActive(users...)
		bubble.Sleep(2 * time.Second)
		w.must(n.count(t.Context()))
		before := w.storedDay(w.today())
		n.wire.Refuse()
		bubble.Sleep(time.Minute)
		if err := n.count(t.Context()); !isUnavailable(err) {
			t.Errorf("the job returned %v", err)
		}
		for _, j := range n.Jobs() {
			if err := j.Run(t.Context()); err != nil {
				t.Errorf("%s: %v, want nil, because the watcher of the connection logs it", j.Name, err)
			}
		}
		if got := w.storedDay(w.today()); got != before {
			t.Errorf("stored: %+v, want %+v", got, before)
		}
	})
}

// A plan has the expected active users of each day.
type plan map[civil.Day]map[accounts.ID]bool

func (p plan) union(s Span) (n int64) {
	all := map[accounts.ID]bool{}
	for d := s.First; d <= s.Last; d++ {
		for u := range p[d] {
			all[u] = true
		}
	}
	return int64(len(all))
}

// runDays lets days pass. Each day has the users that active returns. The jobs run during the day, and around its end.
func (w *world) runDays(n *node, p plan, count int, active func(day civil.Day) []accounts.ID) {
	w.t.Helper()
	for range count {
		d := w.today()
		p[d] = map[accounts.ID]bool{}
		for _, u := range active(d) {
			n.recordActive(u)
			p[d][u] = true
		}
		bubble.Sleep(5 * time.Second)
		w.must(n.Service.count(w.t.Context()))
		w.advance(w.settings.clock().Start(d + 1).Add(10 * time.Minute).Sub(w.db.Now()))
		// A set with its last write in the first minute of its day expires now.
		w.must(n.redis.Do(w.t.Context(), keyspace.Cmd{Name: "UNLINK", Key: setKey(d + 1 - civil.Day(keyTTL/(24*time.Hour))).Key}).Err)
		w.must(n.Service.count(w.t.Context()))
		w.must(n.close(w.t.Context()))
		if !w.storedDay(d).Closed.IsZero() {
			w.t.Errorf("day %s is closed ten minutes after its end", d)
		}
		w.advance(10 * time.Minute)
		w.must(n.close(w.t.Context()))
		w.must(n.close(w.t.Context()))
	}
}

func TestClose_TwoMonthsMatchMap(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, Settings{})
		n, p := w.start(), plan{}
		users := register(t, w.db, 40)
		first := w.today() // 21 November
		registered := map[accounts.ID]civil.Day{}
		for i, u := range users {
			d := first - 95 + civil.Day(3*i) // some before the first day, some after it
			registered[u] = d
			at := w.settings.clock().Start(d).Add(time.Duration(i) * time.Minute).UnixMilli()
			_, err := w.db.ExecContext(t.Context(), "UPDATE users SET created = ? WHERE id = ?", at, u)
			w.must(err)
		}
		const nights = 75 // December and January have 31 days
		w.runDays(n, p, nights, func(d civil.Day) (active []accounts.ID) {
			for i, u := range users {
				if d >= registered[u] && (int(d)*7+i*5)%(2+i%4) == 0 {
					active = append(active, u)
				}
			}
			if d == first+10 || d == first+40 { // only on the first and the last day of December
				active = append(active, unregistered)
			}
			return active
		})
		last := first + nights - 1
		for d := first; d <= last; d++ {
			if got, want := w.storedDay(d), int64(len(p[d])); got.Count != (Count{want, true, false}) || got.Closed.IsZero() {
				t.Errorf("%s: got %+v, want %d", d, got, want)
			}
		}
		for _, period := range periods {
			all, err := NewAdmin(w.db).Ranges(t.Context(), period, 100)
			w.must(err)
			if want := map[Period]int{Week: 12, Month: 4}[period]; len(all) != want {
				t.Errorf("%d %ss are stored, want %d", len(all), period, want)
			}
			for _, r := range all {
				if want := p.union(r.Span); r.Count != (Count{want, true, false}) || r.Through != min(r.Last, last) {
					t.Errorf("%s of %s: got %+v, want %d", r.Period, r.First, r, want)
				}
			}
		}
		got, err := NewAdmin(w.db).Retention(t.Context(), 1000)
		w.must(err)
		found := map[[2]int]Cohort{}
		for _, c := range got {
			found[[2]int{int(c.Date), c.After}] = c
		}
		want := 0
		for _, u := range users { // each user on a day of their own
			for _, after := range daysAfter {
				d := registered[u] + civil.Day(after)
				if d < first || d > last {
					continue
				}
				want++
				c := Cohort{Date: registered[u], After: after, Size: 1}
				if p[d][u] {
					c.Active = 1
				}
				if stored := found[[2]int{int(c.Date), after}]; stored != c {
					t.Errorf("%s, %d days after: got %+v, want %+v", c.Date, after, stored, c)
				}
			}
		}
		if len(got) != want {
			t.Errorf("%d cohorts, want %d", len(got), want)
		}
	})
}

// unregistered is an active user without an account.
var unregistered = ids.New[accounts.User]()

func TestClose_CountsLateUsersAndMarksPartialRanges(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, Settings{})
		n, late, p := w.start(), w.start(), plan{}
		users := register(t, w.db, 10)
		_, err := w.db.ExecContext(t.Context(), "UPDATE users SET created = created - 86400000")
		w.must(err)
		d := w.today()
		checkCohort := func(want Cohort) {
			t.Helper()
			all, err := selectCohorts(t.Context(), w.db, Span{d - 1, d - 1})
			w.must(err)
			if len(all) == 0 || all[0] != want {
				t.Errorf("cohort of the day before: %+v, want %+v", all, want)
			}
		}
		late.recordActive(users[8]) // the node then loses its connection
		late.wire.Refuse()
		w.runDays(n, p, 1, func(civil.Day) []accounts.ID { return users[:4] })
		if got := w.storedDay(d).Count; got != (Count{4, true, false}) {
			t.Errorf("closed with %+v, want 4", got)
		}
		checkCohort(Cohort{Date: d - 1, After: 1, Size: 10, Active: 4})
		w.advance(3 * time.Hour)
		late.wire.Heal()
		bubble.Sleep(5 * time.Second)
		w.runDays(n, p, 1, func(civil.Day) []accounts.ID { return users[2:6] })
		if got := w.storedDay(d).Count; got != (Count{5, true, false}) {
			t.Errorf("closed again with %+v, want 5", got)
		}
		checkCohort(Cohort{Date: d - 1, After: 1, Size: 10, Active: 5})
		week, err := NewAdmin(w.db).Ranges(t.Context(), Week, 1)
		w.must(err)
		if len(week) != 1 || week[0].Count != (Count{7, true, false}) || week[0].Through != d+1 {
			t.Errorf("the week has %+v, want 7", week)
		}
		n.stop()
		late.stop()
		w.memory.RestartEmpty()
		m := w.start()
		w.runDays(m, p, 1, func(civil.Day) []accounts.ID { return users[9:] })
		week, err = NewAdmin(w.db).Ranges(t.Context(), Week, 2)
		w.must(err)
		// Saturday and Sunday are lost. Monday starts another week.
		if len(week) != 2 || week[0].Count != (Count{1, true, false}) || week[1].Count != (Count{7, true, false}) {
			t.Errorf("the weeks have %+v, want 1, and 7 as before", week)
		}
		month, err := NewAdmin(w.db).Ranges(t.Context(), Month, 2)
		w.must(err)
		if len(month) != 1 || month[0].Count != (Count{7, true, true}) || month[0].Through != d+2 {
			t.Errorf("the month has %+v, want at least 7", month)
		}
		between, err := NewAdmin(w.db).CountBetween(t.Context(), m.redis, w.settings, Span{d, d + 3})
		if err != nil || between != (Count{5, true, true}) {
			t.Errorf("the range has %+v, %v; want at least 5, the number of the best day", between, err)
		}
	})
}

func TestRetention_IsEmptyWithoutSet(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, Settings{})
		n, users := w.start(), register(t, w.db, 3)
		_, err := w.db.ExecContext(t.Context(), "UPDATE users SET created = created - 86400000")
		w.must(err)
		d := w.today()
		n.recordActive(users...)
		bubble.Sleep(5 * time.Second)
		w.must(n.count(t.Context()))
		n.stop()
		w.memory.RestartEmpty()
		m := w.start()
		w.advance(14 * time.Hour)
		w.must(m.close(t.Context()))
		if got := w.storedDay(d); got.Count != (Count{3, true, true}) || got.Closed.IsZero() {
			t.Errorf("the day is %+v", got)
		}
		if got, err := NewAdmin(w.db).Retention(t.Context(), 10); err != nil || len(got) != 0 {
			t.Errorf("retention: %+v, %v; want none", got, err)
		}
	})
}

func TestRetention_RefusedWithEstimates(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, Settings{Count: approximate})
		n, p, users := w.start(), plan{}, register(t, w.db, 200)
		_, err := w.db.ExecContext(t.Context(), "UPDATE users SET created = created - 86400000")
		w.must(err)
		d := w.today()
		w.runDays(n, p, 2, func(civil.Day) []accounts.ID { return users })
		got := w.storedDay(d)
		if got.Exact || got.Partial || got.Closed.IsZero() || got.showsLoss(Count{Actives: 200}) {
			t.Errorf("the day is %+v", got)
		}
		week, err := NewAdmin(w.db).Ranges(t.Context(), Week, 1)
		w.must(err)
		if len(week) != 1 || week[0].Exact || week[0].Partial {
			t.Errorf("the week is %+v", week)
		}
		if all, err := NewAdmin(w.db).Retention(t.Context(), 10); err != ErrNotExact && fmt.Sprint(err) != "activity.Retention: "+
			ErrNotExact.Error() || len(all) > 0 {
			t.Errorf("retention: %+v, %v; want ErrNotExact", all, err)
		}
	})
}

func TestCountBetween_RefusesDaysWithoutSets(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, Settings{})
		n, users := w.start(), newUsers(3)
		n.recordActive(users...)
		bubble.Sleep(2 * time.Second)
		today := w.today()
		for _, tt := range []struct {
			span Span
			ok   bool
		}{
			{Span{today, today}, true}, {Span{today - daysWithSets, today}, true}, {Span{today - daysWithSets - 1, today}, false},
			{Span{today, today - 1}, false}, {Span{today, today + 1}, false},
		} {
			c, err := NewAdmin(w.db).CountBetween(t.Context(), n.redis, w.settings, tt.span)
			if (err == nil) != tt.ok || tt.ok && c != (Count{3, true, false}) {
				t.Errorf("%s to %s: got %+v, %v", tt.span.First, tt.span.Last, c, err)
			}
		}
	})
}

// A day that was closed twice is not counted again. The count of a range detects that its set is lost.
func TestCountBetween_PartialAfterLostSet(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, Settings{})
		n, p, users := w.start(), plan{}, newUsers(6)
		d := w.today()
		w.runDays(n, p, 4, func(day civil.Day) []accounts.ID { return users[int(day-d) : int(day-d)+3] })
		for _, lost := range []bool{false, true} {
			got, err := NewAdmin(w.db).CountBetween(t.Context(), n.redis, w.settings, Span{d, d + 3})
			want := Count{6, true, false}
			if lost {
				want = Count{5, true, true}
			}
			if err != nil || got != want {
				t.Errorf("lost %v: got %+v, %v; want %+v", lost, got, err, want)
			}
			w.must(n.redis.Do(t.Context(), keyspace.Cmd{Name: "UNLINK", Key: setKey(d).Key}).Err)
		}
		if got := w.storedDay(d).Count; got != (Count{3, true, false}) {
			t.Errorf("the stored day is %+v", got)
		}
	})
}

func TestErase_ReplacesUserInRedis(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, Settings{})
		n, users := w.start(), newUsers(3)
		first := w.today()
		n.recordActive(users...)
		bubble.Sleep(2 * time.Second)
		w.advance(24 * time.Hour)
		n.recordActive(users[:2]...)
		bubble.Sleep(2 * time.Second)
		w.must(n.Erase(t.Context(), users[0]))
		w.must(n.Erase(t.Context(), users[0]))
		for d, want := range map[civil.Day]int64{first: 3, first + 1: 2} {
			absent, err := n.Service.redis.filterMissing(t.Context(), d, idsOf(users[:1]))
			if err != nil || len(absent) != 1 || w.redisCount(n, d) != want {
				t.Errorf("day %s: user in the set: %v, %d users (%v); want %d", d, len(absent) == 0, w.redisCount(n, d), err, want)
			}
		}
		n.wire.Refuse()
		bubble.Sleep(time.Minute)
		w.must(n.Erase(t.Context(), users[1])) // no error, because the sets expire
	})
}

func TestErase_UserIsNotSentAgain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, Settings{})
		a, b, users := w.start(), w.start(), newUsers(3)
		bubble.Sleep(3 * time.Second)
		a.recordActive(users...)
		b.recordActive(users...)
		bubble.Sleep(2 * time.Second)
		w.must(a.Erase(t.Context(), users[0]))
		bubble.Sleep(time.Second)
		for _, n := range []*node{a, b} {
			n.lossSuspected.Store(true)
		}
		bubble.Sleep(2 * time.Second)
		absent, err := a.Service.redis.filterMissing(t.Context(), w.today(), idsOf(users[:1]))
		if got := w.redisCount(a, w.today()); err != nil || len(absent) != 1 || got != 3 {
			t.Errorf("user in the set: %v, %d users (%v); want 3", len(absent) == 0, got, err)
		}
		if got := a.metric("stoa_activity_put_back_total") + b.metric("stoa_activity_put_back_total"); got != 4 {
			t.Errorf("%v users were sent again, want the two others of both nodes", got)
		}
	})
}

// Requests of many users run concurrently with flushes and the start of a day.
func TestRecordActive_ConcurrentRequests(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, Settings{})
		n, users := w.start(), newUsers(200)
		first := w.today()
		w.advance(w.settings.clock().Start(first + 1).Add(-3 * time.Second).Sub(w.db.Now()))
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				for range 30 {
					n.recordActive(users[20*i : 20*i+60]...)
					time.Sleep(200 * time.Millisecond)
				}
			})
		}
		all.Wait()
		bubble.Sleep(2 * time.Second)
		got := []int64{w.redisCount(n, first), w.redisCount(n, first+1)}
		if want := []int64{200, 200}; !slices.Equal(got, want) {
			t.Errorf("the days have %v users, want %v", got, want)
		}
	})
}

// A real server counts the commands.
func TestFlush_SendsUsersInFewCommands(t *testing.T) {
	for _, settings := range []Settings{{Count: exact}, {Count: approximate}} {
		t.Run(settings.Count, func(t *testing.T) {
			server := redistest.Server(t)
			db := redistest.Open(t, server.URL)
			b := events.NewBus(db, "node", slog.New(slog.DiscardHandler)) // does not run
			s := New(Config{DB: sqldbtest.SQLite(t), Redis: db, Bus: b.Nodes(), Metrics: prometheus.NewRegistry(),
				Log: slog.New(slog.DiscardHandler), Settings: settings})
			n, users, name := node{Service: s}, newUsers(2500), map[string]string{exact: "sadd", approximate: "pfadd"}[settings.Count]
			calls := func() string {
				t.Helper()
				info, err := server.Do("INFO", "commandstats")
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for line := range strings.Lines(info[0]) {
					if cmd, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls="); ok &&
						(cmd == "evalsha" || strings.HasSuffix(cmd, "add")) {
						count, _, _ := strings.Cut(rest, ",")
						got = append(got, cmd+" "+count)
					}
				}
				slices.Sort(got)
				return strings.Join(got, ", ")
			}
			firstDay := s.clock.Today(s.db.Now())
			for range 20 {
				n.recordActive(users...)
			}
			if !s.flush(t.Context()) {
				t.Fatal("Redis did not store the users")
			}
			// The server does not have the script before the first command, which loads it.
			want := fmt.Sprintf("evalsha 3, %s 3", name)
			if got := calls(); got != want {
				t.Errorf("the commands for 2500 users are %s; want %s", got, want)
			}
			for range 20 {
				n.recordActive(users...)
				s.flush(t.Context())
			}
			if got := calls(); got != want && s.clock.Today(s.db.Now()) == firstDay {
				t.Errorf("after further requests they are %s; want %s", got, want)
			}
			server.FlushAll()
			s.poll(t.Context())
			s.flush(t.Context())
			counts, err := s.redis.readCounts(t.Context(), []civil.Day{s.clock.Today(s.db.Now())})
			if err != nil || counts[0].count().showsLoss(Count{Actives: 2500, Exact: settings.Count == exact}) {
				t.Errorf("after a poll of an emptied Redis it has %+v, %v; want all users", counts, err)
			}
			redistest.KeysDeclared(t, db, Keys)
		})
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/stoa-dev/stoa/bench/servers"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/checkin"
	"github.com/stoa-dev/stoa/internal/checkin/ranking"
	"github.com/stoa-dev/stoa/lib/redis"
)

// crowd is a node with its own Redis and many known users; one in ten is active. Figures 5 and 6 share it.
type crowd struct {
	*node
	url            string // of its Redis
	people, active []accounts.ID
	empty          float64 // bytes in Redis before
	stopRedis      func()
	stop           func() error
}

// theCrowd returns the shared crowd of the figures.
func (b *bench) theCrowd(ctx context.Context) (_ *crowd, err error) {
	if b.crowd == nil {
		b.crowd, err = b.newCrowd(ctx, "crowd")
	}
	return b.crowd, err
}

// newCrowd starts a crowd. The active users have checked in on each of the last eleven days, and the others on three
// days long ago.
func (b *bench) newCrowd(ctx context.Context, name string) (_ *crowd, err error) {
	c := &crowd{people: newPeople(b.known)}
	c.active = c.people[:b.active]
	if c.url, c.stopRedis, err = servers.Redis(ctx, b.dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.stopRedis()
		}
	}()
	sqlURL, err := servers.Database(ctx, b.sqlURL, name)
	if err != nil {
		return nil, err
	}
	if c.node, err = b.open(ctx, sqlURL, c.url, "stoa", checkin.New); err != nil {
		return nil, err
	}
	c.stop = func() error { defer c.stopRedis(); return c.node.close() }
	defer func() {
		if err != nil {
			err = errors.Join(err, c.node.close())
		}
	}()
	now := day(0, 1).AddDate(0, 6, 0)
	c.clock.reach(now)
	today := civil.DayOf(now.Date())
	if err := errors.Join(
		history(ctx, c.db.Writer(), c.active, today-10, 10),
		history(ctx, c.db.Writer(), c.people[b.active:], today-100, 3)); err != nil {
		return nil, err
	}
	if c.empty, err = settledMemory(ctx, c.url); err != nil {
		return nil, err
	}
	if _, err := b.exactly(ctx, newSide("first day", c.each(c.active)), many, b.active); err != nil {
		return nil, err
	}
	for _, board := range []ranking.Board{ranking.StreakBoard, ranking.TotalBoard, ranking.WeekOf(today), ranking.MonthOf(today)} {
		if err := c.service.Boards.Rebuild(ctx, board); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// each returns a check-in of one user after the other.
func (c *crowd) each(people []accounts.ID) func(context.Context, int) error {
	return func(ctx context.Context, n int) error { return c.markNow(ctx, people[n]) }
}

// memory measures figure 5.
func (b *bench) memory(ctx context.Context, f *figure) error {
	f.Title = fmt.Sprintf("Memory of Redis for %d users, %d of them active, less an empty server", b.known, b.active)
	c, err := b.theCrowd(ctx)
	if err != nil {
		return err
	}
	active, err := settledMemory(ctx, c.url)
	if err != nil {
		return err
	}
	load := newSide("loading", func(ctx context.Context, n int) error {
		_, err := c.service.Status(ctx, c.people[n], shanghai)
		return err
	})
	if _, err := b.exactly(ctx, load, many, b.known); err != nil {
		return err
	}
	all, err := settledMemory(ctx, c.url)
	if err != nil {
		return err
	}
	origin, err := b.originMemory(ctx, c)
	if err != nil {
		return err
	}
	mb := func(bytes float64) float64 { return bytes / 1e6 }
	record := (all - active) / float64(b.known-b.active)
	boards := active - c.empty - record*float64(b.active)
	t := f.table("", column{"MB", 1}, column{"bytes per known user", 0}, column{"origin is ×", 1})
	for _, r := range []struct {
		name  string
		bytes float64
	}{
		{"stoa, records of the active, both boards", active - c.empty},
		{"stoa, records of everybody, both boards", all - c.empty},
		{"stoa, of these the boards", boards},
		{"origin, its whole layout", origin},
	} {
		t.add(r.name, map[string]float64{"MB": mb(r.bytes), "bytes per known user": r.bytes / float64(b.known), "origin is ×": origin / r.bytes})
	}
	scale := float64(b.known) / 100_000
	f.atMost("the active, both boards", mb(active-c.empty), 4*scale, "MB")
	f.atMost("everybody, both boards", mb(all-c.empty), 28*scale, "MB")
	f.note("A record takes %.0f bytes with its key; the boards are what is left.", record)
	f.note("Boards are of the kind that the service keeps: by total days everybody, by streak whose streak lives. The origin keeps " +
		"streaks, longest streaks and both boards of everybody, and of the active the day keys of three days and the bitmaps of two months.")
	return nil
}

// originMemory returns the memory of the original layout on its own server.
func (b *bench) originMemory(ctx context.Context, c *crowd) (bytes float64, err error) {
	url, stop, err := servers.Redis(ctx, b.dir)
	if err != nil {
		return 0, err
	}
	defer stop()
	rdb, err := redis.Open(ctx, redis.Config{URL: url, Log: discard})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, rdb.Close()) }()
	empty, err := settledMemory(ctx, url)
	if err != nil {
		return 0, err
	}
	if err := fillOrigin(ctx, rdb, c.people, c.active, c.clock.now()); err != nil {
		return 0, err
	}
	full, err := settledMemory(ctx, url)
	return full - empty, err
}

// settledMemory returns a server's used memory after it no longer changes: buffers of connections are released after
// some seconds.
func settledMemory(ctx context.Context, url string) (float64, error) {
	last, still := 0.0, 0
	for range 100 {
		info, err := servers.Info(ctx, url, "memory")
		if err != nil {
			return 0, err
		}
		used, err := strconv.ParseFloat(info["used_memory"], 64)
		if err != nil {
			return 0, err
		}
		if used < last-10_000 || used > last+10_000 {
			last, still = used, 0
		} else if still++; still == 10 {
			return used, nil
		}
		time.Sleep(200 * time.Millisecond)
	}
	return 0, errors.New("the memory of redis does not stand still")
}

// statements measures figure 6.
func (b *bench) statements(ctx context.Context, f *figure) error {
	const readsPerCheckin = 4
	f.Title = fmt.Sprintf("SQL statements of a day: %d known users, %d active, 80 %% reads, %d callers, Redis warm from the day before",
		b.known, b.active, many)
	c, err := b.theCrowd(ctx)
	if err != nil {
		return err
	}
	a, err := newAlone(ctx, c.db.Writer(), c.people)
	if err != nil {
		return err
	}
	now := c.clock.now().AddDate(0, 0, 1)
	c.clock.reach(now)
	today := civil.DayOf(now.Date())
	// One call in five is a check-in. The others read a status or, one in four of them, a month.
	mixed := func(mark, status, month func(context.Context, accounts.ID) error) func(context.Context, int) error {
		return func(ctx context.Context, n int) error {
			anybody := c.active[rand.IntN(len(c.active))]
			switch n % (1 + readsPerCheckin) {
			case 0:
				return mark(ctx, c.active[n/(1+readsPerCheckin)])
			case 1:
				return month(ctx, anybody)
			}
			return status(ctx, anybody)
		}
	}
	stoa := newSide("stoa", mixed(c.markNow,
		func(ctx context.Context, user accounts.ID) error {
			_, err := c.service.Status(ctx, user, shanghai)
			return err
		},
		func(ctx context.Context, user accounts.ID) error {
			_, err := c.service.Calendar(ctx, user, shanghai, now.Year(), now.Month())
			return err
		}))
	stoa.node = c.node
	inSQL := newSide("SQL alone", mixed(
		func(ctx context.Context, user accounts.ID) error { return a.markOn(ctx, user, today) }, a.status, a.month))
	requests := (1 + readsPerCheckin) * b.active
	t := f.table(fmt.Sprintf("per 1,000 of %d requests", requests), column{"SELECT", 2}, column{"INSERT, UPDATE, DELETE", 2},
		column{"requests per second", 0}, column{"p99 ms", 2}, column{"batch", 1}, column{"idle %", 0}, column{"others %", 0})
	var perThousand [2][2]float64
	for i, s := range []*side{stoa, inSQL} {
		readBefore, wroteBefore, err := c.sqlCounts(ctx)
		if err != nil {
			return err
		}
		found, err := b.exactly(ctx, s, many, requests)
		if err != nil {
			return err
		}
		read, wrote, err := c.sqlCounts(ctx)
		if err != nil {
			return err
		}
		b.others = max(b.others, found.others)
		per := 1000 / float64(requests)
		perThousand[i] = [2]float64{(read - readBefore) * per, (wrote - wroteBefore) * per}
		v := found.values(sample{})
		v["SELECT"], v["INSERT, UPDATE, DELETE"], v["requests per second"] = perThousand[i][0], perThousand[i][1], found.rate
		t.add(s.name, v)
	}
	f.atLeast("fewer SELECTs", 100*(1-perThousand[0][0]/perThousand[1][0]), 95, "%")
	f.atLeast("fewer INSERTs, UPDATEs and DELETEs", 100*(1-perThousand[0][1]/perThousand[1][1]), 90, "%")
	f.note("Reads are status (three of four) and month; words and minutes, which both sides would sum up in SQL, and boards, which SQL " +
		"alone does not have, are not among them.")
	return nil
}

// sqlCounts returns the numbers of statements that MariaDB has run since its start.
func (c *crowd) sqlCounts(ctx context.Context) (read, wrote float64, err error) {
	rows, err := c.db.Writer().QueryContext(ctx, "SHOW GLOBAL STATUS WHERE Variable_name IN ('Com_select', 'Com_insert', 'Com_update', "+
		"'Com_delete')")
	if err != nil {
		return 0, 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var n float64
		if err := rows.Scan(&name, &n); err != nil {
			return 0, 0, err
		}
		if name == "Com_select" {
			read += n
		} else {
			wrote += n
		}
	}
	return read, wrote, rows.Err()
}

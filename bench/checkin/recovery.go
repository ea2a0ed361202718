package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/bench/servers"
	"github.com/stoa-dev/stoa/internal/checkin/ranking"
)

// recovery measures figure 7.
func (b *bench) recovery(ctx context.Context, f *figure) (err error) {
	f.Title = fmt.Sprintf("Boards of %d users, %d of them active, without what Redis had", b.known, b.active)
	c, err := b.newCrowd(ctx, "recovery")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	seconds := map[string][]float64{}
	ways := []struct {
		name string
		do   func() error
	}{
		{"the log alone, read in order", func() error { return c.readLog(ctx) }},
		{"both boards, from FLUSHALL until they answer", func() error { return c.recover(ctx) }},
	}
	for range b.rounds {
		for _, w := range ways {
			began := time.Now()
			if err := w.do(); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			seconds[w.name] = append(seconds[w.name], time.Since(began).Seconds())
		}
	}
	t := f.table("", column{"seconds", 2}, column{"of the log ×", 1})
	var log float64
	for i, w := range ways {
		slices.Sort(seconds[w.name])
		took := seconds[w.name][b.rounds/2]
		if i == 0 {
			log = took
		}
		t.add(w.name, map[string]float64{"seconds": took, "of the log ×": took / log})
	}
	return b.withoutRedis(ctx, f, c)
}

// readLog reads the log as a rebuild does, and discards the rows.
func (c *crowd) readLog(ctx context.Context) (err error) {
	rows, err := c.db.QueryContext(ctx, "SELECT user_id, day, at, kind FROM checkins ORDER BY user_id, day")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var user sql.RawBytes
	var day, at, kind int64
	for rows.Next() {
		if err := rows.Scan(&user, &day, &at, &kind); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (c *crowd) recover(ctx context.Context) error {
	if _, err := servers.Ask(ctx, c.url, "FLUSHALL"); err != nil {
		return err
	}
	var both sync.WaitGroup
	for _, board := range []ranking.Board{ranking.StreakBoard, ranking.TotalBoard} {
		both.Go(func() {
			for c.service.Boards.Rebuild(ctx, board) != nil && ctx.Err() == nil { // it may detect the loss during the rebuild
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	both.Wait()
	return ctx.Err()
}

// withoutRedis measures reads from SQL alone.
func (b *bench) withoutRedis(ctx context.Context, f *figure, c *crowd) error {
	board := newSide("board: top ten and my rank", func(ctx context.Context, n int) error {
		_, err := c.service.Boards.Read(ctx, ranking.TotalBoard, c.active[n%len(c.active)], shanghai, 10, 0)
		return err
	})
	status := newSide("status", func(ctx context.Context, n int) error {
		_, err := c.service.Status(ctx, c.active[n%len(c.active)], shanghai)
		return err
	})
	c.stopRedis()
	began := time.Now()
	if err := board.do(ctx, 0); err != nil {
		return err
	}
	first := time.Since(began)
	sides := []*side{status, board}
	found, err := b.turns(sides, func(s *side) (sample, error) { return b.closed(ctx, s, many) })
	if err != nil {
		return err
	}
	t := f.table("Redis away, 64 callers", column{"per second", 0}, column{"p50 ms", 2}, column{"p99 ms", 2}, column{"own µs", 0},
		column{"sql µs", 0}, column{"idle %", 0}, column{"others %", 0})
	for i, s := range sides {
		t.add(s.name, found[i].values(sample{}))
	}
	f.note("The first board took %.2f s. In the numbers of processor time other Redis servers and other databases of this run are "+
		"included; they stand idle.", first.Seconds())
	return nil
}

package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

// ErrOwnPrefix reports an attempt to sweep the keys of the configured deployment.
var ErrOwnPrefix = errors.New("audit: the prefix is that of the configured deployment")

// SweepOptions set how [Sweep] works.
type SweepOptions struct {
	DryRun   bool           // only count keys
	Own      bool           // allow db's own prefix
	Rate     int            // as in Options
	MaxPing  time.Duration  // as in Options
	Progress func(Progress) // as in Options
}

// Swept is the result of a sweep.
type Swept struct {
	Prefix  string  `json:"prefix"`
	Found   int64   `json:"found"`
	Removed int64   `json:"removed"`
	Seconds float64 `json:"seconds"`
}

// sweepPage is the number of keys that are removed in one round trip.
const sweepPage = 500

// Sweep removes every key of the deployment with the given prefix, and nothing else: sweeping "stoa" does not remove
// "stoa2:a" or the key "stoa". It works through each server page by page and yields to other clients like an audit. It
// uses UNLINK, which frees large values in the background. Keys that are written during the sweep may remain. After an
// error, some keys are already removed; sweep again to remove the rest.
//
// It refuses a prefix that is empty, longer than [keyspace.MaxPrefix] or not valid for [redis.Config]. It refuses db's
// own prefix with [ErrOwnPrefix], unless SweepOptions.Own is set.
func Sweep(ctx context.Context, db *redis.DB, prefix string, opt SweepOptions) (Swept, error) {
	swept, began := Swept{Prefix: prefix}, time.Now()
	if n := len(prefix); n == 0 || n > keyspace.MaxPrefix {
		return swept, fmt.Errorf("audit: the prefix %q has %d bytes; the limits are 1 and %d", prefix, n, keyspace.MaxPrefix)
	}
	if err := redis.CheckPrefix(prefix); err != nil {
		return swept, err
	}
	if own := strings.TrimSuffix(db.Physical(keyspace.Key{}), ":"); own == prefix && !opt.Own && !opt.DryRun {
		return swept, ErrOwnPrefix
	}
	owners, err := db.Owners(ctx)
	if err != nil {
		return swept, err
	}
	for _, o := range owners {
		defer o.Close()
	}
	pace := newPacer(&Options{Rate: opt.Rate, MaxPing: cmp.Or(opt.MaxPing, defaultMaxPing)})
	for i, o := range owners {
		s := &server{Owner: o, number: i}
		if _, err := s.loadInfo(ctx); err != nil {
			return swept, err
		}
		watching, stopWatch := context.WithCancel(ctx)
		var watch sync.WaitGroup
		watch.Go(func() { pace.watch(watching, s.Ping) })
		seen := int64(0)
		err := s.scanPages(ctx, prefixPattern(prefix), sweepPage, pace, func(page []string, cursor uint64) error {
			seen += int64(len(page))
			err := s.sweep(ctx, prefix, page, opt.DryRun, &swept)
			if err == nil && cursor != 0 && opt.Progress != nil {
				opt.Progress(Progress{Part: (float64(i) + s.partDone(cursor, seen, db.Mode() == "cluster")) / float64(len(owners)), Keys: swept.Found})
			}
			return err
		})
		stopWatch()
		watch.Wait()
		if err != nil {
			return swept, err
		}
	}
	swept.Seconds = time.Since(began).Seconds()
	return swept, nil
}

// sweep removes the keys of one page.
func (s *server) sweep(ctx context.Context, prefix string, page []string, dry bool, swept *Swept) error {
	cmds := make([][]string, 0, len(page))
	for _, key := range page {
		if _, ours := keyspace.Logical(prefix, key); ours {
			cmds = append(cmds, []string{"UNLINK", key})
		}
	}
	swept.Found += int64(len(cmds))
	if dry || len(cmds) == 0 {
		return nil
	}
	for i, r := range s.Do(ctx, cmds...) {
		n, err := r.Int()
		if err != nil {
			return fmt.Errorf("audit: %s could not be removed; sweep again for the rest: %w", printable(cmds[i][1]), err)
		}
		swept.Removed += n
	}
	return nil
}

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

// ErrOwnPrefix reports that the keys of the very deployment were to be swept.
var ErrOwnPrefix = errors.New("audit: these are the keys of the deployment that is configured here")

// SweepOptions says how [Sweep] works.
type SweepOptions struct {
	DryRun   bool           // count and remove nothing
	Own      bool           // the prefix may be db's own
	Rate     int            // as in Options
	MaxPing  time.Duration  // as in Options
	Progress func(Progress) // as in Options
}

// Swept is what a sweep came across.
type Swept struct {
	Prefix  string  `json:"prefix"`
	Found   int64   `json:"found"`
	Removed int64   `json:"removed"`
	Seconds float64 `json:"seconds"`
}

// sweepPage is how many keys are removed in one round trip.
const sweepPage = 500

// Sweep removes every key of the deployment whose prefix is given, and nothing
// else: sweeping "stoa" leaves "stoa2:a" and "stoa" alone. It works through each server
// page by page, with UNLINK, which frees large values in the background, and gives
// way to other clients as an audit does. What is written meanwhile may stay. After
// an error part of the keys is gone; sweeping again removes the rest.
//
// It refuses a prefix that is empty, longer than [keyspace.MaxPrefix] or none that
// [redis.Config] takes, and db's own with [ErrOwnPrefix] unless
// the options say otherwise.
func Sweep(ctx context.Context, db *redis.DB, prefix string, opt SweepOptions) (Swept, error) {
	swept, began := Swept{Prefix: prefix}, time.Now()
	if n := len(prefix); n == 0 || n > keyspace.MaxPrefix {
		return swept, fmt.Errorf("audit: the prefix %q has %d bytes, which are 1 to %d", prefix, n, keyspace.MaxPrefix)
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
		if _, err := s.ask(ctx); err != nil {
			return swept, err
		}
		watching, enough := context.WithCancel(ctx)
		var watch sync.WaitGroup
		watch.Go(func() { pace.watch(watching, s.Ping) })
		seen := int64(0)
		err := s.each(ctx, under(prefix), sweepPage, pace, func(page []string, cursor uint64) error {
			seen += int64(len(page))
			err := s.sweep(ctx, prefix, page, opt.DryRun, &swept)
			if err == nil && cursor != 0 && opt.Progress != nil {
				opt.Progress(Progress{Part: (float64(i) + s.part(cursor, seen, db.Mode() == "cluster")) / float64(len(owners)), Keys: swept.Found})
			}
			return err
		})
		enough()
		watch.Wait()
		if err != nil {
			return swept, err
		}
	}
	swept.Seconds = time.Since(began).Seconds()
	return swept, nil
}

// sweep removes one page.
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

package transfers

import (
	"context"
	"errors"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/background/worker"
	"github.com/stoa-dev/stoa/internal/base/errs"
)

// Jobs are what this domain does by itself.
func (s *Service) Jobs() []worker.Job {
	jobs := []worker.Job{
		{Name: "transfers.expire", Every: time.Minute, Singleton: true, RunWithoutLease: true, Run: s.expire},
		// A bucket tells a thousand names at a time: of many millions that takes a quarter of an hour.
		{Name: "transfers.sweep", Every: 6 * time.Hour, Singleton: true, Timeout: 2 * time.Hour, Run: func(ctx context.Context) error {
			_, err := s.sweep(ctx)
			return err
		}},
	}
	finish := worker.Job{Name: "transfers.finish", Every: 20 * time.Second, Singleton: true, Timeout: scanTurn + finishAfter, Run: s.finishWaiting}
	if s.scanner != nil {
		finish.Every, finish.Timeout = time.Second, finish.Timeout+s.cfg.ScanTime
	}
	return append(jobs, finish)
}

const dueAtOnce = 100

// expire ends offers that nobody has answered and uploads that have stood still, removes
// files whose time is over, and forgets transfers that have none any more, and what users sent on days that count no longer.
func (s *Service) expire(ctx context.Context) (err error) {
	defer errs.Wrap(&err, "transfers.expire")
	for {
		due, err := s.sql.due(ctx, s.sql.db.Now(), dueAtOnce)
		if err != nil {
			return asKind(err)
		}
		if len(due) == 0 {
			break
		}
		for i := range due {
			if err := s.expireOne(ctx, &due[i]); err != nil && !errors.Is(err, ErrUnknown) {
				return err
			}
		}
	}
	for {
		n, err := s.sql.forgetOldQuotas(ctx, dayOf(s.sql.db.Now())-1, sweepAtOnce)
		if err != nil || n < sweepAtOnce {
			return asKind(err)
		}
	}
}

func (s *Service) expireOne(ctx context.Context, t *Transfer) error {
	if t.Status.final() && (!t.Content || t.forMessages()) {
		return s.forget(ctx, t, s.sql.db.Now())
	}
	_, err := s.change(ctx, t.From, t.ID, func(t *Transfer, now time.Time) error {
		switch {
		case t.Expires.After(now): // something has happened meanwhile
			return errSame
		case !t.Status.final():
			t.end(Failed, reasonExpired, now, historyFor)
		default:
			t.Content, t.Expires = false, now.Add(historyFor)
		}
		return nil
	})
	return err
}

// forget removes all that there is of a transfer that has expired by then.
func (s *Service) forget(ctx context.Context, t *Transfer, by time.Time) error {
	gone, err := s.sql.forget(ctx, t.ID, by)
	if err != nil {
		return asKind(err)
	}
	s.remove(ctx, gone)
	if err := s.redis.forget(ctx, t.ID); err != nil { // it is gone within the hour in any case
		s.log.Debug("transfers: Redis keeps the progress of a forgotten transfer", "transfer", t.ID, "err", err)
	}
	return nil
}

// Erase removes all that there is of a user who has no account any more: transfers on both
// sides, with their files. The others are told. A file that messages of others have, who have forwarded it, is
// nobody's from then on. It may be repeated.
func (s *Service) Erase(ctx context.Context, user accounts.ID) (err error) {
	defer errs.Wrap(&err, "transfers.Erase %s", user)
	if err := s.sql.disown(ctx, user); err != nil {
		return asKind(err)
	}
	for {
		some, err := s.sql.of(ctx, user, dueAtOnce)
		if err != nil {
			return asKind(err)
		}
		if len(some) == 0 {
			return asKind(s.sql.forgetQuotas(ctx, user))
		}
		for i := range some {
			t := &some[i]
			if err := s.forget(ctx, t, never); err != nil && !errors.Is(err, ErrUnknown) {
				return err
			}
			if t.Content = false; !t.Status.final() {
				t.Status, t.Reason = Failed, reasonErased
			}
			s.tellErased(t, user)
		}
	}
}

const (
	// orphanAge is how old a part without a row was at the sweep before the one that removes it. It
	// exceeds partTime by more than clocks differ.
	orphanAge = 2 * partTime

	sweepAtOnce = 500
)

// sweep removes parts that belong to no transfer: those of a node that died while it wrote
// them, or before it had removed them. It goes by what the database knew at the sweep before, see [Service.claim].
func (s *Service) sweep(ctx context.Context) (removed int, err error) {
	defer errs.Wrap(&err, "transfers.sweep")
	before, err := s.claim(ctx)
	if err != nil {
		return 0, err
	}
	var batch []string
	var of []ID
	settle := func() error {
		if len(batch) == 0 {
			return nil
		}
		counted, err := s.sql.counted(ctx, of, batch)
		if err != nil {
			return asKind(err)
		}
		var orphans []string
		for _, name := range batch {
			if !counted[name] {
				orphans = append(orphans, name)
			}
		}
		batch, of = batch[:0], of[:0]
		removed += len(orphans)
		s.metrics.orphans.Add(float64(len(orphans)))
		if len(orphans) == 0 {
			return nil
		}
		return asStorage(s.storage.Remove(ctx, orphans...))
	}
	err = s.storage.List(ctx, func(name string) error {
		id, made, ok := parsePart(name)
		if !ok || before.Sub(made) < orphanAge {
			return nil // another's, or one that may be on its way
		}
		batch, of = append(batch, name), append(of, id)
		if len(batch) < sweepAtOnce {
			return nil
		}
		return settle()
	})
	if err == nil {
		err = settle()
	}
	if removed > 0 {
		s.log.Info("transfers: parts of no transfer are removed", "parts", removed)
	}
	return removed, asStorage(err)
}

package transfers

import (
	"context"
	"errors"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/background/worker"
	"github.com/stoa-dev/stoa/internal/base/errs"
)

// Jobs returns the background jobs of this package.
func (s *Service) Jobs() []worker.Job {
	jobs := []worker.Job{
		{Name: "transfers.expire", Every: time.Minute, Singleton: true, RunWithoutLease: true, Run: s.expire},
		// A bucket lists a thousand names per request: many millions of names take a quarter of an hour.
		{Name: "transfers.sweep", Every: 6 * time.Hour, Singleton: true, Timeout: 2 * time.Hour, Run: func(ctx context.Context) error {
			_, err := s.sweep(ctx)
			return err
		}},
	}
	finish := worker.Job{Name: "transfers.finish", Every: 20 * time.Second, Singleton: true, Timeout: scanTurn + finishAfter,
		Run: s.finishWaiting}
	if s.scanner != nil {
		finish.Every, finish.Timeout = time.Second, finish.Timeout+s.cfg.ScanTime
	}
	return append(jobs, finish)
}

const dueBatch = 100

// expire ends offers without an answer and idle uploads. It deletes expired files, transfers without a file after their
// history, and quotas of days before yesterday.
func (s *Service) expire(ctx context.Context) (err error) {
	defer errs.Wrap(&err, "transfers.expire")
	for {
		due, err := s.sql.due(ctx, s.sql.db.Now(), dueBatch)
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
		n, err := s.sql.forgetOldQuotas(ctx, dayOf(s.sql.db.Now())-1, sweepBatch)
		if err != nil || n < sweepBatch {
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
		case t.Expires.After(now): // it changed meanwhile
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

// forget deletes a transfer that expires no later than by, with all its data.
func (s *Service) forget(ctx context.Context, t *Transfer, by time.Time) error {
	gone, err := s.sql.forget(ctx, t.ID, by)
	if err != nil {
		return asKind(err)
	}
	s.remove(ctx, gone)
	if err := s.redis.forget(ctx, t.ID); err != nil { // it expires within the hour in any case
		s.log.Debug("transfers: progress not deleted, expires", "transfer", t.ID, "err", err)
	}
	return nil
}

// Erase deletes all data of a user without an account: transfers on both sides, with their files. The other sides get
// events. Files that other users forwarded in their messages remain without a sender. Erase may be repeated.
func (s *Service) Erase(ctx context.Context, user accounts.ID) (err error) {
	defer errs.Wrap(&err, "transfers.Erase %s", user)
	if err := s.sql.disown(ctx, user); err != nil {
		return asKind(err)
	}
	for {
		batch, err := s.sql.listByUser(ctx, user, dueBatch)
		if err != nil {
			return asKind(err)
		}
		if len(batch) == 0 {
			return asKind(s.sql.forgetQuotas(ctx, user))
		}
		for i := range batch {
			t := &batch[i]
			if err := s.forget(ctx, t, never); err != nil && !errors.Is(err, ErrUnknown) {
				return err
			}
			if t.Content = false; !t.Status.final() {
				t.Status, t.Reason = Failed, reasonErased
			}
			s.publishErased(t, user)
		}
	}
}

const (
	// orphanAge is the age of a part without a row at the sweep before the one that deletes it. It exceeds partTime by
	// more than any difference between clocks.
	orphanAge = 2 * partTime

	sweepBatch = 500
)

// sweep deletes parts without a transfer: parts of a node that died while it wrote them or before it deleted them. It
// uses the state of the database at the previous sweep, see [Service.claim].
func (s *Service) sweep(ctx context.Context) (removed int, err error) {
	defer errs.Wrap(&err, "transfers.sweep")
	before, err := s.claim(ctx)
	if err != nil {
		return 0, err
	}
	var batch []string
	var owners []ID
	settle := func() error {
		if len(batch) == 0 {
			return nil
		}
		counted, err := s.sql.counted(ctx, owners, batch)
		if err != nil {
			return asKind(err)
		}
		var orphans []string
		for _, name := range batch {
			if !counted[name] {
				orphans = append(orphans, name)
			}
		}
		batch, owners = batch[:0], owners[:0]
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
			return nil // of another program, or perhaps still being written
		}
		batch, owners = append(batch, name), append(owners, id)
		if len(batch) < sweepBatch {
			return nil
		}
		return settle()
	})
	if err == nil {
		err = settle()
	}
	if removed > 0 {
		s.log.Info("transfers: orphaned parts deleted", "parts", removed)
	}
	return removed, asStorage(err)
}

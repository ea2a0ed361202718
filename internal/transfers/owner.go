package transfers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/internal/transfers/storage"
)

// ownerFolder is the folder of the storage with the mark of its database.
const ownerFolder = "owner/"

// An ownership connects a database with its storage: both have the same mark. Each sweep draws a new mark, so that the
// mark in a copy of the database soon becomes invalid.
type ownership struct {
	mark  string
	since int64  // Unix ms of the draw
	next  string // a mark that is being written; the storage has this mark, the former one, or both
}

// claim verifies that the storage belongs to this database, and draws a new mark. It returns the time when the former
// mark was drawn. A copy of the database with that mark was made later, so it has all uploads that began before. Parts
// from before that time that the database does not have belong to no transfer. For a storage without a mark, the time
// is the Unix epoch.
//
// A database that was restored from a backup has an older mark than the storage, and another deployment has a different
// one. For both of them, newer or foreign parts would look like parts without a transfer.
func (s *Service) claim(ctx context.Context) (before time.Time, err error) {
	held, err := s.sql.ownership(ctx)
	if err != nil {
		return before, asKind(err)
	}
	found := ""
	for _, mark := range []string{held.mark, held.next} {
		exists, err := s.hasMark(ctx, mark)
		if err != nil {
			return before, asStorage(err)
		}
		if exists {
			found = mark
		}
	}
	drawn := ownership{mark: found, next: strings.ToLower(rand.Text()[:13])}
	if found == "" {
		if err := s.refuseOwned(ctx); err != nil {
			return before, err
		}
	} else {
		drawn.since = held.since
	}
	if err := s.sql.setOwnership(ctx, held, drawn); err != nil {
		return before, asKind(err)
	}
	if err := s.writeMark(ctx, drawn.next); err != nil {
		return before, asStorage(err)
	}
	for _, mark := range []string{held.mark, held.next} {
		if mark == "" {
			continue
		}
		if err := s.storage.Remove(ctx, ownerFolder+mark); err != nil {
			return before, asStorage(err)
		}
	}
	before = time.UnixMilli(drawn.since)
	return before, asKind(s.sql.setOwnership(ctx, drawn, ownership{mark: drawn.next, since: s.sql.db.Now().UnixMilli()}))
}

func (s *Service) hasMark(ctx context.Context, mark string) (bool, error) {
	if mark == "" {
		return false, nil
	}
	r, err := s.storage.Open(ctx, ownerFolder+mark, 0, 1)
	if storage.IsMissing(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, r.Close()
}

func (s *Service) writeMark(ctx context.Context, mark string) error {
	w, err := s.storage.Create(ctx, ownerFolder+mark)
	if err != nil {
		return err
	}
	if _, err := w.Write([]byte("\n")); err != nil {
		w.Abort()
		return err
	}
	return w.Complete(ctx)
}

// refuseOwned returns an error if the storage has a mark, because this database does not have that mark.
func (s *Service) refuseOwned(ctx context.Context) error {
	err := s.storage.List(ctx, func(name string) error {
		if strings.HasPrefix(name, ownerFolder) {
			return errOwned
		}
		return nil
	})
	if errors.Is(err, errOwned) {
		return fmt.Errorf("%w, so nothing is removed: set another files.storage, or after a restore remove %s from the %s", errOwned,
			ownerFolder, s.storage)
	}
	return asStorage(err)
}

var errOwned = errors.New("the storage has the mark of another database, or of a newer state of this one")

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

// ownerFolder is where the storage has the mark of the database that its files belong to.
const ownerFolder = "owner/"

// An ownership is what a database knows of its storage: the mark that both have. Each sweep draws
// another one, so that the copy of a database does not have it for long.
type ownership struct {
	mark  string
	since int64  // Unix milliseconds at which the mark was drawn
	next  string // a mark that is being written: the storage has this one or the former, or both
}

// claim makes sure that the storage is that of this database, and draws another mark. It returns the moment
// at which the former mark was drawn. A copy of the database that has that mark was made later, so it knows
// all that was begun before: what it does not know of that belongs to no transfer. Of a storage without a mark the
// moment is that of Unix' epoch.
//
// A database that was restored from a backup has an older mark than the storage, another deployment's has
// another one, and to both of them all that is newer, or the other's, would look like parts of no transfer.
func (s *Service) claim(ctx context.Context) (before time.Time, err error) {
	held, err := s.sql.ownership(ctx)
	if err != nil {
		return before, asKind(err)
	}
	found := ""
	for _, mark := range []string{held.mark, held.next} {
		there, err := s.hasMark(ctx, mark)
		if err != nil {
			return before, asStorage(err)
		}
		if there {
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
	return w.Keep(ctx)
}

// refuseOwned is an error where the storage has a mark: it is not one that this database knows.
func (s *Service) refuseOwned(ctx context.Context) error {
	err := s.storage.List(ctx, func(name string) error {
		if strings.HasPrefix(name, ownerFolder) {
			return errOwned
		}
		return nil
	})
	if errors.Is(err, errOwned) {
		return fmt.Errorf("%w: nothing is removed from the %s, which another database has swept. After a restore of this database, "+
			"remove %s from it; otherwise give one of the two another files.storage", errOwned, s.storage, ownerFolder)
	}
	return asStorage(err)
}

var errOwned = errors.New("the storage of files is not this database's")

package transfers

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// File is an upload that is whole, as a message tells of it.
type File struct {
	From  accounts.ID // the user who has uploaded it
	Media api.Media
}

// Lock returns those of some files that are whole and there. They stay so until tx ends.
func (s *Service) Lock(ctx context.Context, tx *sqldb.Tx, list []ID) (map[ID]File, error) {
	found, err := s.sql.lockFiles(ctx, tx, list)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	looks, err := s.sql.looks(ctx, tx, list)
	if err != nil {
		return nil, err
	}
	all := make(map[ID]File, len(found))
	for i := range found {
		t := &found[i]
		all[t.ID] = File{From: t.From, Media: looks[t.ID].media(t)}
	}
	return all, nil
}

// media is what a message says of the file.
func (l *Looks) media(t *Transfer) api.Media {
	m := api.Media{File: t.ID.String(), Type: t.Media, Name: t.Name, Size: t.Size, SHA256: t.SHA256, Width: l.Width, Height: l.Height, Duration: int(l.Duration.Milliseconds())}
	if l.Type != "" {
		m.Type = l.Type
	}
	for _, th := range l.Thumbnails {
		m.Thumbnails = append(m.Thumbnails, th.Side)
	}
	return m
}

// Keep keeps locked files for messages that have them from this transaction on.
func (s *Service) Keep(ctx context.Context, tx *sqldb.Tx, list []ID) error {
	return s.sql.expireAt(ctx, tx, list, never)
}

// removedNow is how many files one change removes itself. The rest, as of a group that is dissolved, a job removes.
const removedNow = 50

// Release gives up locked files that no message has any more. Their bytes are removed after the commit, for which nobody
// waits: a storage that is slow or away must not keep a recalled message from being recalled for all. A job does it if this
// node dies before.
func (s *Service) Release(ctx context.Context, tx *sqldb.Tx, list []ID) error {
	if len(list) == 0 {
		return nil
	}
	now := tx.Now()
	list = slices.Clone(list)
	tx.AfterCommit(func() {
		s.releasing.Go(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTime)
			defer cancel()
			for _, id := range list[:min(len(list), removedNow)] {
				if err := s.forget(ctx, &Transfer{ID: id}, now); err != nil {
					s.log.Warn("transfers: the file of a message is left to the job that expires", "transfer", id, "err", err)
				}
			}
		})
	})
	return s.sql.expireAt(ctx, tx, list, now)
}

// FileLink returns where the file of a message that a user sees can be fetched, or its thumbnail of a side; 0 is the
// file. ErrGone, ErrNoSmall.
func (s *Service) FileLink(ctx context.Context, user accounts.ID, id ID, side int) (_ api.FileLink, err error) {
	defer errs.Wrap(&err, "transfers.FileLink %s", id)
	what, err := variantOf(side)
	if err != nil {
		return api.FileLink{}, err
	}
	t, err := s.sql.get(ctx, id)
	switch {
	case err != nil:
		return api.FileLink{}, sameAs(asKind(err), ErrUnknown, ErrGone)
	case t.Status != Done || !t.Content:
		return api.FileLink{}, ErrGone
	}
	if what != whole {
		looks, err := s.sql.looks(ctx, s.sql.db, []ID{id})
		if err == nil {
			_, err = looks[id].thumbnail(what)
		}
		if err != nil {
			return api.FileLink{}, asKind(err)
		}
	}
	return s.linkTo(&t, what, user), nil
}

// Store keeps a file that the server has made for a user, for a while from now on, as an upload for messages, and returns its id. It
// counts like what the user uploads. Where a scanner looks at files, and has not yet, the file is kept as long as an upload is that
// no message has. What the owner uploads meanwhile keeps it from nothing. ErrSize, ErrQuota, ErrName, and what
// [Service.Upload] may return but ErrBusy.
//
// The id is the caller's to choose, the same for each try with one file: after the end of ctx, or of the process, and after an error of
// kind [errs.Unavailable] the next try goes on where that one was. The file has another id where such an upload has expired.
func (s *Service) Store(ctx context.Context, owner accounts.ID, id, name, media string, size int64, body io.ReaderAt, keep time.Duration) (file string, err error) {
	defer errs.Wrap(&err, "transfers.Store for %s", owner)
	chosen, err := ids.Parse[Transfer](id)
	if err != nil {
		return "", err
	}
	t, err := s.mine(ctx, owner, chosen)
	cfg := s.cfg
	cfg.Open = math.MaxInt
	switch offer := (Offer{Name: name, Media: media, Size: size}); {
	case errors.Is(err, ErrUnknown):
		offer.ID = chosen
		t, err = s.offer(ctx, owner, offer, cfg)
	case err == nil && t.Status == Failed:
		t, err = s.offer(ctx, owner, offer, cfg)
	}
	if err != nil {
		return "", err
	}
	up, left := t.ID, t.Size-t.Stored
	t, err = s.take(ctx, owner, up, Piece{Offset: t.Stored, Length: left, Body: until{ctx, io.NewSectionReader(body, t.Stored, left)}})
	switch {
	case err != nil && (ctx.Err() != nil || up == chosen && errs.KindOf(err) == errs.Unavailable):
		return "", err
	case err != nil:
		if _, gone := s.Cancel(ctx, owner, up); gone != nil {
			s.log.Warn("transfers: what there is of a file of the server's expires", "transfer", up, "err", gone)
		}
		return "", err
	}
	if t.uploaded() && s.scanner == nil { // a try before has brought all of it
		if t = s.finishNow(ctx, t); t.uploaded() {
			return "", ErrStorage
		}
	}
	return up.String(), asKind(s.sql.keepUnused(ctx, up, keep))
}

// until reads until a context ends.
type until struct {
	ctx context.Context //nolint:containedctx // of the call that reads
	io.Reader
}

// Read implements [io.Reader].
func (u until) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.Reader.Read(p)
}

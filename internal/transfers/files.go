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

// File is a complete upload as described in a message.
type File struct {
	From  accounts.ID // the user who has uploaded it
	Media api.Media
}

// Lock returns those of some files that are complete and exist. They remain so until tx ends.
func (s *Service) Lock(ctx context.Context, tx *sqldb.Tx, list []ID) (map[ID]File, error) {
	found, err := s.sql.lockFiles(ctx, tx, list)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	descriptions, err := s.sql.descriptions(ctx, tx, list)
	if err != nil {
		return nil, err
	}
	all := make(map[ID]File, len(found))
	for i := range found {
		t := &found[i]
		all[t.ID] = File{From: t.From, Media: descriptions[t.ID].media(t)}
	}
	return all, nil
}

// media returns the description of the file in a message.
func (l *Description) media(t *Transfer) api.Media {
	m := api.Media{File: t.ID.String(), Type: t.Media, Name: t.Name, Size: t.Size, SHA256: t.SHA256, Width: l.Width, Height: l.Height,
		Duration: int(l.Duration.Milliseconds())}
	if l.Type != "" {
		m.Type = l.Type
	}
	for _, th := range l.Thumbnails {
		m.Thumbnails = append(m.Thumbnails, th.Side)
	}
	return m
}

// MakePermanent makes locked files permanent, because messages have them from this transaction on.
func (s *Service) MakePermanent(ctx context.Context, tx *sqldb.Tx, list []ID) error {
	return s.sql.expireAt(ctx, tx, list, never)
}

// removedNow is the largest number of files that one change deletes itself. A job deletes the rest, for example after a
// group is dissolved.
const removedNow = 50

// Release expires locked files that no message has any longer. Their bytes are deleted after the commit, and no caller
// waits for it, because a slow or unavailable storage must not delay the recall of a message. If this node dies before,
// a job deletes them.
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
					s.log.Warn("transfers: released file not deleted, left to the job", "transfer", id, "err", err)
				}
			}
		})
	})
	return s.sql.expireAt(ctx, tx, list, now)
}

// FileLink returns a link to a file of a message that a user sees, or to its thumbnail with this side; side 0 is the
// file. It returns ErrGone or ErrNoSmall.
func (s *Service) FileLink(ctx context.Context, user accounts.ID, id ID, side int) (_ api.FileLink, err error) {
	defer errs.Wrap(&err, "transfers.FileLink %s", id)
	v, err := variantFor(side)
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
	if v != whole {
		descriptions, err := s.sql.descriptions(ctx, s.sql.db, []ID{id})
		if err == nil {
			_, err = descriptions[id].thumbnail(v)
		}
		if err != nil {
			return api.FileLink{}, asKind(err)
		}
	}
	return s.linkTo(&t, v, user), nil
}

// Store stores a file of the server for a user as an upload for messages, and returns its id. The file expires after
// keep. It counts in the user's quota, but the owner's other uploads neither delay nor refuse it. Until the scanner (if
// any) has passed the file, it expires like an upload without messages. It returns ErrSize, ErrQuota or ErrName, or an
// error of [Service.Upload] except ErrBusy.
//
// The caller chooses the id and uses it again for each retry with one file. A retry resumes the upload if ctx or the
// process ended, or after an error of kind [errs.Unavailable]. If the upload with this id has expired, the file gets
// another id.
func (s *Service) Store(ctx context.Context, owner accounts.ID, id, name, media string, size int64, body io.ReaderAt,
	keep time.Duration) (file string, err error) {
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
	t, err = s.receive(ctx, owner, up, Piece{Offset: t.Stored, Length: left, Body: until{ctx, io.NewSectionReader(body, t.Stored, left)}})
	switch {
	case err != nil && (ctx.Err() != nil || up == chosen && errs.KindOf(err) == errs.Unavailable):
		return "", err
	case err != nil:
		if _, gone := s.Cancel(ctx, owner, up); gone != nil {
			s.log.Warn("transfers: failed file of the server not deleted, expires", "transfer", up, "err", gone)
		}
		return "", err
	}
	if t.uploaded() && s.scanner == nil { // an earlier try uploaded all of it
		if t = s.finishNow(ctx, t); t.uploaded() {
			return "", ErrStorage
		}
	}
	return up.String(), asKind(s.sql.extendUnused(ctx, up, keep))
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

package live

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/live/media"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

const (
	// webm is the media type of recordings.
	webm      = "video/webm"
	extension = ".webm"
	// storeTime bounds the storing of a recording as a file. stopTime bounds the rest of it when the node stops, because
	// each part of the node has ten seconds then.
	storeTime = 30 * time.Minute
	stopTime  = 5 * time.Second
)

// localRecording is a recording that is not yet a file of the stream's owner.
type localRecording struct {
	Recording
	path     string
	file     *os.File        // locked until it is closed
	recorder *media.Recorder // nil: from an earlier process
}

// lock opens the file of a recording and locks it, because nodes may share the folder. It fails if another node has
// locked it. On a file system without locks it only opens the file.
func lock(path string, flag int) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|flag, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// record starts a recording of a publisher, if the owner wants it. It returns nil if there is none.
func (s *Service) record(st Stream, p *publication) *localRecording {
	if !st.Record {
		return nil
	}
	t := &localRecording{Recording: Recording{ID: p.session, Stream: st.ID, Started: p.began},
		path: filepath.Join(s.cfg.Folder, st.ID.String()+"."+p.session.String()+"."+strconv.FormatInt(p.began, 10)+extension)}
	unlocked := t.path + ".new" // other nodes do not look for this name
	err := os.MkdirAll(s.cfg.Folder, 0o700)
	if err == nil {
		t.file, err = lock(unlocked, os.O_CREATE|os.O_EXCL)
	}
	if err == nil {
		if err = os.Rename(unlocked, t.path); err == nil {
			t.recorder, err = media.Record(p.src, t.file, s.cfg.RecordBytes)
		}
		if err != nil {
			err = errors.Join(err, t.file.Close(), os.Remove(t.path))
		}
	}
	if err != nil {
		s.log.Warn("live: stream not recorded", "stream", st.ID, "err", err)
		return nil
	}
	return t
}

// finishRecording stores a recording as a file of the owner. A recording that cannot be stored now remains for the next
// start of a node. The same applies if storing takes longer than stopTime after base has ended.
func (s *Service) finishRecording(base context.Context, t *localRecording) {
	defer t.file.Close()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(base), storeTime)
	defer cancel()
	defer context.AfterFunc(base, func() { time.AfterFunc(stopTime, cancel) })()
	if t.recorder != nil {
		out, err := t.recorder.Result()
		t.Duration, t.Bytes = out.Duration.Milliseconds(), out.Bytes
		if err != nil {
			s.log.Warn("live: recording ended early", "stream", t.Stream, "err", err)
		}
	}
	var err error
	if t.Bytes > 0 {
		if err = s.storeRecording(ctx, t); err != nil {
			s.log.Warn("live: recording not stored, left to the next start", "stream", t.Stream, "path", t.path, "err", err)
			return
		}
	}
	if err := os.Remove(t.path); err != nil {
		s.log.Warn("live: recording not removed from the data folder, remove it by hand", "path", t.path, "err", err)
	}
}

// storeRecording stores a recording that has bytes.
func (s *Service) storeRecording(ctx context.Context, t *localRecording) (err error) {
	defer errs.Wrap(&err, "live.storeRecording %s", t.ID)
	if done, err := hasRecording(ctx, s.db, t.ID); done || err != nil {
		return err
	}
	st, err := selectStream(ctx, s.db, t.Stream, "")
	if errors.Is(err, ErrStream) {
		return nil // the stream and its recordings were deleted
	} else if err != nil {
		return err
	}
	if t.File == "" {
		err = s.storeFile(ctx, t, st.Owner)
	}
	var refused *errs.Error
	switch {
	case errors.As(err, &refused) && refused.Kind != errs.Unavailable: // such as the owner's quota: a retry would not help
		t.Fault = refused.Code
	case err != nil:
		return err
	}
	err = s.caches.Change(ctx, nil, func(ctx context.Context, tx *sqldb.Tx) error { return insertRecording(ctx, tx, t.Recording) })
	if errors.Is(err, ErrStream) {
		return nil
	}
	return err
}

// storeFile stores a recording with the id of its session, and adds the file's id to the name of its path. So the next
// start does not store it again if the row cannot be written.
func (s *Service) storeFile(ctx context.Context, t *localRecording, owner accounts.ID) error {
	file, err := s.cfg.Files.Store(ctx, owner, t.ID.String(), "live-"+sqldb.Time(t.Started).Format("2006-01-02-150405")+extension, webm,
		t.Bytes, t.file, s.cfg.RecordFor)
	if err != nil {
		return err
	}
	t.File = file
	named := strings.TrimSuffix(t.path, extension) + "." + file + extension
	if err := os.Rename(t.path, named); err != nil {
		s.log.Warn("live: stored recording not renamed", "path", t.path, "err", err)
		return nil
	}
	t.path = named
	return nil
}

// recover stores recordings that earlier processes left. It skips recordings that another node writes or stores.
func (s *Service) recover(ctx context.Context) {
	found, err := filepath.Glob(filepath.Join(s.cfg.Folder, "*"+extension))
	if err != nil || len(found) == 0 {
		return
	}
	s.work.Go(func() {
		for _, path := range found {
			if ctx.Err() != nil {
				return
			}
			if t := leftoverRecording(path); t != nil {
				s.finishRecording(ctx, t)
			}
		}
	})
}

// leftoverRecording returns the recording in a file, or nil if there is none or another node has it.
func leftoverRecording(path string) *localRecording {
	parts := strings.Split(strings.TrimSuffix(filepath.Base(path), extension), ".")
	if len(parts) != 3 && len(parts) != 4 {
		return nil
	}
	stream, streamErr := ids.Parse[Stream](parts[0])
	session, sessionErr := ids.Parse[Session](parts[1])
	started, startedErr := strconv.ParseInt(parts[2], 10, 64)
	if errors.Join(streamErr, sessionErr, startedErr) != nil {
		return nil
	}
	file, err := lock(path, 0)
	if err != nil {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil { // the node that had it has stored it
		_ = file.Close()
		return nil
	}
	t := &localRecording{Recording: Recording{ID: session, Stream: stream, Started: started, Bytes: info.Size(),
		Duration: max(0, info.ModTime().UnixMilli()-started)}, path: path, file: file}
	if len(parts) == 4 { // it is stored
		t.File = parts[3]
	}
	return t
}

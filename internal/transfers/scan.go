package transfers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// scanner looks at a file before anybody can fetch it.
type scanner interface {
	// scan reports whether a file passes. An error means that nobody knows yet.
	scan(ctx context.Context, t *Transfer, content io.Reader) (passes bool, err error)
}

// newScanner returns what the setting names; nil: nothing.
func newScanner(setting string) scanner {
	switch {
	case setting == "":
		return nil
	case strings.HasPrefix(setting, "http://"), strings.HasPrefix(setting, "https://"):
		return newPostScanner(setting)
	}
	return command(strings.Fields(setting))
}

// command is a program that reads the file on its standard input. Exit code 0 passes the file, 1
// refuses it, as clamdscan has it; anything else is an error.
type command []string

// scanWait is how long a program that was told to stop may take.
const scanWait = 5 * time.Second

func (c command) scan(ctx context.Context, t *Transfer, content io.Reader) (bool, error) {
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, c[0], c[1:]...) //nolint:gosec // the operator's own
	cmd.Env = append(os.Environ(), "STOA_TRANSFER="+t.ID.String(), "STOA_SIZE="+strconv.FormatInt(t.Size, 10), "STOA_SHA256="+t.SHA256)
	cmd.Stdin, cmd.Stderr, cmd.WaitDelay = content, &limited{&said}, scanWait
	err := cmd.Run()
	exit, exited := errors.AsType[*exec.ExitError](err)
	switch {
	case exited && exit.ExitCode() == 1:
		return false, nil
	case err != nil:
		return false, fmt.Errorf("%s: %w: %s", c[0], err, strings.TrimSpace(said.String()))
	}
	return true, nil
}

// limited keeps the beginning of what is written.
type limited struct{ *bytes.Buffer }

// Write implements io.Writer.
func (l *limited) Write(b []byte) (int, error) {
	const most = 1 << 10
	_, _ = l.Buffer.Write(b[:min(len(b), max(0, most-l.Len()))])
	return len(b), nil
}

const (
	scansAtOnce = 4
	scanBatch   = 100
)

// finishWaiting finishes files that are stored as a whole. Where there is no scanner, that are those whose node
// has died before it had.
func (s *Service) finishWaiting(ctx context.Context) error {
	before := s.rows.db.Now()
	if s.scanner == nil {
		before = before.Add(-finishAfter)
	}
	all, err := s.rows.waiting(ctx, before, scanBatch)
	if err != nil {
		return asKind(err)
	}
	slots := make(chan struct{}, scansAtOnce)
	faults := make(chan error, len(all))
	for i := range all {
		slots <- struct{}{}
		go func() {
			defer func() { <-slots }()
			faults <- s.finish(ctx, &all[i])
		}()
	}
	var found []error
	for range all {
		found = append(found, <-faults)
	}
	return errors.Join(found...)
}

// passes reports whether the scanner, if there is one, passes a file.
func (s *Service) passes(ctx context.Context, t *Transfer) (bool, error) {
	if s.scanner == nil {
		return true, nil
	}
	c, err := s.read(ctx, t)
	if err != nil {
		return false, err
	}
	defer c.Close()
	within, cancel := context.WithTimeout(ctx, s.cfg.ScanTime)
	defer cancel()
	passes, err := s.scanner.scan(within, t, c)
	if err != nil {
		return false, fmt.Errorf("scanning transfer %s: %w", t.ID, err)
	}
	return passes, nil
}

// finishAfter is for how long a node finishes what was uploaded to it before others help.
const finishAfter = time.Minute

// finish brings a file to its end that has been uploaded, unless the scanner cannot tell.
func (s *Service) finish(ctx context.Context, t *Transfer) error {
	passes, err := s.passes(ctx, t)
	var looks *Looks
	if err == nil && passes && t.forMessages() {
		looks, err = s.look(ctx, t)
	}
	if errors.Is(err, ErrGone) {
		return nil
	} else if err != nil {
		return err
	}
	taken := false
	keep := s.cfg.KeepFor
	if t.forMessages() {
		keep = s.cfg.IdleFor
	}
	_, err = s.change(ctx, t.From, t.ID, func(t *Transfer, now time.Time) error {
		switch {
		case !t.uploaded(): // cancelled meanwhile, or finished by another node
			return errSame
		case passes:
			t.end(Done, "", now, keep)
			t.looks, taken = looks, true
		default:
			t.end(Failed, reasonScan, now, historyFor)
		}
		return nil
	})
	if looks != nil && (err == nil && !taken || countsNot(err)) {
		s.remove(ctx, looks.names())
	}
	if errors.Is(err, ErrUnknown) {
		return nil
	}
	return err
}

// finishNow is finish for the request that has brought the last byte. What it cannot do now, the job will.
func (s *Service) finishNow(ctx context.Context, t Transfer) Transfer {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishAfter/2)
	defer cancel()
	if err := s.finish(ctx, &t); err != nil {
		s.log.Warn("transfers: a file is left to the job that finishes", "transfer", t.ID, "err", err)
		return t
	}
	if done, err := s.rows.get(ctx, t.ID); err == nil {
		return done
	}
	return t
}

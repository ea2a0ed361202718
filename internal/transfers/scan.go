package transfers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
)

// scanner checks a file before it can be downloaded.
type scanner interface {
	// scan reports whether a file passes. An error means that the result is unknown.
	scan(ctx context.Context, t *Transfer, content io.Reader) (passes bool, err error)
}

// newScanner returns the scanner of a setting, or nil for none.
func newScanner(setting string) scanner {
	switch {
	case setting == "":
		return nil
	case strings.HasPrefix(setting, "http://"), strings.HasPrefix(setting, "https://"):
		return newPostScanner(setting)
	}
	return command(strings.Fields(setting))
}

// command is a program that reads the file from its standard input. Exit code 0 passes the file, 1 refuses it (as with
// clamdscan), and any other code is an error.
type command []string

// scanWait bounds the time until a stopped program has ended.
const scanWait = 5 * time.Second

func (c command) scan(ctx context.Context, t *Transfer, content io.Reader) (bool, error) {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, c[0], c[1:]...) //nolint:gosec // the operator's own
	cmd.Env = append(os.Environ(), "STOA_TRANSFER="+t.ID.String(), "STOA_SIZE="+strconv.FormatInt(t.Size, 10), "STOA_SHA256="+t.SHA256)
	cmd.Stdin, cmd.Stderr, cmd.WaitDelay = content, &limited{&stderr}, scanWait
	err := cmd.Run()
	exit, exited := errors.AsType[*exec.ExitError](err)
	switch {
	case exited && exit.ExitCode() == 1:
		return false, nil
	case err != nil:
		return false, fmt.Errorf("%s: %w: %s", c[0], err, strings.TrimSpace(stderr.String()))
	}
	return true, nil
}

// limited stores only the start of the written bytes.
type limited struct{ *bytes.Buffer }

// Write implements io.Writer.
func (l *limited) Write(b []byte) (int, error) {
	const most = 1 << 10
	_, _ = l.Buffer.Write(b[:min(len(b), max(0, most-l.Len()))])
	return len(b), nil
}

const (
	maxConcurrentScans = 4
	scanBatch          = 100
	maxUnbegun         = 10 * scanBatch // the largest number of files in memory that wait for their sender's turn

	// scanTurn is the time within which one run of the job starts files. It completes the files that it has started.
	scanTurn = time.Minute
)

// nextTry is the time of the next try for a file that could not be finished, and the number of failed tries.
type nextTry struct {
	at    time.Time
	tries int
}

// retryDelay returns the wait before the next try after this many consecutive failures. After the first failure, the
// next run retries at once. Later waits are longer than the job's wait after two failed runs, so that a run without the
// file comes between.
func retryDelay(tries int) time.Duration {
	if tries == 1 {
		return 0
	}
	return min(time.Minute, time.Second<<min(tries, 10))
}

// finishWaiting finishes files that are completely stored, including files that arrive during the run. Without a
// scanner, these are the files of nodes that died before they finished them. A run begins after the last file of the
// previous run, so that files that make the scanner hang or fail do not delay others. Senders take turns. It returns an
// error if no file could be finished, for example because the scanner is unavailable. A failure of one file delays only
// that file.
func (s *Service) finishWaiting(ctx context.Context) error {
	type result struct {
		transfer Transfer
		err      error
	}
	var found []error
	var fault error
	finished := false
	results := make(chan result, maxConcurrentScans)
	maps.DeleteFunc(s.nextTries, func(_ ID, a nextTry) bool { return s.sql.db.Now().Sub(a.at) > time.Hour }) // these files no longer exist
	s.unbegun = s.due(s.unbegun)
	senders := rotation{running: map[accounts.ID]int{}, last: map[accounts.ID]int{}}
	began, busy := time.Now(), 0
	inTurn := func() bool { return fault == nil && time.Since(began) < scanTurn }
	for {
		for inTurn() && busy < maxConcurrentScans {
			if i := senders.next(s.unbegun); i >= 0 {
				t := s.unbegun[i]
				s.unbegun = slices.Delete(s.unbegun, i, i+1)
				senders.begin(t.From)
				busy++
				go func() { results <- result{t, s.finishSafely(ctx, &t)} }()
				continue
			}
			if len(s.unbegun) >= maxUnbegun {
				break
			}
			before := s.sql.db.Now()
			if s.scanner == nil {
				before = before.Add(-finishAfter)
			}
			batch, err := s.sql.waiting(ctx, before, s.waited, scanBatch)
			if err != nil {
				fault = asKind(err)
			}
			if len(batch) == 0 {
				break
			}
			s.unbegun, s.waited = append(s.unbegun, s.due(batch)...), batch[len(batch)-1]
		}
		if busy == 0 {
			if len(s.unbegun) == 0 && inTurn() { // no files wait behind those of this run
				s.waited = Transfer{}
			}
			if !finished {
				return errors.Join(append(found, fault)...)
			}
			if len(found) > 0 {
				s.log.Warn("transfers: files not finished, retried later", "files", len(found), "err", errors.Join(found...))
			}
			return fault
		}
		select {
		case r := <-results:
			busy--
			senders.running[r.transfer.From]--
			if r.err != nil {
				found = append(found, r.err)
			} else {
				finished = true
			}
			if ctx.Err() == nil {
				s.tried(r.transfer.ID, r.err)
			}
		case <-time.After(time.Second):
		}
	}
}

// scansPerSender is the largest number of files of one sender that are scanned at a time.
const scansPerSender = maxConcurrentScans / 2

// A rotation chooses the next file to scan.
type rotation struct {
	running map[accounts.ID]int // files of each sender that are being scanned
	last    map[accounts.ID]int // the turn of each sender's last file
	turn    int
}

// next returns the index of the file to begin: the oldest one of the sender who has waited the longest for a turn. It
// returns -1 if every sender has scansPerSender files running.
func (r *rotation) next(files []Transfer) int {
	best := -1
	for i := range files {
		from := files[i].From
		if r.running[from] < scansPerSender && (best < 0 || r.last[from] < r.last[files[best].From]) {
			best = i
		}
	}
	return best
}

func (r *rotation) begin(sender accounts.ID) {
	r.turn++
	r.running[sender]++
	r.last[sender] = r.turn
}

// due returns those of some files that need not wait.
func (s *Service) due(batch []Transfer) (due []Transfer) {
	now := s.sql.db.Now()
	for i := range batch {
		if !s.nextTries[batch[i].ID].at.After(now) {
			due = append(due, batch[i])
		}
	}
	return due
}

// tried records the result of finishing a file.
func (s *Service) tried(id ID, err error) {
	a, before := s.nextTries[id]
	switch {
	case err != nil:
		a.tries++
		a.at = s.sql.db.Now().Add(retryDelay(a.tries))
		s.nextTries[id] = a
	case before:
		delete(s.nextTries, id)
	}
}

// finishSafely is finish for goroutines: a panic, for example of a picture decoder, becomes an error of that file.
func (s *Service) finishSafely(ctx context.Context, t *Transfer) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic while transfer %s is finished: %v\n%s", t.ID, v, debug.Stack())
		}
	}()
	return s.finish(ctx, t)
}

// passes reports whether the scanner, if any, passes a file.
func (s *Service) passes(ctx context.Context, t *Transfer) (bool, error) {
	if s.scanner == nil {
		return true, nil
	}
	within, cancel := context.WithTimeout(ctx, s.cfg.ScanTime)
	defer cancel()
	c, err := s.read(within, t)
	if err != nil {
		return false, err
	}
	defer c.Close()
	file := &lent{from: c}
	defer file.end()
	passes, err := s.scanner.scan(within, t, file)
	if err != nil {
		return false, fmt.Errorf("scanning transfer %s: %w", t.ID, err)
	}
	return passes, nil
}

// lent is a file for a scanner. net/http may still read a request's body after it has returned the response.
type lent struct {
	mu   sync.Mutex
	from io.Reader // nil: it has ended
}

// Read implements io.Reader.
func (l *lent) Read(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.from == nil {
		return 0, io.ErrClosedPipe
	}
	return l.from.Read(b)
}

// end prevents further reads, and waits for a running one.
func (l *lent) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.from = nil
}

// finishAfter is the time until other nodes help to finish the uploads of a node.
const finishAfter = time.Minute

// finish completes an uploaded file, unless the scanner has no result.
func (s *Service) finish(ctx context.Context, t *Transfer) error {
	passes, err := s.passes(ctx, t)
	var description *Description
	if err == nil && passes && t.forMessages() {
		description, err = s.describe(ctx, t)
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
			t.description, taken = description, true
		default:
			t.end(Failed, reasonScan, now, historyFor)
		}
		return nil
	})
	if description != nil && (err == nil && !taken || countsNot(err)) {
		s.remove(ctx, description.names())
	}
	if errors.Is(err, ErrUnknown) {
		return nil
	}
	return err
}

// finishNow is finish for the request with the last byte. If it fails, the job retries.
func (s *Service) finishNow(ctx context.Context, t Transfer) Transfer {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishAfter/2)
	defer cancel()
	if err := s.finish(ctx, &t); err != nil {
		s.log.Warn("transfers: file not finished, left to the job", "transfer", t.ID, "err", err)
		return t
	}
	if done, err := s.sql.get(ctx, t.ID); err == nil {
		return done
	}
	return t
}

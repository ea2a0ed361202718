package transfers

import (
	"context"
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/transfers/storage"
)

// Piece is the part of a file that one request uploads.
type Piece struct {
	Offset int64 // of its first byte
	Length int64 // -1: unknown
	Body   io.Reader
	Cut    func() // makes a waiting Read of Body and all later ones fail; nil if no Read waits

	// Sum and Want are set if the piece has its own checksum: then it counts as a whole or not at all.
	Sum  hash.Hash
	Want []byte
}

// ErrPiece refuses a piece whose checksum differs from the declared one; no byte of it counts.
var ErrPiece = errs.New(errs.Invalid, "transfer.piece_checksum", "The part's checksum does not match. Send it again.")

const (
	// storeTime bounds the time until a part is durable and committed.
	storeTime = time.Minute

	// sqlTime bounds the queries before bytes are read or sent, and the commit of a part. It is needed because the
	// request of an upload or a download has no deadline.
	sqlTime = 5 * time.Second

	// partTime is the largest age of a part when it begins to count. A much older part that does not count never will:
	// see [orphanAge].
	partTime = 2 * time.Hour
)

// buffers are the buffers of uploads between the network and a part.
var buffers = sync.Pool{New: func() any { return new([4][128 << 10]byte) }}

// Upload stores a piece of a file in parts of [Chunk] bytes. Each part is durable before the part after the next
// begins. It returns the present transfer, also with an error: bytes before an interruption count. A node accepts two
// concurrent uploads of a transfer, and as many of a user as the user may have open transfers.
// It returns ErrBusy, ErrUnknown, ErrNotYours, ErrWaiting, ErrEnded, ErrGone, ErrOffset, ErrTooLong, ErrSmall, ErrCut,
// ErrPiece, ErrSumFails, ErrRefused, ErrYouBlock, ErrStorage or ErrFull.
func (s *Service) Upload(ctx context.Context, user accounts.ID, id ID, in Piece) (_ Transfer, err error) {
	defer errs.Wrap(&err, "transfers.Upload %s", id)
	leave, err := s.places.enter(ctx, user, id, in.Cut)
	if err != nil {
		return Transfer{}, err
	}
	defer leave()
	return s.receive(ctx, user, id, in)
}

// receive is Upload for an upload that has a place or needs none.
func (s *Service) receive(ctx context.Context, user accounts.ID, id ID, in Piece) (Transfer, error) {
	asking, cancel := context.WithTimeout(ctx, sqlTime)
	defer cancel()
	t, err := s.mine(asking, user, id)
	if err != nil {
		return Transfer{}, err
	}
	switch {
	case in.Offset < 0:
		return Transfer{}, ErrTusOf.On("header.Upload-Offset", "is not a number of bytes")
	case user != t.From:
		return Transfer{}, ErrNotYours
	case t.Status == Pending:
		return t, ErrWaiting
	case t.Status == Done && in.Offset == t.Size && in.Length <= 0: // the response to its last piece was lost
		return t, nil
	case t.withoutFile():
		return t, ErrGone
	case t.Status != Transferring:
		return t, ErrEnded
	case in.Offset != t.Stored:
		return t, ErrOffset
	case in.Length > t.Size-t.Stored:
		return t, ErrTooLong
	}
	if !t.forMessages() {
		if err := s.relations.NotApart(asking, user, t.To, contactRefusals); err != nil {
			return t, err
		}
	}
	if t.Stored == t.Size || in.Length == 0 {
		return t, nil
	}
	count, err := s.sql.countParts(asking, id)
	if err != nil {
		return t, asKind(err)
	}
	u := &upload{s: s, id: id, size: t.Size, t: t, at: t.Stored, sum: sha256.New(), piece: in, short: count - t.Stored/s.chunk,
		began: s.sql.db.Now()}
	u.received.Store(t.Stored)
	u.stored.Store(t.Stored)
	if len(t.state) > 0 {
		if err := u.sum.(encoding.BinaryUnmarshaler).UnmarshalBinary(t.state); err != nil {
			return t, err
		}
	}
	stop := s.watch(context.WithoutCancel(ctx), t, u)
	unhash := u.hash()
	err = u.run(ctx)
	unhash()
	stop()
	s.metrics.received.Add(float64(u.t.Stored - t.Stored))
	if err == nil && u.t.uploaded() && s.scanner == nil {
		u.t = s.finishNow(ctx, u.t)
	}
	return u.t, asKind(err)
}

// upload is an upload request.
type upload struct {
	s     *Service
	id    ID
	size  int64     // of the file
	t     Transfer  // as last committed; only the goroutine of a part uses it while that part is being stored
	at    int64     // start of the next part
	sum   hash.Hash // of the bytes before at
	piece Piece
	short int64 // number of parts shorter than Chunk

	began time.Time

	free   chan []byte  // buffers that have been hashed
	hashed chan hashing // buffers to hash

	received, stored atomic.Int64 // bytes that were received, and that count, for the progress
	held             []written    // parts that count only together, of a piece with a checksum
	sent             bool         // held may have been committed
}

// written is a written part, and the state of SHA-256 after it.
type written struct {
	part
	storage.Writing
	state []byte
}

// hashing is a buffer to hash, or a wait for all earlier buffers.
type hashing struct {
	bytes []byte
	done  chan<- struct{}
}

// hash hashes bytes in parallel with their writing, until stop is called. Both take about the same time.
func (u *upload) hash() (stop func()) {
	buf := buffers.Get().(*[4][128 << 10]byte)
	u.free, u.hashed = make(chan []byte, len(buf)), make(chan hashing, len(buf))
	for i := range buf {
		u.free <- buf[i][:]
	}
	var working sync.WaitGroup
	working.Go(func() {
		for h := range u.hashed {
			if h.done != nil {
				close(h.done)
				continue
			}
			u.sum.Write(h.bytes)
			if u.piece.Sum != nil {
				u.piece.Sum.Write(h.bytes)
			}
			u.free <- h.bytes[:cap(h.bytes)]
		}
	})
	return func() {
		close(u.hashed)
		working.Wait()
		buffers.Put(buf)
	}
}

// settled waits until all bytes read so far are hashed.
func (u *upload) settled() {
	done := make(chan struct{})
	u.hashed <- hashing{done: done}
	<-done
}

// run reads the piece. While a part becomes durable, the next one is written.
func (u *upload) run(ctx context.Context) (err error) {
	keep := context.WithoutCancel(ctx) // received bytes count even if the sender disconnects
	var keeping chan error             // of the previous part
	settle := func() error {
		if keeping == nil {
			return nil
		}
		err := <-keeping
		keeping = nil
		return err
	}
	var cut error // the reason why the body ended early
	for u.at < u.size && cut == nil {
		var w written
		if w, cut, err = u.write(ctx); err != nil {
			break
		}
		if w.Writing == nil { // no bytes arrived
			break
		}
		u.at += w.size
		if err = settle(); err != nil {
			w.Abort()
			break
		}
		if u.piece.Sum != nil {
			if err = asStorage(w.Complete(keep)); err != nil {
				break
			}
			u.held = append(u.held, w)
			continue
		}
		keeping = make(chan error, 1)
		go func() { keeping <- u.storePart(keep, w) }()
		if u.s.storage.InMemory() {
			if err = settle(); err != nil {
				break
			}
		}
	}
	if settled := settle(); err == nil {
		err = settled
	}
	if u.piece.Sum != nil && err == nil {
		err = u.together(keep, cut)
	}
	switch {
	case err != nil:
		if !u.sent {
			u.s.remove(keep, names(u.held))
		}
		return err
	case cut != nil && !errors.Is(cut, io.EOF):
		return cutOff(cut)
	case u.t.Status == Failed:
		return ErrSumFails
	}
	return nil
}

// cutOff returns ErrCut with the reason as text. The reason is not wrapped, so that a network error of the client does
// not look like one of the database.
func cutOff(cause error) error { return fmt.Errorf("%w: %s", ErrCut, cause.Error()) }

// write writes the next part from the received bytes. cut is the reason if a part is shorter than usual. A part without
// bytes is removed.
func (u *upload) write(ctx context.Context) (w written, cut, err error) {
	began := u.s.sql.db.Now()
	w.part = newPart(u.id, u.at, began)
	if u.piece.Sum != nil {
		began = u.began
	}
	want := min(u.s.chunk, u.size-u.at)
	if w.Writing, err = u.s.storage.Create(ctx, w.name); err != nil {
		return written{}, nil, asStorage(err)
	}
	before, _ := u.sum.(encoding.BinaryMarshaler).MarshalBinary() // never fails
	for w.size < want && cut == nil && err == nil {
		buf := <-u.free // it was written before the next one is read
		var n int
		n, cut = u.piece.Body.Read(buf[:min(int64(len(buf)), want-w.size)])
		u.hashed <- hashing{bytes: buf[:n]}
		if n > 0 {
			_, err = w.Write(buf[:n])
			err = asStorage(err)
		}
		if cut == nil && u.s.sql.db.Now().Sub(began) > partTime/2 {
			cut = ErrCut
		}
		w.size += int64(n)
		u.received.Store(u.at + w.size)
	}
	u.settled()
	if w.size == want {
		cut = nil // further bytes are ignored, or the next part returns the error
	}
	switch whole := w.size == want; {
	case err != nil:
	case w.size == 0:
	case !whole && u.short >= mostShort:
		err = ErrSmall
	default:
		if !whole {
			u.short++
		}
		w.state, err = u.sum.(encoding.BinaryMarshaler).MarshalBinary()
	}
	if err != nil || w.size == 0 {
		w.Abort()
		_ = u.sum.(encoding.BinaryUnmarshaler).UnmarshalBinary(before)
		u.received.Store(u.at)
		return written{}, cut, err
	}
	return w, cut, nil
}

// storePart makes a part durable and commits it.
func (u *upload) storePart(ctx context.Context, w written) error {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	if err := asStorage(w.Complete(ctx)); err != nil {
		return err
	}
	err := u.commit(ctx, []written{w})
	if countsNot(err) {
		u.s.remove(ctx, []string{w.name})
	}
	return err
}

// together commits all parts of a piece if the piece has the declared checksum.
func (u *upload) together(ctx context.Context, cut error) error {
	switch {
	case cut != nil && !errors.Is(cut, io.EOF):
		return cutOff(cut)
	case string(u.piece.Sum.Sum(nil)) != string(u.piece.Want):
		return ErrPiece
	case len(u.held) == 0:
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	err := u.commit(ctx, u.held)
	u.sent = !countsNot(err)
	return err
}

// countsNot reports whether a commit was refused. After other errors it may have succeeded; the sweep deletes parts
// that do not count.
func countsNot(err error) bool {
	return errors.Is(err, ErrOffset) || errors.Is(err, ErrEnded) || errors.Is(err, ErrUnknown) || errors.Is(err, ErrCut)
}

// commit commits parts. The last byte completes the transfer, or fails it if its SHA-256 differs from the declared one.
// With a scanner, and for a file for messages, [Service.finish] completes the transfer later.
func (u *upload) commit(ctx context.Context, ws []written) error {
	s, last := u.s, ws[len(ws)-1]
	parts := make([]part, len(ws))
	for i, w := range ws {
		if _, made, ok := parsePart(w.name); !ok || s.sql.db.Now().Sub(made) > partTime {
			return ErrCut // the sweep may treat it as abandoned
		}
		parts[i] = w.part
	}
	committing, cancel := context.WithTimeout(ctx, sqlTime)
	defer cancel()
	t, gone, err := s.sql.commit(committing, u.id, parts, func(t *Transfer, now time.Time) {
		t.state, t.Expires = last.state, now.Add(s.cfg.IdleFor)
		if t.Stored < t.Size {
			return
		}
		whole := sha256.New()
		_ = whole.(encoding.BinaryUnmarshaler).UnmarshalBinary(last.state) // created by this program
		got := hex.EncodeToString(whole.Sum(nil))
		switch {
		case t.SHA256 != "" && t.SHA256 != got:
			t.end(Failed, reasonChecksum, now, historyFor)
			return
		case s.scanner == nil && !t.forMessages():
			t.end(Done, "", now, s.cfg.KeepFor)
		}
		t.SHA256 = got
	})
	if err != nil {
		return err
	}
	u.t = t
	u.stored.Store(t.Stored)
	if t.Stored == t.Size {
		s.ended(ctx, &t, gone)
	}
	return nil
}

func names(ws []written) []string {
	all := make([]string, len(ws))
	for i, w := range ws {
		all[i] = w.name
	}
	return all
}

package transfers

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // as tus has it
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
)

// hanging is an upload whose client sends no more bytes.
type hanging struct {
	line *io.PipeWriter
	err  chan error
}

// hang starts an upload of the first user that stops after some bytes of data.
func (w *world) hang(id ID, p Piece, data []byte) *hanging {
	w.t.Helper()
	r, line := io.Pipe()
	h := &hanging{line, make(chan error, 1)}
	p.Length, p.Body, p.Cut = -1, r, func() { r.CloseWithError(io.ErrUnexpectedEOF) }
	go func() {
		_, err := w.send(id, p)
		h.err <- err
		r.Close() // later writes do not block
	}()
	_, err := line.Write(data)
	w.must(err)
	return h
}

// wantCut waits for the end of an upload that was interrupted at once.
func (w *world) wantCut(what string, h *hanging, want error) {
	w.t.Helper()
	select {
	case err := <-h.err:
		if !errors.Is(err, want) {
			w.t.Errorf("%s: %v, want %v", what, err, want)
		}
	case <-time.After(time.Second):
		w.t.Errorf("%s goes on", what)
	}
}

// A hanging upload gives its place to a newer one of its transfer. Its bytes count, as after any interruption.
func TestPlaces_NewestUploadReplacesHangingOne(t *testing.T) {
	inBubble(t, Settings{}, func(t *testing.T, w *world) {
		data := random(3 * testChunk)
		id := w.begin(data).ID
		first, second := w.hang(id, Piece{}, data[:100]), w.hang(id, Piece{}, data[:50])
		if _, err := w.send(id, piece(data, 0)); !errors.Is(err, ErrOffset) {
			t.Errorf("the third one, from where the first began: %v", err)
		}
		w.wantCut("the first one", first, ErrCut)
		if got := w.current(id).Stored; got != 100 {
			t.Errorf("%d bytes of the first one count", got)
		}
		third := w.hang(id, Piece{Offset: 100}, data[100:110])
		if got, err := w.send(id, Piece{Offset: 100, Length: -1, Body: bytes.NewReader(data[100:])}); err != nil || got.Status != Done {
			t.Errorf("the last one: %+v, %v", got, err)
		}
		w.wantCut("the second one", second, ErrOffset)
		w.must(third.line.Close())
		w.wantCut("the third one", third, ErrEnded)
		if !bytes.Equal(w.fetched(id), data) {
			t.Error("another file came out")
		}
		w.sound(id)
	})
}

// A user can upload all allowed open transfers at once, even if each has a hanging upload. An ended upload that still
// hangs delays only the user's own uploads.
func TestPlaces_LimitUploadsPerUser(t *testing.T) {
	inBubble(t, Settings{Open: 3}, func(t *testing.T, w *world) {
		data := random(testChunk + 1)
		var all []ID
		var old, young []*hanging
		for range 3 {
			all = append(all, w.begin(data).ID)
		}
		for _, id := range all {
			old = append(old, w.hang(id, Piece{}, data[:1]))
		}
		for i, id := range all {
			if got, err := w.send(id, Piece{Offset: 0, Length: 2, Body: bytes.NewReader(data)}); !errors.Is(err, ErrOffset) || got.Stored != 1 {
				t.Errorf("beside as many that hang: %+v, %v", got, err)
			}
			w.wantCut("an older one", old[i], ErrCut)
			young = append(young, w.hang(id, Piece{Offset: 1}, data[1:2]))
		}
		_, err := w.Cancel(t.Context(), w.users[0], all[0])
		w.must(err)
		next := w.begin(data).ID
		var refusal *errs.Error
		if _, err := w.send(next, piece(data, 0)); !errors.Is(err, ErrBusy) || !errors.As(err, &refusal) || refusal.Kind != errs.TooMany ||
			refusal.After <= 0 {
			t.Errorf("one more: %v", err)
		}
		other, err := w.Offer(t.Context(), w.users[1], Offer{Name: "x", Size: 5})
		w.must(err)
		if got, err := w.Upload(t.Context(), w.users[1], other.ID, piece(data[:5], 0)); err != nil || got.Stored != 5 {
			t.Errorf("another user's: %+v, %v", got, err)
		}
		if got, err := w.neighbour().send(next, Piece{Length: 2, Body: bytes.NewReader(data[:2])}); err != nil || got.Stored != 2 {
			t.Errorf("at another node: %+v, %v", got, err)
		}
		_, err = w.Cancel(t.Context(), w.users[0], all[1])
		w.must(err)
		file, err := w.Store(t.Context(), w.users[0], ids.New[Transfer]().String(), "x", "text/plain", 5, bytes.NewReader(data[:5]), time.Hour)
		w.must(err) // it is the server's own upload
		stored, err := ids.Parse[Transfer](file)
		w.must(err)
		w.must(young[0].line.Close())
		w.wantCut("that of the cancelled one", young[0], ErrEnded)
		if got, err := w.send(next, piece(data, 2)); err != nil || got.Status != Done {
			t.Errorf("when there is a place again: %+v, %v", got, err)
		}
		for _, h := range young[1:] {
			w.must(h.line.Close())
			<-h.err
		}
		w.sound(next, other.ID, stored, all[2])
	})
}

// If a user has no free place, a transfer without an upload takes the place of one with two.
func TestPlaces_UploadReplacesSecondOfOtherTransfer(t *testing.T) {
	inBubble(t, Settings{Open: 3}, func(t *testing.T, w *world) {
		data := random(10)
		twice, once, none := w.begin(data).ID, w.begin(data).ID, w.begin(data).ID
		alone := w.hang(once, Piece{}, data[:1])
		older, newer := w.hang(twice, Piece{}, data[:1]), w.hang(twice, Piece{}, data[:1])
		if got, err := w.send(none, piece(data, 0)); err != nil || got.Status != Done {
			t.Errorf("the one that has none: %+v, %v", got, err)
		}
		w.wantCut("the older one", older, ErrCut)
		w.must(alone.line.Close())
		w.must(newer.line.Close())
		w.wantCut("the one that is alone, and ends", alone, nil)
		w.wantCut("the newer one, at its end", newer, ErrOffset)
		w.sound(twice, once, none)
	})
}

// Parts of a piece with a checksum are stored before they count, for at most two requests of a transfer.
func TestChecksumPieces_AreLimitedPerTransfer(t *testing.T) {
	inBubble(t, Settings{}, func(t *testing.T, w *world) {
		data := random(4 * testChunk)
		id := w.begin(data).ID
		var all []*hanging
		for range 6 {
			all = append(all, w.hang(id, Piece{Sum: sha1.New(), Want: []byte("x")}, data[:3*testChunk+1])) //nolint:gosec // as tus has it
			if n := len(w.objects()); n > 2*4 {
				t.Errorf("%d parts are stored for a file of four", n)
			}
		}
		for _, h := range all {
			w.must(h.line.CloseWithError(io.ErrUnexpectedEOF))
			w.wantCut("a piece", h, ErrCut)
		}
		w.sound(id)
	})
}

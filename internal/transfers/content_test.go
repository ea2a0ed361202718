package transfers

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/transfers/storage"
	"github.com/stoa-dev/stoa/internal/transfers/storage/storagetest"
)

func TestContent_ReadsPartsAsOneFile(t *testing.T) {
	storagetest.Each(t, func(t *testing.T, s storage.Storage) {
		id := ids.New[Transfer]()
		data := random(100_000)
		var parts []part
		for at := int64(0); at < int64(len(data)); {
			p := newPart(id, at, time.Now())
			p.size = min(1+rand.Int64N(30_000), int64(len(data))-at)
			storagetest.Put(t, s, p.name, data[at:at+p.size])
			parts = append(parts, p)
			at += p.size
		}
		c, err := newContent(t.Context(), s, parts, int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		want := bytes.NewReader(data)
		for range 100 {
			whence, offset := rand.IntN(3), rand.Int64N(int64(len(data)))
			switch whence {
			case io.SeekEnd:
				offset = -offset
			case io.SeekCurrent:
				offset = 0
			}
			a, err := c.Seek(offset, whence)
			b, werr := want.Seek(offset, whence)
			if a != b || err != nil || werr != nil {
				t.Fatalf("at %d, want %d, %v", a, b, err)
			}
			n := rand.Int64N(20_000)
			got, err := io.ReadAll(io.LimitReader(c, n))
			should, _ := io.ReadAll(io.LimitReader(want, n))
			if err != nil || !bytes.Equal(got, should) {
				t.Fatalf("%d bytes at %d are others, %v", n, a, err)
			}
		}
		if _, err := newContent(t.Context(), s, parts[1:], int64(len(data))); err == nil {
			t.Error("a file without its beginning is read")
		}
		if _, err := newContent(t.Context(), s, parts[:len(parts)-1], int64(len(data))); err == nil {
			t.Error("a file without its end is read")
		}
		if err := s.Remove(t.Context(), parts[0].name); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Seek(0, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, c); err == nil || n != 0 {
			t.Errorf("read %d bytes of a part that is not there, %v", n, err)
		}
	})
}

// A whole upload with an interruption, on an S3 server that becomes unavailable.
func TestUpload_ToBucket(t *testing.T) {
	log.SetOutput(io.Discard)
	defer log.SetOutput(os.Stderr)
	setting, server := storagetest.S3(t)
	w := onReal(t, Settings{})
	w.storage.Storage = storagetest.Open(t, setting)
	data := random(3*testChunk + 99)
	id := w.begin(data).ID
	if got, err := w.send(id, Piece{Offset: 0, Length: -1, Body: cutAfter(data[:testChunk+7])}); got.Stored != testChunk+7 {
		t.Fatalf("%d are stored, %v", got.Stored, err)
	}
	if got, err := w.send(id, piece(data, testChunk+7)); err != nil || got.Status != Done || !bytes.Equal(w.fetched(id), data) {
		t.Errorf("got %+v, %v", got, err)
	}
	w.sound(id)
	going := w.begin(data).ID
	server.CloseClientConnections()
	server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got, err := w.Upload(ctx, w.users[0], going, piece(data, 0))
	if kind, _ := errors.AsType[*errs.Error](err); got.Stored != 0 || kind == nil || kind.Code != ErrStorage.Code {
		t.Errorf("with the server away %d are stored, %v", got.Stored, err)
	}
}

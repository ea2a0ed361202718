package transfers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/stoa-dev/stoa/internal/foundation/ids"
)

// newS3 starts an S3 server in this process, with a bucket.
func newS3(t testing.TB) (*bucket, *httptest.Server) {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket("files"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server())
	t.Cleanup(server.Close)
	u, err := url.Parse(strings.Replace(server.URL, "http://", "s3://key:secret@", 1) + "/files/some/prefix?tls=false&region=us-east-1")
	if err != nil {
		t.Fatal(err)
	}
	b, err := newBucket(u)
	if err != nil {
		t.Fatal(err)
	}
	return b, server
}

// eachStorage runs test on a folder and on an S3 server.
func eachStorage(t *testing.T, test func(t *testing.T, s Storage)) {
	t.Run("folder", func(t *testing.T) {
		f, err := newFolder(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		test(t, f)
	})
	t.Run("s3", func(t *testing.T) {
		b, _ := newS3(t)
		defer b.Close()
		test(t, b)
	})
}

func list(t *testing.T, s Storage) (names []string) {
	t.Helper()
	if err := s.List(t.Context(), func(name string) error { names = append(names, name); return nil }); err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

func put(t *testing.T, s Storage, name string, data []byte) {
	t.Helper()
	w, err := s.Create(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = io.Copy(w, struct{ io.Reader }{bytes.NewReader(data)}); err != nil {
		t.Fatal(err)
	}
	if err := w.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestAStorageKeepsWhatItIsTold(t *testing.T) {
	eachStorage(t, func(t *testing.T, s Storage) {
		id, now := ids.New[Transfer](), time.Now()
		data := random(1 << 20)
		one, two, aborted := newPart(id, 0, now).name, newPart(id, 1<<20, now).name, newPart(ids.New[Transfer](), 0, now).name
		put(t, s, one, data)
		put(t, s, two, data[:10])
		w, err := s.Create(t.Context(), aborted)
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.Write(data)
		if err != nil {
			t.Fatal(err)
		}
		w.Abort()
		want := []string{one, two}
		slices.Sort(want)
		if got := list(t, s); !slices.Equal(got, want) {
			t.Errorf("it has %q, want %q", got, want)
		}
		for range 50 {
			from := rand.Int64N(1 << 20)
			n := 1 + rand.Int64N(1<<20-from)
			r, err := s.Open(t.Context(), one, from, n)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(io.LimitReader(r, n))
			if err != nil || !bytes.Equal(got, data[from:from+n]) {
				t.Errorf("%d bytes from %d on are others, %v", n, from, err)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
		if _, err := s.Open(t.Context(), aborted, 0, 1); err == nil {
			t.Error("an aborted part can be read")
		}
		for range 2 { // what is not there is no error
			if err := s.Remove(t.Context(), one, two, aborted); err != nil {
				t.Error(err)
			}
		}
		if got := list(t, s); len(got) != 0 {
			t.Errorf("%q are left", got)
		}
		if strings.Contains(s.String(), "secret") {
			t.Errorf("%q has the secret", s)
		}
	})
}

// TestAListOfManyPartsIsReadInPieces: what is in memory at the first name does not grow with their number.
func TestAListOfManyPartsIsReadInPieces(t *testing.T) {
	f, err := newFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const parts = 20 * namesAtOnce
	for range parts {
		name := newPart(ids.New[Transfer](), 0, time.Now()).name
		if err := errors.Join(f.root.Mkdir(path.Dir(name), 0o700), f.root.WriteFile(name, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	inUse := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	listed, before, during := 0, inUse(), uint64(0)
	if err := f.List(t.Context(), func(string) error {
		if listed++; listed == 1 {
			during = inUse()
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if listed != parts || during > before+parts*40 {
		t.Errorf("%d of %d are listed, with %d bytes more in use at the first", listed, parts, during-before)
	}
}

func TestAFileOfPartsReadsAsOne(t *testing.T) {
	eachStorage(t, func(t *testing.T, s Storage) {
		id := ids.New[Transfer]()
		data := random(100_000)
		var parts []part
		for at := int64(0); at < int64(len(data)); {
			p := newPart(id, at, time.Now())
			p.size = min(1+rand.Int64N(30_000), int64(len(data))-at)
			put(t, s, p.name, data[at:at+p.size])
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

// A whole upload with a cut, on an S3 server that goes away.
func TestAnUploadGoesToABucket(t *testing.T) {
	log.SetOutput(io.Discard)
	defer log.SetOutput(os.Stderr)
	b, server := newS3(t)
	w := onReal(t, Settings{})
	w.storage.Storage = b
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
	if got.Stored != 0 || !strings.Contains(fmt.Sprint(err), ErrStorage.Code) {
		t.Errorf("with the server away %d are stored, %v", got.Stored, err)
	}
}

package storage_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stoa-dev/stoa/internal/transfers/storage"
	"github.com/stoa-dev/stoa/internal/transfers/storage/storagetest"
)

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b)
	return b
}

func TestSetting_SelectsFolderOrBucket(t *testing.T) {
	for _, setting := range []string{"ftp://x", "s3://host", "s3://host/bucket", "folder:"} {
		if _, err := storage.Open(setting, t.TempDir()); err == nil || storage.Check(setting) == nil {
			t.Errorf("%q is taken", setting)
		}
	}
	dir := t.TempDir()
	own := filepath.Join(dir, "own")
	for setting, want := range map[string]string{
		"": "folder " + dir, "folder": "folder " + dir, "folder:" + own: "folder " + own,
		"s3://k:s@host:9000/bucket/a/b?tls=false": "bucket bucket at host:9000",
	} {
		if err := storage.Check(setting); err != nil {
			t.Errorf("%q: %v", setting, err)
			continue
		}
		s, err := storage.Open(setting, dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.String(); got != want {
			t.Errorf("%q is %q, want %q", setting, got, want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestStorage_ReturnsStoredParts(t *testing.T) {
	storagetest.Each(t, func(t *testing.T, s storage.Storage) {
		data := random(1 << 20)
		one, two, aborted := "first/0-1-a", "first/1-1-b", "second/0-1-c"
		storagetest.Put(t, s, one, data)
		storagetest.Put(t, s, two, data[:10])
		w, err := s.Create(t.Context(), aborted)
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.Write(data)
		if err != nil {
			t.Fatal(err)
		}
		w.Abort()
		if got, want := storagetest.List(t, s), []string{one, two}; !slices.Equal(got, want) {
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
		if _, err := s.Open(t.Context(), aborted, 0, 1); !storage.IsMissing(err) {
			t.Errorf("an aborted part is opened with %v", err)
		}
		for range 2 { // a missing part is not an error
			if err := s.Remove(t.Context(), one, two, aborted); err != nil {
				t.Error(err)
			}
		}
		if got := storagetest.List(t, s); len(got) != 0 {
			t.Errorf("%q are left", got)
		}
		if strings.Contains(s.String(), "secret") {
			t.Errorf("%q has the secret", s)
		}
	})
}

// TestList_MemoryIsConstant checks that the memory at the first name does not grow with the number of parts.
func TestList_MemoryIsConstant(t *testing.T) {
	dir := t.TempDir()
	const parts = 20_000
	for i := range parts {
		of := filepath.Join(dir, strconv.Itoa(i))
		if err := errors.Join(os.Mkdir(of, 0o700), os.WriteFile(filepath.Join(of, "0-1-a"), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	s := storagetest.Open(t, "folder:"+dir)
	inUse := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	listed, before, during := 0, inUse(), uint64(0)
	if err := s.List(t.Context(), func(string) error {
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

func TestFolder_OpensOnceForConcurrentCalls(t *testing.T) {
	s, err := storage.OpenLater("folder", filepath.Join(t.TempDir(), "new"))
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() { storagetest.Put(t, s, "transfer/"+strconv.Itoa(i), random(10)) })
	}
	all.Wait()
	if names := storagetest.List(t, s); len(names) != 8 {
		t.Errorf("the folder has %q, want 8 parts", names)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

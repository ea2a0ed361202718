// Package storagetest has the storages for tests: a folder, and an S3 server in the process.
package storagetest

import (
	"bytes"
	"io"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/stoa-dev/stoa/internal/transfers/storage"
)

// S3 starts an S3 server with a bucket in this process, and returns the setting for it.
func S3(t testing.TB) (setting string, server *httptest.Server) {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket("files"); err != nil {
		t.Fatal(err)
	}
	server = httptest.NewServer(gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server())
	t.Cleanup(server.Close)
	return strings.Replace(server.URL, "http://", "s3://key:secret@", 1) + "/files/some/prefix?tls=false&region=us-east-1", server
}

// Open returns the storage of a setting, and closes it at the end of the test.
func Open(t testing.TB, setting string) storage.Storage {
	t.Helper()
	s, err := storage.Open(setting, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// Each runs test on a folder and on an S3 server.
func Each(t *testing.T, test func(t *testing.T, s storage.Storage)) {
	t.Run("folder", func(t *testing.T) { test(t, Open(t, "folder")) })
	t.Run("s3", func(t *testing.T) {
		setting, _ := S3(t)
		test(t, Open(t, setting))
	})
}

// Put writes a part.
func Put(t testing.TB, s storage.Storage, name string, data []byte) {
	t.Helper()
	w, err := s.Create(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(w, struct{ io.Reader }{bytes.NewReader(data)}); err != nil { // in pieces
		t.Fatal(err)
	}
	if err := w.Complete(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// List returns the names of all parts, sorted.
func List(t testing.TB, s storage.Storage) (names []string) {
	t.Helper()
	if err := s.List(t.Context(), func(name string) error { names = append(names, name); return nil }); err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

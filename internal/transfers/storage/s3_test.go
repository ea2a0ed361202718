package storage

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// The server accepts requests and never responds, as a stopped one does.
func TestBucket_SilentServerEndsEachRequest(t *testing.T) {
	t.Parallel()
	backend := s3mem.New()
	if err := backend.CreateBucket("files"); err != nil {
		t.Fatal(err)
	}
	var silent atomic.Bool
	resume := make(chan struct{})
	s3 := gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if silent.Load() {
			<-resume
		}
		s3.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(resume) })
	u, err := url.Parse(strings.Replace(server.URL, "http://", "s3://key:secret@", 1) + "/files?tls=false&region=us-east-1")
	if err != nil {
		t.Fatal(err)
	}
	b, err := newBucket(u)
	if err != nil {
		t.Fatal(err)
	}
	keep := func(name string) error {
		w, err := b.Create(t.Context(), name)
		if err == nil {
			_, err = io.WriteString(w, "content")
		}
		if err != nil {
			t.Fatal(err)
		}
		return w.Complete(t.Context())
	}
	if err := keep("one"); err != nil {
		t.Fatal(err)
	}
	silent.Store(true)
	b.silence = 50 * time.Millisecond
	for name, err := range map[string]error{
		"a part that is kept": keep("two"),
		"a part that is opened": func() error {
			_, err := b.Open(t.Context(), "one", 0, 7)
			return err
		}(),
		"a removal": b.Remove(t.Context(), "one", "two"),
		"a list":    b.List(t.Context(), func(string) error { return nil }),
	} {
		if !errors.Is(err, errSilent) || errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v, want %v", name, err, errSilent)
		}
	}
}

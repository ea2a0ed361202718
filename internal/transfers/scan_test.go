package transfers

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

// onReal is a node in real time, for what no bubble has: programs and connections.
func onReal(t testing.TB, settings Settings) *world {
	t.Helper()
	ahead := new(atomic.Int64)
	db := sqldbtest.Engine{Name: "sqlite"}.Open(t, func(c *sqldb.Config) { c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) } })
	w := newWorld(t, db, redistest.Open(t, "embedded"), ahead, t.TempDir(), settings)
	w.join(3)
	w.befriend(0, 1)
	return w
}

// A file waits until a scanner has passed it; one that it refuses is gone, and while nobody
// can tell it waits on.
func TestAScannerDecides(t *testing.T) {
	var broken atomic.Bool
	bad := []byte("this is bad")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		switch {
		case err != nil || broken.Load() || r.Header.Get("X-Stoa-Sha256") != sumOf(b):
			w.WriteHeader(http.StatusInternalServerError)
		case bytes.Contains(b, bad):
			w.WriteHeader(http.StatusUnprocessableEntity)
		}
	}))
	defer server.Close()
	dir := t.TempDir()
	program := filepath.Join(dir, "scan")
	text := "#!/bin/sh\n[ -e " + dir + "/broken ] && exit 2\ngrep -aq 'this is bad' && exit 1\nexit 0\n"
	if err := os.WriteFile(program, []byte(text), 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		setting string
		harm    func(t *testing.T, on bool)
	}{
		"address": {server.URL, func(_ *testing.T, on bool) { broken.Store(on) }},
		"command": {program, func(t *testing.T, on bool) {
			var err error
			if mark := filepath.Join(dir, "broken"); on {
				err = os.WriteFile(mark, nil, 0o600)
			} else {
				err = os.Remove(mark)
			}
			if err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := onReal(t, Settings{Scan: tc.setting})
			good := random(2*testChunk + 1)
			evil := append(random(2*testChunk-3), bad...)
			passes, fails, gone := w.begin(good), w.begin(evil), w.begin(good)
			for _, one := range []struct {
				id   ID
				data []byte
			}{{passes.ID, good}, {fails.ID, evil}, {gone.ID, good}} {
				if got, err := w.send(one.id, piece(one.data, 0)); err != nil || !got.uploaded() {
					t.Fatalf("got %+v, %v", got, err)
				}
				if _, err := w.Link(t.Context(), w.users[1], one.id); !errors.Is(err, ErrNotDone) {
					t.Errorf("a file that nobody has looked at: %v", err)
				}
			}
			_, err := w.Cancel(t.Context(), w.users[0], gone.ID)
			w.must(err)
			tc.harm(t, true)
			if err := w.finishWaiting(t.Context()); err == nil {
				t.Error("a scanner that cannot tell is no error")
			}
			if got := w.stands(passes.ID); !got.uploaded() {
				t.Errorf("while nobody can tell it is %+v", got)
			}
			tc.harm(t, false)
			w.must(w.finishWaiting(t.Context()))
			if got := w.stands(passes.ID); got.Status != Done || !bytes.Equal(w.fetched(passes.ID), good) {
				t.Errorf("a good one is %+v", got)
			}
			if got := w.stands(fails.ID); got.Status != Failed || got.Reason != reasonScan {
				t.Errorf("a bad one is %+v", got)
			}
			if got := w.stands(gone.ID); got.Status != Failed || got.Reason != reasonCancelled {
				t.Errorf("a cancelled one is %+v", got)
			}
			w.sound(passes.ID)
		})
	}
}

// during is a scanner that passes every file, after something has happened.
type during func()

func (d during) scan(_ context.Context, _ *Transfer, content io.Reader) (bool, error) {
	_, err := io.Copy(io.Discard, content)
	d()
	return true, err
}

func TestAFileThatIsCancelledWhileItIsScannedStaysSo(t *testing.T) {
	inBubble(t, Settings{}, func(t *testing.T, w *world) {
		data := random(testChunk + 1)
		id := w.begin(data).ID
		w.scanner = during(func() {
			_, err := w.Cancel(t.Context(), w.users[1], id)
			w.must(err)
		})
		_, err := w.send(id, piece(data, 0))
		w.must(err)
		w.must(w.finishWaiting(t.Context()))
		if got := w.stands(id); got.Status != Failed || got.Reason != reasonCancelled || got.Content {
			t.Errorf("got %+v", got)
		}
		w.sound()
	})
}

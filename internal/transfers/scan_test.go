package transfers

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/background/worker"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// onReal returns a node in real time, for programs and connections, which no bubble has.
func onReal(t testing.TB, settings Settings) *world {
	t.Helper()
	ahead := new(atomic.Int64)
	db := sqldbtest.Engine{Name: "sqlite"}.Open(t, func(c *sqldb.Config) {
		c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	w := newWorld(t, db, redistest.Open(t, "embedded"), ahead, t.TempDir(), settings)
	w.join(3)
	w.befriend(0, 1)
	return w
}

// A file waits until the scanner has passed it. A refused file is deleted. A file waits as long as the scanner has no
// result.
func TestScan_ResultDecides(t *testing.T) {
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
			if got := w.current(passes.ID); !got.uploaded() {
				t.Errorf("while nobody can tell it is %+v", got)
			}
			tc.harm(t, false)
			w.must(w.finishWaiting(t.Context()))
			if got := w.current(passes.ID); got.Status != Done || !bytes.Equal(w.fetched(passes.ID), good) {
				t.Errorf("a good one is %+v", got)
			}
			if got := w.current(fails.ID); got.Status != Failed || got.Reason != reasonScan {
				t.Errorf("a bad one is %+v", got)
			}
			if got := w.current(gone.ID); got.Status != Failed || got.Reason != reasonCancelled {
				t.Errorf("a cancelled one is %+v", got)
			}
			w.sound(passes.ID)
		})
	}
}

// The address of a scanner may have a secret, which must not be in errors.
func TestScan_ErrorOmitsAddress(t *testing.T) {
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close()
	s := newScanner(away.URL + "/?key=hidden")
	if _, err := s.scan(t.Context(), &Transfer{}, http.NoBody); err == nil || strings.Contains(err.Error(), "hidden") ||
		!strings.Contains(err.Error(), "dial") {
		t.Errorf("it is said: %v", err)
	}
}

// during is a scanner that calls a function and passes every file.
type during func()

func (d during) scan(_ context.Context, _ *Transfer, content io.Reader) (bool, error) {
	_, err := io.Copy(io.Discard, content)
	d()
	return true, err
}

// early is a scanner that refuses every file before it has read it. The reader continues, as in net/http.
type early func(content io.Reader)

func (e early) scan(_ context.Context, _ *Transfer, content io.Reader) (bool, error) {
	go e(content)
	return false, nil
}

func TestScan_StopsReadingAfterResponse(t *testing.T) {
	inBubble(t, Settings{}, func(t *testing.T, w *world) {
		read := make(chan error, 1)
		w.scanner = early(func(content io.Reader) {
			<-time.After(time.Second)
			_, err := io.Copy(io.Discard, content)
			read <- err
		})
		data := random(2*testChunk + 1)
		id := w.begin(data).ID
		_, err := w.send(id, piece(data, 0))
		w.must(err)
		before := w.storage.opens.Load()
		w.must(w.finishWaiting(t.Context()))
		if err := <-read; !errors.Is(err, io.ErrClosedPipe) || w.storage.opens.Load() != before {
			t.Errorf("reading afterwards: %v, %d parts were opened", err, w.storage.opens.Load()-before)
		}
		if got := w.current(id); got.Status != Failed || got.Reason != reasonScan {
			t.Errorf("it is %+v", got)
		}
	})
}

func TestScan_CancelledFileStaysCancelled(t *testing.T) {
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
		if got := w.current(id); got.Status != Failed || got.Reason != reasonCancelled || got.Content {
			t.Errorf("got %+v", got)
		}
		w.sound()
	})
}

// judge is a scanner with a function as its result.
type judge func(ctx context.Context, t *Transfer) (bool, error)

func (j judge) scan(ctx context.Context, t *Transfer, _ io.Reader) (bool, error) { return j(ctx, t) }

// works runs a job of this node each second until the test ends.
func (w *world) works(job string) {
	w.t.Helper()
	jobs := slices.DeleteFunc(w.Jobs(), func(j worker.Job) bool { return j.Name != job })
	jobs[0].Every = time.Second
	pool, err := worker.NewPool(worker.PoolConfig{}, jobs...)
	w.must(err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	var all sync.WaitGroup
	all.Go(func() { _ = pool.Run(ctx) })
	w.t.Cleanup(func() {
		cancel()
		all.Wait()
	})
}

// within waits for a scan of length d, or until ctx ends.
func within(ctx context.Context, d time.Duration) (bool, error) {
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case <-time.After(d):
		return true, nil
	}
}

func TestScan_TimeoutIsSetting(t *testing.T) {
	inBubble(t, Settings{}, func(t *testing.T, w *world) {
		w.scanner = judge(func(ctx context.Context, _ *Transfer) (bool, error) { return within(ctx, w.cfg.ScanTime-time.Second) })
		data := random(testChunk + 1)
		id := w.begin(data).ID
		_, err := w.send(id, piece(data, 0))
		w.must(err)
		w.works("transfers.finish")
		bubble.Sleep(2 * w.cfg.ScanTime)
		if got := w.current(id); got.Status != Done {
			t.Errorf("got %+v", got)
		}
	})
}

// Any number of files that make the scanner hang or fail, for any time, delays neither present nor later files.
func TestScan_FailingFilesDelayNoOther(t *testing.T) {
	for name, tc := range map[string]struct {
		files int
		scan  judge
	}{
		"it hangs":       {2 * maxConcurrentScans, func(ctx context.Context, _ *Transfer) (bool, error) { return within(ctx, time.Hour) }},
		"it cannot tell": {scanBatch + 1, func(context.Context, *Transfer) (bool, error) { return false, errors.New("the scanner is confused") }},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Settings{Open: 2 * scanBatch, ScanTime: 2 * time.Minute}, func(t *testing.T, w *world) {
				good := map[ID]bool{}
				w.scanner = judge(func(ctx context.Context, of *Transfer) (bool, error) {
					if of.Name == "good" {
						return true, nil
					}
					return tc.scan(ctx, of)
				})
				for range tc.files {
					w.put("bad", random(10))
				}
				good[w.put("good", random(10)).ID] = true
				w.works("transfers.finish")
				for range 3 {
					bubble.Sleep(5 * w.cfg.ScanTime) // one sender has two of the scans
					for id := range good {
						if got := w.current(id); got.Status != Done {
							t.Fatalf("after %s it is %+v", 5*w.cfg.ScanTime, got)
						}
					}
					good[w.put("good", random(10)).ID] = true
				}
			})
		})
	}
}

func TestScan_SendersTakeTurns(t *testing.T) {
	for name, scanTime := range map[string]time.Duration{"slow": 10 * time.Second, "hanging": time.Hour} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Settings{}, func(t *testing.T, w *world) {
				w.scanner = judge(func(ctx context.Context, of *Transfer) (bool, error) {
					if of.From == w.users[0] {
						return within(ctx, scanTime)
					}
					return true, nil
				})
				for range w.cfg.Open {
					w.put("first", random(10))
				}
				w.works("transfers.finish")
				bubble.Sleep(3 * time.Second)
				id := w.putBy(2, "second", random(10)).ID
				bubble.Sleep(3 * time.Second)
				if got := w.current(id); got.Status != Done {
					t.Errorf("another sender's file is not scanned: %+v", got)
				}
			})
		})
	}
}

// A file without a scan result delays only itself. If it is sent while there is nothing else to scan, later files do
// not wait for a minute.
func TestScan_FileWithoutResultDelaysOnlyItself(t *testing.T) {
	inBubble(t, Settings{}, func(t *testing.T, w *world) {
		var tries atomic.Int64
		w.scanner = judge(func(_ context.Context, of *Transfer) (bool, error) {
			if of.Name == "good" {
				return true, nil
			}
			tries.Add(1)
			return false, errors.New("the scanner takes no such file")
		})
		w.put("bad", random(10))
		w.works("transfers.finish")
		bubble.Sleep(10 * time.Minute)
		if n := tries.Load(); n < 10 || n > 20 {
			t.Errorf("it was tried %d times in ten minutes", n)
		}
		for range 5 {
			id := w.put("good", random(10)).ID
			bubble.Sleep(5 * time.Second)
			if got := w.current(id); got.Status != Done {
				t.Errorf("after five seconds it is %+v", got)
			}
			bubble.Sleep(17 * time.Second)
		}
	})
}

// A panic of a picture decoder is a failure of this file, and does not end the node.
func TestFinish_PanicFailsOnlyTheFile(t *testing.T) {
	inBubble(t, Settings{}, func(t *testing.T, w *world) {
		w.scanner = judge(func(_ context.Context, of *Transfer) (bool, error) {
			if of.Name == "good" {
				return true, nil
			}
			panic("index out of range")
		})
		bad, good := w.put("bad", random(10)), w.put("good", random(10))
		w.works("transfers.finish")
		bubble.Sleep(5 * time.Second)
		if got := w.current(good.ID); got.Status != Done {
			t.Errorf("another is %+v", got)
		}
		if got := w.current(bad.ID); !got.uploaded() {
			t.Errorf("it is %+v", got)
		}
	})
}

func TestSweep_CoversManyParts(t *testing.T) {
	inBubble(t, Settings{}, func(t *testing.T, w *world) {
		lost, err := w.storage.Create(t.Context(), newPart(ids.New[Transfer](), 0, w.db.Now()).name) // of a node that died
		w.must(err)
		w.must(lost.Complete(t.Context()))
		w.pass(orphanAge)
		_, err = w.sweep(t.Context())
		w.must(err)
		w.storage.mu.Lock()
		w.storage.lists = 20 * time.Minute
		w.storage.mu.Unlock()
		w.works("transfers.sweep")
		bubble.Sleep(30 * time.Minute)
		w.sound()
	})
}

func TestLent_IsNotReadAfterItsEnd(t *testing.T) {
	l := &lent{from: rand.NewChaCha8([32]byte{})}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for b := make([]byte, 10); ; {
				if _, err := l.Read(b); err != nil {
					return
				}
			}
		})
	}
	l.end()
	all.Wait()
	if _, err := l.Read(make([]byte, 10)); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("after the end: got %v, want %v", err, io.ErrClosedPipe)
	}
}

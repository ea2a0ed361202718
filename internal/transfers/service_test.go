package transfers

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // as tus has it
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

func TestTransfer_FromOfferToDownload(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		sender, receiver := w.listen(0), w.listen(1)
		data := random(5*testChunk + 17)
		offered := w.offer(data)
		if _, err := w.send(offered.ID, piece(data, 0)); !errors.Is(err, ErrWaiting) {
			t.Errorf("an upload before the acceptance: %v", err)
		}
		if _, err := w.Link(t.Context(), w.users[1], offered.ID); !errors.Is(err, ErrNotDone) {
			t.Errorf("a link before the upload: %v", err)
		}
		for range 2 {
			if got, err := w.Accept(t.Context(), w.users[1], offered.ID); err != nil || got.Status != Transferring {
				t.Fatalf("accepted: %+v, %v", got, err)
			}
		}
		done, err := w.send(offered.ID, piece(data, 0))
		if err != nil || done.Status != Done || done.Stored != done.Size || done.SHA256 != sumOf(data) {
			t.Fatalf("got %+v, %v", done, err)
		}
		if again, err := w.send(offered.ID, Piece{Offset: done.Size, Length: 0, Body: strings.NewReader("")}); err != nil ||
			again.Status != Done {
			t.Errorf("the last piece again: %+v, %v", again, err)
		}
		if !bytes.Equal(w.fetched(offered.ID), data) {
			t.Error("another file came out")
		}
		w.sound(offered.ID)
		want := []string{"pending", "transferring", "done"}
		for _, h := range []*heard{sender, receiver} {
			eventually.Equal(t, "what is told", fmt.Sprint(want), func() string { return fmt.Sprint(h.statuses()) })
		}
	})
}

// The state of SHA-256 resumes with the bytes, on any node.
func TestUpload_ResumesWithChecksum(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		other := w.neighbour()
		nodes := []*world{w, other}
		data := random(7*testChunk + 5)
		id := w.begin(data).ID
		for i, came := range []int64{1, testChunk - 1, testChunk, 2*testChunk + 9, 1 << 20} {
			at := w.current(id).Stored
			end := min(at+came, int64(len(data)))
			p := Piece{Offset: at, Length: -1, Body: cutAfter(data[at:end])}
			got, err := nodes[i%2].send(id, p)
			if got.Stored != end || w.current(id).Stored != end || end < int64(len(data)) && !errors.Is(err, ErrCut) {
				t.Fatalf("of %d bytes from %d on, %d are stored, %v", came, at, got.Stored, err)
			}
		}
		if got := w.current(id); got.Status != Done || !bytes.Equal(other.fetched(id), data) {
			t.Errorf("got %+v", got)
		}
		w.sound(id)
	})
}

func TestUpload_RefusesWrongOffset(t *testing.T) {
	inBubble(t, Settings{}, func(t *testing.T, w *world) {
		data := random(3 * testChunk)
		id := w.begin(data).ID
		_, _ = w.send(id, Piece{Offset: 0, Length: -1, Body: cutAfter(data[:testChunk+10])})
		for _, tc := range []struct {
			piece Piece
			want  error
		}{
			{piece(data, 0), ErrOffset},
			{piece(data, testChunk), ErrOffset},
			{piece(data, testChunk+11), ErrOffset},
			{Piece{Offset: testChunk + 10, Length: 2 * testChunk, Body: bytes.NewReader(data)}, ErrTooLong},
		} {
			if _, err := w.send(id, tc.piece); !errors.Is(err, tc.want) {
				t.Errorf("from %d on: %v", tc.piece.Offset, err)
			}
		}
		if _, err := w.Upload(t.Context(), w.users[1], id, piece(data, testChunk+10)); !errors.Is(err, ErrNotYours) {
			t.Errorf("the receiver uploads: %v", err)
		}
		if _, err := w.Upload(t.Context(), w.users[2], id, piece(data, testChunk+10)); !errors.Is(err, ErrUnknown) {
			t.Errorf("a stranger uploads: %v", err)
		}
		if got := w.current(id); got.Stored != testChunk+10 {
			t.Errorf("%d are stored", got.Stored)
		}
		w.sound(id)
	})
}

// Each byte of concurrent uploads counts once, and the file has the computed SHA-256: the bytes of a download are the
// hashed bytes, from any of the requests.
func TestUpload_ConcurrentDoNotMix(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		nodes := []*world{w, w.neighbour()}
		for round := range 5 {
			size := 6*testChunk + 100*round
			offered, err := w.Offer(t.Context(), w.users[0], Offer{To: w.users[1], Name: "x", Size: int64(size)})
			w.must(err)
			_, err = w.Accept(t.Context(), w.users[1], offered.ID)
			w.must(err)
			var all sync.WaitGroup
			for i := range 6 {
				data := random(size) // each sends different bytes
				all.Go(func() {
					for range 50 {
						n := nodes[i%2]
						now, _, err := n.Get(t.Context(), w.users[0], offered.ID)
						if err != nil || now.Status != Transferring {
							return
						}
						end := min(now.Stored+2*testChunk, int64(size))
						_, err = n.send(offered.ID, Piece{Offset: now.Stored, Length: -1, Body: bytes.NewReader(data[now.Stored:end])})
						if err != nil && !errors.Is(err, ErrOffset) && !errors.Is(err, ErrEnded) && !errors.Is(err, ErrBusy) {
							t.Errorf("round %d: %v", round, err)
						}
					}
				})
			}
			all.Wait()
			got := w.current(offered.ID)
			if got.Status != Done || sumOf(w.fetched(offered.ID)) != got.SHA256 {
				t.Errorf("round %d: %+v has another content", round, got)
			}
			w.sound(offered.ID)
			_, err = w.Cancel(t.Context(), w.users[0], offered.ID)
			w.must(err)
			w.sound()
		}
	})
}

// A stalled request has no lock. Another one continues, and the bytes of the first one do not count later.
func TestUpload_StalledDoesNotBlockResume(t *testing.T) {
	inBubble(t, Settings{}, func(t *testing.T, w *world) {
		data, evil := random(3*testChunk), random(3*testChunk)
		id := w.begin(data).ID
		line, end := io.Pipe()
		stalled := make(chan error)
		go func() {
			_, err := w.send(id, Piece{Offset: 0, Length: -1, Body: line})
			stalled <- err
		}()
		_, err := end.Write(evil[:100])
		w.must(err)
		if got, err := w.neighbour().send(id, piece(data, 0)); err != nil || got.Status != Done {
			t.Fatalf("got %+v, %v", got, err)
		}
		_, err = end.Write(evil[100:testChunk])
		w.must(err)
		w.must(end.Close())
		if err := <-stalled; !errors.Is(err, ErrEnded) {
			t.Errorf("the stalled one: %v", err)
		}
		if !bytes.Equal(w.fetched(id), data) {
			t.Error("the file has changed after it was done")
		}
		w.sound(id)
	})
}

func TestUpload_WrongFileSumFails(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		data := random(2*testChunk + 1)
		id := w.begin(data).ID
		data[testChunk]++
		got, err := w.send(id, piece(data, 0))
		if !errors.Is(err, ErrSumFails) || got.Status != Failed || got.Reason != reasonChecksum {
			t.Errorf("got %+v, %v", got, err)
		}
		if _, err := w.Link(t.Context(), w.users[1], id); !errors.Is(err, ErrGone) {
			t.Errorf("a link: %v", err)
		}
		w.sound()
	})
}

func TestUpload_PieceWithWrongSumDoesNotCount(t *testing.T) {
	inBubble(t, Settings{}, func(t *testing.T, w *world) {
		data := random(3*testChunk + 7)
		id := w.begin(data).ID
		sum := sha1.Sum(data[:2*testChunk+5]) //nolint:gosec // as tus has it
		with := func(body io.Reader, n int64) Piece {
			return Piece{Offset: 0, Length: n, Body: body, Sum: sha1.New(), Want: sum[:]} //nolint:gosec // as tus has it
		}
		bad := bytes.Clone(data)
		bad[testChunk+1]++
		if got, err := w.send(id, with(bytes.NewReader(bad[:2*testChunk+5]), 2*testChunk+5)); !errors.Is(err, ErrPiece) || got.Stored != 0 {
			t.Errorf("a bad piece: %d, %v", got.Stored, err)
		}
		w.sound(id)
		if got, err := w.send(id, with(cutAfter(data[:2*testChunk+4]), -1)); !errors.Is(err, ErrCut) || got.Stored != 0 {
			t.Errorf("a piece that was cut: %d, %v", got.Stored, err)
		}
		w.sound(id)
		if got, err := w.send(id, with(bytes.NewReader(data[:2*testChunk+5]), 2*testChunk+5)); err != nil || got.Stored != 2*testChunk+5 {
			t.Errorf("a good piece: %d, %v", got.Stored, err)
		}
		if got, err := w.send(id, piece(data, 2*testChunk+5)); err != nil || got.Status != Done || !bytes.Equal(w.fetched(id), data) {
			t.Errorf("the rest: %+v, %v", got, err)
		}
		w.sound(id)
	})
}

// After a node dies, the upload resumes from the last whole chunk, and the sweep finds the parts that the node left.
func TestUpload_ResumesAtLastWholeChunkAfterCrash(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		data := random(6 * testChunk)
		id := w.begin(data).ID
		dead := w.neighbour()
		died := errors.New("died")
		dead.storage.after = func(kept int) {
			if kept == 2 {
				dead.storage.set(nil, died)
			}
		}
		if _, err := dead.send(id, piece(data, 0)); !errors.Is(err, died) {
			t.Fatalf("got %v", err)
		}
		if got := w.current(id).Stored; got != 2*testChunk {
			t.Fatalf("%d bytes count", got)
		}
		if n := len(w.objects()); n <= 2 {
			t.Fatalf("the dead node has left nothing: %d parts", n)
		}
		if n, err := w.sweep(t.Context()); err != nil || n != 0 {
			t.Errorf("the sweep took %d parts that may be on their way, %v", n, err)
		}
		if got, err := w.send(id, piece(data, 2*testChunk)); err != nil || got.Status != Done || !bytes.Equal(w.fetched(id), data) {
			t.Errorf("got %+v, %v", got, err)
		}
		w.pass(orphanAge + time.Second)
		if n, err := w.sweep(t.Context()); err != nil || n != 0 {
			t.Errorf("the sweep took %d parts that were young at the sweep before, %v", n, err)
		}
		if n, err := w.sweep(t.Context()); err != nil || n < 1 {
			t.Errorf("the sweep took %d parts, %v", n, err)
		}
		w.sound(id)
		if !bytes.Equal(w.fetched(id), data) {
			t.Error("the sweep took what counts")
		}
	})
}

// A connection that the server ended because it stalled does not look like an unavailable database.
func TestUpload_StalledConnectionIsCut(t *testing.T) {
	inBubble(t, Settings{}, func(t *testing.T, w *world) {
		data := random(2 * testChunk)
		id := w.begin(data).ID
		line, far := net.Pipe()
		defer far.Close()
		w.must(line.SetReadDeadline(time.Now().Add(time.Second)))
		got, err := w.send(id, Piece{Offset: 0, Length: -1, Body: io.MultiReader(bytes.NewReader(data[:10]), line)})
		if !errors.Is(err, ErrCut) || errors.Is(err, ErrStore) || got.Stored != 10 {
			t.Errorf("got %d, %v", got.Stored, err)
		}
	})
}

// A part that is older than the sweep allows does not count.
func TestUpload_OldPartDoesNotCount(t *testing.T) {
	inBubble(t, Settings{}, func(t *testing.T, w *world) {
		data := random(2 * testChunk)
		id := w.begin(data).ID
		w.storage.after = func(int) { w.pass(partTime + time.Second) }
		if got, err := w.send(id, piece(data, 0)); !errors.Is(err, ErrCut) || got.Stored != 0 {
			t.Errorf("got %d, %v", got.Stored, err)
		}
		w.storage.after = nil
		w.sound(id)
		// The bytes of a slow sender count as long as they are young enough.
		got, err := w.send(id, Piece{Offset: 0, Length: -1, Body: &slow{data, 10, 10 * time.Minute}})
		if !errors.Is(err, ErrCut) || got.Stored != 70 {
			t.Errorf("a slow one: %d, %v", got.Stored, err)
		}
		w.sound(id)
	})
}

func TestUpload_FailedStorageLeavesNothing(t *testing.T) {
	inBubble(t, Settings{}, func(t *testing.T, w *world) {
		data := random(4 * testChunk)
		id := w.begin(data).ID
		_, err := w.send(id, Piece{Offset: 0, Length: -1, Body: cutAfter(data[:testChunk])})
		if !errors.Is(err, ErrCut) {
			t.Fatal(err)
		}
		for _, tc := range []struct{ fault, want error }{{syscall.ENOSPC, ErrFull}, {&osError{syscall.EDQUOT}, ErrFull},
			{errors.New("gone"), ErrStorage}} {
			w.storage.set(tc.fault, nil)
			got, err := w.send(id, piece(data, testChunk))
			if !errors.Is(err, tc.want) || got.Stored != testChunk {
				t.Errorf("%v: %d are stored, %v", tc.fault, got.Stored, err)
			}
			w.sound(id)
		}
		w.storage.set(nil, nil)
		if got, err := w.send(id, piece(data, testChunk)); err != nil || got.Status != Done || !bytes.Equal(w.fetched(id), data) {
			t.Errorf("when there is room again: %+v, %v", got, err)
		}
	})
}

type osError struct{ error }

func (e *osError) Unwrap() error { return e.error }

func TestUpload_LimitsSmallPieces(t *testing.T) {
	inBubble(t, Settings{}, func(t *testing.T, w *world) {
		data := random(3 * testChunk)
		id := w.begin(data).ID
		at := int64(0)
		for ; at < 2*mostShort; at++ {
			if _, err := w.send(id, Piece{Offset: at, Length: 1, Body: bytes.NewReader(data[at : at+1])}); errors.Is(err, ErrSmall) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if at != mostShort {
			t.Errorf("%d pieces of a byte were taken", at)
		}
		if got, err := w.send(id, piece(data, at)); err != nil || got.Status != Done || !bytes.Equal(w.fetched(id), data) {
			t.Errorf("all at once: %+v, %v", got, err)
		}
	})
}

func TestOffer_Permissions(t *testing.T) {
	for _, from := range []string{"friends", "everybody"} {
		t.Run(from, func(t *testing.T) {
			inBubble(t, Settings{From: from}, func(t *testing.T, w *world) {
				offer := func(a, b int) error {
					_, err := w.Offer(t.Context(), w.users[a], Offer{To: w.users[b], Name: "x", Size: 1})
					return err
				}
				if err := offer(0, 0); !errors.Is(err, ErrSelf) {
					t.Errorf("to oneself: %v", err)
				}
				if err := offer(2, 0); from == "friends" && !errors.Is(err, ErrRefused) || from == "everybody" && err != nil {
					t.Errorf("a stranger: %v", err)
				}
				if _, err := w.Offer(t.Context(), w.users[0], Offer{To: ids.New[accounts.User](), Name: "x", Size: 1}); !errors.Is(err,
					accounts.ErrNoUser) {
					t.Errorf("to nobody: %v", err)
				}
				data := random(10)
				pending, going, done := w.offer(random(10)), w.begin(random(3*testChunk)), w.begin(data)
				_, err := w.send(done.ID, piece(data, 0))
				w.must(err)
				link, err := w.Link(t.Context(), w.users[1], done.ID)
				w.must(err)
				own, err := w.Link(t.Context(), w.users[0], done.ID)
				w.must(err)
				follow := func(link api.FileLink) error {
					f, err := w.Fetch(t.Context(), link.URL[len("/v1/files/"):])
					if err == nil {
						w.must(f.Content.Close())
					}
					return err
				}
				w.must(follow(link))
				w.must(w.social.Block(t.Context(), w.users[1], w.users[0]))
				bubble.Sleep(time.Second)
				if err := offer(0, 1); !errors.Is(err, ErrRefused) {
					t.Errorf("over a block: %v", err)
				}
				if err := offer(1, 0); !errors.Is(err, ErrYouBlock) {
					t.Errorf("over one's own block: %v", err)
				}
				if _, err := w.Accept(t.Context(), w.users[1], pending.ID); !errors.Is(err, ErrYouBlock) {
					t.Errorf("accepted over a block: %v", err)
				}
				if _, err := w.send(going.ID, Piece{Offset: 0, Length: 1, Body: strings.NewReader("x")}); !errors.Is(err, ErrRefused) {
					t.Errorf("uploaded over a block: %v", err)
				}
				if _, err := w.Link(t.Context(), w.users[1], done.ID); !errors.Is(err, ErrYouBlock) {
					t.Errorf("a link over a block: %v", err)
				}
				if err := follow(link); !errors.Is(err, ErrGone) {
					t.Errorf("with a link from before the block: %v", err)
				}
				if err := follow(own); err != nil {
					t.Errorf("the sender's own file: %v", err)
				}
				w.must(w.people.Ban(t.Context(), w.users[0], accounts.Forever, "spam"))
				bubble.Sleep(time.Second)
				if err := follow(own); !errors.Is(err, ErrGone) {
					t.Errorf("a banned user with a link from before the ban: %v", err)
				}
			})
		})
	}
}

func TestQuota_LimitsBytesPerDay(t *testing.T) {
	eachEngine(t, Settings{DayBytes: 100, DayFiles: 8, Open: 4}, func(t *testing.T, w *world) {
		offer := func(size int64) (Transfer, error) {
			return w.Offer(t.Context(), w.users[0], Offer{To: w.users[1], Name: "x", Size: size})
		}
		if _, err := offer(101); !errors.Is(err, ErrQuota) {
			t.Errorf("more than a day's bytes: %v", err)
		}
		var all sync.WaitGroup
		var mu sync.Mutex
		var taken []Transfer
		for range 10 {
			all.Go(func() {
				one, err := offer(5)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					taken = append(taken, one)
				} else if !errors.Is(err, ErrOpen) {
					t.Errorf("one of ten: %v", err)
				}
			})
		}
		all.Wait()
		if len(taken) != 4 {
			t.Errorf("%d are open, want 4", len(taken))
		}
		for i, one := range taken {
			var err error
			if i%2 == 0 {
				_, err = w.Reject(t.Context(), w.users[1], one.ID)
			} else {
				_, err = w.Cancel(t.Context(), w.users[0], one.ID)
			}
			w.must(err)
		}
		one, err := offer(100) // unused bytes were returned to the quota
		w.must(err)
		if _, err := offer(1); !errors.Is(err, ErrQuota) {
			t.Errorf("more than a day's bytes: %v", err)
		}
		for range 3 {
			_, err = w.Cancel(t.Context(), w.users[0], one.ID)
			w.must(err)
			if one, err = offer(100); err != nil {
				break
			}
		}
		w.must(err)
		_, err = w.Cancel(t.Context(), w.users[0], one.ID)
		w.must(err)
		if _, err := offer(1); !errors.Is(err, ErrQuota) {
			t.Errorf("a ninth file: %v", err)
		}
		w.pass(24 * time.Hour)
		if _, err := offer(100); err != nil {
			t.Errorf("the next day: %v", err)
		}
	})
}

func TestTransfer_UnfinishedExpires(t *testing.T) {
	eachEngine(t, Settings{OfferFor: time.Hour, IdleFor: 2 * time.Hour, KeepFor: 181 * time.Minute}, func(t *testing.T, w *world) {
		data := random(2*testChunk + 1)
		offered, going, done := w.offer(data), w.begin(data), w.begin(data)
		_, err := w.send(done.ID, piece(data, 0))
		w.must(err)
		expire := func(want ...string) {
			t.Helper()
			w.must(w.expire(t.Context()))
			var got []string
			for _, id := range []ID{offered.ID, going.ID, done.ID} {
				one, err := w.sql.get(t.Context(), id)
				switch {
				case errors.Is(err, ErrUnknown):
					got = append(got, "forgotten")
				case err != nil:
					t.Fatal(err)
				default:
					got = append(got, fmt.Sprint(one.Status, " ", one.Reason, one.Content))
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		w.pass(59 * time.Minute)
		expire("pending false", "transferring false", "done true")
		w.pass(2 * time.Minute)
		if _, err := w.Accept(t.Context(), w.users[1], offered.ID); !errors.Is(err, ErrEnded) {
			t.Errorf("accepted too late: %v", err)
		}
		_, _ = w.send(going.ID, Piece{Offset: 0, Length: -1, Body: cutAfter(data[:10])})
		expire("failed expiredfalse", "transferring true", "done true")
		w.pass(119 * time.Minute)
		expire("failed expiredfalse", "transferring true", "done true")
		w.pass(2 * time.Minute)
		if _, err := w.Link(t.Context(), w.users[1], done.ID); err != nil && !errors.Is(err, ErrGone) {
			t.Error(err)
		}
		expire("failed expiredfalse", "failed expiredfalse", "done false")
		w.sound()
		if _, err := w.Link(t.Context(), w.users[1], done.ID); !errors.Is(err, ErrGone) {
			t.Errorf("a link to what has expired: %v", err)
		}
		w.pass(historyFor + time.Minute)
		expire("forgotten", "forgotten", "forgotten")
	})
}

func TestCancel_BySenderAndReceiver(t *testing.T) {
	inBubble(t, Settings{}, func(t *testing.T, w *world) {
		data := random(2 * testChunk)
		rejected := w.offer(data)
		if _, err := w.Reject(t.Context(), w.users[0], rejected.ID); !errors.Is(err, ErrNotYours) {
			t.Errorf("the sender rejects: %v", err)
		}
		if _, err := w.Accept(t.Context(), w.users[0], rejected.ID); !errors.Is(err, ErrNotYours) {
			t.Errorf("the sender accepts: %v", err)
		}
		for range 2 {
			if got, err := w.Reject(t.Context(), w.users[1], rejected.ID); err != nil || got.Status != Rejected {
				t.Errorf("got %+v, %v", got, err)
			}
		}
		if _, err := w.Accept(t.Context(), w.users[1], rejected.ID); !errors.Is(err, ErrEnded) {
			t.Errorf("accepted after all: %v", err)
		}
		for side := range 2 {
			going, done := w.begin(data), w.begin(data)
			_, _ = w.send(going.ID, Piece{Offset: 0, Length: -1, Body: cutAfter(data[:testChunk+1])})
			_, err := w.send(done.ID, piece(data, 0))
			w.must(err)
			for range 2 {
				if got, err := w.Cancel(t.Context(), w.users[side], going.ID); err != nil || got.Status != Failed || got.Reason != reasonCancelled {
					t.Errorf("got %+v, %v", got, err)
				}
				if got, err := w.Cancel(t.Context(), w.users[side], done.ID); err != nil || got.Status != Done || got.Content {
					t.Errorf("got %+v, %v", got, err)
				}
			}
			w.sound()
			if _, err := w.send(going.ID, piece(data, testChunk+1)); !errors.Is(err, ErrGone) {
				t.Errorf("uploaded after the end: %v", err)
			}
		}
		for what, verb := range map[string]func(context.Context, accounts.ID, ID) (Transfer, error){"accept": w.Accept, "reject": w.Reject,
			"cancel": w.Cancel} {
			if _, err := verb(t.Context(), w.users[2], rejected.ID); !errors.Is(err, ErrUnknown) {
				t.Errorf("a stranger can %s: %v", what, err)
			}
		}
		if _, err := w.Link(t.Context(), w.users[2], rejected.ID); !errors.Is(err, ErrUnknown) {
			t.Errorf("a stranger gets a link: %v", err)
		}
		if _, _, err := w.Get(t.Context(), w.users[2], rejected.ID); !errors.Is(err, ErrUnknown) {
			t.Errorf("a stranger sees it: %v", err)
		}
	})
}

func TestErase_LeavesNothingOfUser(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		w.befriend(0, 2)
		data := random(testChunk + 1)
		done, going := w.begin(data), w.begin(data)
		_, err := w.send(done.ID, piece(data, 0))
		w.must(err)
		_, _ = w.send(going.ID, Piece{Offset: 0, Length: -1, Body: cutAfter(data[:10])})
		others, err := w.Offer(t.Context(), w.users[2], Offer{To: w.users[0], Name: "x", Size: 3})
		w.must(err)
		friend := w.listen(0)
		for range 2 {
			w.must(w.Erase(t.Context(), w.users[1]))
		}
		for _, id := range []ID{done.ID, going.ID} {
			if _, err := w.sql.get(t.Context(), id); !errors.Is(err, ErrUnknown) {
				t.Errorf("a transfer is left: %v", err)
			}
		}
		w.sound()
		var bytes int64
		w.must(w.db.QueryRowContext(t.Context(), "SELECT bytes FROM transfer_quotas WHERE user_id = ?", w.users[0]).Scan(&bytes))
		if want := int64(len(data)) + 10; bytes != want {
			t.Errorf("the other side's day has %d bytes, want the %d that were uploaded", bytes, want)
		}
		if got := w.current(others.ID); got.Status != Pending {
			t.Errorf("another's transfer is %+v", got)
		}
		eventually.True(t, "the other side to be told", func() bool { return slices.Contains(friend.statuses(), api.TransferFailed) })
		w.must(w.Erase(t.Context(), w.users[0]))
		var left int
		w.must(w.db.QueryRowContext(t.Context(), "SELECT (SELECT COUNT(*) FROM transfers) + (SELECT COUNT(*) FROM transfer_parts) + (SELECT "+
			"COUNT(*) FROM transfer_quotas WHERE user_id <> ?)", w.users[2]).Scan(&left))
		if left != 0 {
			t.Errorf("%d rows are left", left)
		}
	})
}

func TestProgress_AtMostTenEventsPerSecond(t *testing.T) {
	inBubble(t, Settings{}, func(t *testing.T, w *world) {
		data := random(10 * testChunk)
		id := w.begin(data).ID
		sides := []*heard{w.listen(0), w.listen(1)}
		half := int64(5 * testChunk)
		_, err := w.send(id, Piece{Offset: 0, Length: half, Body: &slow{data[:half], 64, 5 * time.Millisecond}})
		w.must(err)
		for at := half; at < int64(len(data)); at += 64 { // many requests instead of one
			<-time.After(5 * time.Millisecond)
			_, err := w.send(id, Piece{Offset: at, Length: 64, Body: bytes.NewReader(data[at : at+64])})
			w.must(err)
		}
		bubble.Sleep(time.Second)
		for side, h := range sides {
			h.mu.Lock()
			last, n := time.Time{}, 0
			for i, e := range h.all {
				if e.Type != api.EventTransferProgress {
					continue
				}
				if gap := h.at[i].Sub(last); gap < progressEvery*9/10 {
					t.Errorf("side %d was told %s after the last time", side, gap)
				}
				last, n = h.at[i], n+1
			}
			// 640 pieces of 5 ms are 3.2 s.
			if n < 25 || n > 34 {
				t.Errorf("side %d was told %d times", side, n)
			}
			h.mu.Unlock()
		}
	})
}

func TestProgress_WorksWithoutRedis(t *testing.T) {
	inBubble(t, Settings{}, func(t *testing.T, w *world) {
		data := random(4 * testChunk)
		id := w.begin(data).ID
		line, end := io.Pipe()
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := w.send(id, Piece{Offset: 0, Length: -1, Body: line}); err != nil {
				t.Error(err)
			}
		})
		_, err := end.Write(data[:testChunk+testChunk/2])
		w.must(err)
		bubble.Sleep(time.Second)
		other := w.neighbour()
		if got, received, err := other.Get(t.Context(), w.users[1], id); err != nil || got.Stored != testChunk ||
			received != testChunk+testChunk/2 {
			t.Errorf("another node knows of %d stored and %d received, %v", got.Stored, received, err)
		}
		found, err := progressKeys.At(id).All(t.Context(), w.redis)
		w.must(err)
		if want := map[string]string{"status": "1", "stored": "4096", "received": "6144", "percent": "37", "chunk": "2",
			"chunks": "4"}; !maps.Equal(found, want) {
			t.Errorf("Redis has %v, want %v", found, want)
		}
		for _, old := range []Transfer{{ID: id, Size: 10, Status: Transferring, Stored: 0},
			{ID: id, Size: 10, Status: Pending, Stored: testChunk}} {
			w.must(w.Service.redis.storeProgress(t.Context(), &old, old.progress(0, testChunk)))
			if now, err := progressKeys.At(id).All(t.Context(), w.redis); err != nil || !maps.Equal(now, found) {
				t.Errorf("an older one replaced it: %v, %v", now, err)
			}
		}
		w.must(w.Service.redis.forget(t.Context(), id))
		if _, received, err := other.Get(t.Context(), w.users[1], id); err != nil || received != testChunk {
			t.Errorf("without Redis %d have come, %v", received, err)
		}
		_, err = end.Write(data[testChunk+testChunk/2:])
		w.must(err)
		w.must(end.Close())
		all.Wait()
		if got := w.current(id); got.Status != Done {
			t.Errorf("got %+v", got)
		}
		if found, err := progressKeys.At(id).All(t.Context(), w.redis); err != nil || found["status"] != "2" || found["percent"] != "100" {
			t.Errorf("Redis has %v, %v", found, err)
		}
	})
}

func TestList_HasPages(t *testing.T) {
	eachEngine(t, Settings{Open: 1000, DayFiles: 1000}, func(t *testing.T, w *world) {
		var want []ID
		for i := range 2*transfersPerPage + 3 {
			from, to := w.users[i%2], w.users[(i+1)%2]
			one, err := w.Offer(t.Context(), from, Offer{To: to, Name: "x", Size: 1})
			w.must(err)
			want = append(want, one.ID)
		}
		for _, user := range w.users[:2] {
			seen := map[ID]bool{}
			pages := 0
			for cursor := ""; ; pages++ {
				all, next, err := w.List(t.Context(), user, cursor)
				w.must(err)
				for _, one := range all {
					if seen[one.ID] {
						t.Errorf("%s comes twice", one.ID)
					}
					seen[one.ID] = true
				}
				if cursor = next; next == "" {
					break
				}
			}
			if len(seen) != len(want) || pages != 2 {
				t.Errorf("%d transfers on %d pages, want %d", len(seen), pages+1, len(want))
			}
		}
		if _, _, err := w.List(t.Context(), w.users[0], "nonsense"); !errors.Is(err, ErrCursor) {
			t.Errorf("got %v", err)
		}
	})
}

// A caller who cancels does not wait for a hanging storage. The cancellation is effective at once, and the bytes are
// deleted when the storage responds.
func TestCancel_DoesNotWaitForStorage(t *testing.T) {
	inBubble(t, Settings{}, func(t *testing.T, w *world) {
		data := random(2 * testChunk)
		id := w.begin(data).ID
		_, err := w.send(id, piece(data, 0))
		w.must(err)
		w.storage.mu.Lock()
		w.storage.hangs = 40 * time.Second
		w.storage.mu.Unlock()
		canceled := make(chan error, 1)
		go func() {
			_, err := w.Cancel(t.Context(), w.users[1], id)
			canceled <- err
		}()
		bubble.Sleep(5 * time.Second)
		select {
		case err := <-canceled:
			w.must(err)
		default:
			t.Error("it still waits after five seconds")
		}
		if got := w.current(id); got.Content {
			t.Errorf("got %+v", got)
		}
		bubble.Sleep(time.Minute)
		w.sound()
	})
}

// A try whose response was lost is followed by another one, perhaps while it still runs.
func TestOffer_RetriesCreateOne(t *testing.T) {
	eachEngine(t, Settings{Open: 1, DayFiles: 1}, func(t *testing.T, w *world) {
		ctx := t.Context()
		o := Offer{ID: ids.New[Transfer](), To: w.users[1], Name: "a file.bin", Size: 5}
		var tries sync.WaitGroup
		for range 4 {
			tries.Go(func() {
				if got, err := w.Offer(ctx, w.users[0], o); err != nil || got.ID != o.ID || got.Status != Pending || got.Size != 5 {
					t.Errorf("got %+v, %v", got, err)
				}
			})
		}
		tries.Wait()
		for i, user := range w.users[:2] {
			if list, _, err := w.List(ctx, user, ""); err != nil || len(list) != 1 {
				t.Errorf("user %d sees %+v, %v", i, list, err)
			}
		}
		if _, err := w.Offer(ctx, w.users[2], Offer{ID: o.ID, Name: "a file.bin", Size: 5}); !errors.Is(err, ErrUnknown) {
			t.Errorf("somebody else's: got %v, want ErrUnknown", err)
		}
		if _, err := w.Offer(ctx, w.users[0], Offer{To: w.users[1], Name: "another", Size: 5}); !errors.Is(err, ErrQuota) {
			t.Errorf("another one: got %v, want ErrQuota", err)
		}
	})
}

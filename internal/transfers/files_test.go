package transfers

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/png"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// photo returns a picture of noise that is stored in several parts.
func photo(t testing.TB, width, height int) []byte {
	t.Helper()
	img := image.NewNRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			img.SetNRGBA(x, y, color.NRGBA{uint8(rand.IntN(256)), uint8(x), uint8(y), 255})
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// put uploads a file for messages as the first user.
func (w *world) put(name string, data []byte) Transfer { return w.putBy(0, name, data) }

// putBy is put for another user.
func (w *world) putBy(user int, name string, data []byte) Transfer {
	w.t.Helper()
	t, err := w.Offer(w.t.Context(), w.users[user], Offer{Name: name, Media: "text/html", Size: int64(len(data))})
	w.must(err)
	t, err = w.Upload(w.t.Context(), w.users[user], t.ID, piece(data, 0))
	w.must(err)
	return t
}

// locked returns the locked files in a transaction that calls then.
func (w *world) locked(then func(ctx context.Context, tx *sqldb.Tx) error, list ...ID) (found map[ID]File) {
	w.t.Helper()
	w.must(w.db.Tx(w.t.Context(), func(ctx context.Context, tx *sqldb.Tx) (err error) {
		if found, err = w.Lock(ctx, tx, list); err != nil || then == nil {
			return err
		}
		return then(ctx, tx)
	}))
	return found
}

// keep makes a message have a file. drop makes no message have it, and waits until it is deleted.
func (w *world) keep(id ID) {
	w.t.Helper()
	w.locked(func(ctx context.Context, tx *sqldb.Tx) error { return w.MakePermanent(ctx, tx, []ID{id}) }, id)
}

func (w *world) drop(id ID) {
	w.t.Helper()
	w.locked(func(ctx context.Context, tx *sqldb.Tx) error { return w.Release(ctx, tx, []ID{id}) }, id)
	w.releasing.Wait()
}

// While the storage does not respond, a recall of the last message does not wait for it. Other users would see the
// message meanwhile.
func TestRecall_DoesNotWaitForStorage(t *testing.T) {
	inBubble(t, Settings{}, func(t *testing.T, w *world) {
		up := w.put("a.bin", random(testChunk+1))
		w.keep(up.ID)
		w.storage.mu.Lock()
		w.storage.hangs = removeTime / 2
		w.storage.mu.Unlock()
		w.locked(func(ctx context.Context, tx *sqldb.Tx) error { return w.Release(ctx, tx, []ID{up.ID}) }, up.ID)
		if len(w.objects()) == 0 {
			t.Error("the transaction has waited for the storage")
		}
		bubble.Sleep(removeTime)
		w.sound()
	})
}

// seenBy are the users who see messages with files.
type seenBy map[accounts.ID]bool

func (s seenBy) Sees(_ context.Context, user accounts.ID, _ ID) (bool, error)    { return s[user], nil }
func (s seenBy) MayLink(_ context.Context, user accounts.ID, _ ID) (bool, error) { return s[user], nil }

// served returns the content of a link.
func (w *world) served(link api.FileLink, err error) (Served, []byte, error) {
	w.t.Helper()
	w.must(err)
	f, err := w.Fetch(w.t.Context(), link.URL[len("/v1/files/"):])
	if err != nil {
		return f, nil, err
	}
	defer f.Content.Close()
	b, err := io.ReadAll(f.Content)
	w.must(err)
	return f, b, nil
}

func TestUpload_ForMessagesReturnsKind(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		for name, tc := range map[string]struct {
			data []byte
			want api.Media
		}{
			"a picture":       {photo(t, 400, 100), api.Media{Type: "image/png", Width: 400, Height: 100, Thumbnails: []int{1280, 320}}},
			"a small picture": {photo(t, 40, 100), api.Media{Type: "image/png", Width: 40, Height: 100, Thumbnails: []int{320}}},
			"a recording":     {wav(2500), api.Media{Type: "audio/wav", Duration: 2500}},
			"something else":  {random(3*testChunk + 1), api.Media{Type: "text/html"}},
			"a bomb":          {bomb(t), api.Media{Type: "text/html"}},
		} {
			got := w.put("a name", tc.data)
			if got.Status != Done || got.SHA256 != sumOf(tc.data) {
				t.Fatalf("%s: got %+v", name, got)
			}
			tc.want.File, tc.want.Name, tc.want.Size, tc.want.SHA256 = got.ID.String(), "a name", int64(len(tc.data)), got.SHA256
			found := w.locked(nil, got.ID)[got.ID]
			if m := found.Media; found.From != w.users[0] || m.File != tc.want.File || m.Type != tc.want.Type || m.Name != tc.want.Name ||
				m.Size != tc.want.Size || m.Width != tc.want.Width ||
				m.Height != tc.want.Height || m.Duration != tc.want.Duration || m.SHA256 != tc.want.SHA256 ||
				!slices.Equal(m.Thumbnails, tc.want.Thumbnails) {
				t.Errorf("%s: got %+v, want %+v", name, found, tc.want)
			}
			w.sound(got.ID)
			_, err := w.Cancel(t.Context(), w.users[0], got.ID)
			w.must(err)
			w.sound()
		}
		list, _, err := w.List(t.Context(), w.users[1], "")
		if w.must(err); len(list) > 0 {
			t.Errorf("somebody else has %+v", list)
		}
	})
}

// bomb returns an image with more pixels than the limit for decoding.
func bomb(t testing.TB) []byte {
	t.Helper()
	b := photo(t, 8, 8)
	binary.BigEndian.PutUint32(b[16:], 9000)
	binary.BigEndian.PutUint32(b[20:], 9000)
	binary.BigEndian.PutUint32(b[29:], crc32.ChecksumIEEE(b[12:29]))
	return b
}

func TestLink_ForReadersOfMessage(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		w.Serve(seenBy{w.users[1]: true})
		data := photo(t, 400, 100)
		up := w.put("x.png", data)
		if f, got, err := w.served(w.Link(t.Context(), w.users[0], up.ID)); err != nil || !bytes.Equal(got, data) || f.Type != "" || f.Inline {
			t.Errorf("its sender gets %+v, %v", f, err)
		}
		early, err := w.Link(t.Context(), w.users[0], up.ID)
		w.must(err)
		if _, err := w.Link(t.Context(), w.users[1], up.ID); !errors.Is(err, ErrUnknown) {
			t.Errorf("somebody else, before a message has it: %v", err)
		}
		w.keep(up.ID)
		if f, got, err := w.served(w.FileLink(t.Context(), w.users[1], up.ID, 0)); err != nil || !bytes.Equal(got, data) || f.Type != "" ||
			f.Inline || f.Name != "x.png" {
			t.Errorf("who sees the message gets %+v, %v", f, err)
		}
		for _, side := range []int{1280, 320} {
			f, got, err := w.served(w.FileLink(t.Context(), w.users[1], up.ID, side))
			if err != nil || f.Type != "image/jpeg" || !f.Inline || len(got) == 0 || f.Tag == up.SHA256 {
				t.Errorf("a thumbnail of %d is %+v, %v", side, f, err)
			}
		}
		if _, err := w.FileLink(t.Context(), w.users[1], up.ID, 64); !errors.Is(err, ErrNoSmall) {
			t.Errorf("of a side that there is not: %v", err)
		}
		// It belongs to the message now, also for its sender and for an earlier link.
		if _, err := w.Link(t.Context(), w.users[0], up.ID); !errors.Is(err, ErrUnknown) {
			t.Errorf("its sender, who does not see the message: %v", err)
		}
		if _, _, err := w.served(early, nil); !errors.Is(err, ErrGone) {
			t.Errorf("with a link from before: %v", err)
		}
		link, err := w.FileLink(t.Context(), w.users[1], up.ID, 0)
		w.must(err)
		w.Serve(seenBy{})
		if _, _, err := w.served(link, nil); !errors.Is(err, ErrGone) {
			t.Errorf("who does not see the message any more: %v", err)
		}
		w.Serve(seenBy{w.users[1]: true})
		w.drop(up.ID)
		if _, _, err := w.served(link, nil); !errors.Is(err, ErrGone) {
			t.Errorf("a file that no message has any more: %v", err)
		}
		if _, err := w.FileLink(t.Context(), w.users[1], up.ID, 320); !errors.Is(err, ErrGone) {
			t.Errorf("a link to it: %v", err)
		}
		w.sound()
		voice := w.put("voice", wav(100))
		w.keep(voice.ID)
		if f, _, err := w.served(w.FileLink(t.Context(), w.users[1], voice.ID, 0)); err != nil || f.Type != "audio/wav" || f.Inline {
			t.Errorf("a recording is %+v, %v", f, err)
		}
		if _, err := w.FileLink(t.Context(), w.users[1], voice.ID, 320); !errors.Is(err, ErrNoSmall) {
			t.Errorf("its thumbnail: %v", err)
		}
	})
}

func TestFile_DeletedWithLastMessage(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		kept, dropped, unused, late := w.put("kept", random(10)), w.put("dropped", photo(t, 100, 100)), w.put("unused", photo(t, 50, 50)),
			w.put("late", random(20))
		w.keep(kept.ID)
		w.keep(dropped.ID)
		if list, _, err := w.List(t.Context(), w.users[0], ""); err != nil || len(list) != 2 {
			t.Errorf("beside files of messages %d transfers are listed, %v", len(list), err)
		}
		if _, err := w.Cancel(t.Context(), w.users[0], kept.ID); !errors.Is(err, ErrKept) {
			t.Errorf("its sender removes it: %v", err)
		}
		w.drop(dropped.ID)
		w.sound(kept.ID, unused.ID, late.ID)
		if _, err := w.sql.get(t.Context(), dropped.ID); !errors.Is(err, ErrUnknown) {
			t.Errorf("a row is left: %v", err)
		}
		// If a node dies between the commit and the removal, the job removes it.
		w.keep(late.ID)
		w.must(w.db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			return w.sql.expireAt(ctx, tx, []ID{late.ID}, tx.Now())
		}))
		w.must(w.expire(t.Context()))
		w.sound(kept.ID, unused.ID)
		w.pass(w.cfg.IdleFor - time.Minute)
		w.must(w.expire(t.Context()))
		w.sound(kept.ID, unused.ID)
		w.pass(2 * time.Minute)
		if found := w.locked(nil, unused.ID, kept.ID); len(found) != 1 || found[kept.ID].From != w.users[0] {
			t.Errorf("of an expired and a kept one there are %v", found)
		}
		w.must(w.expire(t.Context()))
		w.sound(kept.ID)
		w.pass(400 * 24 * time.Hour)
		w.must(w.expire(t.Context()))
		w.sound(kept.ID)

		w.must(w.Erase(t.Context(), w.users[0])) // another user's message has it
		w.sound(kept.ID)
		if got := w.current(kept.ID); !got.From.IsZero() || got.has(w.users[0]) {
			t.Errorf("it is still of its sender, who is gone: %+v", got)
		}
		w.drop(kept.ID)
		w.sound()
		if n, err := w.sweep(t.Context()); n != 0 || err != nil {
			t.Errorf("the sweep found %d, %v", n, err)
		}
	})
}

// A message that takes a file in the moment of its expiry gets all of it or nothing.
func TestFile_ExpiryAndAttachExcludeEachOther(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		for range 10 {
			up := w.put("file", random(100))
			w.pass(w.cfg.IdleFor - time.Millisecond)
			expired := make(chan error, 1)
			go func() {
				w.pass(time.Millisecond)
				expired <- w.expire(context.WithoutCancel(t.Context()))
			}()
			taken := false
			w.locked(func(ctx context.Context, tx *sqldb.Tx) error {
				found, err := w.Lock(ctx, tx, []ID{up.ID})
				if taken = len(found) == 1; !taken {
					return err
				}
				return w.MakePermanent(ctx, tx, []ID{up.ID})
			}, up.ID)
			w.must(<-expired)
			w.must(w.expire(t.Context()))
			if !taken {
				w.sound()
				continue
			}
			w.sound(up.ID)
			w.drop(up.ID)
		}
	})
}

// The job that expires files has read a file's row before a message takes the file.
func TestFile_AttachedBeforeExpiryStays(t *testing.T) {
	inBubble(t, Settings{}, func(t *testing.T, w *world) {
		up := w.put("file", random(100))
		w.keep(up.ID)
		w.pass(w.cfg.IdleFor + time.Minute)
		if err := w.expireOne(t.Context(), &up); !errors.Is(err, ErrUnknown) {
			t.Errorf("got %v", err)
		}
		w.sound(up.ID)
		w.drop(up.ID)
		w.sound()
	})
}

func TestMessage_RefusesUnscannedFile(t *testing.T) {
	inBubble(t, Settings{}, func(t *testing.T, w *world) {
		w.scanner = during(func() {})
		up := w.put("x.png", photo(t, 10, 10))
		if !up.uploaded() || len(w.locked(nil, up.ID)) > 0 {
			t.Errorf("before the scan it is %+v", up)
		}
		if _, err := w.Link(t.Context(), w.users[0], up.ID); !errors.Is(err, ErrNotDone) {
			t.Errorf("its sender: %v", err)
		}
		if _, err := w.FileLink(t.Context(), w.users[0], up.ID, 0); !errors.Is(err, ErrGone) {
			t.Errorf("as if a message had it: %v", err)
		}
		w.must(w.finishWaiting(t.Context()))
		if found := w.locked(nil, up.ID); found[up.ID].Media.Width != 10 {
			t.Errorf("after it there is %v", found)
		}
	})
}

func TestFinish_CompletedByAnotherNode(t *testing.T) {
	inBubble(t, Settings{}, func(t *testing.T, w *world) {
		data := photo(t, 400, 300)
		t1, err := w.Offer(t.Context(), w.users[0], Offer{Name: "x", Size: int64(len(data))})
		w.must(err)
		// The storage has space for the file, but not for the thumbnails.
		parts := (len(data) + testChunk - 1) / testChunk
		w.storage.after = func(kept int) {
			if kept == parts {
				w.storage.set(syscall.ENOSPC, nil)
			}
		}
		got, err := w.send(t1.ID, piece(data, 0))
		if err != nil || !got.uploaded() {
			t.Fatalf("got %+v, %v", got, err)
		}
		w.sound(t1.ID)
		w.storage.set(nil, nil)
		w.must(w.finishWaiting(t.Context()))
		if got := w.current(t1.ID); got.Status != Transferring {
			t.Errorf("the job takes it from the node that may be at it: %+v", got)
		}
		w.pass(finishAfter)
		w.must(w.finishWaiting(t.Context()))
		if got := w.current(t1.ID); got.Status != Done {
			t.Errorf("got %+v", got)
		}
		w.sound(t1.ID)
		if found := w.locked(nil, t1.ID); len(found[t1.ID].Media.Thumbnails) != 2 {
			t.Errorf("got %+v", found)
		}
	})
}

// Two nodes finish the same file: its thumbnails are stored once.
func TestFinish_ConcurrentNodesKeepFileIntact(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		var ran atomic.Bool
		w.scanner = during(func() {
			if ran.CompareAndSwap(false, true) {
				w.must(w.finishWaiting(t.Context()))
			}
		})
		up := w.put("x", photo(t, 400, 300))
		w.must(w.finishWaiting(t.Context()))
		w.sound(up.ID)
		if got := w.current(up.ID); got.Status != Done {
			t.Errorf("got %+v", got)
		}
	})
}

func TestUpload_EventsGoToSenderOnly(t *testing.T) {
	inBubble(t, Settings{}, func(t *testing.T, w *world) {
		mine, theirs := w.listen(0), w.listen(1)
		w.put("x", random(10))
		eventually.Equal(t, "what the sender is told", "[transferring transferring done]", func() string { return fmt.Sprint(mine.statuses()) })
		if got := theirs.statuses(); len(got) > 0 {
			t.Errorf("another is told %q", got)
		}
	})
}

// wav returns a recording of silence with this length.
func wav(ms int) []byte {
	n := ms * 16
	b := append([]byte("RIFF\x00\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00"), 0x40, 0x1f, 0, 0, 0x80, 0x3e, 0, 0, 2, 0, 16, 0)
	b = binary.LittleEndian.AppendUint32(append(b, "data"...), uint32(n))
	return append(b, make([]byte, n)...)
}

func oggOf(pages ...uint64) (b []byte) {
	for i, position := range pages {
		b = append(b, "OggS\x00\x00"...)
		b = binary.LittleEndian.AppendUint64(b, position)
		b = append(b, make([]byte, 13)...)
		if i == 0 {
			b = append(b, "OpusHead\x01\x01\x38\x01\x80\xbb\x00\x00\x00\x00\x00"...) // skips 312
		}
	}
	return b
}

func box(name string, content ...[]byte) []byte {
	all := bytes.Join(content, nil)
	return append(append(binary.BigEndian.AppendUint32(nil, uint32(8+len(all))), name...), all...)
}

func mp4(scale, length uint32, handler string, early bool) []byte {
	header := append(make([]byte, 12), binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, scale), length)...)
	moov := box("moov", box("mvhd", header, make([]byte, 80)), box("trak", box("hdlr", make([]byte, 8), []byte(handler))))
	data := box("mdat", make([]byte, 5000))
	if early {
		return bytes.Join([][]byte{box("ftyp", []byte("M4A \x00\x00\x00\x00")), moov, data}, nil)
	}
	return bytes.Join([][]byte{box("ftyp", []byte("isom\x00\x00\x00\x00")), data, moov}, nil)
}

func TestRecording_HasDuration(t *testing.T) {
	webm := "\x1a\x45\xdf\xa3\x9f\x42\x82\x84webm" + strings.Repeat("\x00", 40)
	for name, tc := range map[string]struct {
		data []byte
		typ  string
		want time.Duration
	}{
		"wav":                        {wav(1234), "audio/wav", 1234 * time.Millisecond},
		"wav, cut off":               {wav(1000)[:44+8000], "audio/wav", 500 * time.Millisecond},
		"ogg":                        {oggOf(0, 48_000, 312+96_000), "audio/ogg", 2 * time.Second},
		"ogg without an end":         {oggOf(0, 1<<64-1), "audio/ogg", 0},
		"ogg of a hundred years":     {oggOf(0, 1<<60), "audio/ogg", 0},
		"webm":                       {[]byte(webm + "A_OPUS"), "audio/webm", 0},
		"webm with something to see": {[]byte(webm + "A_OPUSV_VP8"), "", 0},
		"mp4":                        {mp4(1000, 61_500, "soun", true), "audio/mp4", 61500 * time.Millisecond},
		"mp4, its header last":       {mp4(44_100, 22_050, "soun", false), "audio/mp4", 500 * time.Millisecond},
		"mp4 with something to see":  {mp4(1000, 500, "sounvide", true), "", 0},
		"mp4 of no unit":             {mp4(0, 500, "soun", true), "audio/mp4", 0},
		"mp4 of a box without end":   {append(box("ftyp", []byte("M4A \x00\x00\x00\x00")), 0xff, 0xff, 0xff, 0xff, 'm', 'o', 'o', 'v'), "", 0},
		"a page":                     {[]byte("<html>OpusHead OggS webm"), "", 0},
		"nothing":                    {nil, "", 0},
	} {
		typ, d, err := recording(bytes.NewReader(tc.data))
		if typ != tc.typ || d != tc.want || err != nil {
			t.Errorf("%s: got %q, %s, %v; want %q, %s", name, typ, d, err, tc.typ, tc.want)
		}
	}
}

func FuzzRecording(f *testing.F) {
	for _, data := range [][]byte{wav(10), oggOf(0, 1000), mp4(1000, 10, "soun", true), mp4(1, 1, "vide", false)} {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		typ, d, err := recording(bytes.NewReader(data))
		if err != nil || d < 0 || d > 24*time.Hour || typ != "" && !strings.HasPrefix(typ, "audio/") {
			t.Errorf("got %q, %s, %v", typ, d, err)
		}
	})
}

// cutting is a file whose reader's context ends when the byte at is read. It records the offsets of reads.
type cutting struct {
	*bytes.Reader
	at   int64
	cut  context.CancelFunc
	from []int64
}

func (c *cutting) ReadAt(p []byte, off int64) (int, error) {
	c.from = append(c.from, off)
	if off == c.at {
		c.cut()
	}
	return c.Reader.ReadAt(p, off)
}

// A node that is stopped while it stores its own file leaves the stored bytes for the next one, which stores the rest.
func TestServerFile_ResumesAfterInterruption(t *testing.T) {
	inBubble(t, Settings{}, func(t *testing.T, w *world) {
		w.Serve(seenBy{})
		data := random(4 * testChunk)
		store := func(id string, cutAt int64) (string, []int64, error) {
			ctx, cut := context.WithCancel(t.Context())
			defer cut()
			body := &cutting{bytes.NewReader(data), cutAt, cut, nil}
			file, err := w.Store(ctx, w.users[0], id, "live.webm", "video/webm", int64(len(data)), body, time.Hour)
			return file, body.from, err
		}
		parsed := func(id string) ID {
			t.Helper()
			got, err := ids.Parse[Transfer](id)
			w.must(err)
			return got
		}
		cutOff := func(id string) {
			t.Helper()
			if _, _, err := store(id, testChunk); !errors.Is(err, ErrCut) {
				t.Fatalf("cut off: %v", err)
			}
			if up := w.current(parsed(id)); up.Status != Transferring || up.Stored != 2*testChunk {
				t.Fatalf("of a file that was cut off there is %+v", up)
			}
		}
		first := ids.New[Transfer]().String()
		cutOff(first)
		for _, want := range [][]int64{{2 * testChunk, 3 * testChunk}, nil} { // a complete file is not stored again
			file, from, err := store(first, -1)
			if w.must(err); file != first || !slices.Equal(from, want) {
				t.Errorf("got the file %s of bytes from %d, want %s of those from %d", file, from, first, want)
			}
		}
		if _, got, err := w.served(w.FileLink(t.Context(), w.users[0], parsed(first), 0)); err != nil || !bytes.Equal(got, data) {
			t.Errorf("fetched %d bytes, %v", len(got), err)
		}
		if files, size := w.charged(); files != 1 || size != len(data) {
			t.Errorf("%d files with %d bytes count", files, size)
		}

		late := ids.New[Transfer]().String()
		cutOff(late)
		w.pass(w.cfg.IdleFor + time.Minute)
		w.must(w.expire(t.Context()))
		file, from, err := store(late, -1)
		if w.must(err); file == late || len(from) != 4 {
			t.Errorf("after one that has expired: the file %s, of bytes from %d", file, from)
		}
	})
}

// stored stores a file of the server for the first user.
func (w *world) stored(id string, data []byte, keep time.Duration) (string, error) {
	return w.Store(w.t.Context(), w.users[0], id, "live.webm", "video/webm", int64(len(data)), bytes.NewReader(data), keep)
}

// charged returns the first user's quota of the day.
func (w *world) charged() (files, size int) {
	w.t.Helper()
	w.must(w.db.QueryRowContext(w.t.Context(), "SELECT files, bytes FROM transfer_quotas WHERE user_id = ?", w.users[0]).Scan(&files, &size))
	return files, size
}

func TestServerFile_ResumesAfterStorageFault(t *testing.T) {
	inBubble(t, Settings{Open: 2}, func(t *testing.T, w *world) {
		data, first := random(4*testChunk), ids.New[Transfer]()
		w.storage.after = func(kept int) {
			if kept == 2 {
				w.storage.set(syscall.EIO, nil)
			}
		}
		if _, err := w.stored(first.String(), data, time.Hour); !errors.Is(err, ErrStorage) {
			t.Fatalf("while the storage is away: %v", err)
		}
		if up := w.current(first); up.Status != Transferring || up.Stored < 2*testChunk {
			t.Errorf("there is %+v", up)
		}
		w.storage.set(nil, nil)
		if file, err := w.stored(first.String(), data, time.Hour); err != nil || file != first.String() {
			t.Errorf("afterwards: %q, %v", file, err)
		}
		if files, size := w.charged(); files != 1 || size != len(data) {
			t.Errorf("%d files with %d bytes count", files, size)
		}
		// The owner's unfinished transfers do not affect it.
		for range w.cfg.Open {
			w.offer(random(10))
		}
		if _, err := w.stored(ids.New[Transfer]().String(), data, time.Hour); err != nil {
			t.Errorf("beside the owner's own: %v", err)
		}
	})
}

// A node dies, or its storage fails, after all bytes are stored and before the file is finished.
func TestServerFile_KeepsItsExpiry(t *testing.T) {
	inBubble(t, Settings{}, func(t *testing.T, w *world) {
		data, id := photo(t, 400, 300), ids.New[Transfer]()
		parts := (len(data) + testChunk - 1) / testChunk
		w.storage.after = func(kept int) {
			if kept == parts { // no space remains for the thumbnails
				w.storage.set(syscall.ENOSPC, nil)
			}
		}
		keep := w.cfg.IdleFor + 24*time.Hour
		if _, err := w.stored(id.String(), data, keep); errs.KindOf(err) != errs.Unavailable {
			t.Errorf("before it is finished: %v", err)
		}
		if up := w.current(id); !up.uploaded() {
			t.Fatalf("there is %+v", up)
		}
		w.storage.set(nil, nil)
		if file, err := w.stored(id.String(), data, keep); err != nil || file != id.String() {
			t.Errorf("stored again: %q, %v", file, err)
		}
		w.pass(finishAfter)
		w.must(w.finishWaiting(t.Context()))
		w.pass(w.cfg.IdleFor + time.Minute)
		w.must(w.expire(t.Context()))
		w.sound(id)
		if up := w.current(id); up.Status != Done || !up.Content {
			t.Errorf("after a day there is %+v", up)
		}
	})
}

// A request of a few kilobytes must not cause thousands of requests to the storage.
func TestDownload_TooManyRangesReturnsWholeFile(t *testing.T) {
	inBubble(t, Settings{}, func(t *testing.T, w *world) {
		data := random(3 * testChunk)
		w.Serve(seenBy{})
		link, err := w.Link(t.Context(), w.users[0], w.put("a.bin", data).ID)
		w.must(err)
		a := web.New(web.Config{})
		w.Routes(a)
		for ranges, want := range map[int]int{2: http.StatusPartialContent, mostRanges: http.StatusPartialContent, mostRanges + 1: http.StatusOK,
			2000: http.StatusOK} {
			var list []string
			for i := range ranges {
				list = append(list, fmt.Sprintf("%[1]d-%[1]d", 2*(ranges-i)))
			}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, link.URL, nil)
			r.Header.Set("Range", "bytes="+strings.Join(list, ","))
			answer := httptest.NewRecorder()
			before := w.storage.opens.Load()
			a.Handler().ServeHTTP(answer, r)
			if answer.Code != want || want == http.StatusOK && !bytes.Equal(answer.Body.Bytes(), data) {
				t.Errorf("%d ranges: got %d and %d bytes", ranges, answer.Code, answer.Body.Len())
			}
			if n := w.storage.opens.Load() - before; n > mostRanges {
				t.Errorf("%d ranges: %d parts were opened", ranges, n)
			}
		}
	})
}

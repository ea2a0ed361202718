package messaging

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/transfers"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// upload uploads a file of a user for messages.
func (w *world) upload(user accounts.ID, name string, data []byte) string {
	w.t.Helper()
	up, err := w.uploads.Offer(w.t.Context(), user, transfers.Offer{Name: name, Media: "text/plain", Size: int64(len(data))})
	w.must(err)
	up, err = w.uploads.Upload(w.t.Context(), user, up.ID, transfers.Piece{Length: int64(len(data)), Body: bytes.NewReader(data)})
	w.must(err)
	return up.ID.String()
}

func withFile(kind, file string) api.Send {
	return api.Send{ClientID: ids.New[message]().String(), Content: api.Content{Kind: kind, Media: &api.Media{File: file}}}
}

// sendsFile sends an upload of a user.
func (w *world) sendsFile(from accounts.ID, to ChatRef, file string) api.Sent {
	w.t.Helper()
	got, _, err := w.Send(w.t.Context(), from, to, withFile(api.MessageFile, file))
	w.must(err)
	return got
}

// forwards forwards a message of a user.
func (w *world) forwards(user accounts.ID, from ChatRef, seq int64, to ChatRef) (api.Sent, error) {
	w.t.Helper()
	got, _, err := w.Send(w.t.Context(), user, to, api.Send{ClientID: ids.New[message]().String(), Content: api.Content{Kind: api.MessageText},
		Forward: &api.MessageRef{Chat: from.String(), Seq: seq}})
	return got, err
}

// fetches returns the file of a message as a user gets it.
func (w *world) fetches(user accounts.ID, chat ChatRef, seq int64) (string, error) {
	w.t.Helper()
	link, err := w.FileLink(w.t.Context(), user, chat, seq, 0)
	if err != nil {
		return "", err
	}
	return w.follows(link)
}

func (w *world) follows(link api.FileLink) (string, error) {
	w.t.Helper()
	f, err := w.uploads.Fetch(w.t.Context(), strings.TrimPrefix(link.URL, "/v1/files/"))
	if err != nil {
		return "", err
	}
	defer f.Content.Close()
	b, err := io.ReadAll(f.Content)
	w.must(err)
	return string(b), nil
}

func (w *world) wantFetches(what string, user accounts.ID, chat ChatRef, seq int64, data string, want error) {
	w.t.Helper()
	if got, err := w.fetches(user, chat, seq); got != data || !errors.Is(err, want) {
		w.t.Errorf("%s fetches %q, %v; want %q, %v", what, got, err, data, want)
	}
}

// stored returns the number of objects in the storage of files.
func (w *world) stored() (n int) {
	w.t.Helper()
	w.must(fs.WalkDir(os.DirFS(w.dir), ".", func(_ string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // it was deleted in the meantime
			return nil
		case err == nil && !d.IsDir():
			n++
		}
		return err
	}))
	return n
}

func (w *world) wantStored(what string, want int) {
	w.t.Helper()
	eventually.Equal(w.t, what+", that many objects are stored", want, w.stored) // files are deleted in the background
}

func picture(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewNRGBA(image.Rect(0, 0, 600, 300))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func recording(ms int) []byte {
	b := append([]byte("RIFF\x00\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00"), 0x40, 0x1f, 0, 0, 0x80, 0x3e, 0, 0, 2, 0, 16, 0)
	b = binary.LittleEndian.AppendUint32(append(b, "data"...), uint32(ms*16))
	return append(b, make([]byte, ms*16)...)
}

func TestFiles_MessageDescribesItsFile(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		who := w.join(2)
		ann, bob := who[0], who[1]
		w.befriend(ann, bob)
		shot, voice, text := w.upload(ann, "a.png", picture(t)), w.upload(ann, "voice", recording(1500)),
			w.upload(ann, "note.txt", []byte("hello"))
		send := func(kind string, m api.Media) error {
			in := withFile(kind, "")
			in.Media = &m
			_, _, err := w.Send(t.Context(), ann, With(bob), in)
			return err
		}
		// The server ignores the sender's description, except for facts that only the sender has.
		w.must(send(api.MessageImage, api.Media{File: shot, Width: 7, Name: "evil", Type: "text/html", Alt: "a beach",
			SHA256: strings.Repeat("0", 64)}))
		w.must(send(api.MessageVoice, api.Media{File: voice, Duration: 99_000, Waveform: []int{0, 50, 100}}))
		w.must(send(api.MessageFile, api.Media{File: text, Duration: 5}))
		list, err := w.List(t.Context(), bob, With(ann), Range{Limit: 10})
		w.must(err)
		var got []string
		for _, m := range list.Messages {
			d := m.Media
			if d.File == "" || len(d.SHA256) != 64 || d.URL != "" {
				t.Errorf("got %+v", d)
			}
			got = append(got, fmt.Sprintf("%s %s %s %d %dx%d %d %v %v %s", m.Kind, d.Type, d.Name, d.Size, d.Width, d.Height, d.Duration, d.Waveform,
				d.Thumbnails, d.Alt))
		}
		want := []string{fmt.Sprintf("image image/png a.png %d 600x300 0 [] [1280 320] a beach", len(picture(t))),
			"voice audio/wav voice 24044 0x0 1500 [0 50 100] [] ", "file text/plain note.txt 5 0x0 0 [] [] "}
		if !slices.Equal(got, want) {
			t.Errorf("got\n%q, want\n%q", got, want)
		}
		w.wantFetches("the receiver", bob, With(ann), 3, "hello", nil)
		if link, err := w.FileLink(t.Context(), bob, With(ann), 1, 320); err != nil {
			t.Errorf("a thumbnail: %v", err)
		} else if b, err := w.follows(link); err != nil || !strings.HasPrefix(b, "\x89PNG") {
			t.Errorf("a thumbnail is %.10q, %v", b, err)
		}
		for what, tc := range map[string]struct {
			kind string
			m    api.Media
			want error
		}{
			"a note as a picture":      {api.MessageImage, api.Media{File: text}, ErrContent},
			"a picture as a recording": {api.MessageVoice, api.Media{File: shot}, ErrContent},
			"both file and address":    {api.MessageFile, api.Media{File: text, URL: "https://example.org/x"}, ErrContent},
			"neither":                  {api.MessageFile, api.Media{}, ErrContent},
			"no id":                    {api.MessageFile, api.Media{File: "../x"}, ErrContent},
			"one that is not there":    {api.MessageFile, api.Media{File: ids.New[transfers.Transfer]().String()}, ErrFile},
			"a waveform of a file":     {api.MessageFile, api.Media{File: text, Waveform: []int{1}}, ErrContent},
			"a waveform out of bounds": {api.MessageVoice, api.Media{File: voice, Waveform: []int{101}}, ErrContent},
			"the thumbnails of others": {api.MessageImage, api.Media{URL: "https://example.org/x", Thumbnails: []int{320}}, ErrContent},
		} {
			if err := send(tc.kind, tc.m); !errors.Is(err, tc.want) {
				t.Errorf("%s: got %v, want %v", what, err, tc.want)
			}
		}
		// The text of a message with a file can be edited, its file cannot.
		edited, err := w.Edit(t.Context(), ann, With(bob), 1, "look")
		if err != nil || edited.Text != "look" || edited.Media.File != shot {
			t.Errorf("edited it is %+v, %v", edited, err)
		}
	})
}

func TestFiles_ForeignUploadIsRefused(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		who := w.join(3)
		ann, bob, eve := who[0], who[1], who[2]
		w.befriend(ann, bob)
		w.befriend(eve, bob)
		file := w.upload(ann, "x", []byte("secret"))
		send := func(from accounts.ID, in api.Send) error {
			_, _, err := w.Send(t.Context(), from, With(bob), in)
			return err
		}
		if err := send(eve, withFile(api.MessageFile, file)); !errors.Is(err, ErrFile) {
			t.Errorf("another's upload: %v", err)
		}
		in := withFile(api.MessageFile, file)
		w.must(send(ann, in))
		w.must(send(ann, in)) // the same message
		if err := send(eve, withFile(api.MessageFile, file)); !errors.Is(err, ErrFile) {
			t.Errorf("the file of another's message: %v", err)
		}
		if err := send(bob, withFile(api.MessageFile, file)); !errors.Is(err, ErrFile) && !errors.Is(err, ErrSelf) {
			t.Errorf("its receiver, who does not forward it: %v", err)
		}
		half, err := w.uploads.Offer(t.Context(), ann, transfers.Offer{Name: "half", Size: 10})
		w.must(err)
		if err := send(ann, withFile(api.MessageFile, half.ID.String())); !errors.Is(err, ErrFile) {
			t.Errorf("half a file: %v", err)
		}
		toBob, err := w.uploads.Offer(t.Context(), ann, transfers.Offer{To: bob, Name: "offered", Size: 3})
		w.must(err)
		_, err = w.uploads.Accept(t.Context(), bob, toBob.ID)
		w.must(err)
		_, err = w.uploads.Upload(t.Context(), ann, toBob.ID, transfers.Piece{Length: 3, Body: strings.NewReader("abc")})
		w.must(err)
		if err := send(ann, withFile(api.MessageFile, toBob.ID.String())); !errors.Is(err, ErrFile) {
			t.Errorf("a file that was offered to one user: %v", err)
		}
		if _, err := w.forwards(eve, With(ann), 1, With(bob)); !errors.Is(err, ErrChat) {
			t.Errorf("a stranger forwards it: %v", err)
		}
		w.wantStored("after all that", 2)
	})
}

func TestFileLink_Rights(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		who := w.join(4)
		ann, bob, eve, dan := who[0], who[1], who[2], who[3]
		g := w.founded(ann, bob, eve)
		early := w.sendsFile(ann, In(g), w.upload(ann, "x", []byte("early")))
		w.befriend(ann, dan)
		_, err := w.in.Invite(t.Context(), ann, g, []accounts.ID{dan})
		w.must(err)
		sent := w.sendsFile(bob, In(g), w.upload(bob, "y", []byte("later")))
		for _, user := range who {
			w.wantFetches("a member", user, In(g), sent.Seq, "later", nil)
		}
		w.wantFetches("member who joined later", dan, In(g), early.Seq, "", ErrMessage)
		link, err := w.FileLink(t.Context(), eve, In(g), sent.Seq, 0)
		w.must(err)
		w.must(w.in.Leave(t.Context(), eve, g))
		w.wantFetches("member who has left", eve, In(g), sent.Seq, "", ErrChat)
		if _, err := w.follows(link); !errors.Is(err, transfers.ErrGone) {
			t.Errorf("member who has left, with a link: %v", err)
		}
		w.must(w.in.Remove(t.Context(), ann, g, bob))
		w.wantFetches("its sender, removed", bob, In(g), sent.Seq, "", ErrChat)
		link, err = w.FileLink(t.Context(), dan, In(g), sent.Seq, 0)
		w.must(err)
		w.must(w.Hide(t.Context(), dan, In(g), sent.Seq))
		w.wantFetches("member who has deleted it", dan, In(g), sent.Seq, "", ErrMessage)
		if _, err := w.follows(link); !errors.Is(err, transfers.ErrGone) {
			t.Errorf("member who has deleted it, with a link: %v", err)
		}
		w.wantFetches("of a message without one", ann, In(g), 1, "", ErrNoFile)

		z := w.upload(ann, "z", []byte("for two"))
		two := w.sendsFile(ann, With(dan), z)
		w.wantFetches("the receiver", dan, With(ann), two.Seq, "for two", nil)
		w.wantFetches("the sender", ann, With(dan), two.Seq, "for two", nil)
		w.wantFetches("a stranger", eve, With(ann), two.Seq, "", ErrChat)
		file, err := ids.Parse[transfers.Transfer](z)
		w.must(err)
		wantLinks := func(what string, want error, users ...accounts.ID) {
			t.Helper()
			for _, user := range users {
				if _, err := w.uploads.Link(t.Context(), user, file); !errors.Is(err, want) {
					t.Errorf("%s: a link by the id of the file: %v, want %v", what, err, want)
				}
				if _, _, err := w.uploads.RoomFile(t.Context(), user, z); !errors.Is(err, want) {
					t.Errorf("%s: the file for a room: %v, want %v", what, err, want)
				}
			}
		}
		wantLinks("before the block", nil, ann, dan)
		link, err = w.uploads.Link(t.Context(), dan, file)
		w.must(err)
		w.must(w.social.Block(t.Context(), ann, dan))
		w.wantFetches("user who is blocked", dan, With(ann), two.Seq, "", ErrRefused)
		w.wantFetches("user who blocks", ann, With(dan), two.Seq, "", ErrYouBlock)
		wantLinks("over a block", transfers.ErrUnknown, ann, dan)
		if _, err := w.follows(link); !errors.Is(err, transfers.ErrGone) {
			t.Errorf("with a link from before the block: %v", err)
		}
		both := w.sendsFile(ann, In(g), z)
		wantLinks("over a block, in a group of both", nil, ann, dan)
		_, err = w.Recall(t.Context(), ann, In(g), both.Seq)
		w.must(err)
		w.must(w.social.Unblock(t.Context(), ann, dan))
		w.wantFetches("user who is blocked no more", dan, With(ann), two.Seq, "for two", nil)
		link, err = w.FileLink(t.Context(), dan, With(ann), two.Seq, 0)
		w.must(err)
		w.must(w.Clear(t.Context(), dan, With(ann)))
		if _, err := w.follows(link); !errors.Is(err, transfers.ErrGone) {
			t.Errorf("member who has cleared the chat, with a link: %v", err)
		}
		w.wantFetches("member who has cleared the chat", dan, With(ann), two.Seq, "", ErrMessage)
	})
}

func TestFiles_ReleasedWithLastMessage(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		who := w.join(3)
		ann, bob, eve := who[0], who[1], who[2]
		w.befriend(ann, bob)
		w.befriend(bob, eve)
		sent := w.sendsFile(ann, With(bob), w.upload(ann, "x", picture(t)))
		w.wantStored("with two thumbnails", 3)
		fwd, err := w.forwards(bob, With(ann), sent.Seq, With(eve))
		w.must(err)
		w.wantStored("forwarded", 3)
		link, err := w.FileLink(t.Context(), bob, With(ann), sent.Seq, 320)
		w.must(err)
		_, err = w.Recall(t.Context(), ann, With(bob), sent.Seq)
		w.must(err)
		w.wantFetches("of the recalled message", bob, With(ann), sent.Seq, "", ErrRecalled)
		w.wantFetches("its sender, of what was forwarded", ann, With(bob), sent.Seq, "", ErrRecalled)
		if _, err := w.follows(link); err != nil {
			t.Errorf("who sees the forwarded one has it: %v", err)
		}
		w.wantFetches("of the forwarded one", eve, With(bob), fwd.Seq, string(picture(t)), nil)
		if _, err := w.forwards(bob, With(ann), sent.Seq, With(eve)); !errors.Is(err, ErrRecalled) {
			t.Errorf("forwarded after its recall: %v", err)
		}
		w.wantStored("while one message has it", 3)

		// The uploader's account is erased, and the other user's message keeps the file.
		w.must(w.Erase(t.Context(), ann))
		w.must(w.uploads.Erase(t.Context(), ann))
		w.wantFetches("after the erasure", eve, With(bob), fwd.Seq, string(picture(t)), nil)
		link, err = w.FileLink(t.Context(), eve, With(bob), fwd.Seq, 0)
		w.must(err)
		_, err = w.Recall(t.Context(), bob, With(eve), fwd.Seq)
		w.must(err)
		w.wantStored("with the last message", 0)
		if _, err := w.follows(link); !errors.Is(err, transfers.ErrGone) {
			t.Errorf("of a recalled message, with a link: %v", err)
		}

		sent = w.sendsFile(bob, With(eve), w.upload(bob, "y", []byte("y")))
		same := w.upload(bob, "z", []byte("z"))
		w.sendsFile(bob, With(eve), same)
		w.sendsFile(bob, With(eve), same)
		w.wantStored("before the erasure", 2)
		w.must(w.Erase(t.Context(), bob))
		w.wantStored("after the erasure of the only sender", 0)
		w.wantFetches("of an erased sender", eve, With(bob), sent.Seq, "", ErrRecalled)
	})
}

func TestFiles_ReleasedWithGroup(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		who := w.join(3)
		ann, bob := who[0], who[1]
		g := w.founded(ann, bob)
		w.befriend(bob, who[2])
		sent := w.sendsFile(ann, In(g), w.upload(ann, "x", []byte("x")))
		w.sendsFile(bob, In(g), w.upload(bob, "y", []byte("y")))
		fwd, err := w.forwards(bob, In(g), sent.Seq, With(who[2]))
		w.must(err)
		w.must(w.in.Dissolve(t.Context(), ann, g))
		w.wantStored("but for the forwarded one", 1)
		w.wantFetches("the forwarded one", who[2], With(bob), fwd.Seq, "x", nil)
	})
}

// Two messages with the same file are recalled and one is forwarded at the same time, many times. The file exists
// exactly as long as a message has it.
func TestRecall_ConcurrentMessagesWithOneFile(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		who := w.join(4)
		for i, a := range who {
			w.befriend(a, who[i+1:]...)
		}
		ann, bob, eve, dan := who[0], who[1], who[2], who[3]
		for range 10 {
			before := w.stored()
			file := w.upload(ann, "x", []byte("x"))
			one, two := w.sendsFile(ann, With(bob), file), w.sendsFile(ann, With(eve), file)
			var all sync.WaitGroup
			var fwd api.Sent
			var faults [3]error
			all.Go(func() { _, faults[0] = w.Recall(t.Context(), ann, With(bob), one.Seq) })
			all.Go(func() { _, faults[1] = w.Recall(t.Context(), ann, With(eve), two.Seq) })
			all.Go(func() { fwd, faults[2] = w.forwards(eve, With(ann), two.Seq, With(dan)) })
			all.Wait()
			w.must(errors.Join(faults[:2]...))
			if faults[2] != nil {
				if !errors.Is(faults[2], ErrRecalled) {
					t.Errorf("forwarded at the moment of the recall: %v", faults[2])
				}
				w.wantStored("with no message left", before)
				continue
			}
			w.wantFetches("what was forwarded in time", dan, With(eve), fwd.Seq, "x", nil)
			w.wantStored("with one message left", before+1)
		}
	})
}

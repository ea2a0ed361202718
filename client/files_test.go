package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
)

// shelf is a server that accepts one file by tus, and disturbs its requests.
type shelf struct {
	*stoa
	file   []byte
	looks  int // number of requests for the file's state before it is complete
	status string
	sent   []api.Send

	heads, patches []func(w http.ResponseWriter, r *http.Request) // what happens to the next requests
}

func startShelf(t *testing.T) *shelf {
	t.Helper()
	s := &shelf{stoa: &stoa{access: "a0", refresh: "r0"}, status: api.TransferDone}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/auth/refresh", s.renew)
	mux.HandleFunc("POST /v1/transfers", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, api.Transfer{ID: "t"}) })
	mux.HandleFunc("GET /v1/transfers/t", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		status := s.status
		if s.looks > 0 {
			s.looks--
			status = api.TransferTransferring
		}
		answer(w, http.StatusOK, api.Transfer{ID: "t", Status: status, Reason: "malware"})
	})
	mux.HandleFunc("HEAD /v1/transfers/t/upload", func(w http.ResponseWriter, r *http.Request) { s.next(&s.heads, s.stands)(w, r) })
	mux.HandleFunc("PATCH /v1/transfers/t/upload", func(w http.ResponseWriter, r *http.Request) {
		s.next(&s.patches, func(w http.ResponseWriter, r *http.Request) { s.take(w, r, 1<<30) })(w, r)
	})
	mux.HandleFunc("POST /v1/chats/u:bob/messages", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		var in api.Send
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			t.Error(err)
		}
		s.sent = append(s.sent, in)
		answer(w, http.StatusOK, api.Sent{Seq: 7})
	})
	mux.HandleFunc("POST /v1/chats/u:bob/messages/7/file", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, api.FileLink{URL: "/v1/files/link"})
	})
	mux.HandleFunc("GET /v1/files/link", func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(s.file))
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// next removes and runs the first function of a list. If the list is empty, it runs otherwise.
func (s *shelf) next(some *[]func(http.ResponseWriter, *http.Request),
	otherwise func(http.ResponseWriter, *http.Request)) func(http.ResponseWriter, *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(*some) == 0 {
		return otherwise
	}
	first := (*some)[0]
	*some = (*some)[1:]
	return first
}

func (s *shelf) stands(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.allowed(w, r) {
		w.Header().Set("Upload-Offset", strconv.Itoa(len(s.file)))
	}
}

// take accepts at most n bytes of the file, and breaks the connection if there are more.
func (s *shelf) take(w http.ResponseWriter, r *http.Request, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Header.Get("Upload-Offset") != strconv.Itoa(len(s.file)) {
		problem(w, http.StatusConflict, "transfer.offset")
		return
	}
	part, _ := io.ReadAll(io.LimitReader(r.Body, n))
	s.file = append(s.file, part...)
	if int64(len(part)) == n {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Upload-Offset", strconv.Itoa(len(s.file)))
	w.WriteHeader(http.StatusNoContent)
}

func refuse(status int, code string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) { problem(w, status, code) }
}

// onlySeeks is a file that can be read at offsets only by seeking.
type onlySeeks struct{ io.ReadSeeker }

func TestWhatBreaksTheLineDoesNotBreakAnUpload(t *testing.T) {
	s := startShelf(t)
	cut := func(n int64) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) { s.take(w, r, n) }
	}
	s.heads = append(s.heads, s.stands, refuse(http.StatusServiceUnavailable, "busy"), refuse(http.StatusUnauthorized, "auth.token"), s.stands,
		func(http.ResponseWriter, *http.Request) {
			panic(http.ErrAbortHandler)
		})
	s.patches = append(s.patches, cut(1000), cut(50_000), refuse(http.StatusConflict, "transfer.offset"),
		refuse(http.StatusTooManyRequests, "rate.limited"), refuse(http.StatusUnprocessableEntity, "transfer.cut"), cut(1))
	s.looks = 2
	c := dial(t, s.stoa)
	want := bytes.Repeat([]byte("a file "), 30_000)
	note := api.Media{Alt: "of a test"}
	if _, err := c.SendMedia(t.Context(), ChatWith("bob"), api.Content{Kind: api.MessageFile, Media: &note}, "name",
		onlySeeks{bytes.NewReader(want)}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(s.file, want) {
		t.Errorf("the server has %d bytes, want the file's %d", len(s.file), len(want))
	}
	if len(s.sent) != 1 || s.sent[0].Content.Media == nil || s.sent[0].Content.Media.File != "t" ||
		s.sent[0].Content.Media.Alt != "of a test" || note.File != "" {
		t.Errorf("sent is %+v", s.sent)
	}
	if len(s.heads)+len(s.patches) != 0 || s.renewals != 1 {
		t.Errorf("%d requests were not harmed; %d renewals", len(s.heads)+len(s.patches), s.renewals)
	}
	var got bytes.Buffer
	if n, err := c.FetchFile(t.Context(), ChatWith("bob"), 7, 0, 7, &got); err != nil || n != int64(len(want)-7) ||
		!bytes.Equal(got.Bytes(), want[7:]) {
		t.Errorf("fetched are %d bytes, %v; want all behind the seventh", n, err)
	}
}

func TestAnUploadThatCannotSucceedSaysWhy(t *testing.T) {
	file := func() io.ReadSeeker { return strings.NewReader("a file") }
	for name, c := range map[string]struct {
		harm func(s *shelf)
		want string
	}{
		"the file is refused":      {func(s *shelf) { s.status = api.TransferFailed }, "upload of t: it has failed: malware"},
		"the transfer is nobody's": {func(s *shelf) { s.heads = append(s.heads, refuse(http.StatusNotFound, "")) }, "http.404"},
		"the tokens are worthless": {func(s *shelf) { s.access, s.refresh = "other", "other" }, "auth.refresh"},
		"the server is away for long": {func(s *shelf) {
			s.heads = slices.Repeat([]func(http.ResponseWriter, *http.Request){refuse(http.StatusInternalServerError, "")}, maxTries)
		}, "http.500"},
	} {
		t.Run(name, func(t *testing.T) {
			s := startShelf(t)
			c.harm(s)
			if _, err := dial(t, s.stoa).SendFile(t.Context(), ChatWith("bob"), "name", file()); err == nil ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
			if len(s.sent) != 0 || len(s.heads) != 0 {
				t.Errorf("sent is %+v; %d requests were not made", s.sent, len(s.heads))
			}
		})
	}
	broken := errors.New("broken")
	if _, err := dial(t, start(t)).SendFile(t.Context(), ChatWith("bob"), "name", onlySeeks{unseekable{broken}}); !errors.Is(err, broken) {
		t.Errorf("a file without an end: %v, want %v", err, broken)
	}
}

type unseekable struct{ error }

func (u unseekable) Read([]byte) (int, error)       { return 0, u.error }
func (u unseekable) Seek(int64, int) (int64, error) { return 0, u.error }

// zeros is a file of zeros.
type zeros struct{}

func (zeros) ReadAt(b []byte, _ int64) (int, error) { return len(b), nil }

func TestNoRequestOfAnUploadIsTooLargeForAProxy(t *testing.T) {
	s := startShelf(t)
	const size = 2*mostInOne + 1
	at := int64(0)
	stands := func(w http.ResponseWriter) { w.Header().Set("Upload-Offset", strconv.FormatInt(at, 10)) }
	for range 3 {
		s.heads = append(s.heads, func(w http.ResponseWriter, _ *http.Request) { stands(w) })
		s.patches = append(s.patches, func(w http.ResponseWriter, r *http.Request) {
			if r.ContentLength > 100_000_000 {
				http.Error(w, "too large", http.StatusRequestEntityTooLarge)
				return
			}
			n, err := io.Copy(io.Discard, r.Body)
			if want := strconv.FormatInt(at, 10); err != nil || r.Header.Get("Upload-Offset") != want {
				t.Errorf("%d bytes from %s, %v, want them from %s", n, r.Header.Get("Upload-Offset"), err, want)
			}
			at += n
			stands(w)
			w.WriteHeader(http.StatusNoContent)
		})
	}
	if err := dial(t, s.stoa).Upload(t.Context(), "t", zeros{}, size); err != nil || at != size {
		t.Errorf("%d bytes arrived, %v", at, err)
	}
}

package assets

import (
	"compress/gzip"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func ask(f *File, method string, headers ...string) *http.Response {
	r := httptest.NewRequest(method, "/", nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	return w.Result()
}

func TestFile_IsCompressedAndRevalidated(t *testing.T) {
	text := strings.Repeat("all work and no play ", 100)
	f := New([]byte(text), http.Header{"Content-Type": {"text/plain"}})
	tags := map[string]bool{}
	for accepts, packed := range map[string]bool{"": false, "br": false, "gzip;q=0": false, "gzip": true, "br, gzip": true,
		"deflate, gzip;q=0.5, *": true} {
		res := ask(f, "GET", "Accept-Encoding", accepts)
		var body io.Reader = res.Body
		if (res.Header.Get("Content-Encoding") == "gzip") != packed || res.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%q: got %v", accepts, res.Header)
		} else if packed {
			unpacked, err := gzip.NewReader(body)
			if err != nil {
				t.Fatal(err)
			}
			body = unpacked
		}
		if got, err := io.ReadAll(body); string(got) != text || err != nil {
			t.Errorf("%q: got %.40q, %v", accepts, got, err)
		}
		tag := res.Header.Get("ETag")
		tags[tag] = true
		if res := ask(f, "GET", "Accept-Encoding", accepts, "If-None-Match", tag); res.StatusCode != http.StatusNotModified {
			t.Errorf("%q again: got %d", accepts, res.StatusCode)
		}
	}
	if len(tags) != 2 {
		t.Errorf("both encodings have the tags %v", tags)
	}
	if a, b := &f.packed()[0], &f.packed()[0]; a != b {
		t.Error("the content was compressed again for each request")
	}
	if res := ask(f, "POST"); res.StatusCode != http.StatusMethodNotAllowed || res.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: got %d %v", res.StatusCode, res.Header)
	}
}

func TestFile_IncompressibleIsSentPlain(t *testing.T) {
	noise := make([]byte, 1000)
	for i := range noise {
		noise[i] = byte(rand.Uint32()) //nolint:gosec // noise
	}
	if res := ask(New(noise, nil), "GET", "Accept-Encoding", "gzip"); res.Header.Get("Content-Encoding") != "" {
		t.Errorf("got %v", res.Header)
	}
}

func TestFile_VideoRangesAreUncompressed(t *testing.T) {
	video := strings.Repeat("frame", 1000)
	res := ask(New([]byte(video), http.Header{"Content-Type": {"video/webm"}}), "GET", "Accept-Encoding", "gzip", "Range", "bytes=2-6")
	if got, err := io.ReadAll(res.Body); string(got) != "amefr" || err != nil || res.StatusCode != http.StatusPartialContent ||
		res.Header.Get("Content-Encoding") != "" {
		t.Errorf("got %q, %v, %d %v", got, err, res.StatusCode, res.Header)
	}
}

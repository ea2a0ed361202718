// Package assets serves content that does not change while the program runs, such as the files of a page. It
// compresses each file once, and clients revalidate it by ETag.
package assets

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"
	"sync"
	"time"
)

// File is one piece of content.
type File struct {
	plain []byte
	head  http.Header
	tag   string
	// plain compressed by gzip, at the first request; nil if that saves nothing, or for videos, which players request in ranges
	packed func() []byte
}

// New returns a file with the given headers, which include Content-Type. A video is never compressed. Do not change
// data or head afterwards.
func New(data []byte, head http.Header) *File {
	sum := sha256.Sum256(data)
	packed := func() []byte { return nil }
	if !strings.HasPrefix(head.Get("Content-Type"), "video/") {
		packed = sync.OnceValue(func() []byte { return pack(data) })
	}
	return &File{plain: data, head: head, tag: base64.RawURLEncoding.EncodeToString(sum[:12]), packed: packed}
}

// ServeHTTP implements [http.Handler] for GET and HEAD; other methods get 405.
func (f *File) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
		return
	}
	for name, values := range f.head {
		h[name] = values
	}
	h.Set("Vary", "Accept-Encoding")
	data, tag := f.plain, f.tag
	if acceptsGzip(r) {
		if packed := f.packed(); packed != nil {
			data, tag = packed, tag+"-gzip"
			h.Set("Content-Encoding", "gzip")
		}
	}
	h.Set("ETag", `"`+tag+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}

// acceptsGzip reports whether the client accepts gzip.
func acceptsGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		if name, q, _ := strings.Cut(part, ";"); strings.TrimSpace(name) == "gzip" {
			return strings.TrimSpace(q) != "q=0"
		}
	}
	return false
}

// pack returns data compressed by gzip, or nil if that saves nothing.
func pack(data []byte) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		panic(err) // the level is valid
	}
	_, _ = w.Write(data) // writes to memory cannot fail
	_ = w.Close()
	if b.Len() >= len(data) {
		return nil
	}
	return b.Bytes()
}

// Package assets serves content that does not change while the program runs, such as the
// files of a page: compressed once, and revalidated by ETag.
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
	plain  []byte
	head   http.Header
	tag    string
	packed func() []byte // plain by gzip, made when a client first asks; nil: that saves nothing, or players ask for parts of it
}

// New returns a file with these headers, Content-Type among them; a video is never compressed. Do not change data or
// head afterwards.
func New(data []byte, head http.Header) *File {
	sum := sha256.Sum256(data)
	packed := func() []byte { return nil }
	if !strings.HasPrefix(head.Get("Content-Type"), "video/") {
		packed = sync.OnceValue(func() []byte { return pack(data) })
	}
	return &File{plain: data, head: head, tag: base64.RawURLEncoding.EncodeToString(sum[:12]), packed: packed}
}

// ServeHTTP implements [http.Handler] for GET and HEAD; others are refused with 405.
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
	if takesGzip(r) {
		if packed := f.packed(); packed != nil {
			data, tag = packed, tag+"-gzip"
			h.Set("Content-Encoding", "gzip")
		}
	}
	h.Set("ETag", `"`+tag+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}

// takesGzip reports whether a client says that it takes gzip.
func takesGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		if name, q, _ := strings.Cut(part, ";"); strings.TrimSpace(name) == "gzip" {
			return strings.TrimSpace(q) != "q=0"
		}
	}
	return false
}

// pack returns data by gzip, or nil where that saves nothing.
func pack(data []byte) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		panic(err) // the level is one
	}
	_, _ = w.Write(data) // into memory
	_ = w.Close()
	if b.Len() >= len(data) {
		return nil
	}
	return b.Bytes()
}

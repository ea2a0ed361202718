package web

import (
	"net/http"
	"strconv"
	"strings"
)

// Image is an answer that is an image, of an address that never stands for another one.
type Image struct {
	Status       int
	CacheControl string `header:"Cache-Control"`
	Disposition  string `header:"Content-Disposition"`
	ETag         string `header:"ETag"`
	Type         string `header:"Content-Type"`
	Length       string `header:"Content-Length"`
	Body         []byte
}

// NewImage answers with an image that has a tag, or with 304 for a caller whose If-None-Match names it.
func NewImage(ifNoneMatch, tag, typ string, data []byte) *Image {
	out := &Image{Status: http.StatusOK, CacheControl: "public, max-age=31536000, immutable", ETag: `"` + tag + `"`}
	if known(ifNoneMatch, out.ETag) {
		out.Status = http.StatusNotModified
		return out
	}
	out.Disposition, out.Type, out.Length, out.Body = "inline", typ, strconv.Itoa(len(data)), data
	return out
}

// known reports whether an If-None-Match names a tag, RFC 9110, section 13.1.2.
func known(header, tag string) bool {
	for t := range strings.SplitSeq(header, ",") {
		if t = strings.TrimPrefix(strings.TrimSpace(t), "W/"); t == tag || t == "*" {
			return true
		}
	}
	return false
}

// Drawn is an answer that is a picture for the caller alone.
type Drawn struct {
	Disposition string `header:"Content-Disposition"`
	Type        string `header:"Content-Type"`
	Length      string `header:"Content-Length"`
	Body        []byte
}

// NewDrawn answers with a picture.
func NewDrawn(typ string, data []byte) *Drawn {
	return &Drawn{"inline", typ, strconv.Itoa(len(data)), data}
}

package web

import (
	"net/http"
	"strconv"
	"strings"
)

// Image is a response with an image. Its URL never serves another image, so that caches may store it for ever.
type Image struct {
	Status       int
	CacheControl string `header:"Cache-Control"`
	Disposition  string `header:"Content-Disposition"`
	ETag         string `header:"ETag"`
	Type         string `header:"Content-Type"`
	Length       string `header:"Content-Length"`
	Body         []byte
}

// NewImage returns a response with an image and its ETag, or with 304 if ifNoneMatch contains the tag.
func NewImage(ifNoneMatch, tag, typ string, data []byte) *Image {
	out := &Image{Status: http.StatusOK, CacheControl: "public, max-age=31536000, immutable", ETag: `"` + tag + `"`}
	if known(ifNoneMatch, out.ETag) {
		out.Status = http.StatusNotModified
		return out
	}
	out.Disposition, out.Type, out.Length, out.Body = "inline", typ, strconv.Itoa(len(data)), data
	return out
}

// known reports whether an If-None-Match header contains tag (RFC 9110, section 13.1.2).
func known(header, tag string) bool {
	for t := range strings.SplitSeq(header, ",") {
		if t = strings.TrimPrefix(strings.TrimSpace(t), "W/"); t == tag || t == "*" {
			return true
		}
	}
	return false
}

// Drawn is a response with a picture that only the caller may see.
type Drawn struct {
	Disposition string `header:"Content-Disposition"`
	Type        string `header:"Content-Type"`
	Length      string `header:"Content-Length"`
	Body        []byte
}

// NewDrawn returns a response with a picture.
func NewDrawn(typ string, data []byte) *Drawn {
	return &Drawn{"inline", typ, strconv.Itoa(len(data)), data}
}

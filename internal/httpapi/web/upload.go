package web

import (
	"io"
	"net/http"
	"sync"
	"time"
)

// streamIdleTimeout bounds the time without a byte in the body of a [Stream].
const streamIdleTimeout = 30 * time.Second

// Stream is a request body that its handler reads while it arrives. The whole upload may take any time; only the time
// without a byte is bounded.
type Stream struct {
	// Length is the number of bytes of the body; -1 if the client did not declare it.
	Length int64

	body    io.Reader
	control *http.ResponseController

	mu    sync.Mutex
	moved time.Time // time of the last extension of the deadlines
	ended bool      // no further read succeeds
}

// openStream refuses a body of another media type. An empty body needs no media type.
func openStream(c *call, r *http.Request, rt *route) (*Stream, *problem) {
	if r.ContentLength != 0 && !rt.in.Accepts(r.Header["Content-Type"]) {
		return nil, newProblem(http.StatusUnsupportedMediaType, rt.errMediaType())
	}
	s := &Stream{Length: r.ContentLength, body: r.Body, control: http.NewResponseController(c.ResponseWriter)}
	s.extend(time.Now())
	return s, nil
}

// Read implements io.Reader.
func (s *Stream) Read(b []byte) (int, error) {
	n, err := s.body.Read(b)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = s.ended || err != nil
	if now := time.Now(); n > 0 && !s.ended && now.Sub(s.moved) >= time.Second {
		s.extend(now)
	}
	return n, err
}

// Cut makes a waiting Read, and soon all later ones, fail like a client that is idle for too long. A body that has
// been read to its end is not affected. Cut may be called concurrently with Read.
func (s *Stream) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.ended = true
		_ = s.control.SetReadDeadline(time.Unix(1, 0))
	}
}

// extend moves the deadlines for the next bytes and for the response. A test recorder has no deadlines.
func (s *Stream) extend(now time.Time) {
	s.moved = now
	if s.Length != 0 {
		_ = s.control.SetReadDeadline(now.Add(streamIdleTimeout))
	}
	_ = s.control.SetWriteDeadline(now.Add(streamIdleTimeout + answerTimeout))
}

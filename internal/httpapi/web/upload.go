package web

import (
	"io"
	"net/http"
	"sync"
	"time"
)

// streamIdle is how long the body of a [Stream] may bring nothing.
const streamIdle = 30 * time.Second

// Stream is a request's body that its handler reads as it comes, however long that takes:
// what has a limit is the time in which nothing comes.
type Stream struct {
	// Length is how many bytes come; -1 where the client has not said.
	Length int64

	body    io.Reader
	control *http.ResponseController

	mu    sync.Mutex
	moved time.Time // when the deadlines were last moved
	ended bool      // nothing more is read
}

// openStream refuses a body of another media type. An empty body needs none.
func openStream(c *call, r *http.Request, rt *route) (*Stream, *problem) {
	if r.ContentLength != 0 && !rt.takes(r.Header["Content-Type"]) {
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

// Cut has a Read that waits fail, and soon all that come, as if the client had sent nothing for too long. A body that has
// been read to its end stays so. It may be called while Read is.
func (s *Stream) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.ended = true
		_ = s.control.SetReadDeadline(time.Unix(1, 0))
	}
}

// extend gives the client time to send on, and to read the answer. A recorder in a test has
// no deadlines.
func (s *Stream) extend(now time.Time) {
	s.moved = now
	if s.Length != 0 {
		_ = s.control.SetReadDeadline(now.Add(streamIdle))
	}
	_ = s.control.SetWriteDeadline(now.Add(streamIdle + answerTimeout))
}

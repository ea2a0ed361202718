// Package pipe provides connections within a process that never block a writer.
package pipe

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// limit bounds how far a reader may lag before its pipe is cut, as Redis cuts a client whose output buffer overflows.
const limit = 64 << 20

// New returns the two ends of an in-memory connection. Unlike net.Pipe it is buffered. Otherwise a client that writes a
// long pipeline before it reads the first reply, and a server that replies while it still receives, would wait for each
// other forever.
func New() (client, server net.Conn) {
	a, b := newStream(), newStream()
	return &pipe{in: a, out: b}, &pipe{in: b, out: a}
}

type pipe struct{ in, out *stream }

func (p *pipe) Read(b []byte) (int, error)  { return p.in.read(b) }
func (p *pipe) Write(b []byte) (int, error) { return p.out.write(b) }

func (p *pipe) Close() error {
	p.in.close()
	p.out.close()
	return nil
}

func (p *pipe) LocalAddr() net.Addr                { return pipeAddr{} }
func (p *pipe) RemoteAddr() net.Addr               { return pipeAddr{} }
func (p *pipe) SetDeadline(t time.Time) error      { return p.SetReadDeadline(t) }
func (p *pipe) SetWriteDeadline(t time.Time) error { return nil } // writing never waits
func (p *pipe) SetReadDeadline(t time.Time) error {
	p.in.setDeadline(t)
	return nil
}

type pipeAddr struct{}

func (pipeAddr) Network() string { return "memory" }
func (pipeAddr) String() string  { return "memory" }

// stream carries bytes in one direction.
type stream struct {
	mu       sync.Mutex
	more     sync.Cond
	buf      []byte
	off      int // buf[:off] was read
	closed   bool
	deadline time.Time
	timer    *time.Timer // wakes a waiting reader at its deadline
}

func newStream() *stream {
	s := new(stream)
	s.more.L = &s.mu
	return s
}

func (s *stream) write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, io.ErrClosedPipe
	}
	if s.off > 0 && len(s.buf)+len(b) > cap(s.buf) { // reuse the part that was read before growing
		s.buf = s.buf[:copy(s.buf, s.buf[s.off:])]
		s.off = 0
	}
	if len(s.buf)-s.off+len(b) > limit {
		s.closed = true
		s.more.Broadcast()
		return 0, io.ErrShortBuffer
	}
	s.buf = append(s.buf, b...)
	s.more.Signal()
	return len(b), nil
}

func (s *stream) read(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.off == len(s.buf) {
		if s.closed {
			return 0, io.EOF
		}
		if !s.deadline.IsZero() {
			left := time.Until(s.deadline)
			if left <= 0 {
				return 0, os.ErrDeadlineExceeded
			}
			if s.timer == nil {
				s.timer = time.AfterFunc(left, s.wake)
			} else {
				s.timer.Reset(left)
			}
		}
		s.more.Wait()
	}
	n := copy(b, s.buf[s.off:])
	if s.off += n; s.off == len(s.buf) {
		s.off, s.buf = 0, s.buf[:0]
		if cap(s.buf) > 1<<20 { // release the memory of a burst
			s.buf = nil
		}
	}
	return n, nil
}

// setDeadline also takes effect on a reader that is already waiting.
func (s *stream) setDeadline(t time.Time) {
	s.mu.Lock()
	s.deadline = t
	s.more.Broadcast()
	s.mu.Unlock()
}

func (s *stream) wake() {
	s.mu.Lock()
	s.more.Broadcast()
	s.mu.Unlock()
}

func (s *stream) close() {
	s.mu.Lock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.more.Broadcast()
	s.mu.Unlock()
}

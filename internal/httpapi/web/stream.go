package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/internal/base/clientnet"
	"github.com/stoa-dev/stoa/internal/base/errs"
)

const (
	// openAfter is how long a stream's function may take to refuse.
	openAfter = 250 * time.Millisecond

	// heartbeat is below the minute after which proxies and mobile networks
	// forget a silent connection.
	heartbeat = 15 * time.Second

	// writeTimeout is how long one write may hang before a client counts as gone.
	writeTimeout = 10 * time.Second
)

// errStreamEnded is what send returns once the client or the server is gone.
var errStreamEnded = errors.New("web: the stream has ended")

var errDraining = errs.New(errs.Unavailable, "unavailable", "The server is going down. Try again.")

// Send writes one event of a stream, with v as JSON.
type Send = func(event string, v any) error

// HandleStream adds a GET operation that answers with server-sent events. fn
// sends until it returns or ctx ends: when the client leaves, the server drains,
// or the token is no longer good, which is looked at before each event and with each
// heartbeat, every 15 s: a device that was logged out gets no event any more. A user may
// have 32 streams open on a node, a household 1,000. send writes one event with v as JSON in a single line and flushes
// it; an empty event leaves that field out; it may be called from
// several goroutines, but not after fn has returned. It fails when the stream has ended or the client does not
// read for 10 s.
//
// The answer begins with the first send, or after a quarter of a second; an
// error that fn returns before is a problem document, a later one ends the
// stream and is logged.
func HandleStream[C Caller, I any](a *API, op Op, fn func(ctx context.Context, caller C, in I, send Send) error) {
	if op.Method == "" {
		op.Method = http.MethodGet
	}
	a.add(op, reflect.TypeFor[I](), nil, &route{suits: isA[C], listen: func(ctx context.Context, caller Caller, in any, send Send) error {
		return fn(ctx, caller.(C), in.(I), send)
	}})
}

// stream is one client that listens.
type stream struct {
	c       *call
	control *http.ResponseController

	mu   sync.Mutex
	open bool
	gone bool
}

func (a *API) stream(ctx context.Context, c *call, fn func(context.Context, Send) error) {
	select {
	case <-a.quit:
		c.refuse(newProblem(http.StatusServiceUnavailable, errDraining))
		return
	default:
	}
	names := map[string]int{"user " + c.user(): maxStreamsUser, "from " + clientnet.Of(c.clientIP()): maxStreamsHousehold}
	if !a.streams.add(0, names) {
		c.refuse(newProblem(http.StatusTooManyRequests, errStreams))
		return
	}
	defer a.streams.remove(names)
	free, ok := a.TakePlace()
	if !ok {
		c.refuse(newProblem(http.StatusServiceUnavailable, ErrNoPlace))
		return
	}
	defer free()
	s := &stream{c: c, control: http.NewResponseController(c.ResponseWriter)}
	if c.r.Method == http.MethodHead {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.begin()
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	beats := make(chan struct{})
	go func() {
		defer close(beats)
		defer cancel()
		s.beat(ctx)
	}()
	defer func() { // also when fn panics
		cancel()
		<-beats
	}()
	err := fn(ctx, func(event string, v any) error {
		if a.ended(ctx, c) {
			cancel()
			return errStreamEnded
		}
		return s.send(event, v)
	})
	ended := ctx.Err() != nil
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
	switch {
	case err == nil || ended:
		s.begin()
	case !s.open:
		c.refuse(a.refusal(ctx, err))
	default:
		a.complain(ctx, slog.LevelError, "stream failed", err)
	}
}

// ended reports whether the token with which a stream was opened is no longer good. While
// nobody can tell, the stream goes on.
func (a *API) ended(ctx context.Context, c *call) bool {
	_, err := a.authenticate(ctx, c.r)
	return errs.KindOf(err) == errs.Unauthenticated
}

// beat opens the stream, keeps it warm and returns when it has to end.
func (s *stream) beat(ctx context.Context) {
	timer := time.NewTimer(openAfter)
	defer timer.Stop()
	for first := true; ; first = false {
		select {
		case <-ctx.Done():
			return
		case <-s.c.api.quit:
			return
		case <-timer.C:
		}
		if !first {
			if s.c.api.ended(ctx, s.c) {
				return
			}
		}
		if s.write(":\n\n") != nil {
			return
		}
		timer.Reset(heartbeat)
	}
}

func (s *stream) send(event string, v any) error {
	if strings.ContainsAny(event, "\r\n\x00") {
		return fmt.Errorf("web: event %q would break the stream", event)
	}
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("web: event %q: %w", event, err)
	}
	var b bytes.Buffer
	if event != "" {
		b.WriteString("event: " + event + "\n")
	}
	b.WriteString("data: ")
	b.Write(data)
	b.WriteString("\n\n")
	return s.write(b.String())
}

// write sends text at once. After a failure, every write fails.
func (s *stream) write(text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return errStreamEnded
	}
	s.begin()
	// Not every ResponseWriter has deadlines; net/http's has.
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := s.c.Write([]byte(text)); err != nil {
		s.gone = true
		return fmt.Errorf("%w: %w", errStreamEnded, err)
	}
	if err := s.control.Flush(); err != nil {
		s.gone = true
		return fmt.Errorf("%w: %w", errStreamEnded, err)
	}
	return nil
}

// begin sends the header; the caller holds mu.
func (s *stream) begin() {
	if s.open {
		return
	}
	s.open = true
	h := s.c.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back
	s.c.WriteHeader(http.StatusOK)
}

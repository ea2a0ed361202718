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
	// openAfter is the longest delay of the response's beginning: until then the stream's function may refuse with a
	// problem document.
	openAfter = 250 * time.Millisecond

	// heartbeat is the interval of comments in a stream. Proxies and mobile networks drop connections that are silent
	// for a minute.
	heartbeat = 15 * time.Second

	// writeTimeout bounds one write; a client that does not read for longer counts as disconnected.
	writeTimeout = 10 * time.Second
)

// errStreamEnded is returned by send after the client or the server has ended the stream.
var errStreamEnded = errors.New("web: the stream has ended")

var errDraining = errs.New(errs.Unavailable, "unavailable", "The server is shutting down. Try again.")

// Send writes one event of a stream, with v as JSON.
type Send = func(event string, v any) error

// HandleStream adds a GET operation that responds with server-sent events. fn may send until it returns or ctx ends.
// ctx ends when the client disconnects, when the server drains, or when the token is no longer valid. The token is
// checked before each event and with each heartbeat, every 15 s, so that a logged-out device gets no further event. A
// user may have 32 streams open on a node, a client network 1,000.
//
// send writes one event with v as JSON on a single line and flushes it; an empty event name leaves out that field.
// send may be called from several goroutines, but not after fn has returned. It fails if the stream has ended or the
// client does not read for 10 s.
//
// The response begins with the first send, or after 250 ms. An error that fn returns before becomes a problem
// document; a later error ends the stream and is logged.
func HandleStream[C Caller, I any](a *API, op Op, fn func(ctx context.Context, caller C, in I, send Send) error) {
	if op.Method == "" {
		op.Method = http.MethodGet
	}
	a.add(op, reflect.TypeFor[I](), nil, &route{suits: isA[C], listen: func(ctx context.Context, caller Caller, in any, send Send) error {
		return fn(ctx, caller.(C), in.(I), send)
	}})
}

// stream is the connection of one subscriber.
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
	names := map[string]int{"user " + c.user(): maxStreamsPerUser, "from " + clientnet.Of(c.clientIP()): maxStreamsPerNetwork}
	if !a.streams.add(0, names) {
		c.refuse(newProblem(http.StatusTooManyRequests, errStreams))
		return
	}
	defer a.streams.remove(names)
	free, ok := a.AcquireConn()
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
	defer func() { // also if fn panics
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
		a.logFailure(ctx, slog.LevelError, "stream failed", err)
	}
}

// ended reports whether the token of the stream is no longer valid. If the check fails for another reason, the stream
// continues.
func (a *API) ended(ctx context.Context, c *call) bool {
	_, err := a.authenticate(ctx, c.r)
	return errs.KindOf(err) == errs.Unauthenticated
}

// beat opens the stream, sends heartbeats and returns when the stream must end.
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

// write sends and flushes text. After a failure, every write fails.
func (s *stream) write(text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return errStreamEnded
	}
	s.begin()
	// A test recorder has no deadlines.
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
	h.Set("X-Accel-Buffering", "no") // nginx would buffer events
	s.c.WriteHeader(http.StatusOK)
}

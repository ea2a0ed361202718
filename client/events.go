package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/api"
)

const (
	// The waits before a broken stream is opened again begin with firstReconnect and double up to maxReconnect.
	firstReconnect = 250 * time.Millisecond
	maxReconnect   = 15 * time.Second

	// maxIdle is the longest silence of a stream. A server sends data every 15 s.
	maxIdle = time.Minute

	maxEvent = 1 << 20
)

// Listener receives the events of a stream, one call at a time.
type Listener struct {
	// Open is called when the stream is open, and again after each break. Earlier events, and events during a break, may
	// be lost: load the present state here. Nil ignores it.
	Open func()

	// Event gets each event. Its Data is an api.CheckinStatus for checkin.marked, and a json.RawMessage for types that
	// this client does not know. An error ends the stream.
	Event func(api.Event) error
}

// Events passes the caller's events to fn. It returns when ctx ends, fn returns an error or the server refuses
// permanently. It opens a broken stream again. Events during a break may be lost; [Client.Listen] reports breaks.
func (c *Client) Events(ctx context.Context, fn func(api.Event) error) error {
	return c.Listen(ctx, Listener{Event: fn})
}

// Listen is Events for a [Listener].
func (c *Client) Listen(ctx context.Context, l Listener) error {
	s := stream{c: c, l: l, first: c.reconnect}
	wait := s.first
	for {
		err := s.run(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		e, refused := passing(err)
		if !errors.Is(err, ErrUnreachable) && !refused {
			return fmt.Errorf("GET /v1/events: %w", err)
		}
		if s.stood {
			wait, s.stood = s.first, false
		}
		pause := wait/2 + rand.N(wait/2)
		if refused {
			pause = max(pause, e.RetryAfter)
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
		wait = min(2*wait, maxReconnect)
	}
}

// stream is a stream of events over several connections.
type stream struct {
	c     *Client
	l     Listener
	first time.Duration // wait after a break; the server may set it
	stood bool          // the stream was open since the last wait
}

// run opens a connection and reads it until it ends.
func (s *stream) run(ctx context.Context) error {
	conn, hangUp := context.WithCancel(ctx)
	defer hangUp()
	silence := time.AfterFunc(s.c.idle, hangUp)
	defer silence.Stop()
	resp, err := s.open(ctx, conn)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	silence.Stop() // the caller may take any time
	s.stood = true
	if s.l.Open != nil {
		s.l.Open()
	}
	return s.read(ctx, resp.Body, silence)
}

// open opens the stream. It renews the tokens once if they have expired.
func (s *stream) open(ctx, conn context.Context) (*http.Response, error) {
	for renewed := false; ; renewed = true {
		call := call{method: http.MethodGet, path: "/v1/events"}
		req, err := s.c.request(conn, &call, nil)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Accept", "text/event-stream")
		req.Header.Set("Cache-Control", "no-store")
		resp, err := s.c.http.Do(req)
		if err != nil {
			return nil, unreachable(ctx, err)
		}
		if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); resp.StatusCode == http.StatusOK && kind == "text/event-stream" {
			return resp, nil
		}
		e := refusal(resp, time.Now())
		resp.Body.Close()
		if e.Status != http.StatusUnauthorized || renewed {
			return nil, e
		}
		switch ok, err := s.c.renew(ctx, call.bearer); {
		case err != nil:
			return nil, err
		case !ok:
			return nil, e
		}
	}
}

// read passes events on until the connection ends, and then returns ErrUnreachable. It starts the silence timer each
// time it waits for the server.
func (s *stream) read(ctx context.Context, body io.Reader, silence *time.Timer) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxEvent)
	var data strings.Builder
	next := func() bool {
		silence.Reset(s.c.idle)
		defer silence.Stop()
		return lines.Scan()
	}
	for next() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "": // the end of an event, or a comment that keeps the connection alive
			if lines.Text() != "" || data.Len() == 0 {
				continue
			}
			e, err := event(data.String())
			if err != nil {
				return err
			}
			data.Reset()
			if err := s.l.Event(e); err != nil {
				return err
			}
		case "data":
			if data.Len() > 0 {
				data.WriteByte('\n')
			}
			if data.Len()+len(value) > maxEvent {
				return fmt.Errorf("an event of more than %d bytes", maxEvent)
			}
			data.WriteString(value)
		case "retry":
			if ms, err := strconv.ParseUint(value, 10, 31); err == nil && ms > 0 {
				s.first = min(time.Duration(ms)*time.Millisecond, maxReconnect)
			}
		}
	}
	err := lines.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("an event of more than %d bytes", maxEvent)
	}
	if err == nil {
		err = io.EOF
	}
	return unreachable(ctx, err)
}

// event decodes an event, with its data in the type for it.
func event(text string) (e api.Event, err error) {
	var data json.RawMessage
	e.Data = &data
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		return e, fmt.Errorf("an event is not understood: %w", err)
	}
	e.Data = data
	if e.Type == "checkin.marked" {
		var status api.CheckinStatus
		if err := json.Unmarshal(data, &status); err != nil {
			return e, fmt.Errorf("an event is not understood: %w", err)
		}
		e.Data = status
	}
	return e, nil
}

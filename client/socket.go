package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/centrifugal/protocol"
	"github.com/coder/websocket"

	"github.com/stoa-dev/stoa/api"
)

// ErrClosed reports a call over a [Socket] whose Run has ended.
var ErrClosed = errors.New("the socket is closed")

const (
	helloTime    = 15 * time.Second // bounds the opening of a connection
	refreshPart  = 10               // a token is renewed when this part of its lifetime is left
	tokenGone    = 109              // code of an expired token in the library's protocol
	tokenInvalid = 3500             // close code for a missing token, or one of another session
)

// SocketListener receives the events of a socket, one call at a time. A nil function ignores them. While a function
// runs, the socket reads nothing: the function must not wait for a [Socket.Call].
type SocketListener struct {
	// Open is called when the connection is open, and again after each break. If resumed, every event since the last one
	// is delivered, in order. Otherwise some may be lost: load the present state here.
	Open func(resumed bool)

	// Event gets each event of the caller's personal channel, with Data as for [Client.Listen].
	Event func(api.Event)

	// Closed is called after an open connection has broken.
	Closed func(error)
}

// Socket is a connection that delivers events and calls operations. It connects again after each break. It uses the
// JSON form of centrifuge's protocol.
type Socket struct {
	c *Client
	l SocketListener

	mu      sync.Mutex
	link    *link         // nil without a connection
	ready   chan struct{} // closed while there is a connection
	ended   error
	watches map[string]*watch // by channel

	channel string // the personal channel, as the server has named it
	epoch   string // of the last event
	offset  uint64
	known   bool // there was a connection before
	login   int  // of the latest connection
	silent  time.Duration
}

// Socket returns a socket; [Socket.Run] opens it.
func (c *Client) Socket(l SocketListener) *Socket {
	return &Socket{c: c, l: l, ready: make(chan struct{}), watches: map[string]*watch{}}
}

// link is one connection.
type link struct {
	conn  *websocket.Conn
	login int               // the log-in of the connection
	early []*protocol.Reply // unread replies from the frame of the connect reply
	write chan struct{}     // held while a frame is written
	gone  chan struct{}     // closed when the connection ends

	mu    sync.Mutex
	next  uint32
	calls map[uint32]func(*protocol.Reply) // functions that the reader calls with the replies
}

// Run keeps the socket open until ctx ends or the server refuses permanently, and returns the reason.
func (s *Socket) Run(ctx context.Context) (err error) {
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended = fmt.Errorf("%w: %w", ErrClosed, err)
		select {
		case <-s.ready:
		default:
			close(s.ready)
		}
	}()
	return s.keep(ctx, s.l.Closed, s.once)
}

// keep calls once repeatedly. The pauses double until a connection has succeeded. If closed is not nil, it is called
// after the end of each successful connection. keep returns when ctx ends, or with an error that is neither
// ErrUnreachable nor a temporary refusal.
func (s *Socket) keep(ctx context.Context, closed func(error), once func(context.Context) (stood bool, err error)) error {
	wait := s.c.reconnect
	for {
		stood, err := once(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if stood {
			wait = s.c.reconnect
			if closed != nil {
				closed(err)
			}
		}
		e, refused := passing(err)
		if !errors.Is(err, ErrUnreachable) && !refused {
			return err
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

// once opens a connection and serves it until it ends. An error that is neither ErrUnreachable nor a temporary refusal
// is permanent.
func (s *Socket) once(ctx context.Context) (stood bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l, hello, err := s.open(ctx)
	if err != nil {
		return false, err
	}
	defer l.conn.CloseNow()
	failed := make(chan error, 1)
	var renewing sync.WaitGroup
	defer renewing.Wait()
	defer cancel()
	if hello.Expires {
		renewing.Go(func() {
			if err := s.keepToken(ctx, l, time.Duration(hello.Ttl)*time.Second); err != nil {
				failed <- err
				cancel()
			}
		})
	}
	s.begin(l, hello)
	err = s.read(ctx, l)
	s.mu.Lock()
	s.link, s.ready = nil, make(chan struct{})
	s.mu.Unlock()
	close(l.gone)
	select {
	case why := <-failed:
		return true, why
	default:
	}
	switch code := websocket.CloseStatus(err); {
	case code == api.SocketSessionEnded:
		s.c.replaceTokens(l.login, api.Tokens{})
		return true, fmt.Errorf("the device was logged out: %w", err)
	case permanent(code):
		return true, err
	}
	return true, fmt.Errorf("%w: %w", ErrUnreachable, err)
}

// open connects, and renews the token once if it has expired.
func (s *Socket) open(ctx context.Context) (*link, *protocol.ConnectResult, error) {
	ctx, cancel := within(ctx, helloTime)
	defer cancel()
	for renewed := false; ; renewed = true {
		t, login := s.c.session()
		if login != s.login {
			s.login, s.known = login, false // events that an earlier log-in missed are not for this one
		}
		l, reply, err := s.dial(ctx, t.AccessToken)
		switch {
		case err != nil:
			return nil, nil, err
		case reply.Error == nil && reply.Connect != nil:
			l.login = login
			return l, reply.Connect, nil
		}
		l.conn.CloseNow()
		switch {
		case reply.Error == nil || reply.Error.Temporary:
			return nil, nil, fmt.Errorf("%w: %v", ErrUnreachable, reply.Error)
		case reply.Error.Code == tokenGone && !renewed:
			ok, err := s.c.renew(ctx, t.AccessToken)
			if err != nil {
				return nil, nil, err
			}
			if ok {
				continue
			}
		}
		return nil, nil, &Error{Status: http.StatusUnauthorized, Code: "auth.token_invalid", Detail: reply.Error.Message}
	}
}

func (s *Socket) dial(ctx context.Context, token string) (*link, *protocol.Reply, error) {
	u := *s.c.base
	u.Path = strings.TrimSuffix(u.Path, "/") + "/v1/socket"
	conn, resp, err := websocket.Dial(ctx, u.String(), &websocket.DialOptions{HTTPClient: s.c.http})
	if err != nil {
		if resp != nil && resp.StatusCode >= 400 && resp.StatusCode < 500 && resp.StatusCode != http.StatusTooManyRequests {
			return nil, nil, refusal(resp, time.Now())
		}
		return nil, nil, unreachable(ctx, err)
	}
	conn.SetReadLimit(maxEvent)
	l := &link{conn: conn, write: make(chan struct{}, 1), gone: make(chan struct{}), next: 1, calls: map[uint32]func(*protocol.Reply){}}
	req := &protocol.ConnectRequest{Token: token, Name: "stoa-go"}
	if s.known {
		req.Subs = map[string]*protocol.SubscribeRequest{s.channel: {Recover: true, Epoch: s.epoch, Offset: s.offset}}
	}
	if err = l.send(ctx, &protocol.Command{Id: 1, Connect: req}); err == nil {
		var replies []*protocol.Reply
		if replies, err = l.receive(ctx); err == nil && len(replies) > 0 {
			l.early = replies[1:]
			return l, replies[0], nil
		}
	}
	conn.CloseNow()
	var closed websocket.CloseError
	switch {
	case err == nil:
		err = errors.New("an empty frame")
	case errors.As(err, &closed) && closed.Code == tokenInvalid:
		return nil, nil, &Error{Status: http.StatusUnauthorized, Code: "auth.token_invalid", Detail: closed.Reason}
	case permanent(closed.Code):
		return nil, nil, err
	}
	return nil, nil, unreachable(ctx, err)
}

// permanent reports whether a client stays disconnected after a close with that code.
func permanent(code websocket.StatusCode) bool {
	return code >= 3500 && code < 4000 || code >= 4500 && code < 5000
}

func (l *link) send(ctx context.Context, cmd *protocol.Command) error {
	frame, err := json.Marshal(cmd)
	if err != nil {
		return err
	}
	return l.sendFrame(ctx, frame)
}

func (l *link) sendFrame(ctx context.Context, frame []byte) error {
	select {
	case l.write <- struct{}{}:
		defer func() { <-l.write }()
	case <-ctx.Done():
		return ended(ctx)
	}
	// A context that ends during a write would break the connection.
	ctx, cancel := within(context.WithoutCancel(ctx), helloTime)
	defer cancel()
	return l.conn.Write(ctx, websocket.MessageText, frame)
}

// receive reads one frame, which has one or more replies.
func (l *link) receive(ctx context.Context) ([]*protocol.Reply, error) {
	if early := l.early; len(early) > 0 {
		l.early = nil
		return early, nil
	}
	_, frame, err := l.conn.Read(ctx)
	if err != nil {
		return nil, err
	}
	var replies []*protocol.Reply
	for d := json.NewDecoder(bytes.NewReader(frame)); d.More(); {
		reply := &protocol.Reply{}
		if err := d.Decode(reply); err != nil {
			return nil, fmt.Errorf("a frame is not understood: %w", err)
		}
		replies = append(replies, reply)
	}
	return replies, nil
}

// begin makes link the connection of the socket, and passes missed events on.
func (s *Socket) begin(l *link, hello *protocol.ConnectResult) {
	resumed := s.known
	for channel, sub := range hello.Subs { // the personal channel is the only one
		resumed = resumed && sub.Recovered
		if s.l.Open != nil {
			s.l.Open(resumed)
		}
		for _, pub := range sub.Publications {
			s.own(pub)
		}
		s.channel, s.known, s.epoch, s.offset = channel, sub.Recoverable, sub.Epoch, sub.Offset
	}
	s.silent = 0
	if hello.Ping > 0 {
		s.silent = time.Duration(hello.Ping)*time.Second + 10*time.Second
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.link = l
	close(s.ready)
}

// own passes on an event of the caller's personal channel.
func (s *Socket) own(pub *protocol.Publication) {
	if pub.Offset > 0 {
		s.offset = pub.Offset
	}
	s.l.hand(pub)
}

func (l *SocketListener) hand(pub *protocol.Publication) {
	e, err := event(string(pub.Data))
	if err == nil && l.Event != nil {
		l.Event(e)
	}
}

// read handles replies until the connection ends.
func (s *Socket) read(ctx context.Context, l *link) error {
	for {
		reading, cancel := ctx, context.CancelFunc(func() {})
		if s.silent > 0 {
			reading, cancel = within(ctx, s.silent)
		}
		replies, err := l.receive(reading)
		cancel()
		if err != nil {
			return err
		}
		for _, reply := range replies {
			switch {
			case reply.Id != 0:
				l.answered(reply)
			case reply.Push == nil: // a ping
				if err := l.sendFrame(ctx, []byte("{}")); err != nil {
					return err
				}
			case reply.Push.Channel != s.channel:
				s.pushed(reply.Push)
			case reply.Push.Pub != nil:
				s.own(reply.Push.Pub)
			}
		}
	}
}

func (l *link) answered(reply *protocol.Reply) {
	l.mu.Lock()
	answer := l.calls[reply.Id]
	delete(l.calls, reply.Id)
	l.mu.Unlock()
	if answer != nil {
		answer(reply)
	}
}

// ask sends a command and waits for the reply.
func (l *link) ask(ctx context.Context, cmd *protocol.Command) (*protocol.Reply, error) {
	waiting := make(chan *protocol.Reply, 1)
	forget, err := l.begin(ctx, cmd, func(reply *protocol.Reply) { waiting <- reply })
	defer forget()
	if err != nil {
		return nil, unreachable(ctx, err)
	}
	select {
	case reply := <-waiting:
		return reply, nil
	case <-l.gone:
		return nil, fmt.Errorf("%w: the connection broke before the answer", ErrUnreachable)
	case <-ctx.Done():
		return nil, ended(ctx)
	}
}

// begin sends a command. The reader calls answer with the reply, unless forget is called before.
func (l *link) begin(ctx context.Context, cmd *protocol.Command, answer func(*protocol.Reply)) (forget func(), err error) {
	l.mu.Lock()
	l.next++
	cmd.Id = l.next
	l.calls[cmd.Id] = answer
	l.mu.Unlock()
	forget = func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.calls, cmd.Id)
	}
	return forget, l.send(ctx, cmd)
}

// keepToken renews the token before it expires, as long as the connection is open.
func (s *Socket) keepToken(ctx context.Context, l *link, life time.Duration) error {
	for {
		if sleep(ctx, life-life/refreshPart) != nil {
			return nil
		}
		t, login := s.c.session()
		if login != l.login {
			return fmt.Errorf("%w: somebody has logged in anew", ErrUnreachable)
		}
		if _, err := s.c.renew(ctx, t.AccessToken); err != nil {
			if _, refused := passing(err); refused || errors.Is(err, ErrUnreachable) {
				life = max(life/refreshPart, time.Second)
				continue
			}
			return err
		}
		reply, err := l.ask(ctx, &protocol.Command{Refresh: &protocol.RefreshRequest{Token: s.c.Tokens().AccessToken}})
		if err != nil || reply.Error != nil || reply.Refresh == nil {
			return fmt.Errorf("%w: the token was not taken", ErrUnreachable)
		}
		life = time.Duration(reply.Refresh.Ttl) * time.Second
	}
}

// Call calls an operation by its id in the API's description. It decodes the body of the response into out, unless out
// is nil. It waits for an open connection. After [ErrUnreachable] the outcome is unknown. With the same Key, the
// operation runs once for any number of calls.
func (s *Socket) Call(ctx context.Context, operation string, in api.SocketCall, out any) error {
	_, login := s.c.session()
	data, err := json.Marshal(in)
	if err != nil {
		return err
	}
	l, err := s.connected(ctx)
	for err == nil && l.login != login {
		if _, now := s.c.session(); now != login {
			return fmt.Errorf("%s: %w", operation, errLoggedOut)
		}
		_ = l.conn.CloseNow() // the log-in of this connection is over: Run opens another one
		select {
		case <-l.gone:
			l, err = s.connected(ctx)
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil {
		return err
	}
	reply, err := l.ask(ctx, &protocol.Command{Rpc: &protocol.RPCRequest{Method: operation, Data: data}})
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", operation, err)
	case reply.Error != nil:
		return fmt.Errorf("%s: %w", operation, socketError(reply.Error))
	case out == nil || reply.Rpc == nil:
		return nil
	}
	if err := json.Unmarshal(reply.Rpc.Data, out); err != nil {
		return fmt.Errorf("%s: the answer is not understood: %w", operation, err)
	}
	return nil
}

// connected waits for a connection and returns it.
func (s *Socket) connected(ctx context.Context) (*link, error) {
	for {
		s.mu.Lock()
		l, ready, ended := s.link, s.ready, s.ended
		s.mu.Unlock()
		switch {
		case ended != nil:
			return nil, ended
		case l != nil:
			return l, nil
		}
		select {
		case <-ready:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// socketError converts a refusal to the form of HTTP. The message has the code before its first colon, and the retry
// delay at its end.
func socketError(e *protocol.Error) *Error {
	code, detail, _ := strings.Cut(e.Message, ": ")
	_, after, _ := strings.Cut(detail, "Retry after ")
	return &Error{Status: int(e.Code), Code: code, Detail: detail, RetryAfter: retryAfter(strings.TrimSuffix(after, " s."), time.Now())}
}

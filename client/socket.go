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
	handshakeTimeout = 15 * time.Second // bounds the opening of a connection, and the sending of a frame
	refreshPart      = 10               // a token is renewed when this part of its lifetime is left

	tokenExpired      = 109  // error code of the protocol
	closeTokenInvalid = 3500 // the token is missing, or belongs to another session
	closeStale        = 3502 // the connect command did not arrive in time
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

	mu        sync.Mutex
	conn      *connection   // nil without a connection
	connected chan struct{} // closed while there is a connection
	ended     error
	watches   map[string]*watch // by channel

	// The fields below belong to Run.
	channel    string // the personal channel, as the server has named it
	epoch      string // of the last event
	offset     uint64
	resumable  bool // a connection of this log-in had a position in the channel
	login      int  // of the latest connection
	maxSilence time.Duration
}

// Socket returns a socket; [Socket.Run] opens it.
func (c *Client) Socket(l SocketListener) *Socket {
	return &Socket{c: c, l: l, connected: make(chan struct{}), watches: map[string]*watch{}}
}

// connection is one WebSocket.
type connection struct {
	ws      *websocket.Conn
	login   int           // the log-in of the connection
	frame   *json.Decoder // of the last frame, which has one or more replies
	writing chan struct{} // has a value while a frame is written
	closed  chan struct{} // closed when the connection ends

	mu     sync.Mutex
	lastID uint32
	calls  map[uint32]func(*protocol.Reply) // functions that the reader calls with the replies
}

// Run keeps the socket open until ctx ends or the server refuses permanently, and returns the reason.
func (s *Socket) Run(ctx context.Context) (err error) {
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended = fmt.Errorf("%w: %w", ErrClosed, err)
		select {
		case <-s.connected:
		default:
			close(s.connected)
		}
	}()
	return s.retry(ctx, s.l.Closed, s.runOnce)
}

// retry calls once repeatedly. The pauses double until a connection or subscription has opened. If closed is not nil, it
// is called after the end of each one that has opened. retry returns when ctx ends, or with an error that is neither
// ErrUnreachable nor a temporary refusal.
func (s *Socket) retry(ctx context.Context, closed func(error), once func(context.Context) (opened bool, err error)) error {
	wait := s.c.reconnect
	for {
		opened, err := once(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if opened {
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

// runOnce opens a connection and serves it until it ends. An error that is neither ErrUnreachable nor a temporary
// refusal is permanent.
func (s *Socket) runOnce(ctx context.Context) (opened bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	conn, hello, err := s.open(ctx)
	if err != nil {
		return false, err
	}
	defer conn.ws.CloseNow()
	var renewing sync.WaitGroup
	defer renewing.Wait()
	defer cancel(nil)
	if hello.Expires {
		renewing.Go(func() { cancel(s.renewTokens(ctx, conn, time.Duration(hello.Ttl)*time.Second)) })
	}
	s.use(conn, hello)
	err = s.read(ctx, conn)
	s.mu.Lock()
	s.conn, s.connected = nil, make(chan struct{})
	s.mu.Unlock()
	close(conn.closed)
	if why := context.Cause(ctx); why != nil { // the tokens could not be renewed
		return true, why
	}
	return true, s.closeError(ctx, conn, err)
}

// open connects, and renews the token once if it has expired.
func (s *Socket) open(ctx context.Context) (*connection, *protocol.ConnectResult, error) {
	ctx, cancel := within(ctx, handshakeTimeout)
	defer cancel()
	for renewed := false; ; renewed = true {
		t, login := s.c.session()
		if login != s.login {
			s.login, s.resumable = login, false // events that an earlier log-in missed are not for this one
		}
		conn, err := s.dial(ctx)
		if err != nil {
			return nil, nil, err
		}
		conn.login = login
		reply, err := s.connect(ctx, conn, t.AccessToken)
		if err == nil && reply.Error == nil && reply.Connect != nil {
			return conn, reply.Connect, nil
		}
		conn.ws.CloseNow()
		switch {
		case err != nil:
			return nil, nil, s.closeError(ctx, conn, err)
		case reply.Error == nil || reply.Error.Temporary:
			return nil, nil, fmt.Errorf("%w: %v", ErrUnreachable, reply.Error)
		case reply.Error.Code == tokenExpired && !renewed:
			ok, err := s.c.renew(ctx, t.AccessToken)
			if err != nil {
				return nil, nil, err
			}
			if ok {
				continue
			}
		}
		return nil, nil, tokenInvalid(reply.Error.Message)
	}
}

// dial opens a WebSocket.
func (s *Socket) dial(ctx context.Context) (*connection, error) {
	u := *s.c.base
	u.Path = strings.TrimSuffix(u.Path, "/") + "/v1/socket"
	ws, resp, err := websocket.Dial(ctx, u.String(), &websocket.DialOptions{HTTPClient: s.c.http})
	switch {
	case err == nil:
		ws.SetReadLimit(maxEvent)
		return &connection{ws: ws, writing: make(chan struct{}, 1), closed: make(chan struct{}), calls: map[uint32]func(*protocol.Reply){}}, nil
	case resp != nil && resp.StatusCode >= 400:
		return nil, refusal(resp, time.Now())
	}
	return nil, unreachable(ctx, err)
}

// connect sends the token and the position of a new connection, and returns the reply.
func (s *Socket) connect(ctx context.Context, conn *connection, token string) (*protocol.Reply, error) {
	req := &protocol.ConnectRequest{Token: token, Name: "stoa-go"}
	if s.resumable {
		req.Subs = map[string]*protocol.SubscribeRequest{s.channel: {Recover: true, Epoch: s.epoch, Offset: s.offset}}
	}
	conn.lastID = 1
	if err := conn.send(ctx, &protocol.Command{Id: 1, Connect: req}); err != nil {
		return nil, err
	}
	return conn.next(ctx)
}

// closeError returns the error of a connection that has ended with err: ErrUnreachable if the socket connects again.
func (s *Socket) closeError(ctx context.Context, conn *connection, err error) error {
	closed, _ := errors.AsType[websocket.CloseError](err)
	switch {
	case closed.Code == closeTokenInvalid:
		return tokenInvalid(closed.Reason)
	case closed.Code == api.SocketSessionEnded:
		s.c.replaceTokens(conn.login, api.Tokens{})
		return fmt.Errorf("the device was logged out: %w", err)
	case permanent(closed.Code):
		return err
	}
	return unreachable(ctx, err)
}

func tokenInvalid(detail string) *Error {
	return &Error{Status: http.StatusUnauthorized, Code: "auth.token_invalid", Detail: detail}
}

// permanent reports whether a client stays disconnected after a close with that code. In the protocol, closeStale is
// permanent as well. But it only reports that the connect command was late, as after a pause of the device.
func permanent(code websocket.StatusCode) bool {
	return code >= 3500 && code < 4000 && code != closeStale || code >= 4500 && code < 5000
}

func (c *connection) send(ctx context.Context, cmd *protocol.Command) error {
	frame, err := json.Marshal(cmd)
	if err != nil {
		return err
	}
	return c.sendFrame(ctx, frame)
}

func (c *connection) sendFrame(ctx context.Context, frame []byte) error {
	select {
	case c.writing <- struct{}{}:
		defer func() { <-c.writing }()
	case <-ctx.Done():
		return ended(ctx)
	}
	// A context that ends during a write would break the connection.
	ctx, cancel := within(context.WithoutCancel(ctx), handshakeTimeout)
	defer cancel()
	return c.ws.Write(ctx, websocket.MessageText, frame)
}

// next returns the next reply.
func (c *connection) next(ctx context.Context) (*protocol.Reply, error) {
	for c.frame == nil || !c.frame.More() {
		_, frame, err := c.ws.Read(ctx)
		if err != nil {
			return nil, err
		}
		c.frame = json.NewDecoder(bytes.NewReader(frame))
	}
	reply := &protocol.Reply{}
	if err := c.frame.Decode(reply); err != nil {
		return nil, fmt.Errorf("a frame is not understood: %w", err)
	}
	return reply, nil
}

// use makes conn the connection of the socket, and delivers missed events.
func (s *Socket) use(conn *connection, hello *protocol.ConnectResult) {
	resumed := s.resumable
	for channel, sub := range hello.Subs { // the personal channel is the only one
		resumed = resumed && sub.Recovered
		if s.l.Open != nil {
			s.l.Open(resumed)
		}
		for _, pub := range sub.Publications {
			s.l.deliver(pub)
		}
		s.channel, s.resumable, s.epoch, s.offset = channel, sub.Recoverable, sub.Epoch, sub.Offset
		if n := len(sub.Publications); n > 0 {
			s.offset = sub.Publications[n-1].Offset
		}
	}
	s.maxSilence = 0
	if hello.Ping > 0 {
		s.maxSilence = time.Duration(hello.Ping)*time.Second + 10*time.Second
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn = conn
	close(s.connected)
}

// deliver calls Event with an event.
func (l *SocketListener) deliver(pub *protocol.Publication) {
	e, err := event(string(pub.Data))
	if err == nil && l.Event != nil {
		l.Event(e)
	}
}

// read handles replies until the connection ends.
func (s *Socket) read(ctx context.Context, conn *connection) error {
	for {
		reading, cancel := ctx, context.CancelFunc(func() {})
		if s.maxSilence > 0 {
			reading, cancel = within(ctx, s.maxSilence)
		}
		reply, err := conn.next(reading)
		cancel()
		switch {
		case err != nil:
			return err
		case reply.Id != 0:
			conn.handleReply(reply)
		case reply.Push == nil: // a ping
			if err := conn.sendFrame(ctx, []byte("{}")); err != nil {
				return err
			}
		case reply.Push.Channel != s.channel:
			s.handlePush(reply.Push)
		case reply.Push.Pub != nil:
			if offset := reply.Push.Pub.Offset; offset > 0 {
				s.offset = offset
			}
			s.l.deliver(reply.Push.Pub)
		}
	}
}

func (c *connection) handleReply(reply *protocol.Reply) {
	c.mu.Lock()
	handle := c.calls[reply.Id]
	delete(c.calls, reply.Id)
	c.mu.Unlock()
	if handle != nil {
		handle(reply)
	}
}

// call sends a command and waits for the reply.
func (c *connection) call(ctx context.Context, cmd *protocol.Command) (*protocol.Reply, error) {
	replies := make(chan *protocol.Reply, 1)
	cancel, err := c.start(ctx, cmd, func(reply *protocol.Reply) { replies <- reply })
	defer cancel()
	if err != nil {
		return nil, unreachable(ctx, err)
	}
	select {
	case reply := <-replies:
		return reply, nil
	case <-c.closed:
		return nil, fmt.Errorf("%w: the connection broke before the answer", ErrUnreachable)
	case <-ctx.Done():
		return nil, ended(ctx)
	}
}

// start sends a command. The reader calls handle with the reply, unless cancel is called before.
func (c *connection) start(ctx context.Context, cmd *protocol.Command, handle func(*protocol.Reply)) (cancel func(), err error) {
	c.mu.Lock()
	c.lastID++
	cmd.Id = c.lastID
	c.calls[cmd.Id] = handle
	c.mu.Unlock()
	cancel = func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.calls, cmd.Id)
	}
	return cancel, c.send(ctx, cmd)
}

// renewTokens renews the tokens before they expire, as long as the connection is open.
func (s *Socket) renewTokens(ctx context.Context, conn *connection, life time.Duration) error {
	for {
		if err := sleep(ctx, life-life/refreshPart); err != nil {
			return err
		}
		t, login := s.c.session()
		if login != conn.login {
			return fmt.Errorf("%w: the log-in of the connection is over", ErrUnreachable)
		}
		if _, err := s.c.renew(ctx, t.AccessToken); err != nil {
			if _, refused := passing(err); refused || errors.Is(err, ErrUnreachable) {
				life = max(life/refreshPart, time.Second)
				continue
			}
			return err
		}
		reply, err := conn.call(ctx, &protocol.Command{Refresh: &protocol.RefreshRequest{Token: s.c.Tokens().AccessToken}})
		if err != nil || reply.Error != nil || reply.Refresh == nil {
			return fmt.Errorf("%w: the new token was refused", ErrUnreachable)
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
	conn, err := s.connection(ctx)
	for err == nil && conn.login != login {
		if _, now := s.c.session(); now != login {
			return fmt.Errorf("%s: %w", operation, errLoggedOut)
		}
		_ = conn.ws.CloseNow() // the log-in of this connection is over: Run opens another one
		select {
		case <-conn.closed:
			conn, err = s.connection(ctx)
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil {
		return err
	}
	reply, err := conn.call(ctx, &protocol.Command{Rpc: &protocol.RPCRequest{Method: operation, Data: data}})
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

// connection waits for a connection and returns it.
func (s *Socket) connection(ctx context.Context) (*connection, error) {
	for {
		s.mu.Lock()
		conn, connected, ended := s.conn, s.connected, s.ended
		s.mu.Unlock()
		switch {
		case ended != nil:
			return nil, ended
		case conn != nil:
			return conn, nil
		}
		select {
		case <-connected:
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

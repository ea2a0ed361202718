package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

// socket is a minimal client: one call at a time, and a function for events.
type socket struct {
	conn    *websocket.Conn
	writing sync.Mutex
	replies chan reply
	next    int
	event   func(data []byte)
	epoch   string
	offset  atomic.Uint64
	gone    chan struct{} // closed when it has ended, with the reason in by
	end     error
}

type reply struct {
	ID    int
	Error *struct {
		Code    int
		Message string
	}
	Connect *struct {
		Subs map[string]struct {
			Epoch        string
			Offset       uint64
			Recovered    bool
			Publications []publication
		}
	}
	RPC       *struct{ Data json.RawMessage }
	Subscribe *struct{}
	Push      *struct{ Pub *publication }
}

type publication struct {
	Data   json.RawMessage
	Offset uint64
}

// place is the position of a client when it disconnected.
type place struct {
	epoch  string
	offset uint64
}

// connect opens a socket of p. from is its earlier position, or nil. recovered reports whether it got all events since
// then. event, which may be nil, is called with these first.
func connect(ctx context.Context, addr string, p person, from *place, event func(data []byte)) (s *socket, recovered bool, err error) {
	conn, _, err := websocket.Dial(ctx, "ws://"+addr+"/v1/socket", nil) //nolint:bodyclose // closed by Dial
	if err != nil {
		return nil, false, err
	}
	conn.SetReadLimit(-1)
	s = &socket{conn: conn, replies: make(chan reply, 1), next: 1, event: event, gone: make(chan struct{})}
	subs := ""
	if from != nil {
		subs = fmt.Sprintf(`,"subs":{%q:{"recover":true,"epoch":%q,"offset":%d}}`, p.id, from.epoch, from.offset)
	}
	if err := conn.Write(ctx, websocket.MessageText, []byte(`{"id":1,"connect":{"token":"`+p.token+`"`+subs+`}}`)); err != nil {
		return nil, false, err
	}
	_, frame, err := conn.Read(ctx)
	if err != nil {
		return nil, false, err
	}
	first, rest, _ := strings.Cut(string(frame), "\n")
	var hello reply
	if err := json.Unmarshal([]byte(first), &hello); err != nil {
		return nil, false, err
	}
	if hello.Error != nil || hello.Connect == nil {
		return nil, false, fmt.Errorf("refused: %s", first)
	}
	for _, sub := range hello.Connect.Subs {
		s.epoch, recovered = sub.Epoch, sub.Recovered
		s.offset.Store(sub.Offset)
		for _, pub := range sub.Publications {
			s.hand(pub)
		}
	}
	go s.read(context.WithoutCancel(ctx), rest)
	return s, recovered, nil
}

func (s *socket) hand(pub publication) {
	if pub.Offset > 0 {
		s.offset.Store(pub.Offset)
	}
	if s.event != nil {
		s.event(pub.Data)
	}
}

func (s *socket) read(ctx context.Context, frame string) {
	defer close(s.gone)
	for {
		for line := range strings.Lines(frame) {
			if line = strings.TrimSpace(line); line == "{}" {
				_ = s.write(ctx, "{}") // the end of the connection shows below
				continue
			}
			var r reply
			if json.Unmarshal([]byte(line), &r) != nil {
				continue
			}
			switch {
			case r.ID != 0:
				s.replies <- r
			case r.Push != nil && r.Push.Pub != nil:
				s.hand(*r.Push.Pub)
			}
		}
		_, next, err := s.conn.Read(ctx)
		if err != nil {
			s.end = err
			return
		}
		frame = string(next)
	}
}

func (s *socket) write(ctx context.Context, frame string) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.conn.Write(ctx, websocket.MessageText, []byte(frame))
}

// call calls an operation and waits for its response.
func (s *socket) call(ctx context.Context, method, data string) (json.RawMessage, error) {
	r, err := s.ask(ctx, fmt.Sprintf(`"rpc":{"method":%q,"data":%s}`, method, data))
	if err != nil || r.RPC == nil {
		return nil, fmt.Errorf("%s: %w", method, cmp.Or(err, errNoAnswer))
	}
	return r.RPC.Data, nil
}

// subscribe subscribes to a channel.
func (s *socket) subscribe(ctx context.Context, channel string) error {
	r, err := s.ask(ctx, fmt.Sprintf(`"subscribe":{"channel":%q}`, channel))
	if err != nil || r.Subscribe == nil {
		return fmt.Errorf("subscribe %s: %w", channel, cmp.Or(err, errNoAnswer))
	}
	return nil
}

var errNoAnswer = errors.New("the answer is to something else")

// ask sends a command, as JSON without its id and braces, and waits for the reply.
func (s *socket) ask(ctx context.Context, command string) (reply, error) {
	s.next++
	if err := s.write(ctx, fmt.Sprintf(`{"id":%d,%s}`, s.next, command)); err != nil {
		return reply{}, err
	}
	select {
	case r := <-s.replies:
		if r.Error != nil {
			return r, fmt.Errorf("%d %s", r.Error.Code, r.Error.Message)
		}
		return r, nil
	case <-s.gone:
		return reply{}, fmt.Errorf("the socket has ended: %w", s.end)
	case <-ctx.Done():
		return reply{}, ctx.Err()
	}
}

func (s *socket) close() {
	_ = s.conn.CloseNow()
	<-s.gone
}

func (s *socket) place() *place { return &place{s.epoch, s.offset.Load()} }

// atOnce is the number of clients that connect at the same time.
const atOnce = 64

// each calls do for 0 to n-1, atOnce of them at a time. It returns the duration and the errors.
func each(n int, do func(i int) error) (took time.Duration, err error) {
	var all sync.WaitGroup
	var next atomic.Int64
	faults := make([]error, atOnce)
	began := time.Now()
	for w := range atOnce {
		all.Go(func() {
			for i := int(next.Add(1) - 1); i < n && faults[w] == nil; i = int(next.Add(1) - 1) {
				faults[w] = do(i)
			}
		})
	}
	all.Wait()
	return time.Since(began), errors.Join(faults...)
}

// over reports whether the socket has ended.
func (s *socket) over() bool {
	select {
	case <-s.gone:
		return true
	default:
		return false
	}
}

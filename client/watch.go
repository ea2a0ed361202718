package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/centrifugal/protocol"
)

// ErrChannel reports that the caller may not subscribe to a channel. The caller may have been removed, or its
// room or group may have ended.
var ErrChannel = errors.New("the channel is not open to the caller")

// unsubscribedForNow is the smallest code of an ended subscription that the client renews.
const unsubscribedForNow = 2500

// watch is a channel that a caller watches.
type watch struct {
	l     SocketListener
	ended chan error // of the current subscription; guarded by the socket's lock
}

// end stores the first reason.
func end(ended chan<- error, why error) {
	select {
	case ended <- why:
	default:
	}
}

// Watch passes on the events of a shared channel, such as api.RoomChannel. When ctx ends, it unsubscribes and returns.
// It returns [ErrChannel] if the server refuses permanently. Watch subscribes again after each break, and whenever the
// server reports that events may be missing. The server does not store these events. Open is therefore always called
// with false, and the caller loads the present state there. Calls of l do not overlap.
func (s *Socket) Watch(ctx context.Context, channel string, l SocketListener) error {
	w := &watch{l: l}
	s.mu.Lock()
	if s.watches[channel] != nil {
		s.mu.Unlock()
		return fmt.Errorf("channel %q is watched already", channel)
	}
	s.watches[channel] = w
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watches, channel)
	}()
	return s.retry(ctx, l.Closed, func(ctx context.Context) (bool, error) { return s.watchOnce(ctx, channel, w) })
}

// watchOnce subscribes and waits until the subscription ends. Any error except ErrUnreachable is permanent.
func (s *Socket) watchOnce(ctx context.Context, channel string, w *watch) (opened bool, err error) {
	conn, err := s.connection(ctx)
	if err != nil {
		return false, err
	}
	subscribed, ended := make(chan struct{}), make(chan error, 1)
	s.mu.Lock()
	w.ended = ended
	s.mu.Unlock()
	cancel, err := conn.start(ctx, &protocol.Command{Subscribe: &protocol.SubscribeRequest{Channel: channel}}, func(reply *protocol.Reply) {
		switch {
		case reply.Error == nil:
			close(subscribed)
			if w.l.Open != nil {
				w.l.Open(false)
			}
		case reply.Error.Temporary:
			end(ended, fmt.Errorf("%w: %s", ErrUnreachable, reply.Error.Message))
		default:
			end(ended, fmt.Errorf("%w: %s", ErrChannel, reply.Error.Message))
		}
	})
	defer cancel()
	if err != nil {
		return false, unreachable(ctx, err)
	}
	select {
	case err = <-ended:
	case <-conn.closed:
		err = fmt.Errorf("%w: the connection broke", ErrUnreachable)
	case <-ctx.Done():
		leaving, cancel := within(context.WithoutCancel(ctx), handshakeTimeout)
		defer cancel()
		_, _ = conn.call(leaving, &protocol.Command{Unsubscribe: &protocol.UnsubscribeRequest{Channel: channel}}) // the connection may be closed
		err = ctx.Err()
	}
	select {
	case <-subscribed:
		return true, err
	default:
		return false, err
	}
}

// handlePush delivers an event of a watched channel, or ends its subscription.
func (s *Socket) handlePush(push *protocol.Push) {
	s.mu.Lock()
	w := s.watches[push.Channel]
	var ended chan error
	if w != nil {
		ended = w.ended
	}
	s.mu.Unlock()
	switch {
	case w == nil:
	case push.Pub != nil:
		w.l.deliver(push.Pub)
	case push.Unsubscribe != nil:
		kind := ErrChannel
		if push.Unsubscribe.Code >= unsubscribedForNow {
			kind = ErrUnreachable
		}
		end(ended, fmt.Errorf("%w: %s", kind, push.Unsubscribe.Reason))
	}
}

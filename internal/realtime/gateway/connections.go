package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/centrifugal/centrifuge"
	"golang.org/x/sync/errgroup"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/base/clientnet"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/origin"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
	"github.com/stoa-dev/stoa/internal/realtime/events"
)

// errUnauthenticated refuses a connection for its token; every client of the library asks
// its app for another one then.
var errUnauthenticated = centrifuge.ErrorTokenExpired

// sessionEnded ends a connection for good: its device is logged out.
var sessionEnded = centrifuge.Disconnect{Code: api.SocketSessionEnded, Reason: "session ended"}

// notForCaller refuses a connection for good: sockets are for sessions of users, not for keys.
var notForCaller = centrifuge.Disconnect{Code: api.SocketNotForCaller, Reason: "not for callers of this kind"}

// errAway refuses a connection while nobody can tell whose token it is.
var errAway = &centrifuge.Error{Code: http.StatusServiceUnavailable, Message: "unavailable", Temporary: true}

// connection is a socket of one device.
type connection struct {
	client *centrifuge.Client
	opened *http.Request // slim
	caller atomic.Pointer[Caller]
	seen   atomic.Int64 // Unix ns at which its session was known to go on
	ended  atomic.Bool
	looks  atomic.Bool   // it is sent to look at the truth, once its turn has come
	calls  chan struct{} // has room for as many calls and subscriptions as run at once

	channels map[string]*subscription // guarded by connections.mu
	telling  sync.Mutex               // so that Channels is told of its subscriptions in their order
}

// subscription is one of a connection to a channel; the next one to the same channel is another.
type subscription struct {
	hidden []string    // whom it does not hear there
	looks  atomic.Bool // it is to be made anew, once its turn has come
}

// connections holds the sockets of this node.
type connections struct {
	mu            sync.RWMutex
	byUser        map[string]map[string]*connection        // by user and client id
	on            map[string]map[*connection]*subscription // by channel, those that have subscribed
	subscriptions atomic.Int64                             // how many there are on all channels
	ended         atomic.Int32                             // how many are ended, but not gone
	losses        atomic.Uint64                            // times that events were lost
}

func (cs *connections) add(user, id string, c *connection) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.byUser == nil {
		cs.byUser = map[string]map[string]*connection{}
	}
	if cs.byUser[user] == nil {
		cs.byUser[user] = map[string]*connection{}
	}
	cs.byUser[user][id] = c
}

func (cs *connections) remove(user, id string) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if c := cs.byUser[user][id]; c != nil && c.ended.Load() {
		cs.ended.Add(-1)
	}
	if delete(cs.byUser[user], id); len(cs.byUser[user]) == 0 {
		delete(cs.byUser, user)
	}
}

// enter notes that a connection has a channel, on which it does not hear some users.
func (cs *connections) enter(c *connection, channel string, hidden []string) *subscription {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.on == nil {
		cs.on = map[string]map[*connection]*subscription{}
	}
	if cs.on[channel] == nil {
		cs.on[channel] = map[*connection]*subscription{}
	}
	if c.channels == nil {
		c.channels = map[string]*subscription{}
	}
	if c.channels[channel] == nil {
		cs.subscriptions.Add(1)
	}
	s := &subscription{hidden: hidden}
	cs.on[channel][c], c.channels[channel] = s, s
	return s
}

// leave notes that a connection has left a channel, by that subscription or, with nil, by any, and reports whether it had.
func (cs *connections) leave(c *connection, channel string, s *subscription) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if had := c.channels[channel]; had == nil || s != nil && s != had {
		return false
	}
	cs.subscriptions.Add(-1)
	delete(c.channels, channel)
	if delete(cs.on[channel], c); len(cs.on[channel]) == 0 {
		delete(cs.on, channel)
	}
	return true
}

// has reports whether a connection has a channel by that subscription.
func (cs *connections) has(c *connection, channel string, s *subscription) bool {
	cs.mu.RLock()
	defer cs.mu.RUnlock()
	return c.channels[channel] == s
}

// subscribed returns the channels that a connection has.
func (cs *connections) subscribed(c *connection) map[string]*subscription {
	cs.mu.RLock()
	defer cs.mu.RUnlock()
	return maps.Clone(c.channels)
}

// having returns the connections that have subscribed to a channel.
func (cs *connections) having(channel string) map[*connection]*subscription {
	cs.mu.RLock()
	defer cs.mu.RUnlock()
	return maps.Clone(cs.on[channel])
}

func (cs *connections) get(user, id string) *connection {
	cs.mu.RLock()
	defer cs.mu.RUnlock()
	return cs.byUser[user][id]
}

func (cs *connections) of(user string) []*connection {
	cs.mu.RLock()
	defer cs.mu.RUnlock()
	all := make([]*connection, 0, len(cs.byUser[user]))
	for _, c := range cs.byUser[user] {
		all = append(all, c)
	}
	return all
}

// openedKey finds the slim request in a connection's context.
type openedKey struct{}

// admit stands before a handler of the library. It counts the connections of a household
// until they are closed, and keeps of the request what calls need: a connection may last for
// days, and its request holds on to the buffers of HTTP.
func (g *Gateway) admit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.refusing.Load() {
			g.metrics.refused.WithLabelValues(refusedDraining).Inc()
			web.Refuse(r, ErrDraining)
			return
		}
		from := clientnet.From(r.Context())
		if !g.from.enter(from, g.cfg.MaxFrom) {
			g.metrics.refused.WithLabelValues(refusedHousehold).Inc()
			web.Refuse(r, ErrTooMany)
			return
		}
		free, ok := g.cfg.API.TakePlace()
		if !ok {
			g.from.leave(from)
			g.metrics.refused.WithLabelValues(refusedFull).Inc()
			web.Refuse(r, web.ErrNoPlace)
			return
		}
		g.open.Add(1)
		leave := sync.OnceFunc(func() { free(); g.from.leave(from); g.open.Add(-1) })
		opened := web.Opening(r)
		if r.ProtoMajor != 1 || r.Method != http.MethodGet { // the connection ends with the request
			defer leave()
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), openedKey{}, opened)))
			return
		}
		// The library takes the connection over, and goes on when the request has ended.
		takes := &taking{ResponseWriter: w, leave: leave}
		ctx := context.WithValue(context.WithValue(g.base, openedKey{}, opened), clientnet.Key{}, func() string { return from })
		next.ServeHTTP(takes, handshake(r).WithContext(ctx))
		if !takes.taken {
			leave()
		}
	})
}

// handshake returns what the library reads of the request for a WebSocket.
func handshake(r *http.Request) *http.Request {
	slim := &http.Request{Method: r.Method, URL: r.URL, Proto: r.Proto, ProtoMajor: r.ProtoMajor, ProtoMinor: r.ProtoMinor, Host: r.Host, RemoteAddr: r.RemoteAddr, Header: http.Header{}}
	for name, lines := range r.Header {
		if name == "Connection" || name == "Upgrade" || name == "Origin" || strings.HasPrefix(name, "Sec-Websocket-") {
			slim.Header[name] = lines
		}
	}
	return slim
}

// taking is the answer to a request whose connection is taken over.
type taking struct {
	http.ResponseWriter
	leave func()
	taken bool
}

// Hijack implements http.Hijacker.
func (t *taking) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(t.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	t.taken = true
	return &takenOver{conn, t.leave}, rw, nil
}

// takenOver is a connection that was taken over from HTTP.
type takenOver struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *takenOver) Close() error {
	c.leave()
	return c.Conn.Close()
}

// households counts connections.
type households struct {
	mu sync.Mutex
	by map[string]int
}

func (h *households) enter(from string, most int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.by[from] >= most {
		return false
	}
	if h.by == nil {
		h.by = map[string]int{}
	}
	h.by[from]++
	return true
}

func (h *households) leave(from string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.by[from]--; h.by[from] == 0 {
		delete(h.by, from)
	}
}

// mayConnect reports whether a WebSocket comes from a page of this server or of a listed origin,
// or from a program that is no browser.
func (g *Gateway) mayConnect(r *http.Request) bool {
	sent := r.Header.Get("Origin")
	if sent == "" {
		return true
	}
	from, err := origin.Parse(strings.ToLower(sent))
	if err == nil && (from == g.cfg.PublicURL || from.At(r.Host) || g.cfg.Origins.Match(from)) {
		return true
	}
	g.metrics.refused.WithLabelValues(refusedOrigin).Inc()
	g.refusedOrigin.Do(func() {
		g.log.Warn("gateway: a socket's origin is refused; list it in origins, or correct public_url or the proxy's Host header",
			"origin", sent[:min(len(sent), maxLoggedOrigin)], "host", r.Host[:min(len(r.Host), maxLoggedOrigin)])
	})
	return false
}

// maxLoggedOrigin is the largest number of bytes of an origin or a host in the log.
const maxLoggedOrigin = 300

// hello is what a client is told as it connects.
type hello struct {
	User   string `json:"user"`
	Device string `json:"device"`
}

// connecting decides who may connect.
func (g *Gateway) connecting(ctx context.Context, e centrifuge.ConnectEvent) (centrifuge.ConnectReply, error) {
	if e.Token == "" { // errUnauthenticated would have a client without a token connect again and again
		g.metrics.refused.WithLabelValues(refusedToken).Inc()
		return centrifuge.ConnectReply{}, centrifuge.DisconnectInvalidToken
	}
	caller, err := g.identify(ctx, e.Token)
	switch {
	case errors.Is(err, errUnauthenticated), errors.Is(err, notForCaller):
		g.metrics.refused.WithLabelValues(refusedToken).Inc()
	case err != nil:
		g.metrics.refused.WithLabelValues(refusedAway).Inc()
	}
	if err != nil {
		return centrifuge.ConnectReply{}, err
	}
	user := caller.UserID()
	data, err := json.Marshal(hello{user, caller.DeviceID()})
	if err != nil {
		return centrifuge.ConnectReply{}, err
	}
	opened, _ := ctx.Value(openedKey{}).(*http.Request)
	return centrifuge.ConnectReply{
		Credentials:       &centrifuge.Credentials{UserID: user, ExpireAt: caller.ExpiresAt().Unix()},
		ClientSideRefresh: true,
		Data:              data,
		Subscriptions:     map[string]centrifuge.SubscribeOptions{user: {EnableRecovery: true}},
		Storage:           map[string]any{"caller": caller, "opened": opened, "losses": g.conns.losses.Load()},
	}, nil
}

// identify returns who holds a token, or an error for the client.
func (g *Gateway) identify(ctx context.Context, token string) (Caller, error) {
	who, err := g.cfg.API.Identify(ctx, token)
	switch {
	case errs.KindOf(err) == errs.Unauthenticated:
		return nil, errUnauthenticated
	case errs.KindOf(err) == errs.Forbidden:
		return nil, notForCaller
	case errs.KindOf(err) == errs.TooMany:
		return nil, errAway
	case err != nil:
		g.log.Warn("a connection is refused: its token cannot be looked up", "err", err)
		return nil, errAway
	}
	caller, ok := who.(Caller)
	if !ok {
		return nil, notForCaller
	}
	return caller, nil
}

// callsAtOnce is how many calls and subscriptions of one connection may run at the same time; the next one
// is not read before one of them has ended.
const callsAtOnce = 16

// begin waits until another call or subscription may run, which ends with end. It reports false when the connection is gone.
func (c *connection) begin() bool {
	select {
	case c.calls <- struct{}{}:
		return true
	case <-c.client.Context().Done():
		return false
	}
}

func (c *connection) end() { <-c.calls }

// subscribing is what subscriptions are counted as, beside the operations.
const subscribing = "socket.subscribe"

// connected is called when a client has its channels.
func (g *Gateway) connected(client *centrifuge.Client) {
	c := &connection{client: client, calls: make(chan struct{}, callsAtOnce)}
	storage, release := client.AcquireStorage()
	caller, _ := storage["caller"].(Caller)
	c.opened, _ = storage["opened"].(*http.Request)
	losses, _ := storage["losses"].(uint64)
	release(nil)
	c.caller.Store(&caller)
	g.conns.add(client.UserID(), client.ID(), c)
	client.OnRPC(func(e centrifuge.RPCEvent, reply centrifuge.RPCCallback) { g.call(c, e, reply) })
	client.OnSubscribe(func(e centrifuge.SubscribeEvent, reply centrifuge.SubscribeCallback) {
		g.subscribe(c, e.Channel, reply)
	})
	client.OnUnsubscribe(func(e centrifuge.UnsubscribeEvent) { g.unsubscribed(c, e.Channel) })
	client.OnRefresh(func(e centrifuge.RefreshEvent, reply centrifuge.RefreshCallback) { reply(g.refresh(c, e)) })
	client.OnAlive(func() {
		g.check(client.Context(), c)
		g.checkChannels(c)
	})
	client.OnDisconnect(func(e centrifuge.DisconnectEvent) {
		g.metrics.closed.WithLabelValues(strconv.FormatUint(uint64(e.Code), 10)).Inc()
		for channel := range g.conns.subscribed(c) {
			g.unsubscribed(c, channel)
		}
		g.conns.remove(client.UserID(), client.ID())
		if g.cfg.Watch != nil {
			g.cfg.Watch.Closed(client.ID())
		}
	})
	if g.cfg.Watch != nil {
		g.cfg.Watch.Opened(client.UserID(), caller.DeviceID(), client.ID())
	}
	g.check(client.Context(), c) // it may have ended while nobody knew of this connection
	if g.conns.losses.Load() != losses {
		g.lookAgain(c)
	}
}

// subscribe lets a client have the events of a channel, if its user may.
func (g *Gateway) subscribe(c *connection, channel string, reply centrifuge.SubscribeCallback) {
	if !c.begin() {
		reply(centrifuge.SubscribeReply{}, centrifuge.DisconnectConnectionClosed)
		return
	}
	go func() { // it asks SQL, and the connection's other frames wait
		defer c.end()
		if !g.cfg.API.Allow(c.client.Context(), *c.caller.Load(), subscribing) {
			reply(centrifuge.SubscribeReply{}, centrifuge.ErrorTooManyRequests)
			return
		}
		var hidden []string
		err := g.maySubscribe(c.client, channel)
		if err == nil {
			hidden, err = g.hidden(c.client, channel)
		}
		if err != nil {
			reply(centrifuge.SubscribeReply{}, err)
			return
		}
		s := g.conns.enter(c, channel, hidden) // before it gets an event that has it look again
		reply(centrifuge.SubscribeReply{Options: centrifuge.SubscribeOptions{ServerTagsFilter: without(hidden)}}, nil)
		if !c.client.IsSubscribed(channel) {
			g.conns.leave(c, channel, s)
			return
		}
		switch err := g.maySubscribe(c.client, channel); {
		case errors.Is(err, centrifuge.ErrorPermissionDenied): // the right ended while nobody knew of this subscription
			c.client.Unsubscribe(channel)
		case err != nil: // nobody can tell
			c.again(channel)
		default:
			g.subscribed(c, channel, s)
		}
	}()
}

// subscribed tells of a subscription, unless it has ended by now.
func (g *Gateway) subscribed(c *connection, channel string, s *subscription) {
	c.telling.Lock()
	defer c.telling.Unlock()
	if g.conns.has(c, channel, s) {
		g.cfg.Channels.Subscribed(c.client.UserID(), c.client.ID(), channel)
	}
}

// unsubscribed notes that a client does not have a channel any more.
func (g *Gateway) unsubscribed(c *connection, channel string) {
	c.telling.Lock()
	defer c.telling.Unlock()
	if g.conns.leave(c, channel, nil) {
		g.cfg.Channels.Unsubscribed(c.client.UserID(), c.client.ID(), channel)
	}
}

func (g *Gateway) maySubscribe(client *centrifuge.Client, channel string) error {
	if g.cfg.Channels == nil {
		return centrifuge.ErrorPermissionDenied
	}
	err := g.cfg.Channels.MaySubscribe(client.Context(), client.UserID(), channel)
	switch kind := errs.KindOf(err); {
	case err == nil:
		return nil
	case kind == errs.NotFound || kind == errs.Forbidden:
		return centrifuge.ErrorPermissionDenied
	}
	return errAway
}

// sender is the tag of an event that has whose words it is.
const sender = "from"

// hidden returns whom a client's user does not want to hear on a channel, in order.
func (g *Gateway) hidden(client *centrifuge.Client, channel string) ([]string, error) {
	hidden, err := g.cfg.Channels.Hidden(client.Context(), client.UserID(), channel)
	if err != nil {
		return nil, errAway
	}
	slices.Sort(hidden)
	return hidden, nil
}

// without keeps from a client what some users have said.
func without(hidden []string) *centrifuge.FilterNode {
	if len(hidden) == 0 {
		return nil
	}
	return &centrifuge.FilterNode{Key: sender, Cmp: "nin", Vals: hidden}
}

// leave takes a user's clients off a channel.
func (g *Gateway) leave(user, channel string) {
	for _, c := range g.conns.of(user) {
		go c.client.Unsubscribe(channel) // see lookAgain
	}
}

// again has a client subscribe to a channel anew.
func (c *connection) again(channel string) {
	go c.client.Unsubscribe(channel, centrifuge.Unsubscribe{Code: centrifuge.UnsubscribeCodeInsufficient, Reason: "insufficient state"}) // see lookAgain
}

// lost has a user's clients connect again, or those that have a channel subscribe again, and look at
// the truth: they may have missed something.
func (g *Gateway) lost(channel string) {
	g.conns.losses.Add(1) // for those that are connecting
	for _, c := range g.conns.of(channel) {
		g.lookAgain(c)
	}
	for c, s := range g.conns.having(channel) {
		inTurn(&g.resubscribes, g.conns.subscriptions.Load(), &s.looks, func() {
			s.looks.Store(false) // it may not be subscribed yet
			if !c.looks.Load() && g.conns.has(c, channel, s) {
				c.again(channel)
			}
		})
	}
}

// lookOver is over how long clients are sent to look at the truth where all have to, as after a failover of Redis, so
// that they do not come back all at once, and over how long all subscriptions are made anew. A thousand a second go in any case.
const lookOver = 10 * time.Second

// lookAgain has a client connect again when its turn has come. An event of another epoch, or one after a gap, has the library
// do so at once. lookAgain does not wait: a client that goes leaves channels, whose locks the caller may hold.
func (g *Gateway) lookAgain(c *connection) {
	inTurn(&g.reconnects, g.open.Load(), &c.looks, func() { c.client.Disconnect(centrifuge.DisconnectInsufficientState) })
}

// inTurn calls look when its turn has come, of which there may be n, unless looks says that it waits for one, and notes that it does.
func inTurn(t *turns, n int64, looks *atomic.Bool, look func()) {
	if looks.CompareAndSwap(false, true) {
		apart := min(time.Millisecond, lookOver/time.Duration(max(1, n)))
		time.AfterFunc(t.next(apart), look)
	}
}

// turns space out what would be done all at once.
type turns struct {
	mu   sync.Mutex
	free time.Time // for the next one
}

// next returns how long the next one waits for its turn; the one after it comes no sooner than apart later.
func (t *turns) next(apart time.Duration) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if t.free.Before(now) {
		t.free = now
	}
	wait := t.free.Sub(now)
	t.free = t.free.Add(apart)
	return wait
}

// refresh takes a new token of the same session.
func (g *Gateway) refresh(c *connection, e centrifuge.RefreshEvent) (centrifuge.RefreshReply, error) {
	caller, err := g.identify(c.client.Context(), e.Token)
	if err != nil {
		return centrifuge.RefreshReply{}, err
	}
	if old := *c.caller.Load(); caller.UserID() != old.UserID() || caller.DeviceID() != old.DeviceID() {
		return centrifuge.RefreshReply{}, centrifuge.DisconnectInvalidToken
	}
	c.caller.Store(&caller)
	return centrifuge.RefreshReply{ExpireAt: caller.ExpiresAt().Unix()}, nil
}

// check ends a connection whose session has ended. While nobody can tell, it goes on.
func (g *Gateway) check(ctx context.Context, c *connection) {
	if c.ended.Load() {
		return
	}
	_, err := g.stillHere(ctx, c)
	if errs.KindOf(err) != errs.Unauthenticated {
		return
	}
	if c.ended.CompareAndSwap(false, true) {
		g.conns.ended.Add(1)
		go c.client.Disconnect(sessionEnded) // see lookAgain
	}
}

// checkChannels takes a connection off those channels that its user may not have any more, and has it subscribe again where the user
// hears others by now: a node that dies may have done what changes that and told nobody. While nobody can tell, all stays.
func (g *Gateway) checkChannels(c *connection) {
	for channel, s := range g.conns.subscribed(c) {
		err := g.cfg.Channels.MayStay(c.client.Context(), c.client.UserID(), channel)
		if kind := errs.KindOf(err); kind == errs.NotFound || kind == errs.Forbidden {
			go c.client.Unsubscribe(channel) // see lookAgain
		}
		if err != nil {
			continue
		}
		if now, err := g.hidden(c.client, channel); err == nil && !slices.Equal(now, s.hidden) {
			c.again(channel)
		}
	}
}

// stillHere returns who holds a connection by now.
func (g *Gateway) stillHere(ctx context.Context, c *connection) (web.Caller, error) {
	now := time.Now()
	who, err := g.cfg.Sessions.StillHere(ctx, *c.caller.Load())
	if err == nil {
		c.seen.Store(now.UnixNano())
	}
	return who, err
}

// before looks at the sessions of a user's connections before they get an event: all of
// them when one has ended, else those that nobody looked at for MaxStale.
func (g *Gateway) before(ctx context.Context, channel string, e events.Event) {
	switch e.Type {
	case api.EventGroupLeft:
		var gone api.GroupGone
		if json.Unmarshal(e.Data, &gone) == nil {
			g.leave(channel, api.GroupChannel(gone.Group))
		}
	case api.EventRoomGone:
		g.leaveRoom(channel, e)
	case api.EventBlockAdded, api.EventBlockRemoved:
		for _, c := range g.conns.of(channel) {
			for on := range g.conns.subscribed(c) {
				c.again(on) // by another filter
			}
		}
	}
	for _, c := range g.conns.of(channel) {
		if e.Type == api.EventSessionEnded || g.unseen(c) {
			g.check(ctx, c)
		}
	}
}

// unseen reports whether nobody looked at a connection's session for MaxStale.
func (g *Gateway) unseen(c *connection) bool {
	return time.Now().UnixNano()-c.seen.Load() > g.cfg.MaxStale.Nanoseconds()
}

// looksAtOnce is how many sessions are looked at together. They share round trips to Redis.
const looksAtOnce = 64

// ahead looks at the sessions of all that are about to get an event, which [Gateway.before] would do one after the other.
// To end a connection is left to that, which knows the event.
func (g *Gateway) ahead(channels []string) {
	slices.Sort(channels)
	var unseen []*connection
	for _, name := range slices.Compact(channels) {
		for _, c := range g.conns.of(name) {
			if g.unseen(c) {
				unseen = append(unseen, c)
			}
		}
	}
	if len(unseen) < 2 {
		return
	}
	ctx, cancel := context.WithTimeout(g.base, brokerTime)
	defer cancel()
	var looks errgroup.Group
	looks.SetLimit(looksAtOnce)
	for _, c := range unseen {
		looks.Go(func() error { _, err := g.stillHere(ctx, c); return err })
	}
	_ = looks.Wait() // those that are not here any more, or of whom nobody can tell, are looked at again
}

// leaveRoom takes a user who is gone off a room's channel, or all when it was closed.
func (g *Gateway) leaveRoom(channel string, e events.Event) {
	var gone api.RoomGone
	if json.Unmarshal(e.Data, &gone) != nil {
		return
	}
	room := api.RoomChannel(gone.Room)
	switch {
	case channel == gone.User:
		g.leave(gone.User, room)
	case channel == room && gone.Why == api.RoomClosed:
		for c := range g.conns.having(room) {
			go c.client.Unsubscribe(room) // see lookAgain
		}
	}
}

// mayWrite keeps everything from a connection whose session has ended.
func (g *Gateway) mayWrite(client *centrifuge.Client, _ centrifuge.TransportWriteEvent) bool {
	if g.conns.ended.Load() == 0 {
		return true
	}
	c := g.conns.get(client.UserID(), client.ID())
	return c == nil || !c.ended.Load()
}

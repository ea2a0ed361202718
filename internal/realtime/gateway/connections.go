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

// errUnauthenticated refuses a connection because of its token; every client of the library then requests a new one
// from its app.
var errUnauthenticated = centrifuge.ErrorTokenExpired

// sessionEnded ends a connection for good, because its device is logged out.
var sessionEnded = centrifuge.Disconnect{Code: api.SocketSessionEnded, Reason: "session ended"}

// notForCaller refuses a connection for good: sockets are for sessions of users, not for keys.
var notForCaller = centrifuge.Disconnect{Code: api.SocketNotForCaller, Reason: "not for this kind of caller"}

// errUnavailable refuses a connection while its token cannot be checked.
var errUnavailable = &centrifuge.Error{Code: http.StatusServiceUnavailable, Message: "unavailable", Temporary: true}

// connection is a socket of one device.
type connection struct {
	client          *centrifuge.Client
	opened          *http.Request // with the needed fields only
	caller          atomic.Pointer[Caller]
	lastCheck       atomic.Int64 // Unix ns of the last successful check of its session
	ended           atomic.Bool
	resyncScheduled atomic.Bool   // a resynchronisation is scheduled
	calls           chan struct{} // its capacity is the largest number of concurrent calls and subscriptions

	channels map[string]*subscription // guarded by connections.mu
	notifyMu sync.Mutex               // orders the notifications of Channels
}

// subscription is one subscription of a connection to a channel. A later subscription to the same channel is another
// value.
type subscription struct {
	hidden          []string    // users whose events it does not get
	resyncScheduled atomic.Bool // a new subscription is scheduled
}

// connections has the sockets of this node.
type connections struct {
	mu                     sync.RWMutex
	byUser                 map[string]map[string]*connection        // by user and client id
	subscriptionsByChannel map[string]map[*connection]*subscription // by channel
	subscriptions          atomic.Int64                             // number on all channels
	ended                  atomic.Int32                             // number of connections with an ended session
	losses                 atomic.Uint64                            // number of event losses
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

// addSubscription adds a subscription of a connection to a channel, without the events of hidden users.
func (cs *connections) addSubscription(c *connection, channel string, hidden []string) *subscription {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.subscriptionsByChannel == nil {
		cs.subscriptionsByChannel = map[string]map[*connection]*subscription{}
	}
	if cs.subscriptionsByChannel[channel] == nil {
		cs.subscriptionsByChannel[channel] = map[*connection]*subscription{}
	}
	if c.channels == nil {
		c.channels = map[string]*subscription{}
	}
	if c.channels[channel] == nil {
		cs.subscriptions.Add(1)
	}
	s := &subscription{hidden: hidden}
	cs.subscriptionsByChannel[channel][c], c.channels[channel] = s, s
	return s
}

// removeSubscription removes the subscription s of a connection to a channel; nil means any. It reports whether the
// connection had it.
func (cs *connections) removeSubscription(c *connection, channel string, s *subscription) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if current := c.channels[channel]; current == nil || s != nil && s != current {
		return false
	}
	cs.subscriptions.Add(-1)
	delete(c.channels, channel)
	if delete(cs.subscriptionsByChannel[channel], c); len(cs.subscriptionsByChannel[channel]) == 0 {
		delete(cs.subscriptionsByChannel, channel)
	}
	return true
}

// hasSubscription reports whether s is the connection's current subscription to a channel.
func (cs *connections) hasSubscription(c *connection, channel string, s *subscription) bool {
	cs.mu.RLock()
	defer cs.mu.RUnlock()
	return c.channels[channel] == s
}

// subscriptionsOf returns the subscriptions of a connection by channel.
func (cs *connections) subscriptionsOf(c *connection) map[string]*subscription {
	cs.mu.RLock()
	defer cs.mu.RUnlock()
	return maps.Clone(c.channels)
}

// subscribers returns the connections that are subscribed to a channel.
func (cs *connections) subscribers(channel string) map[*connection]*subscription {
	cs.mu.RLock()
	defer cs.mu.RUnlock()
	return maps.Clone(cs.subscriptionsByChannel[channel])
}

func (cs *connections) get(user, id string) *connection {
	cs.mu.RLock()
	defer cs.mu.RUnlock()
	return cs.byUser[user][id]
}

func (cs *connections) ofUser(user string) []*connection {
	cs.mu.RLock()
	defer cs.mu.RUnlock()
	all := make([]*connection, 0, len(cs.byUser[user]))
	for _, c := range cs.byUser[user] {
		all = append(all, c)
	}
	return all
}

// openedKey is the context key of the opening request.
type openedKey struct{}

// admit wraps a handler of the library. It counts the connections of a client network until they are closed. It stores
// only the parts of the request that calls need, because a connection may last for days, and the full request refers to
// HTTP buffers.
func (g *Gateway) admit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.refusing.Load() {
			g.metrics.refused.WithLabelValues(refusedDraining).Inc()
			web.Refuse(r, ErrDraining)
			return
		}
		from := clientnet.From(r.Context())
		if !g.from.acquire(from, g.cfg.MaxFrom) {
			g.metrics.refused.WithLabelValues(refusedNetwork).Inc()
			web.Refuse(r, ErrTooMany)
			return
		}
		release, ok := g.cfg.API.AcquireConn()
		if !ok {
			g.from.release(from)
			g.metrics.refused.WithLabelValues(refusedFull).Inc()
			web.Refuse(r, web.ErrNoPlace)
			return
		}
		g.open.Add(1)
		releaseAll := sync.OnceFunc(func() { release(); g.from.release(from); g.open.Add(-1) })
		opened := web.Opening(r)
		if r.ProtoMajor != 1 || r.Method != http.MethodGet { // the connection ends with the request
			defer releaseAll()
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), openedKey{}, opened)))
			return
		}
		// The library hijacks the connection and continues after the request has ended.
		h := &hijacker{ResponseWriter: w, release: releaseAll}
		ctx := context.WithValue(context.WithValue(g.base, openedKey{}, opened), clientnet.Key{}, func() string { return from })
		next.ServeHTTP(h, handshake(r).WithContext(ctx))
		if !h.done {
			releaseAll()
		}
	})
}

// handshake returns the parts of the request that the library reads for a WebSocket.
func handshake(r *http.Request) *http.Request {
	slim := &http.Request{Method: r.Method, URL: r.URL, Proto: r.Proto, ProtoMajor: r.ProtoMajor, ProtoMinor: r.ProtoMinor, Host: r.Host,
		RemoteAddr: r.RemoteAddr, Header: http.Header{}}
	for name, lines := range r.Header {
		if name == "Connection" || name == "Upgrade" || name == "Origin" || strings.HasPrefix(name, "Sec-Websocket-") {
			slim.Header[name] = lines
		}
	}
	return slim
}

// hijacker is the ResponseWriter of a request whose connection may be hijacked.
type hijacker struct {
	http.ResponseWriter
	release func()
	done    bool
}

// Hijack implements http.Hijacker.
func (t *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(t.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	t.done = true
	return &hijacked{conn, t.release}, rw, nil
}

// hijacked is a connection that was hijacked from HTTP.
type hijacked struct {
	net.Conn
	release func()
}

// Close implements net.Conn.
func (c *hijacked) Close() error {
	c.release()
	return c.Conn.Close()
}

// connCounts counts connections by client network.
type connCounts struct {
	mu        sync.Mutex
	byNetwork map[string]int
}

func (h *connCounts) acquire(from string, limit int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.byNetwork[from] >= limit {
		return false
	}
	if h.byNetwork == nil {
		h.byNetwork = map[string]int{}
	}
	h.byNetwork[from]++
	return true
}

func (h *connCounts) release(from string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.byNetwork[from]--; h.byNetwork[from] == 0 {
		delete(h.byNetwork, from)
	}
}

// mayConnect reports whether a WebSocket comes from a page of this server or of a listed origin, or from a program
// other than a browser.
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
		g.log.Warn("gateway: socket refused, origin not allowed; list it in origins, or correct public_url or the proxy's Host header",
			"origin", sent[:min(len(sent), maxLoggedOrigin)], "host", r.Host[:min(len(r.Host), maxLoggedOrigin)])
	})
	return false
}

// maxLoggedOrigin is the largest length of an origin or a host in the log, in bytes.
const maxLoggedOrigin = 300

// connectData is the data of the reply to connect.
type connectData struct {
	User   string `json:"user"`
	Device string `json:"device"`
}

// connecting decides whether a client may connect.
func (g *Gateway) connecting(ctx context.Context, e centrifuge.ConnectEvent) (centrifuge.ConnectReply, error) {
	if e.Token == "" { // errUnauthenticated would make a client without a token reconnect again and again
		g.metrics.refused.WithLabelValues(refusedToken).Inc()
		return centrifuge.ConnectReply{}, centrifuge.DisconnectInvalidToken
	}
	caller, err := g.identify(ctx, e.Token)
	switch {
	case errors.Is(err, errUnauthenticated), errors.Is(err, notForCaller):
		g.metrics.refused.WithLabelValues(refusedToken).Inc()
	case err != nil:
		g.metrics.refused.WithLabelValues(refusedUnavailable).Inc()
	}
	if err != nil {
		return centrifuge.ConnectReply{}, err
	}
	user := caller.UserID()
	data, err := json.Marshal(connectData{user, caller.DeviceID()})
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

// identify returns the owner of a token, or an error for the client.
func (g *Gateway) identify(ctx context.Context, token string) (Caller, error) {
	owner, err := g.cfg.API.Identify(ctx, token)
	switch {
	case errs.KindOf(err) == errs.Unauthenticated:
		return nil, errUnauthenticated
	case errs.KindOf(err) == errs.Forbidden:
		return nil, notForCaller
	case errs.KindOf(err) == errs.TooMany:
		return nil, errUnavailable
	case err != nil:
		g.log.Warn("gateway: connection refused, token not checked", "err", err)
		return nil, errUnavailable
	}
	caller, ok := owner.(Caller)
	if !ok {
		return nil, notForCaller
	}
	return caller, nil
}

// maxConcurrentCalls is the largest number of concurrent calls and subscriptions of one connection. The node reads the
// next one after one of them has ended.
const maxConcurrentCalls = 16

// begin waits until another call or subscription may run; end ends it. It returns false when the connection is
// closed.
func (c *connection) begin() bool {
	select {
	case c.calls <- struct{}{}:
		return true
	case <-c.client.Context().Done():
		return false
	}
}

func (c *connection) end() { <-c.calls }

// subscribing is the name of subscriptions in the rate limit, next to the operations.
const subscribing = "socket.subscribe"

// connected is called when a client is connected and subscribed to its own channel.
func (g *Gateway) connected(client *centrifuge.Client) {
	c := &connection{client: client, calls: make(chan struct{}, maxConcurrentCalls)}
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
		for channel := range g.conns.subscriptionsOf(c) {
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
	g.check(client.Context(), c) // the session may have ended before this connection was registered
	if g.conns.losses.Load() != losses {
		g.resync(c)
	}
}

// subscribe subscribes a client to a channel, if its user may get its events.
func (g *Gateway) subscribe(c *connection, channel string, reply centrifuge.SubscribeCallback) {
	if !c.begin() {
		reply(centrifuge.SubscribeReply{}, centrifuge.DisconnectConnectionClosed)
		return
	}
	go func() { // not here, because the check queries SQL, and the connection's other frames would wait
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
		s := g.conns.addSubscription(c, channel, hidden) // before it gets an event that requests a resynchronisation
		reply(centrifuge.SubscribeReply{Options: centrifuge.SubscribeOptions{ServerTagsFilter: excludeSenders(hidden)}}, nil)
		if !c.client.IsSubscribed(channel) {
			g.conns.removeSubscription(c, channel, s)
			return
		}
		switch err := g.maySubscribe(c.client, channel); {
		case errors.Is(err, centrifuge.ErrorPermissionDenied): // the right ended before the subscription was registered
			c.client.Unsubscribe(channel)
		case err != nil: // the check failed
			c.resubscribe(channel)
		default:
			g.subscribed(c, channel, s)
		}
	}()
}

// subscribed notifies Channels of a subscription, unless it has already ended.
func (g *Gateway) subscribed(c *connection, channel string, s *subscription) {
	c.notifyMu.Lock()
	defer c.notifyMu.Unlock()
	if g.conns.hasSubscription(c, channel, s) {
		g.cfg.Channels.Subscribed(c.client.UserID(), c.client.ID(), channel)
	}
}

// unsubscribed removes a client's subscription to a channel.
func (g *Gateway) unsubscribed(c *connection, channel string) {
	c.notifyMu.Lock()
	defer c.notifyMu.Unlock()
	if g.conns.removeSubscription(c, channel, nil) {
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
	return errUnavailable
}

// sender is the tag of an event with the user who caused it.
const sender = "from"

// hidden returns the users whose events a client's user does not get on a channel, sorted.
func (g *Gateway) hidden(client *centrifuge.Client, channel string) ([]string, error) {
	hidden, err := g.cfg.Channels.Hidden(client.Context(), client.UserID(), channel)
	if err != nil {
		return nil, errUnavailable
	}
	slices.Sort(hidden)
	return hidden, nil
}

// excludeSenders returns a filter that excludes the events of hidden users.
func excludeSenders(hidden []string) *centrifuge.FilterNode {
	if len(hidden) == 0 {
		return nil
	}
	return &centrifuge.FilterNode{Key: sender, Cmp: "nin", Vals: hidden}
}

// unsubscribeUser unsubscribes a user's clients from a channel.
func (g *Gateway) unsubscribeUser(user, channel string) {
	for _, c := range g.conns.ofUser(user) {
		go c.client.Unsubscribe(channel) // see resync
	}
}

// resubscribe makes a client subscribe to a channel again.
func (c *connection) resubscribe(channel string) {
	// see resync
	go c.client.Unsubscribe(channel, centrifuge.Unsubscribe{Code: centrifuge.UnsubscribeCodeInsufficient, Reason: "insufficient state"})
}

// lost makes a user's clients reconnect, and the subscribers of a channel subscribe again. They then load the current
// state, because they may have missed events.
func (g *Gateway) lost(channel string) {
	g.conns.losses.Add(1) // for clients that are connecting
	for _, c := range g.conns.ofUser(channel) {
		g.resync(c)
	}
	for c, s := range g.conns.subscribers(channel) {
		inTurn(&g.resubscribes, g.conns.subscriptions.Load(), &s.resyncScheduled, func() {
			s.resyncScheduled.Store(false) // it may not be subscribed yet
			if !c.resyncScheduled.Load() && g.conns.hasSubscription(c, channel, s) {
				c.resubscribe(channel)
			}
		})
	}
}

// resyncOver is the time over which all clients resynchronise, for example after a failover of Redis, so that their
// reconnects are spread. The same applies to all subscriptions. At least a thousand a second resynchronise.
const resyncOver = 10 * time.Second

// resync makes a client reconnect when its turn has come. After an event of another epoch, or one after a gap, the
// library does so at once. resync does not wait, because a disconnecting client leaves channels, whose locks the
// caller may hold.
func (g *Gateway) resync(c *connection) {
	inTurn(&g.reconnects, g.open.Load(), &c.resyncScheduled, func() { c.client.Disconnect(centrifuge.DisconnectInsufficientState) })
}

// inTurn calls run when its turn has come, with up to n turns waiting. It does nothing if scheduled is set, and sets
// it otherwise.
func inTurn(t *turns, n int64, scheduled *atomic.Bool, run func()) {
	if scheduled.CompareAndSwap(false, true) {
		interval := min(time.Millisecond, resyncOver/time.Duration(max(1, n)))
		time.AfterFunc(t.next(interval), run)
	}
}

// turns spread acts over time.
type turns struct {
	mu       sync.Mutex
	nextFree time.Time // time of the next turn
}

// next returns the wait for the next turn. The turn after it is at least interval later.
func (t *turns) next(interval time.Duration) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if t.nextFree.Before(now) {
		t.nextFree = now
	}
	wait := t.nextFree.Sub(now)
	t.nextFree = t.nextFree.Add(interval)
	return wait
}

// refresh accepts a new token of the same session.
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

// check ends a connection whose session has ended. If the check fails, the connection continues.
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
		go c.client.Disconnect(sessionEnded) // see resync
	}
}

// checkChannels unsubscribes a connection from channels that its user may no longer get. It makes the connection
// subscribe again if the hidden users have changed, because a crashed node may have changed these without publishing
// it. If a check fails, nothing changes.
func (g *Gateway) checkChannels(c *connection) {
	for channel, s := range g.conns.subscriptionsOf(c) {
		err := g.cfg.Channels.MayStay(c.client.Context(), c.client.UserID(), channel)
		if kind := errs.KindOf(err); kind == errs.NotFound || kind == errs.Forbidden {
			go c.client.Unsubscribe(channel) // see resync
		}
		if err != nil {
			continue
		}
		if now, err := g.hidden(c.client, channel); err == nil && !slices.Equal(now, s.hidden) {
			c.resubscribe(channel)
		}
	}
}

// stillHere returns the current owner of a connection.
func (g *Gateway) stillHere(ctx context.Context, c *connection) (web.Caller, error) {
	now := time.Now()
	current, err := g.cfg.Sessions.StillHere(ctx, *c.caller.Load())
	if err == nil {
		c.lastCheck.Store(now.UnixNano())
	}
	return current, err
}

// checkReceivers checks the sessions of a user's connections before they get an event. After the end of a session, it
// checks all of them, otherwise those without a check for MaxStale. It also applies events that end subscriptions.
func (g *Gateway) checkReceivers(ctx context.Context, channel string, e events.Event) {
	switch e.Type {
	case api.EventGroupLeft:
		var gone api.GroupGone
		if json.Unmarshal(e.Data, &gone) == nil {
			g.unsubscribeUser(channel, api.GroupChannel(gone.Group))
		}
	case api.EventRoomGone:
		g.leaveRoom(channel, e)
	case api.EventBlockAdded, api.EventBlockRemoved:
		for _, c := range g.conns.ofUser(channel) {
			for subscribed := range g.conns.subscriptionsOf(c) {
				c.resubscribe(subscribed) // with another filter
			}
		}
	}
	for _, c := range g.conns.ofUser(channel) {
		if e.Type == api.EventSessionEnded || g.needsCheck(c) {
			g.check(ctx, c)
		}
	}
}

// needsCheck reports whether a connection's session was not checked for MaxStale.
func (g *Gateway) needsCheck(c *connection) bool {
	return time.Now().UnixNano()-c.lastCheck.Load() > g.cfg.MaxStale.Nanoseconds()
}

// maxConcurrentChecks is the largest number of concurrent session checks. They share round trips to Redis.
const maxConcurrentChecks = 64

// checkReceiversTogether checks the sessions of all connections that are about to get an event, concurrently.
// [Gateway.checkReceivers] alone would check them one after the other. It does not end connections, because only
// checkReceivers has the event.
func (g *Gateway) checkReceiversTogether(channels []string) {
	slices.Sort(channels)
	var unchecked []*connection
	for _, name := range slices.Compact(channels) {
		for _, c := range g.conns.ofUser(name) {
			if g.needsCheck(c) {
				unchecked = append(unchecked, c)
			}
		}
	}
	if len(unchecked) < 2 {
		return
	}
	ctx, cancel := context.WithTimeout(g.base, brokerTimeout)
	defer cancel()
	var checks errgroup.Group
	checks.SetLimit(maxConcurrentChecks)
	for _, c := range unchecked {
		checks.Go(func() error { _, err := g.stillHere(ctx, c); return err })
	}
	_ = checks.Wait() // checkReceivers checks sessions again that have ended, or that could not be checked
}

// leaveRoom unsubscribes a removed user from a room's channel, or all users when the room was closed.
func (g *Gateway) leaveRoom(channel string, e events.Event) {
	var gone api.RoomGone
	if json.Unmarshal(e.Data, &gone) != nil {
		return
	}
	room := api.RoomChannel(gone.Room)
	switch {
	case channel == gone.User:
		g.unsubscribeUser(gone.User, room)
	case channel == room && gone.Why == api.RoomClosed:
		for c := range g.conns.subscribers(room) {
			go c.client.Unsubscribe(room) // see resync
		}
	}
}

// mayWrite reports whether data may be sent to a connection; it returns false if the session has ended.
func (g *Gateway) mayWrite(client *centrifuge.Client, _ centrifuge.TransportWriteEvent) bool {
	if g.conns.ended.Load() == 0 {
		return true
	}
	c := g.conns.get(client.UserID(), client.ID())
	return c == nil || !c.ended.Load()
}

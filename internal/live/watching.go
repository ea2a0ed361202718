package live

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/live/media"
	"github.com/stoa-dev/stoa/internal/realtime/events"
)

const (
	// beatEvery is the time between two rounds of a node's due work.
	beatEvery = time.Second
	// relaysEvery is the time between two checks of relays against the publishers' states.
	relaysEvery = 2 * time.Second
	// renewEvery is the time between two renewals of viewers.
	renewEvery = 10 * time.Second
	// checkEvery is the time between two comparisons of all sessions with SQL, in case a node missed an event. It is
	// also the time between two checks of a node's addresses.
	checkEvery = 30 * time.Second
	// lingerFor is the time until a relay without viewers ends.
	lingerFor = 10 * time.Second
	// pullTime bounds the start of a relay.
	pullTime = 10 * time.Second
	// mostOfUser is the largest number of views of one user on one node. A page needs one.
	mostOfUser = 16
	// relayLife is the validity of a token between nodes.
	relayLife = time.Minute
)

// errPublisherLeft reports that a publisher has left.
var errPublisherLeft = errors.New("live: the publisher has disconnected")

// view is a viewer's session.
type view struct {
	Watching
	by       Caller
	viewer   *media.Viewer
	unfollow func()
}

// Watch answers the offer of a viewer. It returns ErrStream, ErrMay, ErrOffAir, ErrOffer, ErrCodec, ErrMedia, ErrFull,
// ErrTooMany, ErrNode or ErrState.
func (s *Service) Watch(ctx context.Context, by Caller, id ID, offer string) (_ SessionID, answer string, err error) {
	defer errs.Wrap(&err, "live.Watch %s", id)
	if err := s.mayWatch(ctx, by, id); err != nil {
		return SessionID{}, "", err
	}
	engine, base, done, err := s.begin(s.limitFor(by))
	if err != nil {
		return SessionID{}, "", err
	}
	defer func() {
		if err != nil {
			done()
		}
	}()
	a, err := s.localStreamOf(ctx, id, by.Key != nil && by.Key.kind == relay)
	if err != nil {
		return SessionID{}, "", err
	}
	start := time.Now()
	viewer, answer, err := engine.Watch(ctx, a.src, offer)
	if err != nil {
		return SessionID{}, "", refusal(err)
	}
	v := &view{Watching: Watching{Session: ids.New[Session](), User: by.User, Node: s.cfg.Node}, by: by, viewer: viewer}
	v.unfollow = s.follow(ctx, id, by.channels())
	defer func() {
		if err != nil {
			viewer.Close()
			v.unfollow()
		}
	}()
	if err := s.mayWatch(ctx, by, id); err != nil { // the right may have ended before its events were followed
		return SessionID{}, "", err
	}
	s.mu.Lock()
	gone := s.base == nil || s.local[id] != a
	if !gone {
		a.views[v.Session] = v
	}
	s.mu.Unlock()
	if gone {
		return SessionID{}, "", ErrOffAir
	}
	if v.counts() {
		if err := s.redis.renew(ctx, map[ID][]Watching{id: {v.Watching}}, s.bus.Time()); err != nil {
			s.log.Debug("live: viewer not counted, retried later", "stream", id, "err", err)
		}
		s.metrics.viewers.Inc()
	}
	go func() {
		defer done()
		select {
		case <-viewer.First():
			s.metrics.joined(viewer.Kept, time.Since(start))
			<-viewer.Done()
		case <-viewer.Done():
		}
		s.removeView(context.WithoutCancel(base), a, v)
	}()
	return v.Session, answer, nil
}

// limitFor returns the limit that a viewer's session counts for. A viewer with a key, or a guest of a room, has no
// account and counts by client network.
func (s *Service) limitFor(by Caller) places {
	switch {
	case by.Key == nil:
		return places{by.User.String(), mostOfUser}
	case by.Key.kind == relay:
		return places{}
	case by.seated() && !by.Key.seat.device.IsZero():
		return places{by.Key.seat.viewer, mostOfUser}
	}
	return places{by.Key.from, s.cfg.MaxFrom}
}

// counts reports whether a view belongs to a viewer and not to another node.
func (v *view) counts() bool { return v.by.Key == nil || v.by.Key.kind != relay }

// mayWatch returns an error if the caller may not watch a stream. It returns ErrStream or ErrMay.
func (s *Service) mayWatch(ctx context.Context, by Caller, id ID) error {
	st, err := s.stream(ctx, id)
	switch {
	case err != nil:
		return err
	case by.Key != nil && by.Key.Stream != id:
		return ErrStream
	case !by.mayWatch(st) && by.Key != nil && by.mayPublish(st):
		return ErrMay
	case !by.mayWatch(st):
		return ErrStream
	}
	if err := s.mayStay(ctx, by); rightEnded(err) {
		return ErrStream
	} else if err != nil {
		return err
	}
	return nil
}

// mayStay returns an error of the kind errs.Unauthenticated if the caller's session has ended. It returns one of the
// kind errs.NotFound if the caller has left the room of the ticket. It needs no I/O if the cache entries are in this
// process.
func (s *Service) mayStay(ctx context.Context, by Caller) error {
	if user, device := by.session(); !device.IsZero() {
		if _, err := s.cfg.People.Continues(ctx, accounts.Caller{User: user, Device: device}); err != nil {
			return err
		}
	}
	if by.seated() {
		return s.cfg.MaySubscribe(ctx, by.Key.seat.viewer, api.RoomChannel(by.Key.seat.room))
	}
	return nil
}

// rightEnded reports whether an error of mayStay means the end of a right, and not a failure.
func rightEnded(err error) bool {
	kind := errs.KindOf(err)
	return err != nil && (kind == errs.Unauthenticated || kind == errs.NotFound)
}

// channels returns the channels of the events that end the caller's rights.
func (c Caller) channels() []string {
	switch {
	case c.seated():
		return []string{c.Key.seat.viewer, api.RoomChannel(c.Key.seat.room)}
	case c.Key == nil:
		return []string{c.User.String()}
	}
	return nil
}

// follow compares the sessions of a stream with SQL after each event on the channels that may end a right.
func (s *Service) follow(ctx context.Context, id ID, channels []string) (unfollow func()) {
	l := &events.Listener{Lost: func() { s.scheduleCheck(id) }, Event: func(e events.Event, _ events.Position) {
		if e.Type == api.EventSessionEnded || e.Type == api.EventRoomGone {
			s.scheduleCheck(id)
		}
	}}
	var leaves []func()
	for _, name := range channels {
		_, leave := s.cfg.Bus.Listen(ctx, name, l)
		leaves = append(leaves, leave)
	}
	return func() {
		for _, leave := range leaves {
			leave()
		}
	}
}

// removeView records that a viewer has left.
func (s *Service) removeView(ctx context.Context, a *localStream, v *view) {
	v.viewer.Close()
	v.unfollow()
	s.mu.Lock()
	delete(a.views, v.Session)
	if len(a.views) == 0 {
		a.idle = time.Now()
	}
	s.mu.Unlock()
	if !v.counts() {
		return
	}
	s.metrics.viewers.Dec()
	ctx, cancel := context.WithTimeout(ctx, roundTime)
	defer cancel()
	if err := s.redis.deleteViewer(ctx, a.id, v.Watching); err != nil {
		s.log.Debug("live: viewer not deleted, expires", "stream", a.id, "err", err)
	}
}

// Leave ends a viewer's session for a caller who may watch. It returns ErrStream or ErrMay.
func (s *Service) Leave(ctx context.Context, by Caller, id ID, session SessionID) (err error) {
	defer errs.Wrap(&err, "live.Leave %s", id)
	if err := s.mayWatch(ctx, by, id); err != nil {
		return err
	}
	s.mu.Lock()
	published := s.local[id] != nil && s.local[id].pub != nil && s.local[id].pub.session == session
	s.mu.Unlock()
	if published { // only callers who may publish may end it
		return ErrSession
	}
	if !s.endView(id, session) {
		s.broadcast(ctx, parted, id.String()+session.String()) // another node ignores it if the session is the publisher's
	}
	return nil
}

// endSession ends a session of this node. It returns false if this node has no such session.
func (s *Service) endSession(id ID, session SessionID) bool {
	s.mu.Lock()
	a := s.local[id]
	published := a != nil && a.pub != nil && a.pub.session == session
	s.mu.Unlock()
	if published {
		go a.src.Close(errPublisherLeft)
		return true
	}
	return s.endView(id, session)
}

// endView ends a viewer's session of this node. It returns false if this node has no such session.
func (s *Service) endView(id ID, session SessionID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.local[id]
	if a == nil {
		return false
	}
	if v := a.views[session]; v != nil {
		go v.viewer.Close()
		return true
	}
	return false
}

// localStreamOf returns a stream of this node, and starts a relay if another node has the publisher. If local is true,
// it returns only a stream that is published on this node. It returns ErrOffAir, ErrState or ErrNode.
func (s *Service) localStreamOf(ctx context.Context, id ID, local bool) (*localStream, error) {
	if a := s.found(id); a != nil && (a.pub != nil || !local) {
		return a, nil
	}
	if local {
		return nil, ErrOffAir
	}
	pull := s.pulls.DoChan(id.String(), func() (any, error) {
		if a := s.found(id); a != nil {
			return a, nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pullTime)
		defer cancel()
		state, err := s.state(ctx, id)
		if err != nil {
			return nil, err
		}
		if state.OnAir.Node == s.cfg.Node { // the session is still ending
			return nil, ErrOffAir
		}
		return s.pull(ctx, id, *state.OnAir)
	})
	select {
	case got := <-pull:
		if got.Err != nil {
			return nil, got.Err
		}
		return got.Val.(*localStream), nil
	case <-ctx.Done(): // the pull continues for the viewer's next try
		return nil, ctx.Err()
	}
}

// found returns a stream of this node that has not ended, or nil.
func (s *Service) found(id ID) *localStream {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.local[id]
	if a == nil {
		return nil
	}
	select {
	case <-a.src.Done():
		return nil
	default:
		a.idle = time.Now()
		return a
	}
}

// pull starts a relay of a stream from the publisher's node. It returns ErrNode, ErrOffAir, ErrMedia or ErrFull.
func (s *Service) pull(ctx context.Context, id ID, at OnAir) (_ *localStream, err error) {
	engine, base, done, err := s.begin(places{})
	if err != nil {
		return nil, err
	}
	src, err := engine.Pull(ctx, at.Formats, func() bool { return true }, func(ctx context.Context, offer string) (string, error) {
		return askNode(ctx, "http://"+at.Address+watchPath(id), s.signer.sign(relay, id, s.db.Now().Add(relayLife), "", ""), offer)
	})
	if err != nil {
		done()
		if errors.Is(err, ErrOffAir) {
			return nil, err
		}
		s.log.Warn("live: relay not started", "stream", id, "node", at.Node, "address", at.Address, "err", err)
		return nil, errors.Join(ErrNode, err)
	}
	a := &localStream{id: id, src: src, session: at.Session, views: map[SessionID]*view{}, idle: time.Now()}
	s.mu.Lock()
	if s.base == nil || s.local[id] != nil {
		s.mu.Unlock()
		src.Close(nil)
		done()
		return nil, ErrOffAir
	}
	s.local[id] = a
	s.mu.Unlock()
	s.metrics.relays.Inc()
	go func() {
		defer done()
		select {
		case <-src.Done():
		case <-base.Done():
		}
		src.Close(errPublisherLeft)
		s.mu.Lock()
		if s.local[id] == a {
			delete(s.local, id)
		}
		s.mu.Unlock()
		s.metrics.relays.Dec()
	}()
	return a, nil
}

// beat does the due work until ctx ends.
func (s *Service) beat(ctx context.Context) {
	t := time.NewTicker(beatEvery)
	defer t.Stop()
	renewed, related, swept := time.Now(), time.Now(), time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.nudge:
		case <-t.C:
		}
		now := time.Now()
		if now.Sub(swept) >= s.sweep {
			swept = now
			s.lost()
			s.listen(ctx, slog.LevelDebug)
		}
		s.checkDue(ctx)
		if now.Sub(related) >= relaysEvery {
			related = now
			s.checkRelays(ctx, now)
		}
		if now.Sub(renewed) >= renewEvery {
			renewed = now
			s.renew(ctx)
		}
	}
}

// checkDue compares the sessions of due streams with SQL, and ends sessions that are no longer allowed.
func (s *Service) checkDue(ctx context.Context) {
	var list []ID
	s.mu.Lock()
	for id := range s.local {
		if s.all || s.due[id] {
			list = append(list, id)
		}
	}
	s.all = false
	clear(s.due)
	s.mu.Unlock()
	for chunk := range slices.Chunk(list, sweepBatch) {
		if err := s.checkStreams(ctx, chunk); err != nil && ctx.Err() == nil {
			s.log.Debug("live: sessions not checked, retried later", "err", err)
			s.mu.Lock()
			for _, id := range chunk {
				s.due[id] = true
			}
			s.mu.Unlock()
		}
	}
}

// checkStreams does the work of checkDue for some streams.
func (s *Service) checkStreams(ctx context.Context, list []ID) error {
	ctx, cancel := context.WithTimeout(ctx, finishTime)
	defer cancel()
	rows, err := selectStreams(ctx, s.db, list)
	if err != nil {
		return err
	}
	out, err := s.fallen(ctx, list, rows)
	if err != nil {
		return err
	}
	s.mu.Lock()
	sessions := map[*localStream][]*view{}
	for _, id := range list {
		if a := s.local[id]; a != nil {
			sessions[a] = slices.Collect(maps.Values(a.views))
		}
	}
	s.mu.Unlock()
	var failed error
	stays := func(by Caller) bool {
		err := s.mayStay(ctx, by)
		if err != nil && !rightEnded(err) {
			failed, err = err, nil
		}
		return err == nil
	}
	for a, views := range sessions {
		st, found := rows[a.id]
		if p := a.pub; p != nil && (!found || !p.by.mayPublish(st) || out[st.Owner] || !stays(p.by)) {
			go a.src.Close(errMay)
		}
		for _, v := range views {
			if !found || !v.by.mayWatch(st) || out[v.by.User] || !stays(v.by) {
				go v.viewer.Close()
			}
		}
	}
	return failed
}

// fallen returns the owners and viewers of streams who are banned or deleted.
func (s *Service) fallen(ctx context.Context, list []ID, rows map[ID]Stream) (map[accounts.ID]bool, error) {
	users := map[accounts.ID]bool{}
	for _, st := range rows {
		users[st.Owner] = true
	}
	s.mu.Lock()
	for _, id := range list {
		if a := s.local[id]; a != nil {
			for _, v := range a.views {
				users[v.by.User] = true
			}
		}
	}
	s.mu.Unlock()
	delete(users, accounts.ID{}) // viewers with a key
	out := map[accounts.ID]bool{}
	for chunk := range slices.Chunk(slices.Collect(maps.Keys(users)), sweepBatch) {
		found, err := accounts.Standings(ctx, s.db, chunk...)
		if err != nil {
			return nil, err
		}
		for _, u := range chunk {
			if standing, known := found[u]; !known || standing.IsInactive() {
				out[u] = true
			}
		}
	}
	return out, nil
}

// errMay reports that a session is no longer allowed.
var errMay = errors.New("live: the session is no longer allowed")

// checkRelays ends relays without viewers, and relays of publishers who have left. If Redis has lost a publisher's
// lease, the publisher has the lease's duration to acquire it again.
func (s *Service) checkRelays(ctx context.Context, now time.Time) {
	var list []ID
	s.mu.Lock()
	for id, a := range s.local {
		switch {
		case a.pub != nil:
		case len(a.views) == 0 && now.Sub(a.idle) > lingerFor:
			go a.src.Close(nil)
		default:
			list = append(list, id)
		}
	}
	s.mu.Unlock()
	for chunk := range slices.Chunk(list, sweepBatch) {
		ctx, cancel := context.WithTimeout(ctx, roundTime)
		states, err := s.redis.states(ctx, chunk, s.bus.Time())
		cancel()
		if err != nil {
			return // media are forwarded as long as they arrive
		}
		s.mu.Lock()
		for _, id := range chunk {
			a, onAir := s.local[id], states[id].OnAir
			switch {
			case a == nil || a.pub != nil:
			case onAir != nil && onAir.Session == a.session: // perhaps with a new token, because Redis had lost the lease
				a.lost = time.Time{}
			case onAir == nil && a.lost.IsZero():
				a.lost = now
			case onAir != nil || now.Sub(a.lost) >= s.life:
				go a.src.Close(errPublisherLeft)
			}
		}
		s.mu.Unlock()
	}
}

// renew renews this node's viewers in Redis.
func (s *Service) renew(ctx context.Context) {
	viewers := map[ID][]Watching{}
	s.mu.Lock()
	for id, a := range s.local {
		for _, v := range a.views {
			if v.counts() {
				viewers[id] = append(viewers[id], v.Watching)
			}
		}
	}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, finishTime)
	defer cancel()
	if err := s.redis.renew(ctx, viewers, s.bus.Time()); err != nil {
		s.log.Debug("live: viewers not renewed, retried later", "err", err)
	}
}

package live

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/live/media"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/lease"
)

const (
	// reportEvery is the time between two renewals of a publisher's lease, each with a report. Four renewals may fail.
	reportEvery = 2 * time.Second
	// patience is the longest time without a lease that a publisher's session survives while Redis is unavailable.
	patience = 30 * time.Second
	// roundTime bounds the work for one report, and finishTime the work at an end.
	roundTime  = 2 * time.Second
	finishTime = 5 * time.Second
)

// localStream is a stream on this node: a publisher's session, or a relay of another node's.
type localStream struct {
	id      ID
	src     *media.Source
	pub     *publication // nil for a relay
	session SessionID    // for a relay: the publisher's session
	lost    time.Time    // for a relay: time when its publisher was lost; zero while it has one
	views   map[SessionID]*view
	idle    time.Time // time since the stream has no viewers
}

// publication is a publisher's session.
type publication struct {
	session   SessionID
	stream    ID
	by        Caller
	began     int64 // Unix ms
	src       *media.Source
	unfollow  func()
	held      atomic.Pointer[lease.Held]
	lost      time.Time       // time when this node lost the lease; zero while it has the lease
	recording *localRecording // the recording; nil: none

	counted time.Time // time of the last count of bytes
	bytes   uint64
}

// open reports whether the publisher's media are forwarded: only while the lease is certainly this node's.
func (p *publication) open() bool {
	h := p.held.Load()
	return h != nil && time.Now().Before(h.Until())
}

// token returns the fencing token of the publisher's lease.
func (p *publication) token() int64 { return p.held.Load().Token }

// onAir returns the info for other nodes.
func (s *Service) onAir(p *publication) OnAir {
	return OnAir{Token: p.token(), Session: p.session, Node: s.cfg.Node, Address: s.cfg.Address(), Started: p.began, Formats: p.src.Formats,
		Recording: p.recording != nil}
}

// Publish answers the offer of a publisher, and publishes until the session ends. It returns ErrStream, ErrMay,
// ErrBusy, ErrOffer, ErrCodec, ErrMedia, ErrFull or ErrState.
func (s *Service) Publish(ctx context.Context, by Caller, id ID, offer string) (_ SessionID, answer string, err error) {
	defer errs.Wrap(&err, "live.Publish %s", id)
	st, err := s.stream(ctx, id)
	switch {
	case err != nil:
		return SessionID{}, "", err
	case !by.mayPublish(st) && by.Key != nil && by.mayWatch(st):
		return SessionID{}, "", ErrMay
	case !by.mayPublish(st):
		return SessionID{}, "", ErrStream
	}
	engine, base, done, err := s.begin(places{})
	if err != nil {
		return SessionID{}, "", err
	}
	defer func() {
		if err != nil {
			done()
		}
	}()
	held, err := s.leases.Acquire(ctx, leaseKeys(id), s.cfg.Node, s.life)
	switch {
	case errors.Is(err, lease.ErrHeld):
		return SessionID{}, "", errors.Join(ErrBusy, err)
	case isUnavailable(err):
		return SessionID{}, "", errors.Join(ErrState, err)
	case err != nil:
		return SessionID{}, "", err
	}
	p := &publication{session: ids.New[Session](), stream: id, by: by, counted: time.Now()}
	p.held.Store(held)
	defer func() {
		if err != nil {
			p.held.Store(nil)
			if err := held.Release(context.WithoutCancel(ctx)); err != nil {
				s.log.Debug("live: lease of a failed publisher not released", "stream", id, "err", err)
			}
		}
	}()
	if p.src, answer, err = engine.Publish(ctx, offer, p.open); err != nil {
		return SessionID{}, "", refusal(err)
	}
	defer func() {
		if err != nil {
			p.src.Close(err)
		}
	}()
	p.began = s.db.Now().UnixMilli()
	p.unfollow = s.follow(ctx, id, []string{st.Owner.String()}) // the owner may be banned, or the session of by may end
	defer func() {
		if err != nil {
			p.unfollow()
		}
	}()
	if err := s.claim(ctx, p, held.Token); err != nil {
		return SessionID{}, "", err
	}
	s.mu.Lock()
	if s.base == nil || s.local[id] != nil && s.local[id].pub != nil {
		s.mu.Unlock()
		return SessionID{}, "", ErrBusy // the previous session is still ending
	}
	if before := s.local[id]; before != nil {
		defer before.src.Close(errPublisherLeft) // a relay of a publisher who has left
	}
	a := &localStream{id: id, src: p.src, pub: p, views: map[SessionID]*view{}, idle: time.Now()}
	s.local[id] = a
	s.mu.Unlock()
	p.recording = s.record(st, p)
	if err := s.report(ctx, p); err != nil {
		s.log.Debug("live: publisher not reported, retried later", "stream", id, "err", err)
	}
	s.metrics.publishers.Inc()
	s.log.Info("live: stream published", "stream", id, "session", p.session, "pictures", name(p.src.Formats.Video), "sound",
		name(p.src.Formats.Audio))
	go func() {
		defer done()
		s.renewPublisher(base, p)
		s.finish(base, a)
		if p.recording != nil { // outside the session's slot, because storing may take half an hour
			s.work.Go(func() { s.finishRecording(base, p.recording) })
		}
	}()
	return p.session, answer, nil
}

func name(f *media.Format) string {
	if f == nil {
		return "none"
	}
	return f.Name()
}

// claim records in SQL that a stream is published. It returns ErrStream if the publisher no longer may publish, or if
// the owner is banned or deleted. It returns ErrBusy if a newer publisher has claimed the stream.
func (s *Service) claim(ctx context.Context, p *publication, token int64) error {
	return asKind(ctx, s.caches.Change(ctx, StreamStarted.Of(s.caches.Runtime, p.stream), func(ctx context.Context, tx *sqldb.Tx) error {
		st, err := selectStream(ctx, tx, p.stream, tx.Dialect().ForUpdate())
		if err != nil {
			return err
		}
		if !p.by.mayPublish(st) {
			return ErrStream
		}
		owner, err := accounts.Standings(ctx, tx, st.Owner)
		if err != nil {
			return err
		}
		if standing, known := owner[st.Owner]; !known || standing.IsInactive() {
			return ErrStream
		}
		newest, err := claim(ctx, tx, p.stream, token, p.began)
		if err == nil && !newest {
			err = ErrBusy
		}
		return err
	}))
}

// renewPublisher renews the lease of a publisher and reports its figures, until the session ends.
func (s *Service) renewPublisher(ctx context.Context, p *publication) {
	t := time.NewTicker(s.every)
	defer t.Stop()
	for {
		select {
		case <-p.src.Done():
			return
		case <-ctx.Done():
			p.src.Close(errStopping)
			return
		case <-t.C:
		}
		if err := s.round(ctx, p); err != nil {
			s.log.Info("live: publisher disconnected", "stream", p.stream, "session", p.session, "err", err)
			p.src.Close(err)
			return
		}
	}
}

// round renews a publisher's lease and reports. If Redis has lost the lease, it acquires it again. An error ends the
// session.
func (s *Service) round(ctx context.Context, p *publication) error {
	ctx, cancel := context.WithTimeout(ctx, roundTime)
	defer cancel()
	err := p.held.Load().Renew(ctx)
	if errors.Is(err, lease.ErrLost) {
		err = s.reacquire(ctx, p)
	}
	if err == nil {
		err = s.report(ctx, p)
	}
	switch {
	case err == nil:
		p.lost = time.Time{}
		return nil
	case errors.Is(err, errOvertaken), errors.Is(err, lease.ErrHeld), errors.Is(err, ErrStream), errors.Is(err, ErrBusy):
		return err
	case p.open():
		return nil
	case p.lost.IsZero():
		p.lost = time.Now()
	case time.Since(p.lost) > patience:
		return err
	}
	return nil
}

// errNotYet reports that a lease is not available at the moment, and that no other node is known to hold it.
var errNotYet = errors.New("live: the lease is not available yet")

// reacquire acquires a lease that Redis has lost, unless another publisher has it. A lease whose reply this node did
// not get expires.
func (s *Service) reacquire(ctx context.Context, p *publication) error {
	held, err := s.leases.Acquire(ctx, leaseKeys(p.stream), s.cfg.Node, s.life)
	if errors.Is(err, lease.ErrHeld) {
		h, _, unknown := s.leases.Holder(ctx, leaseKeys(p.stream))
		if h.Owner == "" || h.Owner == s.cfg.Node {
			return errors.Join(errNotYet, unknown)
		}
	}
	if err != nil {
		return err
	}
	if err := s.claim(ctx, p, held.Token); err != nil {
		return errors.Join(err, held.Release(ctx))
	}
	p.held.Store(held)
	return nil
}

// report stores the info and the figures of a stream in Redis. It returns errOvertaken if another publisher has a newer
// token.
func (s *Service) report(ctx context.Context, p *publication) error {
	c, now := p.src.Counts(), time.Now()
	stats := Stats{Packets: int64(c.Packets), Bytes: int64(c.Bytes), Lost: int64(c.Lost)}
	if elapsed := now.Sub(p.counted); elapsed > 0 {
		stats.Bitrate = int64(float64(c.Bytes-p.bytes) * 8 / elapsed.Seconds())
	}
	s.metrics.bytesIn.Add(float64(c.Bytes - p.bytes))
	p.counted, p.bytes = now, c.Bytes
	_, err := s.redis.report(ctx, p.stream, s.onAir(p), stats, s.bus.Time())
	return err
}

// finish ends a publication, so that other publishers may follow.
func (s *Service) finish(base context.Context, a *localStream) {
	p := a.pub
	p.src.Close(nil)
	p.unfollow()
	s.metrics.publishers.Dec()
	held := p.held.Load()
	s.mu.Lock()
	if s.local[a.id] == a {
		delete(s.local, a.id)
	}
	s.mu.Unlock()
	func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(base), finishTime)
		defer cancel()
		err := asKind(ctx, s.caches.Change(ctx, StreamStopped.Of(s.caches.Runtime, a.id), func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := unclaim(ctx, tx, a.id, held.Token)
			return err
		}))
		if err != nil {
			s.log.Warn("live: end of stream not stored, left to a job", "stream", a.id, "err", err)
		}
		if err := s.redis.clear(ctx, a.id, held.Token); err != nil && !errors.Is(err, errOvertaken) {
			s.log.Debug("live: stream info not deleted, expires", "stream", a.id, "err", err)
		}
		if err := held.Release(ctx); err != nil {
			s.log.Debug("live: lease of a former publisher not released", "stream", a.id, "err", err)
		}
	}()
	s.log.Info("live: stream no longer published", "stream", a.id, "session", p.session)
}

// Unpublish ends a publisher's session for a caller who may publish. It returns ErrStream, ErrMay, ErrSession or
// ErrState.
func (s *Service) Unpublish(ctx context.Context, by Caller, id ID, session SessionID) (err error) {
	defer errs.Wrap(&err, "live.Unpublish %s", id)
	st, err := s.stream(ctx, id)
	switch {
	case err != nil:
		return err
	case !by.mayPublish(st) && by.Key != nil && by.mayWatch(st):
		return ErrMay
	case !by.mayPublish(st):
		return ErrStream
	}
	state, err := s.state(ctx, id)
	if errors.Is(err, ErrOffAir) || err == nil && state.OnAir.Session != session {
		return ErrSession
	}
	if err == nil {
		s.finishSession(ctx, id, session)
	}
	return err
}

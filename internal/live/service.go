package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/aggregate"
	"github.com/stoa-dev/stoa/internal/base/clientnet"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/config"
	"github.com/stoa-dev/stoa/internal/live/media"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/bus"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/lease"
	"github.com/stoa-dev/stoa/lib/redis"
)

// Files is the part of transfers that this package needs.
type Files interface {
	// Store stores a file for a user for a limited time, and returns its id. This is the caller's id, unless it is not
	// available. A retry with the same id resumes after its ctx or the process ended, or the storage was unavailable.
	Store(ctx context.Context, owner accounts.ID, id, name, media string, size int64, body io.ReaderAt,
		keep time.Duration) (file string, err error)
}

// Config has the dependencies and settings of a Service.
type Config struct {
	DB     *sqldb.DB
	Redis  *redis.DB
	Caches *cache.Runtime
	Cache  cache.Policy // policy of the cache; this package sets Unfenced
	Bus    *events.Bus  // has the events that end rights, and connects the nodes
	People *accounts.Service
	// MaySubscribe returns an error of the kind errs.NotFound if a viewer is not in the room of the channel.
	MaySubscribe func(ctx context.Context, viewer, channel string) error
	Node         string        // id of this process among all that share Redis
	Address      func() string // host:port of this node's HTTP for other nodes
	Files        Files
	Folder       string // folder of recordings that are not yet stored as files
	Secret       []byte // the same on all nodes
	// Previous is another accepted secret, used while the secret is rotated; nil: none.
	Previous []byte
	Metrics  prometheus.Registerer
	Log      *slog.Logger

	Settings
}

// Service implements live streams. It is safe for concurrent use.
type Service struct {
	db      *sqldb.DB
	redis   *redisStore
	leases  *lease.Leases
	caches  *aggregate.Caches
	streams *cache.Cache[ID, Stream]
	bus     *bus.Bus // between nodes
	signer  signer
	// previous accepts tokens of the previous secret; nil: none.
	previous signer
	metrics  *metrics
	cfg      Config
	log      *slog.Logger
	pulls    singleflight.Group // by stream
	life     time.Duration      // of a publisher's lease
	every    time.Duration      // between a publisher's reports
	sweep    time.Duration      // between comparisons of all sessions with SQL

	mu       sync.Mutex
	engine   *media.Engine   // nil while media are off
	base     context.Context //nolint:containedctx // for the work of sessions; nil before and after Run
	work     sync.WaitGroup
	local    map[ID]*localStream
	due      map[ID]bool // streams whose sessions the next beat compares with SQL
	all      bool        // the next beat compares every session
	nudge    chan struct{}
	sessions int
	viewers  map[string]int // number of sessions by user or client network
}

// New returns a Service. The error has all faults of the settings.
func New(cfg Config) (*Service, error) {
	config.Defaults(&cfg.Settings)
	if err := cfg.Settings.Validate(); err != nil {
		return nil, fmt.Errorf("live: %w", err)
	}
	s := &Service{db: cfg.DB, redis: &redisStore{cfg.Redis}, leases: lease.New(cfg.Redis), caches: aggregate.New(cfg.DB, cfg.Caches),
		bus: cfg.Bus.Nodes(), signer: cfg.Secret, previous: cfg.Previous, cfg: cfg, life: leaseLife, every: reportEvery, sweep: checkEvery,
		log:     cfg.Log,
		metrics: newMetrics(cfg.Metrics), local: map[ID]*localStream{}, due: map[ID]bool{}, viewers: map[string]int{},
		nudge: make(chan struct{}, 1)}
	s.streams = s.newStreams(cfg.Caches, cfg.Cache)
	s.bus.Handle(topic, bus.Handler{Event: s.handleEvent, Lost: s.lost})
	return s, nil
}

// The events of streams between nodes; the bus carries them under topic.
const (
	topic   = "live"
	changed = "stream.changed" // the data is the stream's id
	ended   = "session.end"    // the data is the ids of the stream and the session
	parted  = "viewer.end"     // the same, only for a viewer's session
)

// handleEvent handles an event of another node.
func (s *Service) handleEvent(e bus.Event) {
	if len(e.Data) < ids.Len {
		return
	}
	id, err := ids.Parse[Stream](e.Data[:ids.Len])
	if err != nil {
		return
	}
	switch e.Name {
	case changed:
		s.scheduleCheck(id)
	case ended, parted:
		session, err := ids.Parse[Session](e.Data[ids.Len:])
		switch {
		case err != nil:
		case e.Name == ended:
			s.endSession(id, session)
		default:
			s.endView(id, session)
		}
	}
}

// lost makes the next beat compare all sessions with SQL, because an event was missed.
func (s *Service) lost() {
	s.mu.Lock()
	s.all = true
	s.mu.Unlock()
	s.wake()
}

// scheduleCheck makes the next beat compare the sessions of a stream with SQL.
func (s *Service) scheduleCheck(id ID) {
	s.mu.Lock()
	s.due[id] = true
	s.mu.Unlock()
	s.wake()
}

func (s *Service) wake() {
	select {
	case s.nudge <- struct{}{}:
	default:
	}
}

// broadcast broadcasts an event to the other nodes. If it is lost, they find the change within half a minute.
func (s *Service) broadcast(ctx context.Context, name, data string) {
	if err := s.bus.Publish(ctx, topic, name, data); err != nil {
		s.log.Debug("live: event not broadcast", "what", name, "err", err)
	}
}

// Changed makes all nodes compare the sessions of a stream with SQL.
func (s *Service) Changed(ctx context.Context, id ID) {
	s.scheduleCheck(id)
	s.broadcast(ctx, changed, id.String())
}

// Obey executes an operator's order.
func (s *Service) Obey(ctx context.Context, o Order) (err error) {
	defer errs.Wrap(&err, "live.Obey %s", o.Stream)
	if err := s.caches.Drop(ctx, StreamChanged.Of(s.caches.Runtime, o.Stream)...); err != nil && !errors.Is(err, cache.ErrQueued) {
		return err
	}
	if o.Stop {
		if err := s.stop(ctx, o.Stream); !errors.Is(err, ErrOffAir) {
			return err
		}
		return nil // it has already ended
	}
	s.Changed(ctx, o.Stream)
	return nil
}

// KeySet selects the keys of a stream to replace.
type KeySet struct{ Publish, Play bool }

// rotate replaces the selected keys of a stream and returns the new ones.
func (w KeySet) rotate(st *Stream) (keys StreamKeys) {
	if w.Publish {
		keys.Publish = newKey(publishKey, st.ID)
		st.Publish = hashOf(keys.Publish)
	}
	if w.Play {
		keys.Play = newKey(playKey, st.ID)
		st.Play = hashOf(keys.Play)
	}
	return keys
}

// Update has the changes of a stream. A nil field changes nothing.
type Update struct {
	Title  *string
	Access *Access
	Record *bool
}

func (u Update) apply(st *Stream) error {
	if u.Title != nil {
		title, err := line(*u.Title)
		if err != nil {
			return ErrTitle.On("body.title", "is not 1 to 100 printable characters")
		}
		st.Title = title
	}
	aggregate.Set(&st.Access, u.Access)
	aggregate.Set(&st.Record, u.Record)
	return nil
}

// Create creates a stream and returns its keys, which are not returned again. The caller chooses the id and uses it
// again for each retry of a request. A stream of an earlier try gets new keys, because the caller did not get the first
// ones. Create returns ErrTitle, ErrStreams, ErrStream or accounts.ErrNoUser.
func (s *Service) Create(ctx context.Context, owner accounts.ID, id ID, u Update) (st Stream, keys StreamKeys, err error) {
	defer errs.Wrap(&err, "live.Create %s", owner)
	fresh := Stream{ID: id, Owner: owner}
	if err := u.apply(&fresh); err != nil {
		return Stream{}, StreamKeys{}, err
	}
	both := KeySet{true, true}
	var made bool // by an earlier try
	err = s.caches.Change(ctx, StreamChanged.Of(s.caches.Runtime, id), func(ctx context.Context, tx *sqldb.Tx) error {
		standings, err := accounts.Standings(ctx, tx, owner)
		if err != nil {
			return err
		}
		if standing, known := standings[owner]; !known || standing.Deleted {
			return accounts.ErrNoUser
		}
		st = fresh // a transaction may run more than once
		st.Created, keys = tx.Now().UnixMilli(), both.rotate(&st)
		err = insertStream(ctx, tx, st) // first, so that two tries conflict here
		if made = sqldb.IsDuplicate(err); made {
			if st, err = lockOwned(ctx, tx, owner, id); err != nil {
				return err
			}
			keys = both.rotate(&st)
			return updateStream(ctx, tx, st)
		}
		if err != nil {
			return err
		}
		if n, err := countOwned(ctx, tx, owner); err != nil {
			return err
		} else if n > s.cfg.Owned { // counted without a lock: concurrent calls may exceed the limit
			return ErrStreams
		}
		return nil
	}) // drops a negative entry of an earlier read of the id
	if err != nil {
		return Stream{}, StreamKeys{}, asKind(ctx, err)
	}
	if made {
		s.Changed(ctx, id)
	}
	return st, keys, nil
}

// change runs fn on an owner's stream in a transaction, under the lock of its row, and drops its cache entry. It
// returns ErrStream.
func (s *Service) change(ctx context.Context, owner accounts.ID, id ID, event cache.Event[ID],
	fn func(ctx context.Context, tx *sqldb.Tx, st *Stream) error) (st Stream, err error) {
	err = s.caches.Change(ctx, event.Of(s.caches.Runtime, id), func(ctx context.Context, tx *sqldb.Tx) (err error) {
		if st, err = lockOwned(ctx, tx, owner, id); err != nil {
			return err
		}
		return fn(ctx, tx, &st)
	})
	return st, asKind(ctx, err)
}

// Update updates a stream's settings. A change of recording takes effect with the next publisher's session. It returns
// ErrStream or ErrTitle.
func (s *Service) Update(ctx context.Context, owner accounts.ID, id ID, u Update) (_ Stream, err error) {
	defer errs.Wrap(&err, "live.Update %s", id)
	st, err := s.change(ctx, owner, id, StreamChanged, func(ctx context.Context, tx *sqldb.Tx, st *Stream) error {
		if err := u.apply(st); err != nil {
			return err
		}
		return updateStream(ctx, tx, *st)
	})
	if err == nil {
		s.Changed(ctx, id)
	}
	return st, err
}

// Rotate gives a stream new keys, and ends the sessions with the old ones. It returns ErrStream.
func (s *Service) Rotate(ctx context.Context, owner accounts.ID, id ID, set KeySet) (keys StreamKeys, err error) {
	defer errs.Wrap(&err, "live.Rotate %s", id)
	_, err = s.change(ctx, owner, id, StreamChanged, func(ctx context.Context, tx *sqldb.Tx, st *Stream) error {
		keys = set.rotate(st)
		return updateStream(ctx, tx, *st)
	})
	if err != nil {
		return StreamKeys{}, err
	}
	s.Changed(ctx, id)
	return keys, nil
}

// Delete deletes a stream. Recorded files remain with their owner. It returns ErrStream.
func (s *Service) Delete(ctx context.Context, owner accounts.ID, id ID) (err error) {
	defer errs.Wrap(&err, "live.Delete %s", id)
	if _, err := s.change(ctx, owner, id, StreamDeleted, func(ctx context.Context, tx *sqldb.Tx, _ *Stream) error {
		return deleteStream(ctx, tx, id)
	}); err != nil {
		return err
	}
	s.deleted(ctx, id)
	return nil
}

// deleted ends the sessions of a deleted stream.
func (s *Service) deleted(ctx context.Context, id ID) {
	s.Changed(ctx, id)
	if err := s.redis.forget(ctx, id); err != nil {
		s.log.Debug("live: data of a deleted stream not deleted, expires", "stream", id, "err", err)
	}
}

// Erase deletes the streams of a user without an account. It may be repeated.
func (s *Service) Erase(ctx context.Context, user accounts.ID) (err error) {
	defer errs.Wrap(&err, "live.Erase %s", user)
	for {
		list, err := selectUserStreams(ctx, s.db, user, sweepBatch)
		if err != nil {
			return asKind(ctx, err)
		}
		for _, st := range list {
			if err := s.Delete(ctx, user, st.ID); err != nil && !errors.Is(err, ErrStream) {
				return err
			}
		}
		if len(list) < sweepBatch {
			return nil
		}
	}
}

// Shown is a stream with its present state.
type Shown struct {
	Stream
	State
}

// show adds the present states to streams. While Redis is unavailable, no stream is shown as live.
func (s *Service) show(ctx context.Context, list []Stream) []Shown {
	out := make([]Shown, len(list))
	var live []ID
	for i, st := range list {
		out[i].Stream = st
		if st.Since > 0 {
			live = append(live, st.ID)
		}
	}
	if len(live) == 0 {
		return out
	}
	states, err := s.redis.states(ctx, live, s.bus.Time())
	if err != nil {
		s.log.Debug("live: state of streams not read", "err", err)
	}
	for i := range out {
		out[i].State = states[out[i].ID]
	}
	return out
}

// Get returns a stream that the user may watch, or ErrStream.
func (s *Service) Get(ctx context.Context, user accounts.ID, id ID) (_ Shown, err error) {
	defer errs.Wrap(&err, "live.Get %s", id)
	st, err := s.stream(ctx, id)
	if err == nil && !(Caller{User: user}).mayWatch(st) {
		err = ErrStream
	}
	if err != nil {
		return Shown{}, err
	}
	return s.show(ctx, []Stream{st})[0], nil
}

// Mine returns the streams of a user, newest first.
func (s *Service) Mine(ctx context.Context, user accounts.ID) (_ []Shown, err error) {
	defer errs.Wrap(&err, "live.Mine %s", user)
	list, err := selectUserStreams(ctx, s.db, user, 1000)
	if err != nil {
		return nil, asKind(ctx, err)
	}
	return s.show(ctx, list), nil
}

// List returns at most n open live streams, the latest start first, and the cursor of the next page. It returns
// ErrCursor.
func (s *Service) List(ctx context.Context, cursor string, n int) (_ []Shown, next string, err error) {
	defer errs.Wrap(&err, "live.List")
	at, err := parsePlace(cursor)
	if err != nil {
		return nil, "", err
	}
	list, err := openLive(ctx, s.db, at, n)
	if err != nil {
		return nil, "", asKind(ctx, err)
	}
	if len(list) == n {
		last := list[n-1]
		next = place{last.Since, last.ID.String()}.cursor()
	}
	return slices.DeleteFunc(s.show(ctx, list), func(sh Shown) bool { return sh.OnAir == nil }), next, nil
}

// owned returns a stream of the owner, or ErrStream.
func (s *Service) owned(ctx context.Context, owner accounts.ID, id ID) (Stream, error) {
	st, err := s.stream(ctx, id)
	if err == nil && st.Owner != owner {
		err = ErrStream
	}
	return st, err
}

// Viewers returns at most 1,000 viewers of an owner's stream. It returns ErrStream or ErrState.
func (s *Service) Viewers(ctx context.Context, owner accounts.ID, id ID) (_ []Watching, err error) {
	defer errs.Wrap(&err, "live.Viewers %s", id)
	if _, err := s.owned(ctx, owner, id); err != nil {
		return nil, err
	}
	list, err := s.redis.viewers(ctx, id, s.bus.Time())
	if isUnavailable(err) {
		return nil, errors.Join(ErrState, err)
	}
	return list, err
}

// Recordings returns at most n recordings of an owner's stream, newest first, and the cursor of the next page. It
// returns ErrStream or ErrCursor.
func (s *Service) Recordings(ctx context.Context, owner accounts.ID, id ID, cursor string, n int) (_ []Recording, next string, err error) {
	defer errs.Wrap(&err, "live.Recordings %s", id)
	at, err := parsePlace(cursor)
	if err != nil {
		return nil, "", err
	}
	if _, err := s.owned(ctx, owner, id); err != nil {
		return nil, "", err
	}
	list, err := selectRecordings(ctx, s.db, id, at, n+1)
	if err != nil {
		return nil, "", asKind(ctx, err)
	}
	if len(list) > n {
		list = list[:n]
		next = place{list[n-1].Started, list[n-1].ID.String()}.cursor()
	}
	return list, next, nil
}

// Stop ends the publisher's session of an owner's stream. A publisher with the key may publish again. It returns
// ErrStream, ErrOffAir or ErrState.
func (s *Service) Stop(ctx context.Context, owner accounts.ID, id ID) (err error) {
	defer errs.Wrap(&err, "live.Stop %s", id)
	if _, err := s.owned(ctx, owner, id); err != nil {
		return err
	}
	return s.stop(ctx, id)
}

// stop ends the publisher's session of a stream. It returns ErrOffAir or ErrState.
func (s *Service) stop(ctx context.Context, id ID) error {
	state, err := s.state(ctx, id)
	if err != nil {
		return err
	}
	s.finishSession(ctx, id, state.OnAir.Session)
	return nil
}

// state returns the state of a live stream. It returns ErrOffAir or ErrState.
func (s *Service) state(ctx context.Context, id ID) (State, error) {
	states, err := s.redis.states(ctx, []ID{id}, s.bus.Time())
	switch {
	case isUnavailable(err):
		return State{}, errors.Join(ErrState, err)
	case err != nil:
		return State{}, err
	case states[id].OnAir == nil:
		return State{}, ErrOffAir
	}
	return states[id], nil
}

// finishSession ends a session on any node.
func (s *Service) finishSession(ctx context.Context, id ID, session SessionID) {
	if !s.endSession(id, session) {
		s.broadcast(ctx, ended, id.String()+session.String())
	}
}

// Verify returns the holder of a token. It returns accounts.ErrToken if the token is invalid, or if the viewer of a
// ticket has left the room.
func (s *Service) Verify(ctx context.Context, token string) (_ *Holder, err error) {
	defer errs.Wrap(&err, "live.Verify")
	k, id, rest, ok := parseToken(token)
	if !ok {
		return nil, accounts.ErrToken
	}
	h := &Holder{Stream: id, kind: k, hash: hashOf(token), from: clientnet.From(ctx)}
	st, err := s.stream(ctx, id)
	if errors.Is(err, ErrStream) {
		return nil, accounts.ErrToken
	} else if err != nil {
		return nil, err
	}
	switch k {
	case publishKey:
		ok = same(h.hash, st.Publish)
	case playKey:
		ok = same(h.hash, st.Play)
	case ticket:
		h.hash = st.Play
		var subject string
		if subject, ok = s.signed(k, id, rest, st.Play); ok {
			h.seat, ok = parseSeat(subject)
		}
	case relay:
		_, ok = s.signed(k, id, rest, "")
	default:
		ok = false
	}
	if !ok {
		return nil, accounts.ErrToken
	}
	if err := s.mayStay(ctx, Caller{Key: h}); rightEnded(err) {
		return nil, accounts.ErrToken
	} else if err != nil {
		return nil, err
	}
	return h, nil
}

// ticketLife is the time within which the bearer of a ticket may begin to watch.
const ticketLife = 10 * time.Minute

// Ticket returns a token for a viewer in a room to watch a stream. The user by has put the stream on the room's
// playlist and may watch it. Ticket also returns the stream's path and the time until which the viewer may begin to
// watch. The device is the viewer's session, or zero for a guest.
// The token and its sessions end when the viewer leaves the room or the viewer's session ends. They also end when by
// may no longer watch, or with a new play key. Ticket returns ErrStream.
func (s *Service) Ticket(ctx context.Context, by accounts.ID, stream, room, viewer string,
	device accounts.DeviceID) (path, token string, until time.Time, err error) {
	defer errs.Wrap(&err, "live.Ticket %s", stream)
	id, err := ids.Parse[Stream](stream)
	if err != nil {
		return "", "", time.Time{}, ErrStream
	}
	st, err := s.stream(ctx, id)
	if err == nil && !(Caller{User: by}).mayWatch(st) {
		err = ErrStream
	}
	if err != nil {
		return "", "", time.Time{}, err
	}
	until = s.db.Now().Add(ticketLife).Truncate(time.Second)
	return watchPath(id), s.signer.sign(ticket, id, until, seat{room, viewer, by, device}.String(), st.Play), until, nil
}

func watchPath(id ID) string   { return "/v1/streams/" + id.String() + "/whep" }
func publishPath(id ID) string { return "/v1/streams/" + id.String() + "/whip" }

// Run serves media and does the regular work for sessions, until ctx ends.
func (s *Service) Run(ctx context.Context, ready func()) error {
	s.recover(ctx) // before a new recording begins
	s.listen(ctx, slog.LevelWarn)
	s.mu.Lock()
	s.base = ctx
	s.mu.Unlock()
	ready()
	s.work.Go(func() { s.warm(ctx) })
	s.beat(ctx)
	s.mu.Lock()
	engine := s.engine
	s.engine, s.base = nil, nil // no session begins from here on
	streams := maps.Clone(s.local)
	s.mu.Unlock()
	for _, a := range streams {
		a.src.Close(errStopping)
	}
	s.work.Wait()
	if engine != nil {
		return engine.Close()
	}
	return nil
}

var errStopping = errors.New("live: the server is stopping")

// listen opens the port for media if it is not yet open, and opens it on new addresses of the machine. A node that
// cannot open the port serves no media, but does the rest. level is the level of the log line about this.
func (s *Service) listen(ctx context.Context, level slog.Level) {
	if !s.cfg.carries() {
		return
	}
	s.mu.Lock()
	engine := s.engine
	s.mu.Unlock()
	if engine != nil {
		engine.UpdateAddresses()
		return
	}
	engine, err := media.New(media.Config{UDP: s.cfg.UDP, PublicIPs: s.cfg.PublicIP, Log: s.log})
	if err != nil {
		s.log.Log(ctx, level, "live: the UDP port cannot be opened; set another live.udp for this node, or off", "udp", s.cfg.UDP, "err", err)
		return
	}
	s.mu.Lock()
	s.engine = engine
	s.mu.Unlock()
}

// places is the number of a node's sessions that one viewer may have.
type places struct {
	subject string // a user or a client network
	most    int    // 0: a publisher or another node, which may also use the reserved tenth of all sessions
}

// begin counts a new session and returns the engine and context for it. The caller must call done once at the end. It
// returns ErrMedia, ErrFull or ErrTooMany.
func (s *Service) begin(p places) (engine *media.Engine, base context.Context, done func(), err error) {
	all, views := s.cfg.Sessions, p.most > 0
	if views {
		all -= all / 10
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.engine == nil || s.base == nil:
		return nil, nil, nil, ErrMedia
	case s.sessions >= all:
		return nil, nil, nil, ErrFull
	case views && s.viewers[p.subject] >= p.most:
		return nil, nil, nil, ErrTooMany
	}
	s.sessions++
	if views {
		s.viewers[p.subject]++
	}
	s.work.Add(1)
	return s.engine, s.base, sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sessions--
		if views {
			if s.viewers[p.subject]--; s.viewers[p.subject] == 0 {
				delete(s.viewers, p.subject)
			}
		}
		s.work.Done()
	}), nil
}

// refusal returns the caller's error for an offer that cannot be answered.
func refusal(err error) error {
	switch {
	case errors.Is(err, media.ErrCodec):
		return errors.Join(ErrCodec, err)
	case errors.Is(err, media.ErrOffer):
		return errors.Join(ErrOffer, err)
	case errors.Is(err, media.ErrEnded):
		return errors.Join(ErrOffAir, err)
	}
	return err
}

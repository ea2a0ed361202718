package presence

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/cluster"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/social"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/bus"
	"github.com/stoa-dev/stoa/lib/redis"
)

// MaxUsers is the largest number of users of one [Service.Get].
const MaxUsers = 200

// Config has the dependencies of the domain.
type Config struct {
	DB      *sqldb.DB
	Redis   *redis.DB
	Bus     *events.Bus
	Node    cluster.ID // of this process
	Nodes   *cluster.Service
	People  *accounts.Service
	Friends *social.Service
	Metrics prometheus.Registerer
	Log     *slog.Logger
}

// Service has the operations of the domain. It is safe for concurrent use.
type Service struct {
	cfg   Config
	db    *sqldb.DB
	redis redisStore
	log   *slog.Logger

	local          localConnections
	changes        changeQueue
	lossSuspected  atomic.Bool // Redis may have lost connections of this node
	hasMark        bool        // this node has its mark in Redis; used by Run only
	markedComplete bool        // its mark states that its connections are complete; used by Run only
	peers          peers
	lastBeat       time.Time   // when the latest beat began; used by Run only
	lastRenewal    time.Time   // when keys were last checked for renewal; used by Run only
	mayHaveStrays  bool        // Redis may have connections that this node does not have; used by Run only
	departures     []departure // users who are still in the node's set in Redis, by time; used by Run only

	mu              sync.Mutex
	pendingLastSeen map[accounts.ID]time.Time // times that SQL does not have yet
	pendingWishes   map[accounts.ID]struct{}  // users whose wish Redis may not have
	partialReaders  map[accounts.ID]struct{}  // users with a partial response, who get presence.complete

	missingSince map[cluster.ID]time.Time // when nodes were first seen without a lease; used by the sweep only
	metrics      *metrics
}

// New returns a Service. It registers a handler at the bus, so call it before the bus runs.
func New(cfg Config) *Service {
	s := &Service{cfg: cfg, db: cfg.DB, redis: redisStore{cfg.Redis, cfg.DB.Now}, log: cfg.Log,
		local: newLocalConnections(), changes: newChangeQueue(),
		pendingLastSeen: map[accounts.ID]time.Time{}, pendingWishes: map[accounts.ID]struct{}{}, partialReaders: map[accounts.ID]struct{}{},
		missingSince: map[cluster.ID]time.Time{}}
	s.metrics = newMetrics(cfg.Metrics, s)
	cfg.Bus.Nodes().Handle("presence", bus.Handler{Lost: func() {
		s.lossSuspected.Store(true)
		s.local.wakeUp()
	}})
	return s
}

// Get returns the presence of users as viewer may see it, in the order of users. withLastSeen adds the last-seen time of
// offline users, which costs a SELECT. partial reports that Redis is unavailable, or lacks connections to a live node.
// Online users may then appear offline, and the viewer gets the event presence.complete later. It returns ErrTooMany
// for more than [MaxUsers] users.
//
// Reading costs two commands to Redis. Get reads the viewer's friends and the users' settings at the same time.
func (s *Service) Get(ctx context.Context, viewer accounts.ID, users []accounts.ID,
	withLastSeen bool) (_ []UserStatus, partial bool, err error) {
	defer errs.Wrap(&err, "presence.Get")
	if len(users) > MaxUsers {
		return nil, false, ErrTooMany
	}
	var friends map[accounts.ID]bool
	var audiences map[accounts.ID]accounts.Audience
	var states []UserStatus
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) { friends, err = s.cfg.Friends.AreFriends(gctx, viewer, users); return err })
	g.Go(func() (err error) { audiences, err = s.cfg.People.Audiences(gctx, users); return err })
	g.Go(func() (err error) { states, partial, err = s.states(gctx, users); return err })
	if err := g.Wait(); err != nil {
		return nil, false, asKind(err)
	}
	s.recordPartial(viewer, partial)
	result := make([]UserStatus, len(users))
	var offline []accounts.ID
	for i, u := range users {
		result[i].User = u
		if u != viewer && !audiences[u].Includes(friends[u]) {
			continue
		}
		if result[i] = states[i]; states[i].Status == Offline {
			offline = append(offline, u)
		}
	}
	if !withLastSeen || len(offline) == 0 {
		return result, partial, nil
	}
	rows, err := selectRows(ctx, s.db, offline)
	if err != nil {
		return nil, false, asKind(err)
	}
	lastSeen := make(map[accounts.ID]time.Time, len(offline))
	for _, u := range offline {
		lastSeen[u] = rows[u].lastSeen
	}
	for i := range result {
		result[i].LastSeen = lastSeen[result[i].User]
	}
	return result, partial, nil
}

// OnlineFriends returns the user's friends who are online and visible, in no order. partial is as in [Service.Get].
func (s *Service) OnlineFriends(ctx context.Context, user accounts.ID) (_ []UserStatus, partial bool, err error) {
	defer errs.Wrap(&err, "presence.OnlineFriends %s", user)
	friends, err := s.cfg.Friends.FriendIDs(ctx, user)
	if err != nil || len(friends) == 0 {
		return nil, false, asKind(err)
	}
	var audiences map[accounts.ID]accounts.Audience
	var states []UserStatus
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) { audiences, err = s.cfg.People.Audiences(gctx, friends); return err })
	g.Go(func() (err error) { states, partial, err = s.states(gctx, friends); return err })
	if err := g.Wait(); err != nil {
		return nil, false, asKind(err)
	}
	s.recordPartial(user, partial)
	var result []UserStatus
	for i, u := range friends {
		if states[i].Status != Offline && audiences[u].Includes(true) {
			result = append(result, states[i])
		}
	}
	return result, partial, nil
}

// Online reports for each user whether they are connected, regardless of audience and wish. partial is as in
// [Service.Get].
func (s *Service) Online(ctx context.Context, users []accounts.ID) (_ map[accounts.ID]bool, partial bool, err error) {
	defer errs.Wrap(&err, "presence.Online")
	states, partial, err := s.states(ctx, users)
	online := make(map[accounts.ID]bool, len(states))
	for i, st := range states {
		online[users[i]] = st.Status != Offline
	}
	return online, partial, err
}

// readTimeout bounds the wait of one request for Redis.
const readTimeout = 500 * time.Millisecond

// states returns the status of users, regardless of their audience.
func (s *Service) states(ctx context.Context, users []accounts.ID) (_ []UserStatus, partial bool, err error) {
	all, alive, partial, err := s.readUsers(ctx, users)
	if err != nil {
		return nil, partial, err
	}
	states := make([]UserStatus, len(users))
	for i, st := range all {
		states[i] = UserStatus{User: users[i], Status: st.status(alive), Version: st.version}
	}
	return states, partial, nil
}

// status returns the status of the user. Only connections to live nodes count.
func (st userState) status(alive func(cluster.ID) bool) Status {
	for _, c := range st.connections {
		if alive(c.Node) {
			return st.wish.status()
		}
	}
	return Offline
}

// readUsers returns the data of users in Redis, and a function that reports whether a node is live. The result is
// partial if connections to a live node may be missing. It always has the connections to this node. While Redis is
// unavailable, it has no others.
func (s *Service) readUsers(ctx context.Context, users []accounts.ID) (
	all []userState, alive func(cluster.ID) bool, partial bool, err error,
) {
	isSelf := func(n cluster.ID) bool { return n == s.cfg.Node }
	readCtx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	live, err := s.cfg.Nodes.Live(readCtx)
	if err == nil {
		all, err = s.redis.read(readCtx, users)
	}
	complete := false
	if err == nil { // after the read, so that an earlier loss is visible
		complete, err = s.isComplete(readCtx, live)
	}
	if err == nil {
		s.metrics.reads.WithLabelValues("redis").Inc()
		if !complete {
			s.replaceOwn(users, all)
		}
		return all, func(n cluster.ID) bool { return isSelf(n) || !live[n].IsZero() }, !complete, nil
	}
	if ctx.Err() != nil {
		return nil, nil, false, ctx.Err()
	}
	s.metrics.reads.WithLabelValues("node").Inc()
	all = make([]userState, len(users))
	var local []accounts.ID
	for i, u := range users {
		if all[i].connections = s.local.ofUser(u); len(all[i].connections) > 0 {
			local = append(local, u)
		}
	}
	rows, err := selectRows(ctx, s.db, local)
	for i, u := range users {
		all[i].wish = rows[u].wish
	}
	return all, isSelf, true, err
}

// isComplete reports whether Redis has the connections to all nodes in live. It also checks nodes that were live a
// moment ago, because Redis may have lost their leases.
func (s *Service) isComplete(ctx context.Context, live map[cluster.ID]cluster.Boot) (bool, error) {
	marks, err := s.redis.readMarks(ctx)
	if err != nil || s.lossSuspected.Load() {
		return false, err
	}
	for _, node := range s.peers.observe(live, time.Now()) {
		if !marks[node].isComplete(!live[node].IsZero()) {
			return false, nil
		}
	}
	return true, nil
}

// replaceOwn replaces, in data from Redis, the connections to this node by those in memory.
func (s *Service) replaceOwn(users []accounts.ID, all []userState) {
	for i, u := range users {
		others := slices.DeleteFunc(all[i].connections, func(c Connection) bool { return c.Node == s.cfg.Node })
		all[i].connections = append(others, s.local.ofUser(u)...)
		slices.SortStableFunc(all[i].connections, func(a, b Connection) int { return a.Since.Compare(b.Since) })
	}
}

// peers has the live nodes, and those that were live a moment ago.
type peers struct {
	mu           sync.Mutex
	missingSince map[cluster.ID]time.Time // when a node was first seen without a lease; zero: it has one
}

// observe returns the live nodes, and those that have had no lease for at most [linger].
func (p *peers) observe(live map[cluster.ID]cluster.Boot, now time.Time) []cluster.ID {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.missingSince == nil {
		p.missingSince = map[cluster.ID]time.Time{}
	}
	for node := range live {
		p.missingSince[node] = time.Time{}
	}
	for node, since := range p.missingSince {
		switch {
		case !live[node].IsZero():
		case since.IsZero():
			p.missingSince[node] = now
		case now.Sub(since) > linger:
			delete(p.missingSince, node)
		}
	}
	return slices.Collect(maps.Keys(p.missingSince))
}

// restart restarts the time of the missing nodes, because the live nodes are unknown.
func (p *peers) restart() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for node := range p.missingSince {
		p.missingSince[node] = time.Time{}
	}
}

// recordPartial records whether a user got a partial response. Such a user gets presence.complete later.
func (s *Service) recordPartial(user accounts.ID, partial bool) {
	if !partial {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.partialReaders) < maxPending {
		s.partialReaders[user] = struct{}{}
	}
}

// Own returns a user's status and wish, regardless of the audience. partial is as in [Service.Get].
func (s *Service) Own(ctx context.Context, user accounts.ID) (now, wish Status, partial bool, err error) {
	defer errs.Wrap(&err, "presence.Own %s", user)
	states, partial, err := s.states(ctx, []accounts.ID{user})
	if err != nil {
		return 0, 0, false, asKind(err)
	}
	s.recordPartial(user, partial)
	rows, err := selectRows(ctx, s.db, []accounts.ID{user})
	return states[0].Status, rows[user].wish.status(), partial, asKind(err)
}

// SetWish stores a user's wish. It publishes a changed status to the user's friends.
func (s *Service) SetWish(ctx context.Context, user accounts.ID, to Status) (err error) {
	defer errs.Wrap(&err, "presence.SetWish %s", user)
	w, changed, err := updateWish(ctx, s.db, user, to)
	if err != nil || !changed {
		return asKind(err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
	defer cancel()
	st, err := s.redis.storeWish(ctx, user, w)
	if err != nil {
		s.queueWish(user) // the wish is committed, and Redis gets it later
		return nil
	}
	if st.publishedOnline {
		s.changes.add(user, change{status: w.status(), at: s.db.Now(), own: true, version: st.version})
	}
	return nil
}

// maxPending is the largest number of users whose writes wait for Redis or SQL. It is large because all connections to
// a node may close at once.
const maxPending = 200_000

// queueWish enqueues a user's wish, to be written to Redis with the next beat.
func (s *Service) queueWish(user accounts.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pendingWishes) < maxPending {
		s.pendingWishes[user] = struct{}{}
	}
}

// Connections returns a user's connections, the oldest first. It includes the last connection to another node for about
// [linger] after it has closed. partial is as in [Service.Get].
func (s *Service) Connections(ctx context.Context, user accounts.ID) (_ []Connection, partial bool, err error) {
	defer errs.Wrap(&err, "presence.Connections %s", user)
	all, alive, partial, err := s.readUsers(ctx, []accounts.ID{user})
	if err != nil {
		return nil, false, asKind(err)
	}
	s.recordPartial(user, partial)
	open := make([]Connection, 0, len(all[0].connections))
	for _, c := range all[0].connections {
		if alive(c.Node) && (c.Node != s.cfg.Node || s.local.isOpen(user, c.Number)) {
			open = append(open, c)
		}
	}
	return open, partial, nil
}

// AudienceChanged publishes a change of a user's audience. The friends get an event that the user is online or offline.
func (s *Service) AudienceChanged(ctx context.Context, user accounts.ID) (err error) {
	defer errs.Wrap(&err, "presence.AudienceChanged %s", user)
	standings, err := accounts.Standings(ctx, s.db, user)
	if err != nil {
		return asKind(err)
	}
	visible := standings[user].Presence == accounts.ToFriends
	version, err := s.redis.change(ctx, user)
	if err != nil {
		return err // the queue retries
	}
	s.changes.add(user, change{status: Online, at: s.db.Now(), own: true, shown: visible, hidden: !visible, version: version})
	return nil
}

// Erase deletes all data of a user who no longer has an account. It may be repeated.
func (s *Service) Erase(ctx context.Context, user accounts.ID) (err error) {
	defer errs.Wrap(&err, "presence.Erase %s", user)
	if err := deleteRow(ctx, s.db, user); err != nil {
		return asKind(err)
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if err := s.redis.deleteUser(ctx, user); err != nil { // the keys expire within a day
		s.log.Info("presence: keys of an erased user not deleted, they will expire", "user", user, "err", err)
	}
	return nil
}

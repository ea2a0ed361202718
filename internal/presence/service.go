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
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/bus"
	"github.com/stoa-dev/stoa/lib/redis"
)

// MaxAsked is the largest number of users of one [Service.Of].
const MaxAsked = 200

// Nodes returns the live nodes. *cluster.Service implements it.
type Nodes interface {
	Live(ctx context.Context) (map[cluster.ID]cluster.Boot, error)
}

// People returns who may see a user. *accounts.Service implements it.
type People interface {
	// Audiences omits users who are deleted, banned or unknown.
	Audiences(ctx context.Context, users []accounts.ID) (map[accounts.ID]accounts.Audience, error)
}

// Friends returns the friends of users. *social.Service implements it.
type Friends interface {
	AreFriends(ctx context.Context, user accounts.ID, others []accounts.ID) (map[accounts.ID]bool, error)
	FriendIDs(ctx context.Context, user accounts.ID) ([]accounts.ID, error)
}

// Config has the dependencies of the domain.
type Config struct {
	DB      *sqldb.DB
	Redis   *redis.DB
	Bus     *events.Bus
	Node    cluster.ID // of this process
	Nodes   Nodes
	People  People
	Friends Friends
	Metrics prometheus.Registerer
	Log     *slog.Logger
}

// Service is the domain as the rest of the program uses it. It is safe for concurrent use.
type Service struct {
	cfg   Config
	db    *sqldb.DB
	redis redisStore
	log   *slog.Logger

	held    held
	tells   tells
	doubt   atomic.Bool // Redis may have lost connections of this node
	marked  bool        // this node has its mark in Redis; used by Run only
	vouched bool        // its mark states that its connections are complete; used by Run only
	peers   peers
	checked time.Time // when the latest beat began; used by Run only
	renewed time.Time // when keys were last checked for renewal; used by Run only
	astray  bool      // Redis may have connections that this node does not have; used by Run only
	left    []leaving // users who are still in the node's set in Redis, by time; used by Run only

	mu     sync.Mutex
	seen   map[accounts.ID]time.Time // not in SQL yet
	wishes map[accounts.ID]struct{}  // users whose wish Redis may not have
	partly map[accounts.ID]struct{}  // users with a partial response, who get presence.complete

	missing map[cluster.ID]time.Time // since when nodes have no lease; used by the sweep only
	metrics *metrics
}

// New returns the domain on those parts. It handles a topic of the bus, so call it before the bus runs.
func New(cfg Config) *Service {
	s := &Service{cfg: cfg, db: cfg.DB, redis: redisStore{cfg.Redis, cfg.DB.Now}, log: cfg.Log,
		held: newHeld(), tells: newTells(),
		seen: map[accounts.ID]time.Time{}, wishes: map[accounts.ID]struct{}{}, partly: map[accounts.ID]struct{}{}, missing: map[cluster.ID]time.Time{}}
	s.metrics = newMetrics(cfg.Metrics, s)
	cfg.Bus.Nodes().Handle("presence", bus.Handler{Lost: func() {
		s.doubt.Store(true)
		s.held.wakeUp()
	}})
	return s
}

// Of returns users as viewer may see them, in the order of users. With last, it adds when offline users were last seen,
// which costs a SELECT. partial reports that Redis is unavailable, or lacks connections of a live node. Users who are
// online may then seem offline, and the viewer gets presence.complete later. Presence itself costs two commands to
// Redis. The viewer's friends and the users' settings are read at the same time. It returns ErrTooMany for more than
// [MaxAsked] users.
func (s *Service) Of(ctx context.Context, viewer accounts.ID, users []accounts.ID, last bool) (_ []Seen, partial bool, err error) {
	defer errs.Wrap(&err, "presence.Of")
	if len(users) > MaxAsked {
		return nil, false, ErrTooMany
	}
	var friends map[accounts.ID]bool
	var audiences map[accounts.ID]accounts.Audience
	var states []Seen
	g, beside := errgroup.WithContext(ctx)
	g.Go(func() (err error) { friends, err = s.cfg.Friends.AreFriends(beside, viewer, users); return err })
	g.Go(func() (err error) { audiences, err = s.cfg.People.Audiences(beside, users); return err })
	g.Go(func() (err error) { states, partial, err = s.states(beside, users); return err })
	if err := g.Wait(); err != nil {
		return nil, false, asKind(err)
	}
	s.owes(viewer, partial)
	out := make([]Seen, len(users))
	var off []accounts.ID
	for i, u := range users {
		out[i].User = u
		if u != viewer && !audiences[u].Includes(friends[u]) {
			continue
		}
		if out[i] = states[i]; states[i].Status == Offline {
			off = append(off, u)
		}
	}
	if !last || len(off) == 0 {
		return out, partial, nil
	}
	rows, err := selectRows(ctx, s.db, off)
	if err != nil {
		return nil, false, asKind(err)
	}
	visible := make(map[accounts.ID]time.Time, len(off))
	for _, u := range off {
		visible[u] = rows[u].seen
	}
	for i := range out {
		out[i].Last = visible[out[i].User]
	}
	return out, partial, nil
}

// FriendsOnline returns the friends whom the user sees online, in no order. partial is as in [Service.Of].
func (s *Service) FriendsOnline(ctx context.Context, user accounts.ID) (_ []Seen, partial bool, err error) {
	defer errs.Wrap(&err, "presence.FriendsOnline %s", user)
	friends, err := s.cfg.Friends.FriendIDs(ctx, user)
	if err != nil || len(friends) == 0 {
		return nil, false, asKind(err)
	}
	var audiences map[accounts.ID]accounts.Audience
	var states []Seen
	g, beside := errgroup.WithContext(ctx)
	g.Go(func() (err error) { audiences, err = s.cfg.People.Audiences(beside, friends); return err })
	g.Go(func() (err error) { states, partial, err = s.states(beside, friends); return err })
	if err := g.Wait(); err != nil {
		return nil, false, asKind(err)
	}
	s.owes(user, partial)
	var out []Seen
	for i, u := range friends {
		if states[i].Status != Offline && audiences[u].Includes(true) {
			out = append(out, states[i])
		}
	}
	return out, partial, nil
}

// Online returns which of users are connected, regardless of their audience and wishes. partial is as in [Service.Of].
func (s *Service) Online(ctx context.Context, users []accounts.ID) (_ map[accounts.ID]bool, partial bool, err error) {
	defer errs.Wrap(&err, "presence.Online")
	states, partial, err := s.states(ctx, users)
	on := make(map[accounts.ID]bool, len(states))
	for i, st := range states {
		on[users[i]] = st.Status != Offline
	}
	return on, partial, err
}

// askTime bounds a read's wait for Redis.
const askTime = 500 * time.Millisecond

// states returns the status of users, regardless of their audience.
func (s *Service) states(ctx context.Context, users []accounts.ID) (_ []Seen, partial bool, err error) {
	all, alive, partial, err := s.known(ctx, users)
	if err != nil {
		return nil, partial, err
	}
	states := make([]Seen, len(users))
	for i, k := range all {
		states[i] = Seen{User: users[i], Status: k.status(alive), Version: k.version}
	}
	return states, partial, nil
}

// status returns the status of the user.
func (k kept) status(alive func(cluster.ID) bool) Status {
	for _, c := range k.connections {
		if alive(c.Node) {
			return k.wish.status()
		}
	}
	return Offline
}

// known returns what Redis has of users, and which nodes are live. The result is partial if connections of a live node
// may be missing. It always has the connections of this node, and no others while Redis is unavailable.
func (s *Service) known(ctx context.Context, users []accounts.ID) (all []kept, alive func(cluster.ID) bool, partial bool, err error) {
	self := func(n cluster.ID) bool { return n == s.cfg.Node }
	ask, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	live, err := s.cfg.Nodes.Live(ask)
	if err == nil {
		all, err = s.redis.read(ask, users)
	}
	complete := false
	if err == nil { // after the read, so that an earlier loss is visible
		complete, err = s.complete(ask, live)
	}
	if err == nil {
		s.metrics.reads.WithLabelValues("redis").Inc()
		if !complete {
			s.addOwn(users, all)
		}
		return all, func(n cluster.ID) bool { return self(n) || !live[n].IsZero() }, !complete, nil
	}
	if ctx.Err() != nil {
		return nil, nil, false, ctx.Err()
	}
	s.metrics.reads.WithLabelValues("node").Inc()
	all = make([]kept, len(users))
	var here []accounts.ID
	for i, u := range users {
		if all[i].connections = s.held.of(u); len(all[i].connections) > 0 {
			here = append(here, u)
		}
	}
	rows, err := selectRows(ctx, s.db, here)
	for i, u := range users {
		all[i].wish = rows[u].wish
	}
	return all, self, true, err
}

// complete reports whether Redis has the connections of all nodes: of those in live, and of those that lived a moment
// ago, because Redis may have lost their lease.
func (s *Service) complete(ctx context.Context, live map[cluster.ID]cluster.Boot) (bool, error) {
	marks, err := s.redis.marks(ctx)
	if err != nil || s.doubt.Load() {
		return false, err
	}
	for _, node := range s.peers.note(live, time.Now()) {
		if !marks[node].complete(!live[node].IsZero()) {
			return false, nil
		}
	}
	return true, nil
}

// addOwn replaces the connections of this node in Redis by those in memory.
func (s *Service) addOwn(users []accounts.ID, all []kept) {
	for i, u := range users {
		others := slices.DeleteFunc(all[i].connections, func(c Connection) bool { return c.Node == s.cfg.Node })
		all[i].connections = append(others, s.held.of(u)...)
		slices.SortStableFunc(all[i].connections, func(a, b Connection) int { return a.Since.Compare(b.Since) })
	}
}

// peers has the live nodes, and those that lived a moment ago.
type peers struct {
	mu     sync.Mutex
	missed map[cluster.ID]time.Time // since when a node has had no lease; zero: it has one
}

// note returns the live nodes, and those that have had no lease for at most [linger].
func (p *peers) note(live map[cluster.ID]cluster.Boot, now time.Time) []cluster.ID {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.missed == nil {
		p.missed = map[cluster.ID]time.Time{}
	}
	for node := range live {
		p.missed[node] = time.Time{}
	}
	for node, since := range p.missed {
		switch {
		case !live[node].IsZero():
		case since.IsZero():
			p.missed[node] = now
		case now.Sub(since) > linger:
			delete(p.missed, node)
		}
	}
	return slices.Collect(maps.Keys(p.missed))
}

// unknown restarts the time of the missed nodes, because the live nodes are unknown.
func (p *peers) unknown() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for node := range p.missed {
		p.missed[node] = time.Time{}
	}
}

// owes records that a user got a partial response, and gets presence.complete later.
func (s *Service) owes(user accounts.ID, partial bool) {
	if !partial {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.partly) < mostLate {
		s.partly[user] = struct{}{}
	}
}

// Mine returns a user's status and wish, regardless of the audience. partial is as in [Service.Of].
func (s *Service) Mine(ctx context.Context, user accounts.ID) (now, wish Status, partial bool, err error) {
	defer errs.Wrap(&err, "presence.Mine %s", user)
	states, partial, err := s.states(ctx, []accounts.ID{user})
	if err != nil {
		return 0, 0, false, asKind(err)
	}
	s.owes(user, partial)
	rows, err := selectRows(ctx, s.db, []accounts.ID{user})
	return states[0].Status, rows[user].wish.status(), partial, asKind(err)
}

// SetWish sets a user's status for the time online, and publishes it to the user's friends if it is another one.
func (s *Service) SetWish(ctx context.Context, user accounts.ID, to Status) (err error) {
	defer errs.Wrap(&err, "presence.SetWish %s", user)
	w, changed, err := updateWish(ctx, s.db, user, to)
	if err != nil || !changed {
		return asKind(err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTime)
	defer cancel()
	k, err := s.redis.wish(ctx, user, w)
	if err != nil {
		s.wishLater(user) // it is committed; Redis gets it when it is back
		return nil
	}
	if k.told {
		s.tells.add(user, change{status: w.status(), at: s.db.Now(), own: true, version: k.version})
	}
	return nil
}

// mostLate bounds the writes that wait for Redis or SQL. It is large because all connections of a node may close at
// once.
const mostLate = 200_000

// wishLater writes a user's wish to Redis with the next beat.
func (s *Service) wishLater(user accounts.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.wishes) < mostLate {
		s.wishes[user] = struct{}{}
	}
}

// Connections returns a user's connections, the oldest first. The last connection to another node is included for
// [linger] after it has closed. partial is as in [Service.Of].
func (s *Service) Connections(ctx context.Context, user accounts.ID) (_ []Connection, partial bool, err error) {
	defer errs.Wrap(&err, "presence.Connections %s", user)
	all, alive, partial, err := s.known(ctx, []accounts.ID{user})
	if err != nil {
		return nil, false, asKind(err)
	}
	s.owes(user, partial)
	open := make([]Connection, 0, len(all[0].connections))
	for _, c := range all[0].connections {
		if alive(c.Node) && (c.Node != s.cfg.Node || s.held.open(user, c.Number)) {
			open = append(open, c)
		}
	}
	return open, partial, nil
}

// AudienceChanged publishes a change of a user's audience to the user's friends, as the user coming online or going
// offline.
func (s *Service) AudienceChanged(ctx context.Context, user accounts.ID) (err error) {
	defer errs.Wrap(&err, "presence.AudienceChanged %s", user)
	standings, err := accounts.Standings(ctx, s.db, user)
	if err != nil {
		return asKind(err)
	}
	shown := standings[user].Presence == accounts.ToFriends
	version, err := s.redis.change(ctx, user)
	if err != nil {
		return err // the queue retries
	}
	s.tells.add(user, change{status: Online, at: s.db.Now(), own: true, shown: shown, hidden: !shown, version: version})
	return nil
}

// Erase deletes all data of a user who no longer has an account. It may be repeated.
func (s *Service) Erase(ctx context.Context, user accounts.ID) (err error) {
	defer errs.Wrap(&err, "presence.Erase %s", user)
	if err := deleteRow(ctx, s.db, user); err != nil {
		return asKind(err)
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	if err := s.redis.forget(ctx, user); err != nil { // a wish expires within a day in any case
		s.log.Info("presence: Redis keeps an erased user's wish until its life has ended", "user", user, "err", err)
	}
	return nil
}

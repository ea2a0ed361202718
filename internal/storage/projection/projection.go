// Package projection keeps derived data in Redis complete. Each row that SQL has committed reaches Redis, after any
// crash, restart, failover or loss of data. (A projection is the read side of event sourcing; the mark is its
// checkpoint.)
//
// A domain announces each row before its commit with [Projection.Begin]. Afterwards it reports the outcome:
// [Projection.Done], [Projection.Missed] or [Projection.Unsure]. Rows that Redis missed are stored in memory and
// applied as soon as Redis responds.
//
// A domain provides two functions for its part of Redis: Config.State computes the intended content from SQL, and
// Config.Write writes it. All repairs of Redis use these two functions, by [Projection.Renew]: missed rows, replays of
// the log, imports and reconciliations. The change of a current request uses them by [Projection.Bring], or reaches
// Redis in another way, as a delta.
//
// Every second, the projection stores a mark in Redis, next to the data. It is a time: all earlier commits of this
// node are applied. Other nodes see by it that the node lives. A sign in the mark states that the node is behind, dead or
// stopped (see makeMark). Because the mark is next to the data, it is lost or set back together with them. Each round compares the
// mark before it moves it, and also checks the servers' identities. If anything differs, the domain replays its log. A
// replay begins at the oldest mark, less a margin for late commits and unequal clocks. A node whose mark does not move
// is dead, and any other node replays for it.
//
// The SQL server may execute the last COMMIT of a dead node after this replay. Therefore the first replay does not
// remove the dead node's mark but changes its sign. When that mark has not changed for slowCommit, a node replays again
// from it and then removes it. The mark in Redis is the only record of the remaining work, so any node may die in
// between. No client got a response for a row that commits so late, so Redis is trusted until the second replay. SQLite
// runs in the process of its only node and commits nothing after the death of the node: there one replay is enough.
//
// If Redis loses the marks together with its data, each live node writes the marks of the other nodes again, as it saw
// them last. A node may have died shortly before. A node that starts and finds no marks writes one for all nodes that
// may have run before, and a node replays from it once.
//
// A node that cannot reach Redis writes its mark to SQL, and continues to commit. Its mark in
// Redis stops, so the other nodes replay for it. If its mark in SQL also stops, they replay again. Each time they
// replay twice, as for any dead node.
//
// Until these replays end, [Projection.Up] is false and the domain reads from SQL. After an outage of Redis, Up also
// requires that the marks of all other live nodes have moved, because each node applies its missed rows before it moves
// its mark. While a node replays, its mark shows that the node lives and is behind. The replay may fail, and then Redis
// lacks the node's commits until the next try.
package projection

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

const (
	// margin is how long before a mark a replay begins. It must exceed the time from a request's arrival to its commit
	// plus the difference of two nodes' clocks.
	margin = time.Minute
	// deadAfter is the age of a mark whose node counts as dead. The other nodes measure the age by their own clocks.
	deadAfter = 10 * time.Second
	// sqlMarkInterval is the interval of a node's writes of its mark to SQL while it is cut off from Redis. The first write
	// follows after this interval, too, if the node has a mark in Redis. The other nodes do not replay for it before
	// deadAfter has passed.
	sqlMarkInterval = deadAfter / 4
	// readyWithin bounds the first round: the process then continues its start, even if the round has not ended. The
	// first round replays everything since the oldest mark, and a supervisor waits only a minute.
	readyWithin = 10 * time.Second
	// remembered is the largest number of missed rows in memory. If it is reached, the log is read.
	remembered = 1 << 16
	// slowCommit is how long a statement may take to commit after its connection has ended. The server may wait for row
	// locks, for its disk, or for a replica. A row lock takes two seconds (see sqldb), and a semi-synchronous replica of
	// MySQL ten seconds. The protocol allows one statement at a time, so a dead node leaves nothing that begins later.
	slowCommit = 30 * time.Second
	// atOnce is the number of changes per write to Redis: one SELECT, one pipeline.
	atOnce = 500
	// stateTimeout bounds how long SQL may take to compute the state of changes while their callers wait.
	stateTimeout = 5 * time.Second
)

//go:embed swap.lua
var swapLua string

var swap = redis.NewScript(swapLua)

// Config configures a projection. A Change names a thing in SQL that Redis may lack, mostly a row of a log. A State is
// the content that Redis should have because of it.
type Config[Change, State any] struct {
	Redis   *redis.DB
	Applied keyspace.Hash // node → Unix milliseconds; one for each domain
	Node    string        // this process; never used by another one
	// Changed calls fn with every change that arrived at since or later, in chunks.
	Changed func(ctx context.Context, since time.Time, fn func([]Change) error) error
	// State computes from SQL the content that Redis should have for the changes, and Write stores it. They run
	// concurrently with requests, and more than once for the same change. Write must therefore be idempotent, and must
	// never overwrite newer data.
	State func(ctx context.Context, changes []Change) ([]State, error)
	Write func(ctx context.Context, states []State) error
	// Late is called in chunks with changes that Redis got late, after Redis has them. These were missed or unsure, or a
	// replay found them. Earlier responses may lack these changes, and their events may not have been published. If Late
	// returns an error, the changes are applied again. Nil does nothing.
	Late func(ctx context.Context, changes []Change) error
	// DB has the table projection_marks.
	DB *sqldb.DB
	// Every is the interval of the mark; zero means a second. While Redis is unavailable, a round is tried ten times as
	// often.
	Every time.Duration
	// Patience bounds the commands of a round in Redis, and the statements for marks in SQL. Zero means a second.
	Patience time.Duration
	Log      *slog.Logger
	// Metrics gets stoa_projection_*, labelled with Name. With nil there are no metrics.
	Metrics prometheus.Registerer
	Name    string // unique for each domain, at most 32 letters
}

// Projection is one domain's derived state. Create it with [New].
type Projection[Change, State any] struct {
	cfg         Config[Change, State]
	sql         *sqlStore
	up          atomic.Bool
	writable    atomic.Bool
	behind      atomic.Bool // Redis misses a change that this node has acknowledged
	wake        chan struct{}
	replays     replays
	applied     atomic.Int64  // Unix ms of the mark last stored, or of New before the first one
	agreed      atomic.Int64  // see [Projection.Agreed]
	ended       atomic.Uint64 // number of ended connections to Redis when it was last complete
	repeatAfter time.Duration // time between the two replays for a dead node; zero if one is enough

	mu       sync.Mutex
	pending  map[int64]int     // pending rows by second of arrival
	missed   backlog[Change]   // acknowledged, but not in Redis
	unsure   backlog[Change]   // commit unknown, and not acknowledged
	rechecks []recheck[Change] // unsure rows after their first check

	// Only Run and its heartbeat use these fields. The heartbeat runs during a round.
	beatMu  mutex
	mark    string   // this node's mark in Redis
	own     int64    // Unix ms: all earlier rows of this node are applied, as the heartbeat's marks state
	claimed []claims // the heartbeat renews them

	// Only Run uses these fields.
	identity string // of the servers when Redis was last complete
	sound    bool   // the last round has succeeded
	damaged  bool   // Redis has lost data or this node's mark, and no replay has succeeded since then
	// awaited has marks of other nodes from the end of an outage of Redis. Redis may miss the rows of these nodes until
	// their marks have moved and are not behind.
	awaited         map[string]string
	seen, seenInSQL watch     // the marks in Redis and in SQL
	reached         time.Time // the last response of Redis
	sqlMark         string    // this node's mark in SQL; empty if there is none
	sqlMarkWritten  time.Time
	sqlMarks        map[string]string         // marks of other nodes in the last read from SQL
	sqlMarksRead    time.Time                 // the time of that read
	noSQLMarks      atomic.Pointer[time.Time] // the last time that SQL had no marks, as a check of [sqldb.DB.Watch] found
	// The marks of dead nodes in that read, until a replay has succeeded; see [watch.deadMarks].
	staleInSQL, dueInSQL map[string]string
	oldest               int64 // Unix ms: the minimum of all marks at the start of the last round
}

// standing is a mark and the time since when it has not moved.
type standing struct {
	mark  string    // empty if there is none
	since time.Time // by the clock of the node that reads it
}

// backlog has the rows that are not applied yet. If there are too many, it lacks some. The log is then read from since.
type backlog[Row any] struct {
	rows  []Row
	since int64 // Unix ms of the oldest row; 0 if there is none
}

func (b *backlog[Row]) add(ms int64, rows ...Row) {
	if b.rows = append(b.rows, rows...); len(b.rows) > remembered {
		b.rows = b.rows[:remembered]
	}
	if b.since == 0 || ms < b.since {
		b.since = ms
	}
}

func (b *backlog[Row]) take() (all backlog[Row]) {
	all, *b = *b, backlog[Row]{}
	return all
}

// recheck is a backlog with the time when it is due.
type recheck[Row any] struct {
	backlog[Row]
	due time.Time
}

// New returns a projection. Its Up is false until a round of [Projection.Run] has succeeded.
func New[Change, State any](cfg Config[Change, State]) *Projection[Change, State] {
	if cfg.Every == 0 {
		cfg.Every = time.Second
	}
	if cfg.Patience == 0 {
		cfg.Patience = time.Second
	}
	p := &Projection[Change, State]{cfg: cfg, sql: newSQLStore(cfg.DB, cfg.Name), wake: make(chan struct{}, 1), pending: map[int64]int{},
		awaited: map[string]string{}, seen: watch{}, seenInSQL: watch{}, reached: time.Now(), beatMu: make(mutex, 1)}
	if cfg.DB.Dialect() != sqldb.SQLite {
		p.repeatAfter = slowCommit
	}
	p.applied.Store(time.Now().UnixMilli())
	cfg.DB.AddProbe(p.sql.anyMark(), func(found bool, asked time.Time) {
		if found {
			p.noSQLMarks.Store(nil)
		} else {
			p.noSQLMarks.Store(&asked)
		}
	})
	if cfg.Metrics != nil {
		cfg.Metrics.MustRegister(newCollector(p, cfg.Name))
	}
	return p
}

// Up reports whether Redis has all acknowledged changes, so that reads may trust it. A response of Redis is reliable if
// Up was true before the request and is still true after the response.
func (p *Projection[Change, State]) Up() bool {
	if !p.up.Load() {
		return false
	}
	if p.cfg.Redis.Ended() != p.ended.Load() { // a server may have restarted
		p.poke()
		return false
	}
	return true
}

// Degraded returns the reason why responses come from SQL, for operators. It is empty while [Projection.Up] is true.
func (p *Projection[Change, State]) Degraded() string {
	if p.Up() {
		return ""
	}
	return "redis is away or being brought up to date; answering from sql"
}

// Behind reports whether Redis misses a change that this node has acknowledged. Other nodes may return data without
// that change until Redis has it.
func (p *Projection[Change, State]) Behind() bool { return p.behind.Load() }

// Agreed returns a time in Unix milliseconds. Each commit that a node began before that time, by the clock of that
// node, is settled: SQL shows it, and Redis has it. Agreed is zero until this node has read the marks of all nodes. It
// does not advance
//   - while a commit of any node has no answer,
//   - while a node cannot reach Redis, or this node cannot read the marks in SQL,
//   - past the mark of a dead node before the last replay for that node.
func (p *Projection[Change, State]) Agreed() int64 { return p.agreed.Load() }

// Writable reports whether Redis responds, even if it still lacks rows.
func (p *Projection[Change, State]) Writable() bool { return p.writable.Load() }

// Begin announces a row that arrived at that time, before its commit. Exactly one call of Done, Missed or Unsure must
// follow.
func (p *Projection[Change, State]) Begin(at time.Time) {
	p.mu.Lock()
	p.pending[at.Unix()]++
	p.mu.Unlock()
}

// Done reports that Redis has the row, or that the row was certainly not committed.
func (p *Projection[Change, State]) Done(at time.Time) {
	p.mu.Lock()
	p.settleRow(at)
	p.mu.Unlock()
}

// Missed reports a committed row that Redis does not have. Up is false until Redis has it.
func (p *Projection[Change, State]) Missed(at time.Time, row Change) {
	p.mu.Lock()
	p.settleRow(at)
	p.missed.add(at.UnixMilli(), row)
	p.up.Store(false)
	p.behind.Store(true)
	p.mu.Unlock()
	p.poke()
}

// Unsure reports a row with an unknown outcome: its commit got no response, and the caller got none either. The row is
// applied, if it exists, as soon as SQL responds. It is checked once more half a minute later, because the commit may
// have continued without its connection. Until then, reads still trust Redis.
func (p *Projection[Change, State]) Unsure(at time.Time, row Change) {
	p.mu.Lock()
	p.settleRow(at)
	p.unsure.add(at.UnixMilli(), row)
	p.mu.Unlock()
}

// Renew updates Redis from SQL for some changes.
func (p *Projection[Change, State]) Renew(ctx context.Context, changes ...Change) error {
	for some := range slices.Chunk(changes, atOnce) {
		states, err := p.cfg.State(ctx, some)
		if err != nil {
			return err
		}
		if err := p.cfg.Write(ctx, states); err != nil {
			return err
		}
	}
	return nil
}

// renewLate is Renew for changes that Redis should already have.
func (p *Projection[Change, State]) renewLate(ctx context.Context, changes []Change) error {
	for some := range slices.Chunk(changes, atOnce) {
		if err := p.Renew(ctx, some...); err != nil {
			return err
		}
		if p.cfg.Late == nil {
			continue
		}
		if err := p.cfg.Late(ctx, some); err != nil {
			return err
		}
	}
	return nil
}

// Bring is Renew for changes that are committed while their callers wait. The parameter within bounds the time for
// Redis. Bring reports whether Redis has the changes, so that the domain calls [Projection.Done] or
// [Projection.Missed].
func (p *Projection[Change, State]) Bring(ctx context.Context, within time.Duration, changes ...Change) bool {
	return p.BringKnown(ctx, within, nil, changes...)
}

// BringKnown is Bring for changes whose states are partly known: their transaction has computed them. The states of
// changes are computed.
func (p *Projection[Change, State]) BringKnown(ctx context.Context, within time.Duration, known []State, changes ...Change) bool {
	if !p.Writable() {
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stateTimeout)
	defer cancel()
	var states []State
	var err error
	if len(changes) > 0 {
		states, err = p.cfg.State(ctx, changes)
	}
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		err = p.cfg.Write(ctx, append(states, known...))
	}
	if err != nil {
		p.cfg.Log.WarnContext(ctx, "changes were not applied to redis in time", "marks", p.cfg.Applied.String(), "err", err)
		p.Suspect()
	}
	return err == nil
}

func (p *Projection[Change, State]) settleRow(at time.Time) {
	if p.pending[at.Unix()]--; p.pending[at.Unix()] == 0 {
		delete(p.pending, at.Unix())
	}
}

// Suspect makes Up and Writable false until the next successful round. Call it when a read or a write in Redis has failed.
func (p *Projection[Change, State]) Suspect() {
	p.up.Store(false)
	p.writable.Store(false)
	p.poke()
}

func (p *Projection[Change, State]) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Run keeps the projection complete until ctx ends. It calls ready after the first round, even if Redis is unavailable,
// or earlier if that round takes long. On a clean end it removes its mark, unless that is the last one.
func (p *Projection[Change, State]) Run(ctx context.Context, ready func()) error {
	pause := time.NewTimer(0)
	defer pause.Stop()
	ready = sync.OnceFunc(ready)
	defer time.AfterFunc(readyWithin, ready).Stop()
	var failed error
	for {
		select {
		case <-ctx.Done():
			p.leave(context.WithoutCancel(ctx))
			return nil
		case <-pause.C:
		case <-p.wake:
		}
		ended := p.cfg.Redis.Ended()
		err := p.round(ctx, ended)
		p.sound = err == nil
		p.storeSQLMark(ctx)
		switch {
		case err != nil && ctx.Err() == nil && failed == nil:
			p.cfg.Log.Warn("redis is away or behind; answering from sql", "marks", p.cfg.Applied.String(), "err", err)
		case err == nil && failed != nil:
			p.cfg.Log.Info("redis is back and complete", "marks", p.cfg.Applied.String())
		}
		failed = err
		next := p.cfg.Every
		complete := p.updateState(err == nil)
		if errors.Is(err, errReplay) {
			p.writable.Store(true) // Redis responds
		}
		if p.sound {
			p.ended.Store(ended)
		}
		if !complete && !errors.Is(err, errReplay) { // a replay is too much work to retry at once
			next /= 10
		}
		ready()
		pause.Reset(next)
	}
}

// updateState sets the state after a round and reports whether Redis is complete.
func (p *Projection[Change, State]) updateState(ok bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writable.Store(ok)
	applied := ok && p.missed.since == 0
	if applied {
		p.behind.Store(false)
	}
	up := applied && len(p.awaited) == 0
	if up && time.Since(p.sqlMarksRead) <= deadAfter { // otherwise a live node's mark may be unknown
		p.agreed.Store(p.oldest)
	}
	p.up.Store(up)
	return up
}

// completeUntil returns a time: all earlier rows of this node are in Redis, except those reported missed.
func (p *Projection[Change, State]) completeUntil() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	oldest := time.Now().UnixMilli()
	for second := range p.pending {
		oldest = min(oldest, second*1000)
	}
	if p.unsure.since != 0 {
		oldest = min(oldest, p.unsure.since)
	}
	for _, l := range p.rechecks {
		oldest = min(oldest, l.since)
	}
	return oldest
}

// repair applies the missed rows, and the unsure rows that SQL returns. Rows that fail stay in their backlog.
func (p *Projection[Change, State]) repair(ctx context.Context) error {
	if _, err := p.applyAll(ctx, &p.missed); err != nil {
		return fmt.Errorf("apply missed rows: %w", err)
	}
	if err := p.checkUnsure(ctx); err != nil {
		p.cfg.Log.Debug("rows without an answer cannot be looked up yet", "marks", p.cfg.Applied.String(), "err", err)
	}
	return nil
}

// checkUnsure applies the unsure rows: at once, and again when their commits can no longer be running.
func (p *Projection[Change, State]) checkUnsure(ctx context.Context) error {
	rows, err := p.applyAll(ctx, &p.unsure)
	if err != nil {
		return err
	}
	if rows.since != 0 {
		p.mu.Lock()
		p.rechecks = append(p.rechecks, recheck[Change]{rows, time.Now().Add(slowCommit)})
		p.mu.Unlock()
	}
	for len(p.rechecks) > 0 && !time.Now().Before(p.rechecks[0].due) {
		if _, err := p.applyAll(ctx, &p.rechecks[0].backlog); err != nil {
			return err
		}
		p.mu.Lock()
		p.rechecks = p.rechecks[1:]
		p.mu.Unlock()
	}
	return nil
}

// applyAll applies a backlog and returns its rows.
func (p *Projection[Change, State]) applyAll(ctx context.Context, b *backlog[Change]) (all backlog[Change], err error) {
	p.mu.Lock()
	all = b.take()
	p.mu.Unlock()
	switch {
	case all.since == 0:
		return all, nil
	case len(all.rows) < remembered:
		err = p.renewLate(ctx, all.rows)
	default:
		err = p.replay(ctx, time.UnixMilli(all.since))
	}
	if err != nil {
		p.mu.Lock()
		b.add(all.since, all.rows...)
		p.mu.Unlock()
	}
	return all, err
}

// errReplay reports a failed replay of the domain's log in a round.
var errReplay = errors.New("the replay failed")

// replay replays the domain's log and logs each failure. Until a replay succeeds, every response comes from SQL.
func (p *Projection[Change, State]) replay(ctx context.Context, since time.Time) error {
	began := time.Now()
	err := p.cfg.Changed(ctx, since, func(changes []Change) error { return p.renewLate(ctx, changes) })
	if err == nil {
		p.replays.record(began)
		return nil
	}
	if ctx.Err() == nil {
		p.replays.failed.Add(1)
		p.cfg.Log.Error("a replay into redis failed; it is tried again", "marks", p.cfg.Applied.String(), "since", since.UTC(), "err", err)
	}
	return fmt.Errorf("%w: %w", errReplay, err)
}

// work is the work of a round.
type work struct {
	identity string // of the servers
	complete int64  // Unix ms: this node's mark after the round
	since    int64  // Unix ms: the beginning of the replay, without margin; MaxInt64 if there is none
	behind   bool   // Redis lacks acknowledged changes
	// The marks of dead nodes in Redis and in SQL: stale ones need a first replay, and due ones a second.
	stale, due, staleInSQL, dueInSQL map[string]string
}

// round checks that Redis responds and is complete and undamaged. It returns an error if Redis does not respond. If
// data is missing, it replays. Then it moves the mark.
func (p *Projection[Change, State]) round(ctx context.Context, ended uint64) error {
	w, err := p.check(ctx, ended)
	if err != nil {
		return err
	}
	p.own, p.claimed = p.applied.Load(), nil
	if err := p.beating(ctx, func(ctx context.Context) error { return p.catchUp(ctx, &w) }); err != nil {
		return err
	}
	if err := p.move(ctx, makeMark(w.complete, signNone)); err != nil {
		return err
	}
	if err := p.markReplayed(ctx, w.stale, w.due, p.swap); err != nil {
		return err
	}
	if err := p.markReplayed(ctx, w.staleInSQL, w.dueInSQL, p.sql.swap); err != nil {
		return err
	}
	p.staleInSQL, p.dueInSQL = nil, nil
	for node := range w.stale {
		delete(p.awaited, node)
	}
	p.identity, p.damaged = w.identity, false
	return nil
}

// check reads all marks and returns the work of the round. Up is false from then on if Redis lacks changes.
func (p *Projection[Change, State]) check(ctx context.Context, ended uint64) (w work, err error) {
	w.complete = p.completeUntil()
	w.staleInSQL, w.dueInSQL = p.deadSQLMarks(ctx) // before the marks in Redis: a returning node writes to Redis first
	identity, marks, err := p.readMarks(ctx)
	if err != nil {
		return w, err
	}
	w.identity = identity
	if held := marks[p.cfg.Node]; identity != p.identity || held != p.mark {
		p.damaged, p.mark = true, held
	}
	switch {
	case p.identity != "" && p.damaged:
		marks, err = p.restoreMarks(ctx, marks)
	case p.identity == "" && len(marks) == 0 && p.repeatAfter > 0:
		err = p.markUnknown(ctx, marks)
	}
	if err != nil {
		return w, err
	}
	p.await(marks, p.damaged || !p.sound || ended != p.ended.Load())
	p.writable.Store(true) // from now on, changes are written directly
	w.stale, w.due = p.seen.deadMarks(marks, p.repeatAfter)
	delete(w.stale, p.cfg.Node)
	delete(w.due, p.cfg.Node)
	for node := range w.staleInSQL {
		if s := p.seen[node]; s.mark != "" && !hasSign(s.mark, signReplayed) && time.Since(s.since) <= deadAfter {
			delete(w.staleInSQL, node) // its mark in Redis moves
		}
	}
	p.oldest = min(w.complete, oldest(marks), oldest(p.sqlMarks))
	w.since = min(oldest(w.stale), oldest(w.staleInSQL))
	if p.damaged { // rows of any node may be missing
		w.since = min(w.since, oldest(marks))
	}
	if p.damaged && p.identity != "" {
		w.since = min(w.since, p.applied.Load())
	}
	if w.behind = w.since != math.MaxInt64; w.behind {
		p.up.Store(false)
	}
	return w, nil
}

// catchUp applies this node's missed rows, and replays the log if Redis lacks rows or a second replay is due.
func (p *Projection[Change, State]) catchUp(ctx context.Context, w *work) (err error) {
	// Repairs run before the mark moves, because other nodes may wait for the mark.
	if err := p.repair(ctx); err != nil {
		return err
	}
	if w.due, err = claim(ctx, w.due, p.swap); err != nil {
		return err
	}
	if w.dueInSQL, err = claim(ctx, w.dueInSQL, p.sql.swap); err != nil { // no reason to distrust Redis
		p.cfg.Log.Debug("a mark cannot be changed in sql", "marks", p.cfg.Applied.String(), "err", err)
	}
	if w.since = min(w.since, oldest(w.due), oldest(w.dueInSQL)); w.since == math.MaxInt64 {
		return nil
	}
	p.beatMu.Lock()
	p.claimed = []claims{{w.due, p.swap}, {w.dueInSQL, p.sql.swap}}
	if !p.damaged {
		p.own = w.complete
	}
	p.beatMu.Unlock()
	if err := p.beat(ctx); err != nil { // this node may die during the replay
		return err
	}
	began, since := time.Now(), time.UnixMilli(w.since)
	err = p.replay(ctx, since.Add(-margin))
	switch {
	case err == nil:
		p.cfg.Log.Info("replayed into redis", "marks", p.cfg.Applied.String(), "since", since.UTC(), "took", time.Since(began))
	case w.behind:
		return err
	default: // Redis has all acknowledged changes; the marks stay, and a node replays from them later
		p.beatMu.Lock()
		p.claimed, w.due, w.dueInSQL = nil, nil, nil
		p.beatMu.Unlock()
	}
	return p.repair(ctx)
}

// unknown is the name in the mark of all nodes that ran before all marks were lost.
const unknown = "unknown"

// markUnknown writes a mark for the nodes that ran before the first node that finds no marks. Redis may have lost
// their marks, and SQL may execute their last COMMITs late.
func (p *Projection[Change, State]) markUnknown(ctx context.Context, marks map[string]string) error {
	mark := makeMark(time.Now().Add(-margin).UnixMilli(), signReplayed)
	swapped, err := p.swap(ctx, unknown, "", mark)
	if swapped {
		marks[unknown] = mark
	}
	return err
}

// restoreMarks writes the marks of other nodes that Redis has lost, as this node saw them last. If such a node is dead,
// the others must still replay for it. If it lives, it finds a mark that it did not write, and therefore replays too.
// restoreMarks returns all marks, which other nodes may have written in the meantime.
func (p *Projection[Change, State]) restoreMarks(ctx context.Context, marks map[string]string) (map[string]string, error) {
	lost := false
	for node, was := range p.seen {
		if node == p.cfg.Node || was.mark == "" || marks[node] != "" || hasSign(was.mark, signLeft) {
			continue
		}
		lost = true
		if _, err := p.swap(ctx, node, "", remake(was.mark, writtenAt(was.mark).Add(time.Millisecond))); err != nil {
			return nil, err
		}
	}
	if !lost {
		return marks, nil
	}
	_, marks, err := p.readMarks(ctx)
	p.mark = marks[p.cfg.Node]
	return marks, err
}

// swapFunc replaces the mark of a node in Redis or in SQL if it still equals from, and reports whether it did. An empty
// string means no mark.
type swapFunc func(ctx context.Context, node, from, to string) (swapped bool, err error)

// claims are marks of dead nodes whose second replay this node executes. They are in Redis or in SQL.
type claims struct {
	marks map[string]string
	swap  swapFunc
}

// claim renews the marks of nodes whose second replay is due, so that other nodes wait slowCommit again before they
// replay. It returns the marks that no other node has claimed.
func claim(ctx context.Context, due map[string]string, swap swapFunc) (claimed map[string]string, err error) {
	c := claims{maps.Clone(due), swap}
	if err := c.renew(ctx, 0); err != nil {
		return nil, err
	}
	return c.marks, nil
}

// renew writes claims again whose last write is at least age ago. It removes a claim if its mark has changed: the node lives, or
// another node replays for it.
func (c claims) renew(ctx context.Context, age time.Duration) error {
	for node, mark := range c.marks {
		now := time.Now()
		if age > 0 && now.Sub(writtenAt(mark)) < age {
			continue
		}
		renewed := remake(mark, now)
		swapped, err := c.swap(ctx, node, mark, renewed)
		if err != nil {
			return err
		}
		if c.marks[node] = renewed; !swapped {
			delete(c.marks, node)
		}
	}
	return nil
}

// markReplayed records a replay in the marks of dead nodes: first are marks after their first replay, and last are marks after
// their second. A mark that has changed stays: its node lives, or another node has replayed as well.
func (p *Projection[Change, State]) markReplayed(ctx context.Context, first, last map[string]string, swap swapFunc) error {
	for node, mark := range first {
		next := makeMark(markTime(mark), signReplayed)
		if p.repeatAfter == 0 || hasSign(mark, signLeft) {
			next = "" // it has left no COMMIT behind
		}
		if _, err := swap(ctx, node, mark, next); err != nil {
			return err
		}
	}
	for node, mark := range last {
		if _, err := swap(ctx, node, mark, ""); err != nil {
			return err
		}
	}
	return nil
}

// storeSQLMark stores this node's mark in SQL while Redis cannot be reached, and deletes it afterwards. The next round
// retries a failure.
func (p *Projection[Change, State]) storeSQLMark(ctx context.Context) {
	now := time.Now()
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Patience)
	defer cancel()
	if p.sound {
		if p.reached = now; p.sqlMark != "" {
			// Another node may have changed the mark, because it considered this node dead.
			if err := p.sql.remove(ctx, p.cfg.Node); err == nil {
				p.sqlMark = ""
			}
		}
		return
	}
	known := p.mark != "" || p.sqlMark != "" // otherwise no other node knows that this node has started
	if known && (now.Sub(p.reached) < sqlMarkInterval || now.Sub(p.sqlMarkWritten) < sqlMarkInterval) {
		return
	}
	mark := makeMark(p.applied.Load(), signNone)
	if err := p.sql.write(ctx, p.cfg.Node, mark); err != nil {
		p.cfg.Log.Debug("the mark cannot be written to sql", "marks", p.cfg.Applied.String(), "err", err) // then no row can be written either
		return
	}
	p.sqlMark, p.sqlMarkWritten = mark, now
}

// deadSQLMarks returns the marks in SQL of other nodes that are dead; see [watch.deadMarks]. It reads them only at intervals,
// because a node is dead only after some time.
func (p *Projection[Change, State]) deadSQLMarks(ctx context.Context) (stale, due map[string]string) {
	now := time.Now()
	if now.Sub(p.sqlMarksRead) < deadAfter/2 {
		return p.staleInSQL, p.dueInSQL
	}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Patience)
	defer cancel()
	marks, read := map[string]string{}, now
	if none := p.noSQLMarks.Load(); none != nil && now.Sub(*none) < deadAfter/2 {
		read = *none
	} else {
		var err error
		if marks, err = p.sql.all(ctx); err != nil {
			p.cfg.Log.Debug("marks cannot be read from sql", "marks", p.cfg.Applied.String(), "err", err)
			return p.staleInSQL, p.dueInSQL
		}
		delete(marks, p.cfg.Node)
	}
	p.sqlMarksRead, p.sqlMarks = read, marks
	p.staleInSQL, p.dueInSQL = p.seenInSQL.deadMarks(marks, p.repeatAfter)
	return p.staleInSQL, p.dueInSQL
}

// await updates the awaited nodes after an outage of Redis, or after a loss of data. Each live node must confirm by its
// mark that Redis has its commits. A node that does not is dead, and a replay for it ends the wait. A node that replays
// is alive, however long that takes. At its start, this node replays the rows of all nodes, and waits only for nodes
// that are behind.
func (p *Projection[Change, State]) await(marks map[string]string, outage bool) {
	for node, was := range p.awaited {
		if mark := marks[node]; mark != was && !hasSign(mark, signBehind) {
			delete(p.awaited, node)
		}
	}
	for node, mark := range marks {
		switch {
		case node == p.cfg.Node || hasSign(mark, signReplayed) || hasSign(mark, signLeft):
		case outage && p.identity != "", hasSign(mark, signBehind) && p.identity == "":
			p.awaited[node] = mark
		}
	}
}

// readMarks returns the marks, and the identity of the servers that returned them.
func (p *Projection[Change, State]) readMarks(ctx context.Context) (identity string, marks map[string]string, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Patience)
	defer cancel()
	identity = p.identity
	for {
		if marks, err = p.cfg.Applied.All(ctx, p.cfg.Redis); err != nil {
			return "", nil, err
		}
		read, err := p.cfg.Redis.KnownFingerprint(ctx)
		if err != nil || read == identity {
			return read, marks, err
		}
		identity = read
	}
}

// A mark has two times in Unix ms: all of the node's rows before the first time are applied, and the second is the time
// of the mark's write. A sign may precede the second time. Older
// versions, which do not know the last two signs, consider such a node dead.
const (
	signNone     = ""  // the node lives
	signBehind   = "+" // the node lives and replays: Redis may lack its commits
	signReplayed = "=" // the node is dead, and another node has replayed once for it
	signLeft     = "-" // the node has stopped cleanly
)

func makeMark(complete int64, sign string) string {
	return fmt.Sprintf("%d %s%d", complete, sign, time.Now().UnixMilli())
}

// remake returns the mark with another time of its write.
func remake(mark string, written time.Time) string {
	return strings.TrimRight(mark, "0123456789") + strconv.FormatInt(written.UnixMilli(), 10)
}

func hasSign(mark, sign string) bool {
	_, written, _ := strings.Cut(mark, " ")
	return strings.HasPrefix(written, sign)
}

func markTime(mark string) int64 {
	complete, _, _ := strings.Cut(mark, " ")
	ms, err := strconv.ParseInt(complete, 10, 64)
	if err != nil {
		return 0 // an unreadable mark guarantees nothing
	}
	return ms
}

// writtenAt returns the time when a mark was written, by the clock of its node.
func writtenAt(mark string) time.Time {
	_, written, _ := strings.Cut(mark, " ")
	ms, err := strconv.ParseInt(strings.TrimLeft(written, signBehind+signReplayed+signLeft), 10, 64)
	if err != nil {
		return time.Time{} // an unreadable mark does not show that the node lives
	}
	return time.UnixMilli(ms)
}

// oldest returns the time where a replay for nodes with those marks must begin. It returns MaxInt64 if there are none.
func oldest(marks map[string]string) int64 {
	since := int64(math.MaxInt64)
	for _, mark := range marks {
		since = min(since, markTime(mark))
	}
	return since
}

// watch has the last seen mark of each node.
type watch map[string]standing

// deadMarks returns the marks of dead nodes. stale are those that need a first replay. due are those whose second replay is
// due, because they have not changed for repeatAfter. This node measures by its own clock how long a mark has not
// changed. The time in the mark is from another node's clock. It is used only when this node sees the mark for the
// first time. For a second replay, margin is added, so that unequal clocks never make it early.
func (w watch) deadMarks(marks map[string]string, repeatAfter time.Duration) (stale, due map[string]string) {
	now := time.Now()
	stale, due = map[string]string{}, map[string]string{}
	for node, mark := range marks {
		if _, known := w[node]; known {
			continue
		}
		since := writtenAt(mark)
		if hasSign(mark, signReplayed) {
			since = since.Add(margin)
		}
		if since.After(now) {
			since = now
		}
		w[node] = standing{mark, since}
	}
	for node, was := range w {
		stands := now.Sub(was.since)
		switch mark := marks[node]; {
		case mark != was.mark: // also if a node that was considered dead is alive again
			w[node] = standing{mark, now}
		case hasSign(mark, signLeft):
			stale[node] = mark
		case hasSign(mark, signReplayed):
			if stands > repeatAfter {
				due[node] = mark
			}
		case stands <= deadAfter:
		case mark == "":
			delete(w, node)
		default:
			stale[node] = mark
		}
	}
	return stale, due
}

// beating runs fn. As long as fn runs, the heartbeat renews this node's mark: other nodes replay for a node whose mark
// does not move, and then remove the mark.
func (p *Projection[Change, State]) beating(ctx context.Context, fn func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var beats sync.WaitGroup
	beats.Go(func() {
		tick := time.NewTicker(p.cfg.Every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if ctx.Err() != nil {
					return
				}
				// The end of fn must not cancel this move. Redis may have moved the mark already, and the next round would
				// treat the unknown mark as damage.
				if err := p.beat(context.WithoutCancel(ctx)); err != nil {
					cancel(err)
				}
			}
		}
	})
	err := fn(ctx)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	cancel(nil)
	beats.Wait()
	return err
}

// beat renews this node's mark, which then states that the node is behind. It also renews the claims, so that no other
// node replays for the same dead nodes.
func (p *Projection[Change, State]) beat(ctx context.Context) error {
	p.beatMu.Lock()
	defer p.beatMu.Unlock()
	if err := p.move(ctx, makeMark(p.own, signBehind)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Patience)
	defer cancel()
	for _, c := range p.claimed {
		if err := c.renew(ctx, p.repeatAfter/3); err != nil {
			return err
		}
	}
	return nil
}

// move replaces this node's mark, which must not have changed in Redis.
func (p *Projection[Change, State]) move(ctx context.Context, mark string) error {
	moved, err := p.swap(ctx, p.cfg.Node, p.mark, mark)
	if err != nil {
		return err
	}
	if !moved {
		return errors.New("another value than this node's mark is in redis")
	}
	p.mark = mark
	p.applied.Store(markTime(mark))
	return nil
}

// swap is a [swapFunc] for the marks in Redis. The last mark there is never removed.
func (p *Projection[Change, State]) swap(ctx context.Context, node, from, to string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Patience)
	defer cancel()
	swapped, err := swap.Run(ctx, p.cfg.Redis, []keyspace.Key{p.cfg.Applied.Key}, node, from, to).Int()
	return swapped == 1, err
}

// leave removes this node's mark if no row is missing, so that no other node replays after a clean stop. The last mark
// stays (swap.lua), because Redis may later be set back to this moment, and would lack all later rows. Its sign states
// that one replay is enough.
func (p *Projection[Change, State]) leave(ctx context.Context) {
	p.mu.Lock()
	open := len(p.pending) > 0 || p.missed.since != 0 || p.unsure.since != 0 || len(p.rechecks) > 0
	p.mu.Unlock()
	if p.mark == "" || open || p.damaged {
		return
	}
	left := makeMark(markTime(p.mark), signLeft)
	swapped, err := p.swap(ctx, p.cfg.Node, p.mark, left)
	if swapped {
		_, err = p.swap(ctx, p.cfg.Node, left, "")
	}
	if err != nil {
		p.cfg.Log.Warn("projection: mark not removed at the stop, another node will replay, which is harmless",
			"marks", p.cfg.Applied.Key.String(), "err", err)
	}
}

// mutex is a lock for the tests in virtual time, where the holder waits for Redis. There, time advances while goroutines
// wait for a channel, and not while they wait for a [sync.Mutex].
type mutex chan struct{}

func (m mutex) Lock()   { m <- struct{}{} }
func (m mutex) Unlock() { <-m }

// Package projection keeps what is derived in Redis complete: nothing that SQL
// has committed stays missing there, whatever crashed, restarted, failed over or
// was emptied. (A projection is the read side of event sourcing; the mark is its
// checkpoint.)
//
// A domain announces each row before its commit ([Projection.Begin]) and says
// afterwards what became of it: [Projection.Done], [Projection.Missed] or
// [Projection.Unsure]. Rows that Redis missed are kept and applied as soon as it
// answers.
//
// A domain says two things of its part of Redis: what it should hold, computed from SQL
// (Config.State), and how that is written (Config.Write). Everything by which Redis is
// brought to agree with SQL is one path from a name to a state to a write
// ([Projection.Renew]): rows that were missed, a replay of the log, an import, a repair.
// Only the change under way may reach Redis by a way of its own, as a delta.
//
// Every second the projection stores in Redis, beside the data, the time up to which this node's
// commits are all applied. Because the mark lives where the data lives, it is
// lost or set back together with it. It is compared before it is moved, and the
// servers' identities are checked too; when anything differs, the domain replays
// its log from the oldest mark, less a margin for late commits and unequal
// clocks. A node whose mark stands still is dead, and any other replays for it.
//
// The SQL server may execute the last COMMIT of a dead node after this replay. Therefore the first
// replay does not remove the dead node's mark but changes its sign. When that mark has not changed for
// slowCommit, a node replays again from it and then removes it. The mark in Redis is the only record
// of what is left to do, so any node may die in between. No client got a response for a row that
// commits so late, so Redis is trusted until the second replay. SQLite runs in the process of its only
// node and commits nothing after the death of the node: there one replay is enough.
//
// A node that cannot reach Redis keeps its mark in SQL meanwhile, beside what it goes on
// committing: the others take it for dead by its mark in Redis and replay for it, and
// again when the mark in SQL stands still, too. Each time they replay twice, as for any dead node.
//
// Until that is done [Projection.Up] is false and the domain answers from SQL. After Redis
// was away that includes that the marks of all other nodes that live have moved: each
// applies what it missed before it moves its mark. While a node replays, its mark says that
// it lives and is behind: the replay may fail, and Redis lacks what the node commits until
// it tries again.
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
	// margin is how far before a mark a replay begins. It must exceed the time
	// from a request's arrival to its commit plus the difference of two nodes'
	// clocks.
	margin = time.Minute
	// dead is how long a node's mark stands still before others replay for it, by their own clocks.
	dead = 10 * time.Second
	// noteEvery is how often a node that is cut off from Redis writes its mark to SQL, and how
	// long it is cut off before it begins. Within dead the others do not replay for it.
	noteEvery = dead / 4
	// readyWithin is how long the first round may take before the process goes on to start: it replays all since the
	// oldest mark, and a supervisor waits a minute.
	readyWithin = 10 * time.Second
	// remembered is how many missed rows are kept; beyond it the log is read.
	remembered = 1 << 16
	// slowCommit is how long a statement may take to commit after its connection has ended: the server waits for row
	// locks (two seconds each, see sqldb), for its disk, or for a replica (with MySQL's semi-synchronous replication ten
	// seconds). The protocol allows one statement at a time, so a dead node leaves nothing that begins later.
	slowCommit = 30 * time.Second
	// atOnce is how many changes are brought to Redis together: one SELECT, one pipeline.
	atOnce = 500
	// patience is how long SQL may take to compute the state of changes while their
	// callers wait.
	patience = 5 * time.Second
)

//go:embed swap.lua
var swapLua string

var swap = redis.NewScript(swapLua)

// Config says what is projected. Change names something of the domain that SQL has and
// Redis may lack, mostly a row of a log; State is what Redis should hold because of it.
type Config[Change, State any] struct {
	Redis   *redis.DB
	Applied keyspace.Hash // node → Unix milliseconds; one for each domain
	Node    string        // this process, never used by another
	// Changed calls fn with every change that arrived at since or later, in pieces.
	Changed func(ctx context.Context, since time.Time, fn func([]Change) error) error
	// State computes from SQL what Redis should hold of the things that changed, and
	// Write brings that to Redis. They run beside traffic and more than once for the
	// same change, so Write must be idempotent and never harm what is newer.
	State func(ctx context.Context, changes []Change) ([]State, error)
	Write func(ctx context.Context, states []State) error
	// Late is told of changes that Redis was given late, once it has them: what was missed or
	// unsure, and what a replay found, in pieces. Whoever asked meanwhile may have been answered without them,
	// and clients may not have been told. An error has the changes applied again. Nil does nothing.
	Late func(ctx context.Context, changes []Change) error
	// DB has table projection_marks.
	DB *sqldb.DB
	// Every is the pace of the mark, zero means a second. While Redis is away it
	// is tried ten times as often.
	Every time.Duration
	// Patience is how long Redis may take for the commands of a round, and SQL for the
	// marks that it has; zero means a second.
	Patience time.Duration
	Log      *slog.Logger
	// Metrics gets stoa_projection_*, labelled with Name. Nil keeps none.
	Metrics prometheus.Registerer
	Name    string // another one for each domain, up to 32 letters
}

// Projection is one domain's derived state. Make one with [New].
type Projection[Change, State any] struct {
	cfg         Config[Change, State]
	sql         *sqlStore
	up          atomic.Bool
	writable    atomic.Bool
	behind      atomic.Bool // Redis misses a change that this node has acknowledged
	wake        chan struct{}
	replays     replays
	applied     atomic.Int64  // Unix ms, of the mark last stored; of New before that
	agreed      atomic.Int64  // see [Projection.Agreed]
	ended       atomic.Uint64 // connections to Redis, before it was last known complete
	repeatAfter time.Duration // between the two replays for a dead node; zero: one is enough

	mu      sync.Mutex
	pending map[int64]int    // rows under way by second of arrival
	missed  backlog[Change]  // acknowledged, and not in Redis
	unsure  backlog[Change]  // committed or not, and not acknowledged
	again   []lookup[Change] // unsure rows that were looked up once

	// These belong to Run.
	identity string // of the servers, when Redis was last known complete
	mark     string // what this node last stored
	sound    bool   // the last round succeeded
	// others are the nodes that lived in the last round. After Redis was away some are
	// awaited: they may miss rows until their marks have moved and are not behind.
	others          map[string]string
	awaited         map[string]standing
	seen, seenNotes watch             // the marks in Redis, and in SQL
	reached, noted  time.Time         // when Redis was last reached, and a mark written to SQL
	note            string            // the mark in SQL; empty: there is none
	looked          time.Time         // when the marks in SQL were last read
	notes           map[string]string // the marks of other nodes that were then in SQL
	oldest          int64             // Unix ms, of all marks at the start of the last round
}

// standing is a mark that does not move.
type standing struct {
	mark  string    // empty: there is none
	since time.Time // by the clock of the node that looks
}

// backlog is what is still to be applied: the rows, or if there are too many
// the time from which to read the log.
type backlog[Row any] struct {
	rows  []Row
	since int64 // Unix ms of the oldest row; 0 when there is none
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

// lookup is what is to be applied when it is due.
type lookup[Row any] struct {
	backlog[Row]
	due time.Time
}

// New returns a projection that is not up until [Projection.Run] made it so.
func New[Change, State any](cfg Config[Change, State]) *Projection[Change, State] {
	if cfg.Every == 0 {
		cfg.Every = time.Second
	}
	if cfg.Patience == 0 {
		cfg.Patience = time.Second
	}
	p := &Projection[Change, State]{cfg: cfg, sql: newSQLStore(cfg.DB, cfg.Name), wake: make(chan struct{}, 1), pending: map[int64]int{}, awaited: map[string]standing{}, seen: watch{}, seenNotes: watch{}, reached: time.Now()}
	if cfg.DB.Dialect() != sqldb.SQLite {
		p.repeatAfter = slowCommit
	}
	p.applied.Store(time.Now().UnixMilli())
	if cfg.Metrics != nil {
		cfg.Metrics.MustRegister(newCollector(p, cfg.Name))
	}
	return p
}

// Up reports whether Redis has everything that was acknowledged, so that reads
// may trust it. Where it is true before and after an answer of Redis, the answer came from
// servers that were looked at.
func (p *Projection[Change, State]) Up() bool {
	if !p.up.Load() {
		return false
	}
	if p.cfg.Redis.Ended() != p.ended.Load() { // a server may have been restarted
		p.poke()
		return false
	}
	return true
}

// Degraded says for operators why answers come from SQL; it is empty while [Projection.Up].
func (p *Projection[Change, State]) Degraded() string {
	if p.Up() {
		return ""
	}
	return "redis is away or being brought up to date; answering from sql"
}

// Behind reports whether Redis misses a change that this node has acknowledged. Other nodes
// may answer without that change until Redis has it.
func (p *Projection[Change, State]) Behind() bool { return p.behind.Load() }

// Agreed returns a time in Unix milliseconds. Each commit that a node began before that time, by the clock of that node, is
// settled: SQL shows it, and Redis has it. It is zero until this node has read the marks of all nodes. It does not advance while
// a commit of any node has no answer, and while this node or another node cannot reach Redis. It does not advance past the mark of
// a dead node before the last replay for that node.
func (p *Projection[Change, State]) Agreed() int64 { return p.agreed.Load() }

// Writable reports whether Redis answers, though it may lack rows yet.
func (p *Projection[Change, State]) Writable() bool { return p.writable.Load() }

// Begin announces a row that arrived at that time, before its commit. Done,
// Missed or Unsure must follow.
func (p *Projection[Change, State]) Begin(at time.Time) {
	p.mu.Lock()
	p.pending[at.Unix()]++
	p.mu.Unlock()
}

// Done reports that Redis has the row, or that it was certainly not committed.
func (p *Projection[Change, State]) Done(at time.Time) {
	p.mu.Lock()
	p.settle(at)
	p.mu.Unlock()
}

// Missed reports a committed row that Redis does not have. From here on until
// it has, Up is false.
func (p *Projection[Change, State]) Missed(at time.Time, row Change) {
	p.mu.Lock()
	p.settle(at)
	p.missed.add(at.UnixMilli(), row)
	p.up.Store(false)
	p.behind.Store(true)
	p.mu.Unlock()
	p.poke()
}

// Unsure reports a row whose commit was not answered: SQL has it or not, and
// nobody was told that it has. It is looked up and applied when SQL answers
// again, and once more half a minute later, as the commit may have gone on without its
// connection; until then reads go on trusting Redis.
func (p *Projection[Change, State]) Unsure(at time.Time, row Change) {
	p.mu.Lock()
	p.settle(at)
	p.unsure.add(at.UnixMilli(), row)
	p.mu.Unlock()
}

// Renew brings Redis to agree with SQL as far as some changes are concerned. It is the
// only way in which anything but the delta of a change under way reaches Redis.
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

// renewLate is Renew for changes that Redis should have had before.
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

// Bring is Renew for changes that are committed while their callers wait: Redis is given
// so long for them. It reports whether Redis has the changes, for the domain to tell by
// [Projection.Done] or [Projection.Missed].
func (p *Projection[Change, State]) Bring(ctx context.Context, within time.Duration, changes ...Change) bool {
	if !p.Writable() {
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	states, err := p.cfg.State(ctx, changes)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		err = p.cfg.Write(ctx, states)
	}
	if err != nil {
		p.cfg.Log.WarnContext(ctx, "changes were not applied to redis in time", "marks", p.cfg.Applied.String(), "err", err)
		p.Suspect()
	}
	return err == nil
}

func (p *Projection[Change, State]) settle(at time.Time) {
	if p.pending[at.Unix()]--; p.pending[at.Unix()] == 0 {
		delete(p.pending, at.Unix())
	}
}

// Suspect stops trusting Redis until the next successful round. Call it when a
// read or a write there failed.
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

// Run keeps the projection complete until ctx ends. It calls ready after the
// first round, also when Redis is away, or while that one takes long. On a clean end it removes its mark, unless that
// is the last one.
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
		p.keepNote(ctx)
		switch {
		case err != nil && ctx.Err() == nil && failed == nil:
			p.cfg.Log.Warn("redis is away or behind; answering from sql", "marks", p.cfg.Applied.String(), "err", err)
		case err == nil && failed != nil:
			p.cfg.Log.Info("redis is back and complete", "marks", p.cfg.Applied.String())
		}
		failed = err
		next := p.cfg.Every
		complete := p.settled(err == nil)
		if p.sound {
			p.ended.Store(ended)
		}
		if !complete && !errors.Is(err, errReplay) { // a replay is too much work to repeat at once
			next /= 10
		}
		ready()
		pause.Reset(next)
	}
}

// settled sets the state after a round and reports whether Redis is complete.
func (p *Projection[Change, State]) settled(ok bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writable.Store(ok)
	applied := ok && p.missed.since == 0
	if applied {
		p.behind.Store(false)
	}
	up := applied && len(p.awaited) == 0
	if up && !p.looked.IsZero() { // else a node may live whose mark is not known
		p.agreed.Store(p.oldest)
	}
	p.up.Store(up)
	return up
}

// complete returns the time up to which all of this node's rows are in Redis,
// those reported missed aside.
func (p *Projection[Change, State]) complete() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	oldest := time.Now().UnixMilli()
	for second := range p.pending {
		oldest = min(oldest, second*1000)
	}
	if p.unsure.since != 0 {
		oldest = min(oldest, p.unsure.since)
	}
	for _, l := range p.again {
		oldest = min(oldest, l.since)
	}
	return oldest
}

// repair applies the rows that were missed, and those that are unsure as far as
// SQL answers. What fails stays where it was.
func (p *Projection[Change, State]) repair(ctx context.Context) error {
	if _, err := p.applyAll(ctx, &p.missed); err != nil {
		return fmt.Errorf("apply missed rows: %w", err)
	}
	if err := p.lookUp(ctx); err != nil {
		p.cfg.Log.Debug("rows without an answer cannot be looked up yet", "marks", p.cfg.Applied.String(), "err", err)
	}
	return nil
}

// lookUp applies the rows that are unsure: at once, and when no commit of them is under way any more.
func (p *Projection[Change, State]) lookUp(ctx context.Context) error {
	rows, err := p.applyAll(ctx, &p.unsure)
	if err != nil {
		return err
	}
	if rows.since != 0 {
		p.mu.Lock()
		p.again = append(p.again, lookup[Change]{rows, time.Now().Add(slowCommit)})
		p.mu.Unlock()
	}
	for len(p.again) > 0 && !time.Now().Before(p.again[0].due) {
		if _, err := p.applyAll(ctx, &p.again[0].backlog); err != nil {
			return err
		}
		p.mu.Lock()
		p.again = p.again[1:]
		p.mu.Unlock()
	}
	return nil
}

// applyAll applies a backlog and returns what it had.
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

// errReplay marks a round in which the domain could not replay its log.
var errReplay = errors.New("the replay failed")

// replay has the domain replay its log, and tells of each failure: until a replay
// succeeds every answer comes from SQL.
func (p *Projection[Change, State]) replay(ctx context.Context, since time.Time) error {
	began := time.Now()
	err := p.cfg.Changed(ctx, since, func(changes []Change) error { return p.renewLate(ctx, changes) })
	if err == nil {
		p.replays.note(began)
		return nil
	}
	if ctx.Err() == nil {
		p.replays.failed.Add(1)
		p.cfg.Log.Error("a replay into redis failed; it is tried again", "marks", p.cfg.Applied.String(), "since", since.UTC(), "err", err)
	}
	return fmt.Errorf("%w: %w", errReplay, err)
}

// round checks that Redis is there, unharmed and complete, replays if it is
// not, and moves the mark.
func (p *Projection[Change, State]) round(ctx context.Context, ended uint64) error {
	complete := p.complete()
	identity, marks, err := p.look(ctx)
	if err != nil {
		return err
	}
	stale, due := p.seen.dead(marks, p.repeatAfter)
	delete(stale, p.cfg.Node)
	delete(due, p.cfg.Node)
	silent := p.await(marks, stale, !p.sound || identity != p.identity || ended != p.ended.Load())
	p.writable.Store(true) // what comes from here on need not be replayed
	// Before the mark moves, for which others may wait.
	if err := p.repair(ctx); err != nil {
		return err
	}
	held := marks[p.cfg.Node]
	harmed := identity != p.identity || held != p.mark
	own := complete
	if harmed && p.mark != "" {
		own = markTime(p.mark)
	}
	noted, notedDue := p.deadNotes(ctx)
	p.oldest = min(complete, oldest(marks), oldest(p.notes))
	since := min(oldest(stale), oldest(noted))
	if harmed { // everybody's rows may lack
		since = min(since, oldest(marks))
	}
	if harmed && p.mark != "" {
		since = min(since, own)
	}
	for _, from := range silent {
		since = min(since, from.UnixMilli())
		p.oldest = min(p.oldest, from.UnixMilli())
	}
	behind := since != math.MaxInt64
	if behind {
		p.up.Store(false)
	}
	if due, err = claim(ctx, due, p.swap); err != nil {
		return err
	}
	if notedDue, err = claim(ctx, notedDue, p.sql.swap); err != nil { // no reason to distrust Redis
		p.cfg.Log.Debug("a mark cannot be changed in sql", "marks", p.cfg.Applied.String(), "err", err)
	}
	since = min(since, oldest(due), oldest(notedDue))
	if since != math.MaxInt64 {
		began := time.Now()
		err := p.beating(ctx, &held, own, func(ctx context.Context) error {
			return p.replay(ctx, time.UnixMilli(since).Add(-margin))
		})
		switch {
		case err == nil:
			p.cfg.Log.Info("replayed into redis", "marks", p.cfg.Applied.String(), "since", time.UnixMilli(since).UTC(), "took", time.Since(began))
		case behind || !errors.Is(err, errReplay):
			return err
		default: // Redis has everything that was acknowledged; the marks stay, and a node replays from them later
			due, notedDue = nil, nil
		}
	}
	if err := p.repair(ctx); err != nil {
		return err
	}
	if err := p.move(ctx, &held, makeMark(complete, signNone)); err != nil {
		return err
	}
	for node, from := range silent {
		if marks[node] == "" && p.repeatAfter > 0 { // its mark was lost with the data
			if _, err := p.swap(ctx, node, "", makeMark(from.UnixMilli(), signReplayed)); err != nil {
				return err
			}
		}
		delete(p.awaited, node)
	}
	if err := p.markReplayed(ctx, stale, due, p.swap); err != nil {
		return err
	}
	if err := p.markReplayed(ctx, noted, notedDue, p.sql.swap); err != nil {
		return err
	}
	p.identity = identity
	return nil
}

// swapFunc replaces the mark of a node in Redis or in SQL if it is still from, and reports whether it was. An empty
// string is no mark.
type swapFunc func(ctx context.Context, node, from, to string) (swapped bool, err error)

// claim renews the marks of nodes whose second replay is due, so that other nodes wait slowCommit again before they
// replay. It returns the marks that no other node has claimed.
func claim(ctx context.Context, due map[string]string, swap swapFunc) (claimed map[string]string, err error) {
	claimed = map[string]string{}
	for node, mark := range due {
		renewed := makeMark(markTime(mark), signReplayed)
		swapped, err := swap(ctx, node, mark, renewed)
		if err != nil {
			return nil, err
		}
		if swapped {
			claimed[node] = renewed
		}
	}
	return claimed, nil
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

// keepNote writes this node's mark to SQL while Redis cannot be reached, and removes it
// when it can. What fails is tried again in the next round.
func (p *Projection[Change, State]) keepNote(ctx context.Context) {
	now := time.Now()
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Patience)
	defer cancel()
	if p.sound {
		if p.reached = now; p.note != "" {
			if _, err := p.sql.swap(ctx, p.cfg.Node, p.note, ""); err == nil {
				p.note = ""
			}
		}
		return
	}
	if now.Sub(p.reached) < noteEvery || now.Sub(p.noted) < noteEvery {
		return
	}
	note := makeMark(p.applied.Load(), signNone)
	if err := p.sql.write(ctx, p.cfg.Node, note); err != nil {
		p.cfg.Log.Debug("the mark cannot be written to sql", "marks", p.cfg.Applied.String(), "err", err) // nor is a row
		return
	}
	p.note, p.noted = note, now
}

// deadNotes returns the marks in SQL of other nodes that are dead; see [watch.dead]. It looks now and then, as a
// node there is dead after a while only.
func (p *Projection[Change, State]) deadNotes(ctx context.Context) (stale, due map[string]string) {
	now := time.Now()
	if now.Sub(p.looked) < dead/2 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Patience)
	defer cancel()
	notes, err := p.sql.all(ctx)
	if err != nil {
		p.cfg.Log.Debug("marks cannot be read from sql", "marks", p.cfg.Applied.String(), "err", err)
		return nil, nil
	}
	delete(notes, p.cfg.Node)
	p.looked, p.notes = now, notes
	return p.seenNotes.dead(notes, p.repeatAfter)
}

// await tells which nodes have not said since Redis was away that it has what they had
// committed. silent are those that have said nothing for so long that they are dead, and from when on
// Redis may lack their rows: they are awaited until that is replayed. One that replays lives, however long that takes.
func (p *Projection[Change, State]) await(marks, stale map[string]string, away bool) (silent map[string]time.Time) {
	if p.identity == "" {
		away = false // the node starts, and replays what all nodes have
	}
	now, nodes := time.Now(), p.others // those that lived before, and those that live
	p.others = map[string]string{}
	for node, mark := range marks {
		if _, gone := stale[node]; node != p.cfg.Node && !gone && !hasSign(mark, signReplayed) && !hasSign(mark, signLeft) {
			p.others[node] = mark
		}
	}
	if away {
		maps.Copy(nodes, p.others)
		for node := range nodes {
			if _, known := p.awaited[node]; !known { // else a round before has waited for it, and failed
				p.awaited[node] = standing{marks[node], now}
			}
		}
	}
	silent = map[string]time.Time{}
	for node, was := range p.awaited {
		switch mark := marks[node]; {
		case away: // it is to move from here on
			if mark != was.mark {
				p.awaited[node] = standing{mark, now}
			}
		case hasSign(mark, signBehind): // it lives, or is replayed for and its mark removed
		case mark != was.mark:
			delete(p.awaited, node)
		case now.Sub(was.since) > dead:
			silent[node] = was.since
		}
	}
	return silent
}

func (p *Projection[Change, State]) look(ctx context.Context) (identity string, marks map[string]string, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Patience)
	defer cancel()
	if identity, err = p.cfg.Redis.Fingerprint(ctx); err != nil {
		return "", nil, err
	}
	marks, err = p.cfg.Applied.All(ctx, p.cfg.Redis)
	return identity, marks, err
}

// A mark is two times in Unix ms: up to when the node's rows are applied, and when the mark was written. A sign may stand before
// the second one. Builds without the last two signs take such a node for dead.
const (
	signNone     = ""  // the node lives
	signBehind   = "+" // the node lives and replays: Redis may lack what it commits
	signReplayed = "=" // the node is dead, and another one has replayed for it once
	signLeft     = "-" // the node has stopped in good order
)

func makeMark(complete int64, sign string) string {
	return fmt.Sprintf("%d %s%d", complete, sign, time.Now().UnixMilli())
}

func hasSign(mark, sign string) bool {
	_, written, _ := strings.Cut(mark, " ")
	return strings.HasPrefix(written, sign)
}

func markTime(mark string) int64 {
	complete, _, _ := strings.Cut(mark, " ")
	ms, err := strconv.ParseInt(complete, 10, 64)
	if err != nil {
		return 0 // a mark we cannot read vouches for nothing
	}
	return ms
}

// writtenAt is when a mark was written, by the clock of the node that wrote it.
func writtenAt(mark string) time.Time {
	_, written, _ := strings.Cut(mark, " ")
	ms, err := strconv.ParseInt(strings.TrimLeft(written, signBehind+signReplayed+signLeft), 10, 64)
	if err != nil {
		return time.Time{} // nor does it say that the node lives
	}
	return time.UnixMilli(ms)
}

// oldest returns where a replay for nodes with those marks has to begin, MaxInt64 when there
// are none.
func oldest(marks map[string]string) int64 {
	since := int64(math.MaxInt64)
	for _, mark := range marks {
		since = min(since, markTime(mark))
	}
	return since
}

// watch has the marks of nodes as they were last seen.
type watch map[string]standing

// dead returns the marks of dead nodes: stale are those that need a first replay. due are those whose second replay is due, because
// they have not changed for repeatAfter. This node measures by its own clock how long a mark has not changed. The time in the
// mark is from another node's clock, and counts only when this node sees the mark for the first time. There the other
// clock may differ by the margin, because a second replay must not be early.
func (w watch) dead(marks map[string]string, repeatAfter time.Duration) (stale, due map[string]string) {
	now := time.Now()
	stale, due = map[string]string{}, map[string]string{}
	for node, mark := range marks {
		if _, known := w[node]; known {
			continue
		}
		since := writtenAt(mark)
		if hasSign(mark, signReplayed) {
			since = since.Add(margin)
			if since.After(now) {
				since = now
			}
		}
		w[node] = standing{mark, since}
	}
	for node, was := range w {
		stands := now.Sub(was.since)
		switch mark := marks[node]; {
		case mark != was.mark: // also where a node comes back that was taken for dead
			w[node] = standing{mark, now}
		case hasSign(mark, signLeft):
			stale[node] = mark
		case hasSign(mark, signReplayed):
			if stands > repeatAfter {
				due[node] = mark
			}
		case stands <= dead:
		case mark == "":
			delete(w, node)
		default:
			stale[node] = mark
		}
	}
	return stale, due
}

// beating keeps this node's mark alive while fn runs. The mark says that the node is behind
// until the caller moves it.
func (p *Projection[Change, State]) beating(ctx context.Context, held *string, complete int64, fn func(context.Context) error) error {
	if err := p.move(ctx, held, makeMark(complete, signBehind)); err != nil {
		return err
	}
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
				// The end of fn does not cut it off: Redis may have moved the mark, and it would be taken for harmed.
				if err := p.move(context.WithoutCancel(ctx), held, makeMark(complete, signBehind)); err != nil {
					cancel(err)
				}
			}
		}
	})
	err := fn(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	cancel(nil)
	beats.Wait()
	return err
}

// move replaces this node's mark, which must be what held says.
func (p *Projection[Change, State]) move(ctx context.Context, held *string, mark string) error {
	moved, err := p.swap(ctx, p.cfg.Node, *held, mark)
	if err != nil {
		return err
	}
	if !moved {
		return errors.New("the mark was lost while it was being moved")
	}
	*held, p.mark = mark, mark
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

// leave takes this node's mark away when nothing is missing, so that nobody
// replays for a node that stopped in good order. The last mark stays (swap.lua): Redis
// may be set back to this moment later on, and would lack everything from here on. Its sign says that one replay is enough.
func (p *Projection[Change, State]) leave(ctx context.Context) {
	p.mu.Lock()
	open := len(p.pending) > 0 || p.missed.since != 0 || p.unsure.since != 0 || len(p.again) > 0
	p.mu.Unlock()
	if p.mark == "" || open {
		return
	}
	left := makeMark(markTime(p.mark), signLeft)
	swapped, err := p.swap(ctx, p.cfg.Node, p.mark, left)
	if swapped {
		_, err = p.swap(ctx, p.cfg.Node, left, "")
	}
	if err != nil {
		p.cfg.Log.Warn("this node's mark stays in redis: another node will take it for dead and replay what redis has already, which does no harm", "marks", p.cfg.Applied.Key.String(), "err", err)
	}
}

package audit

import (
	"context"
	"errors"
	"math/bits"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

// The modes of a report.
const (
	modeNames = "names"
	modeFull  = "full"
	modeDump  = "rdb"
)

const (
	// namesPage is the number of names of one SCAN. It blocks the server, and so other clients, for about half a
	// millisecond.
	namesPage = 1000
	// fullPage is smaller, because three commands follow each name.
	fullPage = 500
	// fullWorkers is the number of pages in progress: one is in transit while another is judged.
	fullWorkers = 2
)

// Run audits the keys under db's prefix, or all keys if db has no prefix or Options.NoPrefix is set. It returns an
// error if it could not inspect everything. Faults of keys are not errors; they are in the report.
func Run(ctx context.Context, db *redis.DB, schemas []*keyspace.Schema, opt Options) (*Report, error) {
	opt.Prefix = strings.TrimSuffix(db.Physical(keyspace.Key{}), ":")
	opt.NoPrefix = opt.NoPrefix || opt.Prefix == ""
	if err := opt.settle(); err != nil {
		return nil, err
	}
	owners, err := db.Owners(ctx)
	if err != nil {
		return nil, err
	}
	mode := modeNames
	if opt.Full {
		mode = modeFull
	}
	l := &liveAudit{opt: &opt, tally: newTally(mode, opt.Prefix, schemas, &opt), pace: newPacer(&opt), cluster: db.Mode() == "cluster"}
	for _, o := range owners {
		defer o.Close()
		s := &server{Owner: o, number: l.tally.addOwner(o.Addr())}
		if l.tally.owners[s.number].UsedMemory, err = s.loadInfo(ctx); err != nil {
			return nil, err
		}
		l.servers = append(l.servers, s)
	}
	for i := range l.servers {
		if err := l.server(ctx, i); err != nil {
			return nil, err
		}
	}
	if !opt.Full {
		if err := l.sample(ctx); err != nil {
			return nil, err
		}
	}
	return l.tally.report(l.pace.report()), nil
}

// liveAudit is an audit of servers.
type liveAudit struct {
	opt     *Options
	tally   *tally
	pace    *pacer
	cluster bool
	servers []*server
}

type server struct {
	*redis.Owner
	number int
	size   int64 // the number of all its keys, those of other prefixes included
	lfu    bool
}

// loadInfo loads the figures of a server that concern all its keys. A server that does not report them, such as the
// embedded one, has no LFU policy, and its part of the progress remains 0.
func (s *server) loadInfo(ctx context.Context) (usedMemory int64, err error) {
	replies := s.Do(ctx, []string{"DBSIZE"}, []string{"INFO", "memory"})
	if s.size, err = replies[0].Int(); unreachable(err) {
		return 0, err
	}
	info, _, _ := replies[1].Text()
	s.lfu = strings.HasSuffix(field(info, "maxmemory_policy"), "-lfu")
	usedMemory, _ = strconv.ParseInt(field(info, "used_memory"), 10, 64)
	return usedMemory, nil
}

// field returns a value of an INFO text.
func field(info, name string) string {
	_, rest, _ := strings.Cut(info, "\n"+name+":")
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
}

// server audits one server.
func (l *liveAudit) server(ctx context.Context, i int) error {
	s := l.servers[i]
	ctx, cancel := context.WithCancelCause(ctx)
	watching, stopWatch := context.WithCancel(ctx)
	var watch, work sync.WaitGroup
	watch.Go(func() { l.pace.watch(watching, s.Ping) })

	pages, workers := make(chan []string, 2), 1
	if l.opt.Full {
		workers = fullWorkers
	}
	work.Go(func() {
		defer close(pages)
		if err := l.scan(ctx, s, pages); err != nil {
			cancel(err)
		}
	})
	for range workers {
		work.Go(func() {
			for page := range pages {
				if ctx.Err() == nil {
					if err := l.page(ctx, s, page); err != nil {
						cancel(err)
					}
				}
			}
		})
	}
	work.Wait()
	err := context.Cause(ctx)
	stopWatch()
	watch.Wait()
	cancel(nil)
	return err
}

// scan reads the names of one server, page by page.
func (l *liveAudit) scan(ctx context.Context, s *server, pages chan<- []string) error {
	pattern, count := prefixPattern(l.opt.Prefix), namesPage
	if l.opt.All {
		pattern = "*"
	}
	if l.opt.Full {
		count = fullPage
	}
	seen := int64(0)
	return s.scanPages(ctx, pattern, count, l.pace, func(page []string, cursor uint64) error {
		if seen += int64(len(page)); len(page) > 0 {
			select {
			case pages <- page:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if cursor != 0 && l.opt.Progress != nil {
			l.tally.mu.Lock()
			defer l.tally.mu.Unlock()
			l.opt.Progress(Progress{
				Part: (float64(s.number) + s.partDone(cursor, seen, l.cluster)) / float64(len(l.servers)),
				Keys: l.tally.r.Keys, Faults: l.tally.r.Faults,
			})
		}
		return nil
	})
}

// prefixPattern returns the MATCH pattern of the keys under a prefix. A prefix contains no glob characters.
func prefixPattern(prefix string) string {
	if prefix == "" {
		return "*"
	}
	return prefix + ":*"
}

// scanPages calls fn with each page of a server's keys and the cursor of the next page. The pacer limits its speed.
func (s *server) scanPages(ctx context.Context, pattern string, count int, pace *pacer, fn func(page []string, cursor uint64) error) error {
	for cursor := uint64(0); ; {
		page, next, err := s.Scan(ctx, cursor, pattern, count)
		if err != nil {
			return err
		}
		if err := fn(page, next); err != nil || next == 0 {
			return err
		}
		cursor = next
		if err := pace.wait(ctx, count); err != nil {
			return err
		}
	}
}

// partDone returns the part of the server's keys that was read. A cursor counts with its bits in reverse order, so the
// reversed cursor is itself the part of the table. The cursor of a cluster node may begin with a slot instead.
func (s *server) partDone(cursor uint64, seen int64, cluster bool) float64 {
	if cluster {
		return min(float64(seen)/float64(max(s.size, 1)), 1)
	}
	return float64(bits.Reverse64(cursor)) / (1 << 64)
}

// page counts names and, in full mode, inspects the keys.
func (l *liveAudit) page(ctx context.Context, s *server, page []string) error {
	batch, err := l.names(s, page)
	if err != nil || !l.opt.Full {
		return err
	}
	if err := s.inspect(ctx, batch); err != nil {
		return err
	}
	return l.tally.judgeAll(batch, 0)
}

func (l *liveAudit) names(s *server, page []string) (batch []facts, err error) {
	l.tally.mu.Lock()
	defer l.tally.mu.Unlock()
	if l.opt.Full {
		batch = make([]facts, 0, len(page))
	}
	for _, key := range page {
		g, err := l.tally.countName(key, s.number)
		if err != nil {
			return nil, err
		}
		if g != nil && l.opt.Full {
			batch = append(batch, facts{key: key, group: g})
		}
	}
	return batch, nil
}

// sample inspects the keys of the random sample.
func (l *liveAudit) sample(ctx context.Context) error {
	byServer := make([][]facts, len(l.servers))
	add := func(g *group) {
		for _, s := range g.sample {
			byServer[s.owner] = append(byServer[s.owner], facts{key: s.key, group: g})
		}
	}
	for _, g := range l.tally.families {
		add(g)
	}
	for _, g := range l.tally.shapes {
		add(g)
	}
	for i, all := range byServer {
		for len(all) > 0 {
			batch := all[:min(len(all), fullPage)]
			all = all[len(batch):]
			if err := l.servers[i].inspect(ctx, batch); err != nil {
				return err
			}
			if err := l.tally.judgeAll(batch, 0); err != nil {
				return err
			}
			if err := l.pace.wait(ctx, len(batch)); err != nil {
				return err
			}
		}
	}
	return nil
}

// inspect sets the facts that the server knows about the keys.
func (s *server) inspect(ctx context.Context, batch []facts) error {
	const each = 4 // the largest number of commands for each key
	cmds := make([][]string, 0, each*len(batch))
	for i := range batch {
		x := &batch[i]
		cmds = append(cmds, []string{"PTTL", x.key}, valueCommand(x), []string{"MEMORY", "USAGE", x.key})
		if s.lfu {
			cmds = append(cmds, []string{"OBJECT", "FREQ", x.key})
		}
	}
	replies := s.Do(ctx, cmds...)
	var incomplete []*facts // keys that need a second round trip
	for i := range batch {
		x, n := &batch[i], len(cmds)/len(batch)
		again, err := x.applyReplies(cmds[i*n+1], replies[i*n:(i+1)*n])
		if err != nil {
			return err
		}
		if again {
			incomplete = append(incomplete, x)
		}
	}
	if len(incomplete) == 0 {
		return nil
	}
	cmds = cmds[:0]
	for _, x := range incomplete {
		cmds = append(cmds, []string{"TYPE", x.key}, []string{"STRLEN", x.key})
	}
	replies = s.Do(ctx, cmds...)
	for i, x := range incomplete {
		typ, length := replies[2*i], replies[2*i+1]
		if unreachable(typ.Err) {
			return typ.Err
		}
		x.typ, x.gone = typ.Str, x.gone || typ.Str == "none"
		if n, err := length.Int(); err == nil {
			x.length = n
		}
	}
	return nil
}

// valueCommand returns the most informative command for a key: it reads a string that can be checked, and otherwise
// asks for the length or the type. A key that is not a string replies with WRONGTYPE.
func valueCommand(x *facts) []string {
	f := x.group.family
	switch {
	case f == nil || f.Type != "string":
		return []string{"TYPE", x.key}
	case f.Check == nil:
		return []string{"STRLEN", x.key}
	}
	return []string{"GETRANGE", x.key, "0", strconv.FormatInt(readLimit(f), 10)}
}

// readLimit is the largest number of bytes of a value that are read. One more byte shows that the value is longer.
func readLimit(f *keyspace.Family) int64 { return min(maxValueBytes(f), maxRead) }

// applyReplies sets the facts from the replies for one key; cmd is the second of its commands. again means that the
// type and the length need a second round trip.
func (x *facts) applyReplies(cmd []string, replies []keyspace.Reply) (again bool, err error) {
	x.typ, x.length, x.bytes, x.freq = "string", -1, -1, -1
	for _, r := range replies {
		if code := code(r.Err); code == "MOVED" || code == "ASK" || code == "TRYAGAIN" {
			x.moved = true
			return false, nil
		} else if unreachable(r.Err) {
			return false, r.Err
		}
	}
	life, first, memory := replies[0], replies[1], replies[2]
	if x.denied = code(life.Err) == "NOPERM" || code(first.Err) == "NOPERM"; x.denied {
		return false, nil
	}
	if life.Err != nil {
		return false, life.Err
	}
	// A key may be deleted between two commands; then its replies have no meaning.
	if x.gone = life.N == -2 || memory.Nil(); x.gone {
		return false, nil
	}
	if life.N != -1 {
		x.life = time.Duration(max(life.N, 1)) * time.Millisecond // 0 ms left does not mean that the key never expires
	}
	if memory.Kind == keyspace.IntReply {
		x.bytes = memory.N
	}
	if len(replies) > 3 && replies[3].Kind == keyspace.IntReply {
		x.freq = replies[3].N
	}
	switch {
	case code(first.Err) == "WRONGTYPE":
		return true, nil
	case first.Err != nil:
		return false, first.Err
	case cmd[0] == "TYPE":
		x.typ, x.gone = first.Str, first.Str == "none"
	case cmd[0] == "STRLEN":
		x.length = first.N
	case int64(len(first.Str)) > readLimit(x.group.family):
		return true, nil
	default:
		x.length, x.value, x.read = int64(len(first.Str)), []byte(first.Str), true
	}
	return false, nil
}

// code returns the code of a server's error.
func code(err error) string {
	if e, ok := errors.AsType[redis.ServerError](err); ok {
		return e.Code()
	}
	return ""
}

// unreachable reports whether err means that no further command can succeed.
func unreachable(err error) bool {
	_, refused := err.(redis.ServerError)
	return err != nil && !refused
}

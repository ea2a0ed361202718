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
	// namesPage is how many names one SCAN looks at: about half a millisecond of the
	// server's time, which is what other clients wait for it.
	namesPage = 1000
	// fullPage is smaller, for three commands follow each name.
	fullPage = 500
	// fullWorkers have pages under way: one is on its way while another is judged.
	fullWorkers = 2
)

// Run audits the keys under db's prefix, or all keys where it has none or Options.NoPrefix says so. It
// returns an error when it could not look at everything; faults are no error but in the report.
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
	l := &live{opt: &opt, tally: newTally(mode, opt.Prefix, schemas, &opt), pace: newPacer(&opt), cluster: db.Mode() == "cluster"}
	for _, o := range owners {
		defer o.Close()
		s := &server{Owner: o, number: l.tally.own(o.Addr())}
		if l.tally.owners[s.number].UsedMemory, err = s.ask(ctx); err != nil {
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

// live is an audit of servers.
type live struct {
	opt     *Options
	tally   *tally
	pace    *pacer
	cluster bool
	servers []*server
}

type server struct {
	*redis.Owner
	number int
	size   int64 // all its keys, other prefixes' included
	lfu    bool
}

// ask asks a server for what concerns all its keys. One that keeps that to itself, as
// the embedded one does, has no LFU, and its part of the progress stays at naught.
func (s *server) ask(ctx context.Context) (usedMemory int64, err error) {
	replies := s.Do(ctx, []string{"DBSIZE"}, []string{"INFO", "memory"})
	if s.size, err = replies[0].Int(); away(err) {
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

// server works through one server.
func (l *live) server(ctx context.Context, i int) error {
	s := l.servers[i]
	ctx, cancel := context.WithCancelCause(ctx)
	watching, enough := context.WithCancel(ctx)
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
	enough()
	watch.Wait()
	cancel(nil)
	return err
}

// scan reads the names of a server, page by page.
func (l *live) scan(ctx context.Context, s *server, pages chan<- []string) error {
	pattern, count := under(l.opt.Prefix), namesPage
	if l.opt.All {
		pattern = "*"
	}
	if l.opt.Full {
		count = fullPage
	}
	seen := int64(0)
	return s.each(ctx, pattern, count, l.pace, func(page []string, cursor uint64) error {
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
				Part: (float64(s.number) + s.part(cursor, seen, l.cluster)) / float64(len(l.servers)),
				Keys: l.tally.r.Keys, Faults: l.tally.r.Faults,
			})
		}
		return nil
	})
}

// under returns the pattern of the keys behind a prefix, which has no character
// that MATCH takes otherwise.
func under(prefix string) string {
	if prefix == "" {
		return "*"
	}
	return prefix + ":*"
}

// each calls fn with each page of a server's keys and where the next one begins,
// at the pacer's pace.
func (s *server) each(ctx context.Context, pattern string, count int, pace *pacer, fn func(page []string, cursor uint64) error) error {
	for cursor := uint64(0); ; {
		page, next, err := s.Scan(ctx, cursor, pattern, count)
		if err != nil {
			return err
		}
		if err := fn(page, next); err != nil || next == 0 {
			return err
		}
		cursor = next
		if err := pace.after(ctx, count); err != nil {
			return err
		}
	}
}

// part returns how much of the server's keys was read. A cursor counts with its
// bits in reverse, so that it is itself the part of the table that was read; that
// of a cluster's server may begin with a slot instead.
func (s *server) part(cursor uint64, seen int64, cluster bool) float64 {
	if cluster {
		return min(float64(seen)/float64(max(s.size, 1)), 1)
	}
	return float64(bits.Reverse64(cursor)) / (1 << 64)
}

// page counts names and, if every key is to be looked at, looks at them.
func (l *live) page(ctx context.Context, s *server, page []string) error {
	batch, err := l.names(s, page)
	if err != nil || !l.opt.Full {
		return err
	}
	if err := s.inspect(ctx, batch); err != nil {
		return err
	}
	return l.tally.look(batch, 0)
}

func (l *live) names(s *server, page []string) (batch []facts, err error) {
	l.tally.mu.Lock()
	defer l.tally.mu.Unlock()
	if l.opt.Full {
		batch = make([]facts, 0, len(page))
	}
	for _, key := range page {
		g, err := l.tally.name(key, s.number)
		if err != nil {
			return nil, err
		}
		if g != nil && l.opt.Full {
			batch = append(batch, facts{key: key, group: g})
		}
	}
	return batch, nil
}

// sample looks at the keys that were chosen by chance.
func (l *live) sample(ctx context.Context) error {
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
			if err := l.tally.look(batch, 0); err != nil {
				return err
			}
			if err := l.pace.after(ctx, len(batch)); err != nil {
				return err
			}
		}
	}
	return nil
}

// inspect fills in what the server knows of the keys.
func (s *server) inspect(ctx context.Context, batch []facts) error {
	const each = 4 // commands for a key at most
	cmds := make([][]string, 0, each*len(batch))
	for i := range batch {
		x := &batch[i]
		cmds = append(cmds, []string{"PTTL", x.key}, value(x), []string{"MEMORY", "USAGE", x.key})
		if s.lfu {
			cmds = append(cmds, []string{"OBJECT", "FREQ", x.key})
		}
	}
	replies := s.Do(ctx, cmds...)
	var open []*facts // those that one answer was not enough for
	for i := range batch {
		x, n := &batch[i], len(cmds)/len(batch)
		again, err := x.learn(cmds[i*n+1], replies[i*n:(i+1)*n])
		if err != nil {
			return err
		}
		if again {
			open = append(open, x)
		}
	}
	if len(open) == 0 {
		return nil
	}
	cmds = cmds[:0]
	for _, x := range open {
		cmds = append(cmds, []string{"TYPE", x.key}, []string{"STRLEN", x.key})
	}
	replies = s.Do(ctx, cmds...)
	for i, x := range open {
		typ, length := replies[2*i], replies[2*i+1]
		if away(typ.Err) {
			return typ.Err
		}
		x.typ, x.gone = typ.Str, x.gone || typ.Str == "none"
		if n, err := length.Int(); err == nil {
			x.length = n
		}
	}
	return nil
}

// value returns the command that tells most of a key: what a string holds if that
// can be judged, or the type. A string that is none answers WRONGTYPE.
func value(x *facts) []string {
	f := x.group.family
	switch {
	case f == nil || f.Type != "string":
		return []string{"TYPE", x.key}
	case f.Check == nil:
		return []string{"STRLEN", x.key}
	}
	return []string{"GETRANGE", x.key, "0", strconv.FormatInt(readable(f), 10)}
}

// readable is how many bytes of a value are read; one more than that means that
// it is longer.
func readable(f *keyspace.Family) int64 { return min(largest(f), maxRead) }

// learn takes the replies to one key; cmd is the second of its commands. again
// means that type and length have to be asked for.
func (x *facts) learn(cmd []string, replies []keyspace.Reply) (again bool, err error) {
	x.typ, x.length, x.bytes, x.freq = "string", -1, -1, -1
	for _, r := range replies {
		if code := code(r.Err); code == "MOVED" || code == "ASK" || code == "TRYAGAIN" {
			x.moved = true
			return false, nil
		} else if away(r.Err) {
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
	// A key may go between two commands; then what was read of it means nothing.
	if x.gone = life.N == -2 || memory.Nil(); x.gone {
		return false, nil
	}
	if life.N != -1 {
		x.life = time.Duration(max(life.N, 1)) * time.Millisecond // 0 left is not for ever
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
	case int64(len(first.Str)) > readable(x.group.family):
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

// away reports an error after which nothing more can be asked.
func away(err error) bool {
	_, refused := err.(redis.ServerError)
	return err != nil && !refused
}

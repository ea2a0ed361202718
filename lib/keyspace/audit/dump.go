package audit

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

// dumpBatch is how many keys are judged together.
const dumpBatch = 500

// RunRDB audits a dump file, as SAVE and BGSAVE write it, without any server: every
// key is looked at, as with [Options].Full. Lives are judged as they were when the
// dump was written; the file has that time in whole seconds. What a key
// occupies is computed as MEMORY USAGE would, which a server that grew a value bit by
// bit may surpass. A file that is torn off or has another checksum is an error.
func RunRDB(ctx context.Context, file string, schemas []*keyspace.Schema, opt Options) (*Report, error) {
	if err := opt.settle(); err != nil {
		return nil, err
	}
	if !opt.NoPrefix {
		if err := redis.CheckPrefix(opt.Prefix); err != nil {
			return nil, err
		}
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	stat, err := f.Stat()
	if err != nil {
		return nil, err
	}
	d, err := newRDB(f, stat.Size())
	if err != nil {
		return nil, err
	}
	t := newTally(modeDump, opt.Prefix, schemas, &opt)
	owner := t.own(filepath.Base(file))
	written := stat.ModTime()
	batch := make([]facts, 0, dumpBatch)
	for {
		var e rdbEntry
		err := d.next(&e)
		end := errors.Is(err, io.EOF)
		if err != nil && !end {
			return nil, err
		}
		if at, known := d.created(); known {
			written = at
		}
		if !end && e.db == opt.DB {
			g, err := t.name(string(e.key), owner)
			if err != nil {
				return nil, err
			}
			if g != nil {
				batch = append(batch, e.facts(g, written))
			}
		}
		if len(batch) < dumpBatch && !end {
			continue
		}
		// The time in the file is up to a second older than the lives in it.
		if err := t.look(batch, time.Second); err != nil {
			return nil, err
		}
		batch = batch[:0]
		if end {
			break
		}
		if opt.Progress != nil {
			opt.Progress(Progress{Part: float64(d.took) / float64(d.size), Keys: t.r.Keys, Faults: t.r.Faults})
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	t.owners[owner].UsedMemory, _ = strconv.ParseInt(d.aux["used-mem"], 10, 64)
	return t.report(Ping{}), nil
}

// facts puts an entry as a server would.
func (e *rdbEntry) facts(g *group, written time.Time) facts {
	x := facts{key: string(e.key), group: g, typ: e.typ, bytes: e.bytes, length: e.length, freq: e.freq}
	if !e.expires.IsZero() {
		x.life = max(e.expires.Sub(written), time.Millisecond)
		x.expired = !e.expires.After(written)
	}
	if f := g.family; e.value != nil && f != nil && f.Check != nil {
		x.value, x.read = append([]byte(nil), e.value...), true
	}
	return x
}

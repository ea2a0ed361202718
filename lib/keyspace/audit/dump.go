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

// dumpBatch is the number of keys that are judged together.
const dumpBatch = 500

// RunRDB audits a dump file of SAVE or BGSAVE, without a server. It inspects every key, as with [Options].Full. TTLs
// are judged at the time when the dump was written, which the file contains in whole seconds. Memory is computed with
// the formulas of MEMORY USAGE; a value that the server grew bit by bit may need more. A truncated file or a wrong
// checksum is an error.
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
	owner := t.addOwner(filepath.Base(file))
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
			g, err := t.countName(string(e.key), owner)
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
		// The time in the file is up to one second older than the TTLs in it.
		if err := t.judgeAll(batch, time.Second); err != nil {
			return nil, err
		}
		batch = batch[:0]
		if end {
			break
		}
		if opt.Progress != nil {
			opt.Progress(Progress{Part: float64(d.consumed) / float64(d.size), Keys: t.r.Keys, Faults: t.r.Faults})
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	t.owners[owner].UsedMemory, _ = strconv.ParseInt(d.aux["used-mem"], 10, 64)
	return t.report(Ping{}), nil
}

// facts converts an entry to the form that a server would give.
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

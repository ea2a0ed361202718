package cache

import (
	_ "embed"
	"encoding/binary"
	"strconv"
	"time"

	"github.com/stoa-dev/stoa/lib/bus"
	"github.com/stoa-dev/stoa/lib/cache/internal/slots"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

// Marks: see lua/collection.lua.
const (
	markByte   = "\x00"
	escapeByte = "\x01"
	loadedName = "V"
)

// loadedMark is the member by whose presence a collection is loaded.
func loadedMark(era uint64) string {
	return string(binary.BigEndian.AppendUint64([]byte(markByte+loadedName), era))
}

func eraOf(mark string) uint64 {
	return binary.BigEndian.Uint64([]byte(mark[len(markByte+loadedName):]))
}

func eraText(era uint64) string { return string(binary.BigEndian.AppendUint64(nil, era)) }

// escape keeps a caller's member from looking like a mark. Others stay as they are.
func escape(m string) string {
	if m != "" && m[0] <= escapeByte[0] {
		return escapeByte + m
	}
	return m
}

func unescape(m string) (s string, isMark bool) {
	if m != "" && m[0] <= escapeByte[0] {
		return m[1:], m[0] == markByte[0]
	}
	return m, false
}

// A shape is what differs between hashes, sets and sorted sets.
type shape struct {
	typ    string
	check  string // the command that asks for members
	whole  string // the command that returns all
	valued int    // texts of whole's reply for one member
	put    func(texts []string, member, value string) []string
}

var shapes = map[string]*shape{
	"hash": {"hash", "HMGET", "HGETALL", 2, func(t []string, m, v string) []string { return append(t, m, v) }},
	"set":  {"set", "SMISMEMBER", "SMEMBERS", 1, func(t []string, m, _ string) []string { return append(t, m) }},
	"zset": {"zset", "ZMSCORE", "", 2, func(t []string, m, v string) []string { return append(t, v, m) }},
}

// shapeOf returns that of a collection's key, or nil for a value's.
func shapeOf(k keyspace.Key) *shape { return shapes[k.Family().Type] }

// The scripts of collections. The tests have their twins in Go.
var (
	//go:embed lua/collection.lua
	collectionLua string
	//go:embed lua/collection_acquire.lua
	collectionAcquireLua string
	//go:embed lua/collection_fill.lua
	collectionFillLua string
	//go:embed lua/collection_release.lua
	collectionReleaseLua string
	//go:embed lua/collection_fence.lua
	collectionFenceLua string
	//go:embed lua/collection_finish.lua
	collectionFinishLua string
	//go:embed lua/collection_drop.lua
	collectionDropLua string
	//go:embed lua/collection_size.lua
	collectionSizeLua string
	//go:embed lua/collection_page.lua
	collectionPageLua string
	//go:embed lua/collection_scan.lua
	collectionScanLua string

	collectionAcquire = redis.NewScript(collectionLua + collectionAcquireLua)
	collectionFill    = redis.NewScript(collectionLua + collectionFillLua)
	collectionRelease = redis.NewScript(collectionLua + collectionReleaseLua)
	collectionFence   = redis.NewScript(collectionLua + collectionFenceLua)
	collectionFinish  = redis.NewScript(collectionLua + collectionFinishLua)
	collectionDrop    = redis.NewScript(collectionLua + collectionDropLua)
	collectionSize    = redis.NewScript(collectionLua + collectionSizeLua)
	collectionPage    = redis.NewScript(collectionLua + collectionPageLua)
	collectionScan    = redis.NewScript(collectionLua + collectionScanLua)
)

// Answers of acquire other than a lease.
const (
	isThere  = -1
	isFenced = -2
	isLent   = -3
)

func (s *shape) acquire(k keyspace.Key, token string, era uint64, life time.Duration, replace bool) keyspace.Cmd {
	return collectionAcquire.Cmd([]keyspace.Key{k}, s.typ, token, eraText(era), millis(life), one(replace))
}

// fill sends one part; total is negative unless it is the last.
func (s *shape) fill(k keyspace.Key, token string, era uint64, life time.Duration, first bool, total int, texts []string) keyspace.Cmd {
	count := ""
	if total >= 0 {
		count = strconv.Itoa(total)
	}
	args := make([]string, 0, 6+len(texts))
	args = append(args, s.typ, token, eraText(era), millis(life), one(first), count)
	return collectionFill.Cmd([]keyspace.Key{k}, append(args, texts...)...)
}

func (s *shape) release(k keyspace.Key, l grant, era uint64) keyspace.Cmd {
	left := max(0, l.left-time.Duration(bus.Now()-l.since).Milliseconds())
	return collectionRelease.Cmd([]keyspace.Key{k}, s.typ, l.token, eraText(era), strconv.FormatInt(left, 10))
}

func (s *shape) fence(k keyspace.Key, f *fencing, life time.Duration) keyspace.Cmd {
	return collectionFence.Cmd([]keyspace.Key{k}, s.typ, f.token, eraText(slots.EraOf(k.Family(), f.era)), millis(life))
}

// finish applies a target's edit if the change was made and the collection had
// been kept with left ms to live. It does not live longer for it.
func (s *shape) finish(t Target, f *fencing, left int64, changed bool) keyspace.Cmd {
	var puts, removes []string
	left -= time.Duration(bus.Now() - f.began).Milliseconds()
	if left <= 0 || !changed || t.edit == nil {
		left = 0
	} else {
		var err error
		if puts, removes, err = t.edit.ops(); err != nil || len(puts)+len(removes) > partTexts {
			left, puts, removes = 0, nil, nil
		}
	}
	args := make([]string, 0, 5+len(puts)+len(removes))
	args = append(args, s.typ, f.token, eraText(slots.EraOf(t.key.Family(), f.era)), strconv.FormatInt(left, 10), strconv.Itoa(len(puts)))
	return collectionFinish.Cmd([]keyspace.Key{t.key}, append(append(args, puts...), removes...)...)
}

func (s *shape) drop(k keyspace.Key) keyspace.Cmd {
	return collectionDrop.Cmd([]keyspace.Key{k}, s.typ)
}

func (s *shape) size(k keyspace.Key, era uint64, above string) keyspace.Cmd {
	return collectionSize.Cmd([]keyspace.Key{k}, s.typ, eraText(era), above)
}

func one(b bool) string {
	if b {
		return "1"
	}
	return ""
}

// Package shapes contains the scripts of cached collections, and their layout in Redis. Package cache loads and changes
// collections with it; package collection queries them.
package shapes

import (
	"context"
	_ "embed"
	"encoding/binary"
	"strconv"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

// Marks: see lua/collection.lua.
const (
	markByte   = "\x00"
	escapeByte = "\x01"
	loadedName = "V"
)

// LoadedMark returns the member that marks a collection as loaded.
func LoadedMark(era uint64) string {
	return string(binary.BigEndian.AppendUint64([]byte(markByte+loadedName), era))
}

// EraOf returns the era of a [LoadedMark].
func EraOf(mark string) uint64 {
	return binary.BigEndian.Uint64([]byte(mark[len(markByte+loadedName):]))
}

// EraText encodes an era as the scripts expect it.
func EraText(era uint64) string { return string(binary.BigEndian.AppendUint64(nil, era)) }

// Escape prevents a caller's member from being read as a mark. Members that need no escape are unchanged.
func Escape(m string) string {
	if m != "" && m[0] <= escapeByte[0] {
		return escapeByte + m
	}
	return m
}

// Unescape is the inverse of Escape; isMark reports whether m is a mark.
func Unescape(m string) (s string, isMark bool) {
	if m != "" && m[0] <= escapeByte[0] {
		return m[1:], m[0] == markByte[0]
	}
	return m, false
}

// Held are members with their values as the source returned them: all members of a collection or some. Members and
// values are strings here: a hash's values are JSON, a sorted set's are scores, a set has none.
type Held map[string]string

// Source loads collections.
type Source struct {
	Load func(ctx context.Context, k any) (Held, error)
	Pick func(ctx context.Context, k any, members []string) (Held, error) // nil: the source cannot load single members
}

// A Query is one query to Redis.
type Query interface {
	// About returns the members that the query asks for; nil: all members.
	About() []string
	// Cmd returns the command. mark is the member that marks the collection as loaded.
	Cmd(key keyspace.Key, mark string) keyspace.Cmd
	// Take processes the reply.
	Take(keyspace.Reply) Verdict
}

// A Question is a query about the collection at a key; Of is its family, as a type of package cache.
type Question[C any] struct {
	Of    C
	At    any
	Query Query
}

// A Verdict is the result of a query.
type Verdict uint8

// The verdicts.
const (
	Answered   Verdict = iota
	Absent             // the collection is not loaded
	Unreadable         // it is loaded, but by another version of the program
	Failed             // Redis did not reply
)

// A Shape contains the differences between hashes, sets and sorted sets.
type Shape struct {
	Type   string
	Check  string // the command that reads single members
	Whole  string // the command that returns all members
	Valued int    // number of strings for one member in Whole's reply
	Put    func(texts []string, member, value string) []string
}

var byType = map[string]*Shape{
	"hash": {"hash", "HMGET", "HGETALL", 2, func(t []string, m, v string) []string { return append(t, m, v) }},
	"set":  {"set", "SMISMEMBER", "SMEMBERS", 1, func(t []string, m, _ string) []string { return append(t, m) }},
	"zset": {"zset", "ZMSCORE", "", 2, func(t []string, m, v string) []string { return append(t, v, m) }},
}

// Of returns the shape of a family's collections, or nil for a family of values.
func Of(f *keyspace.Family) *Shape { return byType[f.Type] }

// The scripts of collections. The tests contain their Go twins.
var (
	//go:embed lua/collection.lua
	commonLua string
	//go:embed lua/collection_acquire.lua
	acquireLua string
	//go:embed lua/collection_fill.lua
	fillLua string
	//go:embed lua/collection_release.lua
	releaseLua string
	//go:embed lua/collection_fence.lua
	fenceLua string
	//go:embed lua/collection_finish.lua
	finishLua string
	//go:embed lua/collection_drop.lua
	dropLua string
	//go:embed lua/collection_size.lua
	sizeLua string
	//go:embed lua/collection_page.lua
	pageLua string
	//go:embed lua/collection_scan.lua
	scanLua string

	acquireScript = redis.NewScript(commonLua + acquireLua)
	fillScript    = redis.NewScript(commonLua + fillLua)
	releaseScript = redis.NewScript(commonLua + releaseLua)
	fenceScript   = redis.NewScript(commonLua + fenceLua)
	finishScript  = redis.NewScript(commonLua + finishLua)
	dropScript    = redis.NewScript(commonLua + dropLua)
	sizeScript    = redis.NewScript(commonLua + sizeLua)
	pageScript    = redis.NewScript(commonLua + pageLua)
	scanScript    = redis.NewScript(commonLua + scanLua)
)

// Replies to Acquire without a lease.
const (
	IsLoaded = -1
	IsFenced = -2
	IsLent   = -3
)

// Acquire acquires the lease on a collection. The reply is the remaining life in ms of the present content.
func (s *Shape) Acquire(k keyspace.Key, token string, era uint64, life time.Duration, replace bool) keyspace.Cmd {
	return acquireScript.Cmd([]keyspace.Key{k}, s.Type, token, EraText(era), keyspace.Millis(life), flagText(replace))
}

// Fill sends one part; total is negative except in the last part.
func (s *Shape) Fill(k keyspace.Key, token string, era uint64, life time.Duration, first bool, total int, texts []string) keyspace.Cmd {
	count := ""
	if total >= 0 {
		count = strconv.Itoa(total)
	}
	args := make([]string, 0, 6+len(texts))
	args = append(args, s.Type, token, EraText(era), keyspace.Millis(life), flagText(first), count)
	return fillScript.Cmd([]keyspace.Key{k}, append(args, texts...)...)
}

// Release releases a lease; the earlier content lives for left ms more.
func (s *Shape) Release(k keyspace.Key, token string, era uint64, left int64) keyspace.Cmd {
	return releaseScript.Cmd([]keyspace.Key{k}, s.Type, token, EraText(era), strconv.FormatInt(left, 10))
}

// Fence begins a change. The reply is the remaining life in ms of a collection that is kept behind the fence.
func (s *Shape) Fence(k keyspace.Key, token string, era uint64, life time.Duration) keyspace.Cmd {
	return fenceScript.Cmd([]keyspace.Key{k}, s.Type, token, EraText(era), keyspace.Millis(life))
}

// Finish ends a change. If the collection was kept, it applies puts, which are strings of Put, and removes, and the
// collection lives for left ms more. With left 0 it drops the collection.
func (s *Shape) Finish(k keyspace.Key, token string, era uint64, left int64, puts, removes []string) keyspace.Cmd {
	args := make([]string, 0, 5+len(puts)+len(removes))
	args = append(args, s.Type, token, EraText(era), strconv.FormatInt(left, 10), strconv.Itoa(len(puts)))
	return finishScript.Cmd([]keyspace.Key{k}, append(append(args, puts...), removes...)...)
}

// Drop removes a collection.
func (s *Shape) Drop(k keyspace.Key) keyspace.Cmd {
	return dropScript.Cmd([]keyspace.Key{k}, s.Type)
}

// Size counts all members, or those of a sorted set above a score if above is not empty.
func (s *Shape) Size(k keyspace.Key, era uint64, above string) keyspace.Cmd {
	return sizeScript.Cmd([]keyspace.Key{k}, s.Type, EraText(era), above)
}

// Page returns the next n members of a sorted set after a score and a member.
func Page(k keyspace.Key, era uint64, n int, score, after string) keyspace.Cmd {
	return pageScript.Cmd([]keyspace.Key{k}, EraText(era), strconv.Itoa(n), score, after)
}

// Scan returns about n members of a hash or set from the cursor of Redis on.
func (s *Shape) Scan(k keyspace.Key, era uint64, at string, n int) keyspace.Cmd {
	return scanScript.Cmd([]keyspace.Key{k}, s.Type, EraText(era), at, strconv.Itoa(n))
}

func flagText(b bool) string {
	if b {
		return "1"
	}
	return ""
}

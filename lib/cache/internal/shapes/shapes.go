// Package shapes has the scripts of cached collections, and what a collection is in Redis. Package
// cache loads and changes collections with it, package collection asks them.
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

// LoadedMark is the member by whose presence a collection is loaded.
func LoadedMark(era uint64) string {
	return string(binary.BigEndian.AppendUint64([]byte(markByte+loadedName), era))
}

// EraOf is the era of a [LoadedMark].
func EraOf(mark string) uint64 {
	return binary.BigEndian.Uint64([]byte(mark[len(markByte+loadedName):]))
}

// EraText is an era as the scripts take it.
func EraText(era uint64) string { return string(binary.BigEndian.AppendUint64(nil, era)) }

// Escape keeps a caller's member from looking like a mark. Others stay as they are.
func Escape(m string) string {
	if m != "" && m[0] <= escapeByte[0] {
		return escapeByte + m
	}
	return m
}

// Unescape is the inverse of Escape; isMark reports that m is a mark.
func Unescape(m string) (s string, isMark bool) {
	if m != "" && m[0] <= escapeByte[0] {
		return m[1:], m[0] == markByte[0]
	}
	return m, false
}

// Held are members with their values as they came from the source: all of a
// collection's or some. Members and values are texts here: a hash's values are JSON, a sorted set's
// are scores, a set has none.
type Held map[string]string

// Source is where collections come from.
type Source struct {
	Load func(ctx context.Context, k any) (Held, error)
	Pick func(ctx context.Context, k any, members []string) (Held, error) // nil: the source cannot
}

// A Query is one query to Redis.
type Query interface {
	// About are the members in question; nil: the query is about all.
	About() []string
	// Cmd is the command. The mark is the member by whose presence the collection is loaded.
	Cmd(key keyspace.Key, mark string) keyspace.Cmd
	// Take takes the answer.
	Take(keyspace.Reply) Verdict
}

// A Question is a query about a collection at a key; Of says of which family, in the terms of
// package cache.
type Question[C any] struct {
	Of    C
	At    any
	Query Query
}

// A Verdict is what became of a query.
type Verdict uint8

// The verdicts.
const (
	Answered   Verdict = iota
	Absent             // the collection is not loaded
	Unreadable         // it is loaded, by another version of the program
	Failed             // Redis did not answer
)

// A Shape is what differs between hashes, sets and sorted sets.
type Shape struct {
	Type   string
	Check  string // the command that asks for members
	Whole  string // the command that returns all
	Valued int    // texts of Whole's reply for one member
	Put    func(texts []string, member, value string) []string
}

var byType = map[string]*Shape{
	"hash": {"hash", "HMGET", "HGETALL", 2, func(t []string, m, v string) []string { return append(t, m, v) }},
	"set":  {"set", "SMISMEMBER", "SMEMBERS", 1, func(t []string, m, _ string) []string { return append(t, m) }},
	"zset": {"zset", "ZMSCORE", "", 2, func(t []string, m, v string) []string { return append(t, v, m) }},
}

// Of returns that of the collections of a family, or nil for a family of values.
func Of(f *keyspace.Family) *Shape { return byType[f.Type] }

// The scripts of collections. The tests have their twins in Go.
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

// Answers of Acquire other than a lease.
const (
	IsThere  = -1
	IsFenced = -2
	IsLent   = -3
)

// Acquire takes the lease on a collection, and answers how many ms what is there has to live.
func (s *Shape) Acquire(k keyspace.Key, token string, era uint64, life time.Duration, replace bool) keyspace.Cmd {
	return acquireScript.Cmd([]keyspace.Key{k}, s.Type, token, EraText(era), millis(life), one(replace))
}

// Fill sends one part; total is negative unless it is the last.
func (s *Shape) Fill(k keyspace.Key, token string, era uint64, life time.Duration, first bool, total int, texts []string) keyspace.Cmd {
	count := ""
	if total >= 0 {
		count = strconv.Itoa(total)
	}
	args := make([]string, 0, 6+len(texts))
	args = append(args, s.Type, token, EraText(era), millis(life), one(first), count)
	return fillScript.Cmd([]keyspace.Key{k}, append(args, texts...)...)
}

// Release gives a lease up; what was there before lives for left ms more.
func (s *Shape) Release(k keyspace.Key, token string, era uint64, left int64) keyspace.Cmd {
	return releaseScript.Cmd([]keyspace.Key{k}, s.Type, token, EraText(era), strconv.FormatInt(left, 10))
}

// Fence begins a change, and answers how many ms a collection has to live that is kept behind the
// fence.
func (s *Shape) Fence(k keyspace.Key, token string, era uint64, life time.Duration) keyspace.Cmd {
	return fenceScript.Cmd([]keyspace.Key{k}, s.Type, token, EraText(era), millis(life))
}

// Finish ends a change. It applies puts, which are texts of Put, and removes to a collection that
// was kept, which then lives for left ms more; with 0 it drops it.
func (s *Shape) Finish(k keyspace.Key, token string, era uint64, left int64, puts, removes []string) keyspace.Cmd {
	args := make([]string, 0, 5+len(puts)+len(removes))
	args = append(args, s.Type, token, EraText(era), strconv.FormatInt(left, 10), strconv.Itoa(len(puts)))
	return finishScript.Cmd([]keyspace.Key{k}, append(append(args, puts...), removes...)...)
}

// Drop removes a collection.
func (s *Shape) Drop(k keyspace.Key) keyspace.Cmd {
	return dropScript.Cmd([]keyspace.Key{k}, s.Type)
}

// Size counts the members, of a sorted set those above a score unless that is empty.
func (s *Shape) Size(k keyspace.Key, era uint64, above string) keyspace.Cmd {
	return sizeScript.Cmd([]keyspace.Key{k}, s.Type, EraText(era), above)
}

// Page returns the n next members of a sorted set, from behind a score and a member on.
func Page(k keyspace.Key, era uint64, n int, score, after string) keyspace.Cmd {
	return pageScript.Cmd([]keyspace.Key{k}, EraText(era), strconv.Itoa(n), score, after)
}

// Scan returns about n members of a hash or set from Redis' cursor on.
func (s *Shape) Scan(k keyspace.Key, era uint64, at string, n int) keyspace.Cmd {
	return scanScript.Cmd([]keyspace.Key{k}, s.Type, EraText(era), at, strconv.Itoa(n))
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

func one(b bool) string {
	if b {
		return "1"
	}
	return ""
}

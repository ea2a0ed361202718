package keyspace_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/keyspace/acl"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

type colours struct{}

func (colours) Words() []string { return []string{"one", "two", "three"} }

type colour = keyspace.Word[colours]

var (
	one, two, three = keyspace.WordOf[colours]("one"), keyspace.WordOf[colours]("two"), keyspace.WordOf[colours]("three")

	values = keyspace.New("values")
	doc    = keyspace.Doc{Purpose: "a test's"}

	// Families of every kind with a TTL, all under one hash tag.
	vBytes  = keyspace.Def2[keyspace.Int, colour](values, "bytes:{{n}}:{c}", keyspace.BytesOf("x"), keyspace.Expire(time.Hour), doc)
	vJSON   = keyspace.Def2[keyspace.Int, colour](values, "json:{{n}}:{c}", keyspace.JSONOf[[]int](), keyspace.Expire(time.Hour), doc)
	vCount  = keyspace.Def2[keyspace.Int, colour](values, "count:{{n}}:{c}", keyspace.CounterKind(), keyspace.Expire(time.Hour), doc)
	vBits   = keyspace.Def2[keyspace.Int, colour](values, "bits:{{n}}:{c}", keyspace.BitmapOf("x"), keyspace.Expire(time.Hour), doc)
	vLog    = keyspace.Def2[keyspace.Int, colour](values, "log:{{n}}:{c}", keyspace.HyperLogLogOf("x"), keyspace.Expire(time.Hour), doc)
	vHash   = keyspace.Def2[keyspace.Int, colour](values, "hash:{{n}}:{c}", keyspace.HashOf("x"), keyspace.Expire(time.Hour), doc)
	vSet    = keyspace.Def2[keyspace.Int, colour](values, "set:{{n}}:{c}", keyspace.SetOf("x"), keyspace.Expire(time.Hour), doc)
	vZSet   = keyspace.Def2[keyspace.Int, colour](values, "zset:{{n}}:{c}", keyspace.ZSetOf("x"), keyspace.Expire(time.Hour), doc)
	vGeo    = keyspace.Def2[keyspace.Int, colour](values, "geo:{{n}}:{c}", keyspace.GeoOf("x"), keyspace.Expire(time.Hour), doc)
	vList   = keyspace.Def2[keyspace.Int, colour](values, "list:{{n}}:{c}", keyspace.ListOf("x"), keyspace.Expire(time.Hour), doc)
	vStream = keyspace.Def2[keyspace.Int, colour](values, "stream:{{n}}:{c}", keyspace.StreamOf("x"), keyspace.Expire(time.Hour), doc)

	vKept = keyspace.Def2[keyspace.Int, colour](values, "kept:{{n}}:{c}", keyspace.SetOf("x"), keyspace.Forever("a test's"), doc)
	vOnce = keyspace.Def2[keyspace.Int, colour](values, "once:{{n}}:{c}", keyspace.SetOf("x"), keyspace.UpTo(time.Hour), doc)
)

// got formats the results of a call.
func got(results ...any) string {
	if err, ok := results[len(results)-1].(error); ok {
		return "error: " + err.Error()
	}
	if results[len(results)-1] == nil {
		results = results[:len(results)-1]
	}
	return strings.TrimSuffix(fmt.Sprintln(results...), "\n")
}

// sorted is got for members in no particular order.
func sorted(all []string, err error) string {
	slices.Sort(all)
	return got(all, err)
}

// metres is got for distances, without fractions.
func metres(all []keyspace.Scored, err error) string {
	for i := range all {
		all[i].Score = math.Trunc(all[i].Score)
	}
	return got(all, err)
}

// restricted connects to a real server as a user that may only do what the families need.
func restricted(t *testing.T, schemas ...*keyspace.Schema) *redis.DB {
	t.Helper()
	s := redistest.Server(t)
	line := strings.Fields(acl.User{Name: "app", Secret: ">secret"}.Line(schemas...))
	if _, err := s.Do(append([]string{"ACL", "SETUSER"}, line[1:]...)...); err != nil {
		t.Fatal(err)
	}
	db := redistest.Open(t, strings.Replace(s.URL, "redis://", "redis://app:secret@", 1))
	return db
}

func TestKinds_MethodsOnServers(t *testing.T) {
	db, ctx := restricted(t, values), t.Context()
	n := keyspace.Int{N: 1}
	type step struct {
		what string
		do   func() string
		want string
		key  keyspace.Key // has its TTL afterwards, if it exists
	}
	b, b2 := vBytes.At(n, one), vBytes.At(n, two)
	j, c := vJSON.At(n, one), vCount.At(n, one)
	m, m2, m3 := vBits.At(n, one), vBits.At(n, two), vBits.At(n, three)
	l, l2 := vLog.At(n, one), vLog.At(n, two)
	h, z, g := vHash.At(n, one), vZSet.At(n, one), vGeo.At(n, one)
	s, s2, s3 := vSet.At(n, one), vSet.At(n, two), vSet.At(n, three)
	q, q2, x := vList.At(n, one), vList.At(n, two), vStream.At(n, one)
	var last string
	for _, c := range []step{
		{"exists", func() string { return got(b.Exists(ctx, db)) }, "false", b.Key},
		{"left of nothing", func() string { return got(b.Left(ctx, db)) }, "0s false", b.Key},
		{"add", func() string { return got(b.Add(ctx, db, "v")) }, "true", b.Key},
		{"add again", func() string { return got(b.Add(ctx, db, "w")) }, "false", b.Key},
		{"swap", func() string { return got(b.Swap(ctx, db, "w")) }, "v true", b.Key},
		{"append", func() string { return got(b.Append(ctx, db, "orld")) }, "5", b.Key},
		{"len", func() string { return got(b.Len(ctx, db)) }, "5", b.Key},
		{"exists now", func() string { return got(b.Exists(ctx, db)) }, "true", b.Key},
		{"renew", func() string { return got(b.Renew(ctx, db)) }, "", b.Key},
		{"take", func() string { return got(b.Take(ctx, db)) }, "world true", b.Key},
		{"take nothing", func() string { return got(b.Take(ctx, db)) }, " false", b.Key},
		{"swap nothing", func() string { return got(b2.Swap(ctx, db, "w")) }, " false", b2.Key},
		{"delete", func() string { return got(b2.Delete(ctx, db)) }, "", b2.Key},
		{"deleted", func() string { return got(b2.Get(ctx, db)) }, " false", b2.Key},

		{"json add", func() string { return got(j.Add(ctx, db, []int{1})) }, "true", j.Key},
		{"json add again", func() string { return got(j.Add(ctx, db, []int{2})) }, "false", j.Key},
		{"json read", func() string { return got(j.Read(db.Do(ctx, j.GetCmd()))) }, "[1] true", j.Key},
		{"json take", func() string { return got(j.Take(ctx, db)) }, "[1] true", j.Key},
		{"json take nothing", func() string { return got(j.Take(ctx, db)) }, "[] false", j.Key},

		{"counter set", func() string { return got(c.Set(ctx, db, 40)) }, "", c.Key},
		{"counter add", func() string { return got(c.Add(ctx, db, 2)) }, "42", c.Key},
		{"counter get", func() string { return got(db.Do(ctx, c.GetCmd()).Int()) }, "42", c.Key},
		{"counter take", func() string { return got(c.Take(ctx, db)) }, "42", c.Key},
		{"counter gone", func() string { return got(c.Take(ctx, db)) }, "0", c.Key},

		{"bit cleared first", func() string { return got(vBits.At(n, two).ClearBit(ctx, db, 3)) }, "false", vBits.At(n, two).Key},
		{"bit add", func() string { return got(m.Add(ctx, db, "\x01")) }, "true", m.Key},
		{"bit add again", func() string { return got(m.Add(ctx, db, "\x01")) }, "false", m.Key},
		{"bit set", func() string { return got(m.SetBit(ctx, db, 9)) }, "false", m.Key},
		{"bit set again", func() string { return got(m.SetBit(ctx, db, 9)) }, "true", m.Key},
		{"bit", func() string { return got(m.Bit(ctx, db, 9)) }, "true", m.Key},
		{"bits", func() string { return got(m.Get(ctx, db)) }, "\x01\x40 true", m.Key},
		{"count", func() string { return got(m.Count(ctx, db)) }, "2", m.Key},
		{"first", func() string { return got(m.First(ctx, db)) }, "7", m.Key},
		{"clear", func() string { return got(m.ClearBit(ctx, db, 7)) }, "true", m.Key},
		{"cleared", func() string { return got(m.Bit(ctx, db, 7)) }, "false", m.Key},

		{"bits of another", func() string { return got(m2.SetBit(ctx, db, 3)) }, "false", m2.Key},
		{"bits or", func() string { return got(m3.StoreOr(ctx, db, m, m2)) }, "2", m3.Key},
		{"bits or'ed", func() string { return got(m3.Get(ctx, db)) }, "\x10\x40 true", m3.Key},
		{"bits xor", func() string { return got(m3.StoreXor(ctx, db, m3, m)) }, "2", m3.Key},
		{"bits xor'ed", func() string { return got(m3.Get(ctx, db)) }, "\x10\x00 true", m3.Key},
		{"bits and", func() string { return got(m3.StoreAnd(ctx, db, m3, m2)) }, "2", m3.Key},
		{"bits and'ed", func() string { return got(m3.Count(ctx, db)) }, "1", m3.Key},
		{"bits deleted", func() string { return got(m2.Delete(ctx, db)) }, "", m2.Key},
		{"bits of none", func() string { return got(m3.StoreOr(ctx, db, m2)) }, "0", m3.Key},

		{"log add", func() string { return got(l.Add(ctx, db, "a", "b", "a")) }, "true", l.Key},
		{"log add again", func() string { return got(l.Add(ctx, db, "a")) }, "false", l.Key},
		{"log count", func() string { return got(l.Count(ctx, db)) }, "2", l.Key},
		{"log merge", func() string { return got(l2.Merge(ctx, db, l)) }, "", l2.Key},
		{"log add to other", func() string { return got(l2.Add(ctx, db, "c")) }, "true", l2.Key},
		{"log count of both", func() string { return got(l.Count(ctx, db, l2)) }, "3", l.Key},

		{"hash set", func() string { return got(h.Set(ctx, db, "a", "1")) }, "true", h.Key},
		{"hash set again", func() string { return got(h.Set(ctx, db, "a", "2")) }, "false", h.Key},
		{"hash set some", func() string { return got(h.SetSome(ctx, db, map[string]string{"b": "x", "a": "3"})) }, "1", h.Key},
		{"hash set new", func() string { return got(h.SetNew(ctx, db, "b", "y")) }, "false", h.Key},
		{"hash set new one", func() string { return got(h.SetNew(ctx, db, "c", "")) }, "true", h.Key},
		{"hash get", func() string { return got(h.Get(ctx, db, "b")) }, "x true", h.Key},
		{"hash get nothing", func() string { return got(h.Get(ctx, db, "z")) }, " false", h.Key},
		{"hash get some", func() string { return got(h.GetSome(ctx, db, "a", "z", "c")) }, "map[a:3 c:]", h.Key},
		{"hash add", func() string { return got(h.Add(ctx, db, "a", -5)) }, "-2", h.Key},
		{"hash add float", func() string { return got(h.AddFloat(ctx, db, "a", 0.5)) }, "-1.5", h.Key},
		{"hash has", func() string { return got(h.Has(ctx, db, "c")) }, "true", h.Key},
		{"hash fields", func() string { return sorted(h.Fields(ctx, db)) }, "[a b c]", h.Key},
		{"hash len", func() string { return got(h.Len(ctx, db)) }, "3", h.Key},
		{"hash remove", func() string { return got(h.Remove(ctx, db, "c", "z")) }, "1", h.Key},
		{"hash all", func() string { return got(h.All(ctx, db)) }, "map[a:-1.5 b:x]", h.Key},

		{"set add", func() string { return got(s.Add(ctx, db, "a", "b", "a")) }, "2", s.Key},
		{"set add other", func() string { return got(s2.Add(ctx, db, "b", "c")) }, "2", s2.Key},
		{"set has", func() string { return got(s.Has(ctx, db, "a")) }, "true", s.Key},
		{"set has each", func() string { return got(s.HasEach(ctx, db, "a", "c", "b")) }, "[true false true]", s.Key},
		{"set union", func() string { return sorted(s.Union(ctx, db, s2)) }, "[a b c]", s.Key},
		{"set inter", func() string { return sorted(s.Inter(ctx, db, s2)) }, "[b]", s.Key},
		{"set diff", func() string { return sorted(s.Diff(ctx, db, s2)) }, "[a]", s.Key},
		{"set store union", func() string { return got(s3.StoreUnion(ctx, db, s, s2)) }, "3", s3.Key},
		{"set store inter", func() string { return got(s3.StoreInter(ctx, db, s, s2)) }, "1", s3.Key},
		{"set stored", func() string { return sorted(s3.All(ctx, db)) }, "[b]", s3.Key},
		{"set remove", func() string { return got(s3.Remove(ctx, db, "b", "z")) }, "1", s3.Key},
		{"set move", func() string { return got(s.Move(ctx, db, s3, "a")) }, "true", s3.Key},
		{"set move nothing", func() string { return got(s.Move(ctx, db, s3, "a")) }, "false", s3.Key},
		{"set random", func() string { return got(s.Random(ctx, db, 5)) }, "[b]", s.Key},
		{"set random none", func() string { return got(s.Random(ctx, db, -5)) }, "[]", s.Key},
		{"set len", func() string { return got(s.Len(ctx, db)) }, "1", s.Key},
		{"set pop", func() string { return got(s.Pop(ctx, db, 5)) }, "[b]", s.Key},

		{"zset set", func() string { return got(z.Set(ctx, db, "a", 1)) }, "true", z.Key},
		{"zset set some", func() string { return got(z.SetSome(ctx, db, keyspace.Scored{"b", 2}, keyspace.Scored{"a", 1.5})) }, "1", z.Key},
		{"zset raise", func() string { return got(z.Raise(ctx, db, "b", 1)) }, "false", z.Key},
		{"zset raise higher", func() string { return got(z.Raise(ctx, db, "b", 9)) }, "true", z.Key},
		{"zset add", func() string { return got(z.Add(ctx, db, "c", 4.25)) }, "4.25", z.Key},
		{"zset score", func() string { return got(z.Score(ctx, db, "b")) }, "9 true", z.Key},
		{"zset no score", func() string { return got(z.Score(ctx, db, "z")) }, "0 false", z.Key},
		{"zset top", func() string { return got(z.Top(ctx, db, 2)) }, "[{b 9} {c 4.25}]", z.Key},
		{"zset top none", func() string { return got(z.Top(ctx, db, 0)) }, "[]", z.Key},
		{"zset range top", func() string { return got(z.RangeTop(ctx, db, 1, 2)) }, "[{c 4.25} {a 1.5}]", z.Key},
		{"zset range", func() string { return got(z.Range(ctx, db, 1, 1)) }, "[{c 4.25}]", z.Key},
		{"zset range nowhere", func() string { return got(z.Range(ctx, db, -1, 1)) }, "[]", z.Key},
		{"zset by score", func() string { return got(z.ByScore(ctx, db, 1.5, math.Inf(1), 2)) }, "[{a 1.5} {c 4.25}]", z.Key},
		{"zset count", func() string { return got(z.Count(ctx, db, math.Inf(-1), 4.25)) }, "2", z.Key},
		{"zset rank", func() string { return got(z.Rank(ctx, db, "c")) }, "1 true", z.Key},
		{"zset rank top", func() string { return got(z.RankTop(ctx, db, "b")) }, "0 true", z.Key},
		{"zset no rank", func() string { return got(z.RankTop(ctx, db, "z")) }, "0 false", z.Key},
		{"zset len", func() string { return got(z.Len(ctx, db)) }, "3", z.Key},
		{"zset keep", func() string { return got(z.KeepTop(ctx, db, 2)) }, "1", z.Key},
		{"zset pop", func() string { return got(z.Pop(ctx, db, 1)) }, "[{c 4.25}]", z.Key},
		{"zset pop none", func() string { return got(z.Pop(ctx, db, -1)) }, "[]", z.Key},
		{"zset pop top", func() string { return got(z.PopTop(ctx, db, 5)) }, "[{b 9}]", z.Key},
		{"zset refill", func() string { return got(z.SetSome(ctx, db, keyspace.Scored{"b", 2}, keyspace.Scored{"a", 1})) }, "2", z.Key},
		{"zset remove", func() string { return got(z.Remove(ctx, db, "a", "z")) }, "1", z.Key},
		{"zset remove by score", func() string { return got(z.RemoveByScore(ctx, db, 2, 2)) }, "1", z.Key},

		{"geo set", func() string { return got(g.Set(ctx, db, "Palermo", keyspace.Point{Lat: 38.115556, Lon: 13.361389})) }, "true", g.Key},
		{"geo set other", func() string { return got(g.Set(ctx, db, "Catania", keyspace.Point{Lat: 37.502669, Lon: 15.087269})) }, "true", g.Key},
		{"geo distance", func() string { return got(g.Distance(ctx, db, "Palermo", "Catania")) }, "166274.1516 true", g.Key},
		{"geo no distance", func() string { return got(g.Distance(ctx, db, "Palermo", "Rome")) }, "0 false", g.Key},
		{"geo at", func() string {
			p, ok, err := g.At(ctx, db, "Palermo")
			return got(math.Round(p.Lat*1e4), math.Round(p.Lon*1e4), ok, err)
		}, "381156 133614 true", g.Key},
		{"geo nowhere", func() string { return got(g.At(ctx, db, "Rome")) }, "{0 0} false", g.Key},
		{"geo near", func() string {
			return metres(g.Near(ctx, db, keyspace.Point{Lat: 37, Lon: 15}, 200_000, 5))
		}, "[{Catania 56441} {Palermo 190442}]", g.Key},
		{"geo near one", func() string {
			return metres(g.Near(ctx, db, keyspace.Point{Lat: 37, Lon: 15}, 200_000, 1))
		}, "[{Catania 56441}]", g.Key},
		{"geo len", func() string { return got(g.Len(ctx, db)) }, "2", g.Key},
		{"geo remove", func() string { return got(g.Remove(ctx, db, "Palermo")) }, "1", g.Key},

		{"list push", func() string { return got(q.Push(ctx, db, "b", "c")) }, "2", q.Key},
		{"list push front", func() string { return got(q.PushFront(ctx, db, "a", "z")) }, "4", q.Key},
		{"list range", func() string { return got(q.Range(ctx, db, 0, -1)) }, "[z a b c]", q.Key},
		{"list index", func() string { return got(q.Index(ctx, db, -1)) }, "c true", q.Key},
		{"list no index", func() string { return got(q.Index(ctx, db, 9)) }, " false", q.Key},
		{"list set", func() string { return got(q.Set(ctx, db, -1, "d")) }, "", q.Key},
		{"list move", func() string { return got(q.Move(ctx, db, q2)) }, "z true", q2.Key},
		{"list pop", func() string { return got(q.Pop(ctx, db, 1)) }, "[a]", q.Key},
		{"list pop back", func() string { return got(q.PopBack(ctx, db, 1)) }, "[d]", q.Key},
		{"list push more", func() string { return got(q.Push(ctx, db, "b", "e")) }, "3", q.Key},
		{"list remove", func() string { return got(q.Remove(ctx, db, "b")) }, "2", q.Key},
		{"list len", func() string { return got(q.Len(ctx, db)) }, "1", q.Key},
		{"list trim", func() string { return got(q.Trim(ctx, db, 1, 0)) }, "", q.Key},
		{"list pop none", func() string { return got(q.Pop(ctx, db, 1)) }, "[]", q.Key},
		{"list move none", func() string { return got(q.Move(ctx, db, q2)) }, " false", q.Key},

		{"stream join", func() string { return got(x.Join(ctx, db, "g", "$")) }, "true", x.Key},
		{"stream join again", func() string { return got(x.Join(ctx, db, "g", "$")) }, "false", x.Key},
		{"stream add", func() string {
			id, err := x.Add(ctx, db, 10, map[string]string{"a": "1", "b": "2"})
			last = id
			return got(err)
		}, "", x.Key},
		{"stream range", func() string { return got(x.Range(ctx, db, "-", "+", 5)) }, "[{ID map[a:1 b:2]}]", x.Key},
		{"stream range back", func() string { return got(x.RangeBack(ctx, db, "+", "-", 5)) }, "[{ID map[a:1 b:2]}]", x.Key},
		{"stream range behind", func() string { return got(x.Range(ctx, db, "("+last, "+", 5)) }, "[]", x.Key},
		{"stream read", func() string { return got(x.Read(ctx, db, "g", "ann", 5)) }, "[{ID map[a:1 b:2]}]", x.Key},
		{"stream read again", func() string { return got(x.Read(ctx, db, "g", "ann", 5)) }, "[]", x.Key},
		{"stream claim", func() string { return got(x.Claim(ctx, db, "g", "bob", 0, 5)) }, "[{ID map[a:1 b:2]}]", x.Key},
		{"stream claim none", func() string { return got(x.Claim(ctx, db, "g", "bob", time.Hour, 5)) }, "[]", x.Key},
		{"stream done", func() string { return got(x.Done(ctx, db, "g", last)) }, "1", x.Key},
		{"stream len", func() string { return got(x.Len(ctx, db)) }, "1", x.Key},
		{"stream remove", func() string { return got(x.Remove(ctx, db, last)) }, "1", x.Key},
		{"stream trim", func() string { return got(x.Trim(ctx, db, 0)) }, "0", x.Key},
	} {
		got := c.do()
		if last != "" {
			got = strings.ReplaceAll(got, last, "ID")
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.what, got, c.want)
		}
		if left, ok, err := c.key.Left(ctx, db); err != nil || ok && (left <= 0 || left > time.Hour) {
			t.Errorf("%s: %s has %v, %v left, want an hour", c.what, c.key, left, err)
		}
	}
	redistest.KeysDeclared(t, db, values)
}

// The former TTL of a key, which a write removes or renews.
func TestWrite_SetsDeclaredTTL(t *testing.T) {
	db, ctx := redistest.OpenConfig(t, redistest.Shared(t)), t.Context()
	n := keyspace.Int{N: 2}
	kept, once, lived := vKept.At(n, one), vOnce.At(n, one), vSet.At(n, one)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := kept.Add(ctx, db, "a", "b", "c")
	must(err)
	if left, ok, err := kept.Left(ctx, db); left != 0 || !ok || err != nil {
		t.Errorf("a key that never expires has %v, %v, %v left", left, ok, err)
	}
	_, err = kept.Move(ctx, db, once, "a")
	must(err)
	must(db.Do(ctx, keyspace.Cmd{Name: "PEXPIRE", Key: once.Key, Args: []string{"60000"}}).Err)
	for _, write := range []func() error{
		func() error { _, err := kept.Move(ctx, db, once, "b"); return err },
		func() error { _, err := once.Add(ctx, db, "x"); return err },
	} {
		must(write())
		if left, _, err := once.Left(ctx, db); left > time.Minute || left <= 0 || err != nil {
			t.Errorf("a window of a minute has %v, %v left after another write", left, err)
		}
	}
	_, err = lived.StoreUnion(ctx, db, kept)
	must(err)
	must(db.Do(ctx, keyspace.Cmd{Name: "PEXPIRE", Key: lived.Key, Args: []string{"60000"}}).Err)
	_, err = kept.Move(ctx, db, lived, "c")
	must(err)
	if left, _, err := lived.Left(ctx, db); left <= time.Minute || err != nil {
		t.Errorf("the TTL is not renewed: %v, %v left", left, err)
	}
	if left, ok, err := kept.Left(ctx, db); left != 0 || ok || err != nil {
		t.Errorf("the source has %v, %v, %v left, want no key", left, ok, err)
	}
	_, err = vSet.At(n, two).Union(ctx, db, vSet.At(keyspace.Int{N: 3}, one))
	if !errors.Is(err, redis.ErrCrossSlot) {
		t.Errorf("two slots: got %v", err)
	}
	_, err = vStream.At(n, one).Read(ctx, db, "none", "x", 1)
	if _, server := errors.AsType[redis.ServerError](err); !server {
		t.Errorf("a group that is not there: got %v", err)
	}
	_, err = vStream.At(n, one).Join(ctx, db, "g", "no id")
	if _, server := errors.AsType[redis.ServerError](err); !server {
		t.Errorf("an id that is none: got %v", err)
	}
}

// The entries of a crashed consumer come after many entries that other consumers still process.
func TestClaim_ScansPastEntriesOfOthers(t *testing.T) {
	for _, e := range []redistest.Engine{redistest.SharedEngines(t)[0], redistest.SharedEngines(t)[2]} {
		t.Run(e.Name, func(t *testing.T) {
			db, ctx := e.Open(t), t.Context()
			x := vStream.At(keyspace.Int{N: 12}, one)
			if _, err := x.Join(ctx, db, "g", "0"); err != nil {
				t.Fatal(err)
			}
			for range 40 {
				if _, err := x.Add(ctx, db, 0, map[string]string{"a": "1"}); err != nil {
					t.Fatal(err)
				}
			}
			open, err := x.Read(ctx, db, "g", "ann", 40)
			if err != nil || len(open) != 40 {
				t.Fatal(len(open), err)
			}
			for _, i := range []int{30, 35} { // they have been pending for a day
				if err := db.Do(ctx, keyspace.Cmd{Name: "XCLAIM", Key: x.Key,
					Args: []string{"g", "dead", "0", open[i].ID, "IDLE", "86400000"}}).Err; err != nil {
					t.Fatal(err)
				}
			}
			for _, want := range []string{open[30].ID, open[35].ID, ""} {
				got, err := x.Claim(ctx, db, "g", "bob", time.Hour, 1)
				if err != nil || want == "" && len(got) > 0 || want != "" && (len(got) != 1 || got[0].ID != want) {
					t.Errorf("claimed %v, %v, want %q", got, err, want)
				}
			}
		})
	}
}

func TestSpecialKinds_CheckedAndAllowed(t *testing.T) {
	check := vLog.Family.Check
	if check([]byte("HYLLx")) != nil || check([]byte("HYL")) == nil || check(nil) == nil {
		t.Error("a HyperLogLog is not told from other strings")
	}
	if line := (acl.User{ReadOnly: true}).Line(values); strings.Contains(line, "+geoadd") || !strings.Contains(line, "+geosearch ") {
		t.Errorf("the read-only user has %s", line)
	}
	plain := keyspace.New("plain")
	keyspace.Def0(plain, "board", keyspace.ZSetOf("x"), keyspace.Forever("x"), doc)
	if line := (acl.User{}).Line(plain); strings.Contains(line, "geo") || strings.Contains(line, "pfmerge") {
		t.Errorf("a board's user has %s", line)
	}
	bad := keyspace.Cmd{Name: "GEOADD", Key: vSet.At(keyspace.Int{N: 1}, one).Key}
	if err := bad.Check(); !errors.Is(err, keyspace.ErrType) {
		t.Errorf("GEOADD of a set: got %v", err)
	}
}

// Lua, which runs a command and sets the TTL atomically, has numbers of 53 bits.
func TestAdd_SumsAbove53BitsAreExact(t *testing.T) {
	for name, db := range map[string]*redis.DB{"embedded": redistest.Open(t, "embedded"), "server": restricted(t, values)} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			c, h := vCount.At(keyspace.Int{N: 53}, one), vHash.At(keyspace.Int{N: 53}, one)
			for _, from := range []int64{1 << 53, 1<<60 + 1, -1<<60 - 5} {
				if _, err := h.Set(ctx, db, "f", fmt.Sprint(from)); err != nil || c.Set(ctx, db, from) != nil {
					t.Fatal(err)
				}
				if n, err := c.Add(ctx, db, 1); n != from+1 || err != nil {
					t.Errorf("a counter: %d, %v; want %d", n, err, from+1)
				}
				if n, err := h.Add(ctx, db, "f", 1); n != from+1 || err != nil {
					t.Errorf("a field: %d, %v; want %d", n, err, from+1)
				}
				var b keyspace.Batch
				count, field := b.Int(c.AddCmd(1)), b.Int(h.AddCmd("f", 1))
				if err := b.RunAtomic(ctx, db); count.Value() != from+2 || field.Value() != from+2 || err != nil {
					t.Errorf("at once: %d and %d, %v; want %d", count.Value(), field.Value(), err, from+2)
				}
			}
		})
	}
}

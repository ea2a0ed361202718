package audit_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/keyspace/audit"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

// dump makes the server write its file and returns its path.
func dump(t testing.TB, s *redistest.Instance) string {
	t.Helper()
	if _, err := s.Do("SAVE"); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(s.Dir, "dump.rdb")
}

// everyEncoding fills a server with values of all types, small and large, because Redis encodes them differently.
func everyEncoding(t testing.TB, db *redis.DB) {
	t.Helper()
	send(t, db, "SET stoa:int8 -5", "SET stoa:int16 300", "SET stoa:int32 -70000", "SET stoa:int64 9007199254740993", "SET stoa:word abc",
		"SET stoa:same "+strings.Repeat("ab", 5000), "SET stoa:bits x", "SETBIT stoa:bits 800 1",
		"SADD stoa:set:int 1 2 300 70000", "SADD stoa:set:small a b c", "ZADD stoa:zset:small 1 a -2.5 b inf c", "HSET stoa:hash:small a 1 b 2",
		"RPUSH stoa:list:small a b 3", "RPUSH stoa:list:plain "+strings.Repeat("p", 20000),
		"XADD stoa:stream 1-1 a 1", "XADD stoa:stream 2-1 a 2", "XADD stoa:stream 3-1 a 3",
		"XGROUP CREATE stoa:stream group 0", "XREADGROUP GROUP group one COUNT 2 STREAMS stoa:stream >",
		"XREADGROUP GROUP group two COUNT 1 STREAMS stoa:stream >",
		"XACK stoa:stream group 1-1", "XADD stoa:stream:gone 1-1 a 1", "XDEL stoa:stream:gone 1-1", "PFADD stoa:hll a b c")
	sendRaw(t, db, []string{"FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function('f', function() return 1 end)"})
	var set, zset, hash, list []string
	for i := range 2000 {
		member := "member number " + strconv.Itoa(i)
		set, list = append(set, member), append(list, member)
		zset, hash = append(zset, strconv.Itoa(i)+".25", member), append(hash, member, strings.Repeat("v", 50)) // MEMORY USAGE samples five
	}
	sendRaw(t, db, append([]string{"SADD", "stoa:set:large"}, set...), append([]string{"ZADD", "stoa:zset:large"}, zset...),
		append([]string{"HSET", "stoa:hash:large"}, hash...), append([]string{"RPUSH", "stoa:list:large"}, list...))
	for i := range 300 {
		send(t, db, fmt.Sprintf("XADD stoa:stream:large %d-1 field %d", i+1, i))
	}
}

func TestRunRDB_AgreesWithServer(t *testing.T) {
	for name, settings := range map[string][]string{
		"as usual":           nil,
		"nothing compressed": {"rdbcompression no", "rdbchecksum no"},
		"nothing compact": {"hash-max-listpack-entries 0", "zset-max-listpack-entries 0", "set-max-intset-entries 0",
			"list-max-listpack-size 2", "list-compress-depth 1", "maxmemory-policy allkeys-lfu", "lfu-log-factor 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Server(t, settings...)
			db := redistest.Open(t, s.URL)
			sound(t, db)
			plant(t, db)
			everyEncoding(t, db)
			file := dump(t, s)
			var live, dumped []string
			opt := func(into *[]string) audit.Options {
				return audit.Options{Full: true, Found: func(f audit.Fault) error {
					*into = append(*into, f.Fault+" "+f.Family+" "+f.Key)
					return nil
				}}
			}
			want := mustRun(t, db, opt(&live))
			got, err := audit.RunRDB(t.Context(), file, schemas, opt(&dumped))
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(live)
			slices.Sort(dumped)
			if !slices.Equal(live, dumped) {
				t.Errorf("faults:\nserver %q\ndump   %q", live, dumped)
			}
			if got.Mode != "rdb" || got.Keys != want.Keys || got.Looked != want.Looked || got.Unread != want.Unread {
				t.Errorf("dump: %s, %d keys, %d looked at, %d unread; server: %d, %d, %d",
					got.Mode, got.Keys, got.Looked, got.Unread, want.Keys, want.Looked, want.Unread)
			}
			memory := map[string]audit.Group{}
			for _, g := range append(want.Families, want.Unknown...) {
				memory[g.Family] = g
			}
			for _, g := range append(got.Families, got.Unknown...) {
				w := memory[g.Family]
				if g.Keys != w.Keys || !maps.Equal(g.Types, w.Types) || g.Lives != w.Lives {
					t.Errorf("%s: dump: %d keys %v, server: %d keys %v", g.Family, g.Keys, g.Types, w.Keys, w.Types)
				}
				// Redis allocates buffers in advance, up to half of their size.
				if off := float64(g.Bytes) / float64(w.Bytes); off < 0.55 || off > 1.3 {
					t.Errorf("%s: %d bytes estimated, %d measured", g.Family, g.Bytes, w.Bytes)
				}
			}
			if off := float64(total(got)) / float64(total(want)); off < 0.85 || off > 1.15 {
				t.Errorf("all: %d bytes estimated, %d measured", total(got), total(want))
			}
			if (len(got.Hot) > 0) != (len(want.Hot) > 0) {
				t.Errorf("hot keys: dump %v, server %v", got.Hot, want.Hot)
			}
		})
	}
}

func total(r *audit.Report) (n int64) {
	for _, g := range append(r.Families, r.Unknown...) {
		n += g.Bytes
	}
	return n
}

func TestRunRDB_SelectsPrefixAndDatabase(t *testing.T) {
	s := redistest.Server(t)
	db := redistest.Open(t, s.URL)
	keys := sound(t, db)
	send(t, db, "SET shop:totals x", "SET shop2:a x", "SET bare x")
	if _, err := s.Do("MOVE", "shop2:a", "3"); err != nil {
		t.Fatal(err)
	}
	file := dump(t, s)
	for _, c := range []struct {
		opt                   audit.Options
		keys, faults, foreign int64
	}{
		{audit.Options{}, keys, 0, 2},
		{audit.Options{Prefix: "shop"}, 1, 1, keys + 1}, // of the wrong type
		{audit.Options{Prefix: "shop2", DB: 3}, 1, 1, 0},
	} {
		c.opt.All = true
		r, err := audit.RunRDB(t.Context(), file, schemas, c.opt)
		if err != nil {
			t.Fatal(err)
		}
		if r.Keys != c.keys || r.Faults != c.faults || r.ForeignKeys != c.foreign {
			t.Errorf("%+v: got %d keys, %d faults, %d foreign; want %d, %d, %d", c.opt, r.Keys, r.Faults, r.ForeignKeys, c.keys, c.faults, c.foreign)
		}
	}
	if _, err := audit.RunRDB(t.Context(), file, schemas, audit.Options{Prefix: "a:b"}); err == nil {
		t.Error("a prefix with a colon: got no error")
	}
}

func TestRunRDB_RefusesDamagedDump(t *testing.T) {
	s := redistest.Server(t)
	db := redistest.Open(t, s.URL)
	sound(t, db)
	everyEncoding(t, db)
	whole, err := os.ReadFile(dump(t, s))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	audited := func(content []byte) error {
		file := filepath.Join(dir, "x.rdb")
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := audit.RunRDB(context.Background(), file, schemas, audit.Options{})
		return err
	}
	if err := audited(whole); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"empty": nil, "no dump": []byte("PK\x03\x04 something else"), "only a head": whole[:9],
		"more behind its end": append(bytes.Clone(whole), 'x'), "without its last byte": whole[:len(whole)-1],
	} {
		if err := audited(content); err == nil || !strings.Contains(err.Error(), "not a sound dump") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if err := audited(nil); err == nil {
		t.Error("an empty file: got no error")
	}
	rapid.Check(t, func(t *rapid.T) { // every damage is detected
		content := bytes.Clone(whole)
		if rapid.Bool().Draw(t, "torn") {
			content = content[:rapid.IntRange(0, len(content)-1).Draw(t, "length")]
		} else {
			at := rapid.IntRange(0, len(content)-1).Draw(t, "at")
			content[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "with"))
		}
		if audited(content) == nil {
			t.Fatal("a damaged dump passed")
		}
	})
}

// A current server writes newer encodings than Redis 2.6, but such files exist in backups.
func TestRunRDB_ReadsOldVersions(t *testing.T) {
	b := []byte("REDIS0004\xfe\x00")
	text := func(s string) { b = append(append(b, byte(len(s))), s...) } // shorter than 64 bytes
	key := func(typ byte, k keyspace.Key) {
		b = append(b, typ)
		text("stoa:" + k.String())
	}
	who := keyspace.Text{S: "who"}
	b = append(b, 0xfd)
	b = binary.LittleEndian.AppendUint32(b, uint32(time.Now().Add(time.Hour).Unix())) // in seconds
	key(2, members.At(who).Key)
	b = append(b, 2)
	text("a")
	text("b")
	key(1, orders.At().Key)
	b = append(b, 2)
	text("first")
	b = append(b, 0xc0, 7) // a small number
	key(3, ranks.At(keyspace.WordOf[state]("open")).Key)
	b = append(b, 4)
	for member, score := range map[string]string{"a": "\x031.5", "b": "\xfd", "c": "\xfe", "d": "\xff"} { // a number, NaN, and the infinities
		text(member)
		b = append(b, score...)
	}
	key(4, totals.At().Key)
	b = append(b, 1)
	text("a")
	text("1")
	file := filepath.Join(t.TempDir(), "dump.rdb")
	read := func(b []byte) (*audit.Report, error) {
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return audit.RunRDB(t.Context(), file, schemas, audit.Options{})
	}
	r, err := read(append(b, 0xff)) // and no checksum
	if err != nil {
		t.Fatal(err)
	}
	if r.Keys != 4 || r.Looked != 4 || !r.Clean() {
		t.Errorf("%d keys, %d looked at, findings %+v; want 4 and 4 that are as declared", r.Keys, r.Looked, r.Findings)
	}
	for n := len("REDIS0004"); n < len(b); n++ {
		if r, err := read(b[:n:n]); err == nil {
			t.Errorf("torn after %d bytes: %+v", n, r)
		}
	}
	if _, err := read(append(b, 99, 1, 'k')); err == nil || !strings.Contains(err.Error(), "type 99") {
		t.Errorf("an unknown type of value: %v", err)
	}
}

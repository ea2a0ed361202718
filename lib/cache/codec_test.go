package cache_test

import (
	"context"
	"crypto/sha512"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/cache/inspect"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

// mirrored is a codec that writes the mirror image of a value as valid JSON.
type mirrored struct {
	name           string
	encode, decode error
}

func mirror(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return string(b)
}

func (m mirrored) Name() string { return m.name }

func (m mirrored) Append(b []byte, v string) ([]byte, error) {
	text, err := json.Marshal(mirror(v))
	return append(b, text...), errors.Join(err, m.encode)
}

func (m mirrored) Decode(b []byte, v *string) error {
	err := json.Unmarshal(b, v)
	*v = mirror(*v)
	return errors.Join(err, m.decode)
}

// inRedis returns a cache without local copies in a separate runtime; its values are names.
func inRedis(t *testing.T, server *redistest.Memory, table *nameTable, opts ...cache.Option) *cache.Cache[int64, string] {
	t.Helper()
	opts = append([]cache.Option{cache.With(cache.Policy{Entries: -1})}, opts...)
	return cache.Keyed(open(t, cache.Options{Redis: server.Wire().Config()}), "name", decimal, table.load, opts...)
}

// raw returns the content of a key in Redis.
func raw(t *testing.T, db *redis.DB, c *cache.Cache[int64, string], id int64) string {
	t.Helper()
	slot, _, err := db.Do(t.Context(), keyspace.Cmd{Name: "GET", Key: c.Target(id).Key()}).Text()
	must(t, err)
	return slot
}

func TestCodec_LoadsValuesOfOtherCodecsAgain(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		db := server.Open(t)
		table := &nameTable{names: map[int64]string{7: "Ada"}}
		one, another := cache.WithCodec(mirrored{name: "mirrored"}), cache.WithCodec(mirrored{name: "mirrored2"})
		for i, opts := range [][]cache.Option{{}, {one}, {}, {another}, {one}, {one, cache.Compress(1)}, {another, cache.Compress(1)},
			{cache.Compress(1)}} {
			c := inRedis(t, server, table, opts...)
			for range 2 {
				if name, err := c.Get(t.Context(), 7); name != "Ada" || err != nil {
					t.Errorf("program %d: got %q, %v", i, name, err)
				}
			}
			want := cache.Stats{Loads: 1, RedisHits: 1}
			if i == 5 { // the previous program used the same codec
				want = cache.Stats{RedisHits: 2}
			}
			if s := c.Stats(); s.Loads != want.Loads || s.RedisHits != want.RedisHits {
				t.Errorf("program %d: %d loads and %d hits, want %d and %d", i, s.Loads, s.RedisHits, want.Loads, want.RedisHits)
			}
		}
		c := inRedis(t, server, table, one)
		must(t, c.Set(t.Context(), 7, "Ada Lovelace"))
		if all, err := c.GetMany(t.Context(), []int64{7}); err != nil || all[7] != "Ada Lovelace" || c.Stats().Loads != 0 {
			t.Errorf("after Set: %v, %v", all, err)
		}
		if name, err := c.Mutate(t.Context(), 7, func(context.Context) error {
			return table.rename(7, "Countess")
		}); name != "Countess" || err != nil {
			t.Errorf("after Mutate: %q, %v", name, err)
		}
		if s := inspect.Parse(raw(t, db, c, 7)); s.Codec != "mirrored" || s.Payload != `"ssetnuoC"` || s.Kind != inspect.Value {
			t.Errorf("Inspect returns %+v", s)
		}
	})
}

func TestCodec_Fails(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		table := &nameTable{names: map[int64]string{7: "Ada"}}
		fault := errors.New("no room")
		c := inRedis(t, server, table, cache.WithCodec(mirrored{name: "m", encode: fault}))
		if _, err := c.Get(t.Context(), 7); !errors.Is(err, fault) {
			t.Errorf("a value that cannot be encoded: %v", err)
		}
		for range 2 {
			c = inRedis(t, server, table, cache.WithCodec(mirrored{name: "m", decode: fault}))
			if name, err := c.Get(t.Context(), 7); name != "Ada" || err != nil || c.Stats().Loads != 1 {
				t.Errorf("a value that cannot be decoded: %q, %v after %d loads", name, err, c.Stats().Loads)
			}
		}
	})
}

func TestCodec_DeclaredFamily(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		s := keyspace.New("codecs")
		f := keyspace.Def1[keyspace.Int](s, "codec:{id}", keyspace.CachedOf[string](), keyspace.Expire(10*time.Minute),
			keyspace.Doc{Purpose: "of the tests"})
		c := cache.New(open(t, cache.Options{Redis: server.Wire().Config()}), f, cache.Policy{Entries: -1}, cache.Source[keyspace.Int, string]{
			Load:  func(_ context.Context, id keyspace.Int) (string, error) { return fmt.Sprint("number ", id.N), nil },
			Codec: mirrored{name: "mirrored"}})
		for range 2 {
			if v, err := c.Get(t.Context(), keyspace.Int{N: 7}); v != "number 7" || err != nil {
				t.Errorf("got %q, %v", v, err)
			}
		}
		slot, _, err := server.Open(t).Do(t.Context(), keyspace.Cmd{Name: "GET", Key: f.At(keyspace.Int{N: 7}).Key}).Text()
		must(t, err)
		if s := inspect.Parse(slot); s.Payload != `"7 rebmun"` || c.Stats().Loads != 1 {
			t.Errorf("the codec was not used: %+v", s)
		}
		if err := f.Check([]byte(slot)); err != nil {
			t.Errorf("the family's check of another codec's value: %v", err)
		}
		const head = 47
		if err := f.Check([]byte(slot[:head] + "not JSON")); err == nil {
			t.Error("the family's check accepts a payload that is not JSON")
		}
	})
}

func TestCodec_WrongTypePanics(t *testing.T) {
	rt := open(t, cache.Options{})
	for what, opt := range map[string]cache.Option{
		"no name":           cache.WithCodec(mirrored{}),
		"a name of a novel": cache.WithCodec(mirrored{name: strings.Repeat("x", 256)}),
		"another type":      cache.WithCodec(MessagePack[int]{}),
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a codec with %s is accepted", what)
				}
			}()
			cache.Keyed(rt, "refused", decimal, (&nameTable{}).load, opt)
		}()
	}
	cache.Keyed(rt, "taken", decimal, (&nameTable{}).load, cache.WithCodec(mirrored{name: strings.Repeat("x", 255)}))
}

// Processes with and without compression read each other's values.
func TestCompress_AllProcessesReadValues(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		db := server.Open(t)
		long := strings.Repeat("Ada Lovelace ", 100)
		table := &nameTable{names: map[int64]string{1: long, 2: strings.Repeat("a", 98), 3: long, 4: fmt.Sprintf("%x", sha512.Sum512(nil))}}
		plain, packed := inRedis(t, server, table), inRedis(t, server, table, cache.Compress(100))
		for id, of := range map[int64]struct{ writer, reader *cache.Cache[int64, string] }{1: {packed, plain}, 2: {packed, plain},
			3: {plain, packed}, 4: {packed, plain}} {
			_, err := of.writer.Get(t.Context(), id)
			must(t, err)
			name, err := of.reader.Get(t.Context(), id)
			if name != table.names[id] || err != nil {
				t.Errorf("%d: got %.20q, %v", id, name, err)
			}
		}
		if p, q := plain.Stats(), packed.Stats(); p.Loads != 1 || p.RedisHits != 3 || q.Loads != 3 || q.RedisHits != 1 {
			t.Errorf("without compression %d loads and %d hits, with %d and %d; want 1, 3, 3, 1", p.Loads, p.RedisHits, q.Loads, q.RedisHits)
		}
		if n := len(raw(t, db, packed, 1)); n > len(long)/4 {
			t.Errorf("a value of %d bytes takes %d in Redis", len(long), n)
		}
		const head = 47
		for id, what := range map[int64]string{2: "a short value", 3: "a value of a process without compression",
			4: "a value that it makes longer"} {
			if s := raw(t, db, packed, id); s[head:] != `"`+table.names[id]+`"` {
				t.Errorf("%s is compressed: %q", what, s)
			}
		}
		for id, c := range map[int64]*cache.Cache[int64, string]{1: packed, 3: plain} {
			if err := c.Family().Check([]byte(raw(t, db, c, id))); err != nil {
				t.Errorf("the family's check of %d: %v", id, err)
			}
		}
		if s := inspect.Parse(raw(t, db, packed, 1)); s.Payload != `"`+long+`"` || s.Codec != "" {
			t.Errorf("Inspect does not decompress: %+v", s)
		}
	})
}

func TestCompress_DamagedValueIsLoadedAgain(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		db := server.Open(t)
		table := &nameTable{names: map[int64]string{1: strings.Repeat("Ada Lovelace ", 10)}}
		c := inRedis(t, server, table, cache.Compress(20))
		_, err := c.Get(t.Context(), 1)
		must(t, err)
		whole := raw(t, db, c, 1)
		const head = 47
		if whole[head] != 2 {
			t.Fatalf("%q is not compressed", whole)
		}
		put := func(slot string) {
			must(t, db.Do(t.Context(), keyspace.Cmd{Name: "SET", Key: c.Target(1).Key(), Args: []string{slot, "PX", "60000"}}).Err)
		}
		var damaged []string
		for at := head; at < len(whole); at++ {
			for _, flip := range []byte{1, 3, 0x80} {
				b := []byte(whole)
				b[at] ^= flip
				damaged = append(damaged, string(b))
			}
			damaged = append(damaged, whole[:at])
		}
		for i, slot := range damaged {
			put(slot)
			asked := table.asked
			if name, err := c.Get(t.Context(), 1); name != table.names[1] || err != nil || table.asked != asked+1 {
				t.Errorf("%d: got %q, %v after %d loads", i, name, err, table.asked-asked)
			}
		}
		b := []byte(whole)
		b[len(b)-1] ^= 1
		if s := inspect.Parse(string(b)); s.Kind != inspect.Unknown {
			t.Errorf("Inspect returns for a damaged value %+v", s)
		}
	})
}

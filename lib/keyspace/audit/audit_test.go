package audit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/keyspace/acl"
	"github.com/stoa-dev/stoa/lib/keyspace/audit"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

type cart struct{ Items int }

type state struct{}

func (state) Words() []string { return []string{"open", "closed"} }

// The families of a shop, of every type and TTL.
var (
	shop = keyspace.New("shop")

	carts = keyspace.Def1[keyspace.Text](shop, "cart:{{uid}}", keyspace.JSONOf[cart](), keyspace.Expire(time.Hour).Jitter(time.Minute),
		keyspace.Doc{Purpose: "a cart", MaxBytes: 100})
	visits = keyspace.Def2[keyspace.Text, keyspace.Int](shop, "visits:{uid}:{day}", keyspace.CounterKind(), keyspace.UpTo(24*time.Hour),
		keyspace.Doc{Purpose: "visits", MaxBytes: 20})
	blobs = keyspace.Def1[keyspace.Hashed](shop, "blob:{hash}", keyspace.BytesOf("anything"), keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "a blob", MaxBytes: 1000})
	_ = keyspace.Def1[keyspace.Int](shop, "long:{n}", keyspace.JSONOf[string](), keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "long texts", MaxBytes: 4 << 20})
	ranks = keyspace.Def1[keyspace.Word[state]](shop, "rank:{{state}}", keyspace.ZSetOf("user → score"), keyspace.Forever("rebuilt"),
		keyspace.Doc{Purpose: "a board", MaxBytes: 4096})
	totals = keyspace.Def0(shop, "totals", keyspace.HashOf("name → number"), keyspace.Forever("a few fields"),
		keyspace.Doc{Purpose: "totals"})
	members = keyspace.Def1[keyspace.Text](shop, "members:{group}", keyspace.SetOf("users"), keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "members"})
	orders = keyspace.Def0(shop, "orders", keyspace.ListOf("orders"), keyspace.Forever("taken off by workers"),
		keyspace.Doc{Purpose: "orders"})
	events = keyspace.Def0(shop, "events", keyspace.StreamOf("fields"), keyspace.Forever("trimmed"), keyspace.Doc{Purpose: "events"})
	_      = keyspace.DefChannel0(shop, "channel:news", keyspace.RawMessages("text"), keyspace.Doc{Purpose: "news"})

	schemas = []*keyspace.Schema{shop}
)

// send sends raw commands, such as "SET stoa:x 1", to the server that owns their keys.
func send(t testing.TB, db *redis.DB, cmds ...string) {
	t.Helper()
	var raw [][]string
	for _, c := range cmds {
		raw = append(raw, strings.Fields(c))
	}
	sendRaw(t, db, raw...)
}

func sendRaw(t testing.TB, db *redis.DB, cmds ...[]string) {
	t.Helper()
	owners, err := db.Owners(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range owners {
		defer o.Close()
	}
	for _, c := range cmds {
		var err error
		for _, o := range owners { // another server replies with MOVED
			if err = o.Do(t.Context(), c)[0].Err; err == nil {
				break
			}
		}
		if err != nil {
			t.Fatalf("%s: %v", strings.Join(c, " "), err)
		}
	}
}

// sound writes one valid key of each family and returns their number.
func sound(t testing.TB, db *redis.DB) int64 {
	t.Helper()
	ctx, h := t.Context(), keyspace.Text{S: "sound user"}
	set, err := carts.At(h).SetCmd(cart{3}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	open := keyspace.WordOf[state]("open")
	cmds := []keyspace.Cmd{
		set, visitCmd(h, 20261122, "7"),
		{Name: "SET", Key: blobs.At(keyspace.Hashed{S: "x"}).Key, Args: []string{"\x00\xff", "EX", "3600"}},
		{Name: "ZADD", Key: ranks.At(open).Key, Args: []string{"1", "a"}},
		{Name: "HSET", Key: totals.At().Key, Args: []string{"a", "1"}},
		{Name: "SADD", Key: members.At(h).Key, Args: []string{"a"}},
		{Name: "EXPIRE", Key: members.At(h).Key, Args: []string{"3600"}},
		{Name: "RPUSH", Key: orders.At().Key, Args: []string{"a"}},
		{Name: "XADD", Key: events.At().Key, Args: []string{"*", "a", "1"}},
	}
	if err := keyspace.FirstErr(db.DoMulti(ctx, cmds)); err != nil {
		t.Fatal(err)
	}
	return int64(len(cmds) - 1)
}

func visitCmd(who keyspace.Text, day int64, n string) keyspace.Cmd {
	return keyspace.Cmd{Name: "SET", Key: visits.At(who, keyspace.Int{N: day}).Key, Args: []string{n, "EX", "86400"}}
}

func mustRun(t testing.TB, db *redis.DB, opt audit.Options) *audit.Report {
	t.Helper()
	r, err := audit.Run(t.Context(), db, schemas, opt)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// planted are keys with one fault each, and the expected findings.
var planted = []struct {
	cmds  []string
	fault string
	at    string // family or shape
	key   string
}{
	{[]string{"SET stoa:wishlist:42 x EX 3000"}, audit.UnknownKey, "wishlist:{n}", "stoa:wishlist:42"},
	{[]string{"SET stoa:cart:ann {} EX 3000"}, audit.UnknownKey, "cart:ann", "stoa:cart:ann"}, // no hash tag
	{[]string{"SET stoa:visits:ann:today 1 EX 3000"}, audit.UnknownKey, "visits:ann:today", "stoa:visits:ann:today"},
	{[]string{"SET stoa:channel:news x EX 3000"}, audit.UnknownKey, "channel:news", "stoa:channel:news"}, // a channel is not a key
	{[]string{"RPUSH stoa:cart:{list} 1", "EXPIRE stoa:cart:{list} 3000"}, audit.WrongType, "cart:{{uid}}", "stoa:cart:{list}"},
	{[]string{"RPUSH stoa:blob:aaaaaaaaaaaaaaaaaaaaaa 1", "EXPIRE stoa:blob:aaaaaaaaaaaaaaaaaaaaaa 3000"}, audit.WrongType, "blob:{hash}",
		"stoa:blob:aaaaaaaaaaaaaaaaaaaaaa"},
	{[]string{"SET stoa:rank:{closed} 1"}, audit.WrongType, "rank:{{state}}", "stoa:rank:{closed}"},
	{[]string{`SET stoa:cart:{ever} {"Items":1}`}, audit.NoLife, "cart:{{uid}}", "stoa:cart:{ever}"},
	{[]string{"SADD stoa:members:ever a"}, audit.NoLife, "members:{group}", "stoa:members:ever"},
	{[]string{`SET stoa:cart:{old} {"Items":1} EX 7200`}, audit.LifeTooLong, "cart:{{uid}}", "stoa:cart:{old}"},
	{[]string{"SET stoa:visits:ann:1 1 EX 172800"}, audit.LifeTooLong, "visits:{uid}:{day}", "stoa:visits:ann:1"},
	{[]string{"EXPIRE stoa:orders 3000"}, audit.LifeUndeclared, "orders", "stoa:orders"},
	{[]string{`SET stoa:cart:{big} {"Items":` + strings.Repeat("1", 100) + `} EX 3000`}, audit.ValueTooBig, "cart:{{uid}}", "stoa:cart:{big}"},
	{[]string{"SET stoa:blob:bbbbbbbbbbbbbbbbbbbbbb " + strings.Repeat("b", 1001) + " EX 3000"}, audit.ValueTooBig, "blob:{hash}",
		"stoa:blob:bbbbbbbbbbbbbbbbbbbbbb"},
	{[]string{"ZADD stoa:rank:{open} 1 " + strings.Repeat("b", 5000)}, audit.ValueTooBig, "rank:{{state}}", "stoa:rank:{open}"},
	{[]string{`SET stoa:cart:{torn} {"Items": EX 3000`}, audit.Undecodable, "cart:{{uid}}", "stoa:cart:{torn}"},
	{[]string{"SET stoa:visits:ann:2 many EX 3000"}, audit.Undecodable, "visits:{uid}:{day}", "stoa:visits:ann:2"},
	{[]string{"SET stoa:" + strings.Repeat("k", 508) + " 1 EX 3000"}, audit.KeyTooLong, "{text}", ""},
}

// plant writes the planted keys and returns the expected findings. It also plants keys with too long names, which are
// unknown as well.
func plant(t testing.TB, db *redis.DB) (want map[string]int) {
	t.Helper()
	want = map[string]int{audit.UnknownKey + " {text} ": 1}
	for _, p := range planted {
		send(t, db, p.cmds...)
		want[p.fault+" "+p.at+" "+p.key]++
	}
	return want
}

func TestRun_FindsEveryPlantedFault(t *testing.T) {
	for _, e := range redistest.Engines(t) {
		if e.Name == "sentinel" || e.Name == "spawn" {
			continue // the same as a standalone server
		}
		for _, full := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, full=%t", e.Name, full), func(t *testing.T) {
				t.Parallel()
				db := e.Open(t)
				keys := sound(t, db)
				if r := mustRun(t, db, audit.Options{Full: full}); !r.Clean() || r.Keys != keys || r.Looked != keys {
					t.Fatalf("before anything is planted: %d keys, %d looked at, %v; want %d and none", r.Keys, r.Looked, r.Findings, keys)
				}
				want := plant(t, db)
				if e.Name == "embedded" { // it computes memory differently
					delete(want, audit.ValueTooBig+" rank:{{state}} stoa:rank:{open}")
				}
				got := map[string]int{}
				r := mustRun(t, db, audit.Options{Full: full, Found: func(f audit.Fault) error {
					if len(f.Key) > 200 {
						f.Key = ""
					}
					got[f.Fault+" "+f.Family+" "+f.Key]++
					return nil
				}})
				if e.Name == "embedded" {
					delete(got, audit.ValueTooBig+" rank:{{state}} stoa:rank:{open}")
				}
				for k := range maps.Keys(want) {
					if got[k] != want[k] {
						t.Errorf("%q: found %d times, want %d", k, got[k], want[k])
					}
				}
				for k := range maps.Keys(got) {
					if want[k] == 0 {
						t.Errorf("%q was found and not planted", k)
					}
				}
				sum := int64(0)
				for _, f := range r.Findings {
					if sum += f.Count; len(f.Examples) == 0 || f.Of < f.Count {
						t.Errorf("the finding %+v has no example, or more faults than keys", f)
					}
				}
				if r.Clean() || sum != r.Faults {
					t.Errorf("the report has %d faults and findings of %d", r.Faults, sum)
				}
			})
		}
	}
}

func TestRun_CountsIgnoredFaults(t *testing.T) {
	db := redistest.Open(t, "embedded")
	send(t, db, "SET stoa:wishlist:1 x", "SET stoa:wishlist:2 x", "SET stoa:other x")
	r := mustRun(t, db, audit.Options{Ignore: []string{"wish*:?"}})
	if r.Faults != 1 || r.Ignored != 2 || len(r.Findings) != 1 || r.Findings[0].Family != "other" {
		t.Errorf("got %d faults, %d ignored and %v; want 1, 2 and the one of the other key", r.Faults, r.Ignored, r.Findings)
	}
	for _, opt := range []audit.Options{{Ignore: []string{""}}, {Samples: -1}, {Rate: -1}} {
		if _, err := audit.Run(t.Context(), db, schemas, opt); err == nil {
			t.Errorf("%+v: got no error", opt)
		}
	}
}

func TestRun_ForeignKeysAreNoFaults(t *testing.T) {
	db := redistest.Open(t, redistest.Server(t).URL)
	keys := sound(t, db)
	send(t, db, "SET stoa2:cart:x 1", "SET stoa-test:a:b 1", "SET stoa 1", "SET cache:1 1", "SET cache:2 1")
	if r := mustRun(t, db, audit.Options{}); !r.Clean() || r.Keys != keys || r.ForeignKeys != 0 || r.Foreign != nil {
		t.Errorf("got %d keys, %d faults, %d foreign; want %d, 0 and 0", r.Keys, r.Faults, r.ForeignKeys, keys)
	}
	r := mustRun(t, db, audit.Options{All: true})
	want := []audit.Foreign{{"cache", 2}, {"stoa", 1}, {"stoa-test", 1}, {"stoa2", 1}}
	if !r.Clean() || r.Keys != keys || r.ForeignKeys != 5 || !slices.Equal(r.Foreign, want) {
		t.Errorf("with all: got %d keys, %d faults, %v; want %d, 0 and %v", r.Keys, r.Faults, r.Foreign, keys, want)
	}
}

func TestRun_IdentifierPrefixesAreFolded(t *testing.T) {
	db := redistest.Open(t, redistest.Server(t).URL)
	sound(t, db)
	var cmds []string
	for i := range 300 {
		cmds = append(cmds, fmt.Sprintf("SET sess_%d:data 1", i), fmt.Sprintf("SET PHPREDIS_SESSION%032x 1", i*7919),
			fmt.Sprintf("SET bull%d:wait:%d 1", i%10, i))
	}
	send(t, db, cmds...)
	r := mustRun(t, db, audit.Options{All: true})
	if !r.Clean() || r.ForeignKeys != 900 {
		t.Errorf("got %d faults, %d foreign keys; want 0 and 900", r.Faults, r.ForeignKeys)
	}
	got := map[string]int64{}
	for _, f := range r.Foreign {
		got[f.Prefix] = f.Keys
	}
	want := map[string]int64{"sess_{n}": 300}
	for i := range 10 {
		want[fmt.Sprintf("bull%d", i)] = 30 // few enough to be counted separately
	}
	folded := int64(0)
	for shape, n := range got {
		if shape == "{id}" || shape == "{text}" {
			folded += n
			delete(got, shape)
		}
	}
	if !maps.Equal(got, want) || folded != 300 {
		t.Errorf("got %v and %d sessions of another program in one or two lines; want %v and 300", got, folded, want)
	}
}

func TestRun_SampleEstimatesWhole(t *testing.T) {
	db := redistest.Open(t, redistest.Server(t).URL)
	const n = 5000
	var raw [][]string
	for i := range n {
		raw = append(raw, []string{"SET", fmt.Sprintf("stoa:blob:%022d", i), strings.Repeat("b", 10+i%500), "EX", "3600"})
	}
	sendRaw(t, db, raw...)
	whole := mustRun(t, db, audit.Options{Full: true}).Families[0]
	if whole.Keys < n || whole.Looked != whole.Keys || whole.BytesError != 0 {
		t.Fatalf("full: %+v, want %d keys, all looked at, and no error", whole, n)
	}
	part := mustRun(t, db, audit.Options{Samples: 300}).Families[0]
	off := max(part.Bytes-whole.Bytes, whole.Bytes-part.Bytes)
	// The chance of an error above 2.5 times 1.96 standard errors is one in a million.
	if part.Looked != 300 || part.BytesError <= 0 || part.BytesError > whole.Bytes/10 || float64(off) > 2.5*float64(part.BytesError) {
		t.Errorf("sample: %+v, want %d bytes within the error", part, whole.Bytes)
	}
}

func TestRun_LongValueNotJudged(t *testing.T) {
	db := redistest.Open(t, redistest.Server(t).URL)
	sendRaw(t, db, []string{"SET", "stoa:long:1", `"` + strings.Repeat("x", 2<<20) + `"`, "EX", "60"},
		[]string{"SET", "stoa:long:2", `"` + strings.Repeat("x", 4<<20) + `"`, "EX", "60"})
	r := mustRun(t, db, audit.Options{Full: true})
	if r.Unread != 1 || r.Faults != 1 || r.Findings[0].Fault != audit.ValueTooBig || r.Findings[0].Examples[0].Key != "stoa:long:2" {
		t.Errorf("got %d unread and %+v, want 1, and that the second one is too big", r.Unread, r.Findings)
	}
}

func TestRun_HotKeysFromServer(t *testing.T) {
	db := redistest.Open(t, redistest.Server(t, "maxmemory-policy allkeys-lfu", "lfu-log-factor 0").URL)
	sound(t, db)
	for range 200 {
		send(t, db, "HGETALL stoa:totals")
	}
	for _, full := range []bool{false, true} {
		r := mustRun(t, db, audit.Options{Full: full})
		if len(r.Hot) == 0 || r.Hot[0].Key != "stoa:totals" || r.Hot[0].Family != "totals" || r.Hot[0].Frequency < 100 {
			t.Errorf("full=%t: got %+v, want stoa:totals first", full, r.Hot)
		}
	}
	plain := redistest.Open(t, redistest.Server(t).URL)
	sound(t, plain)
	if r := mustRun(t, plain, audit.Options{}); r.Hot != nil {
		t.Errorf("without an LFU policy: got %v, want nothing", r.Hot)
	}
}

func TestRun_SlotsAndOwners(t *testing.T) {
	c := redistest.Cluster(t, 3, 0)
	db := redistest.Open(t, c.URL)
	for i := range 300 { // all in one slot
		send(t, db, "ZADD stoa:rank:{open} "+strconv.Itoa(i)+" m"+strconv.Itoa(i), fmt.Sprintf("SET stoa:stray:{same}:%d x EX 60", i))
	}
	send(t, db, "SET stoa:stray:{else} x EX 60")
	r := mustRun(t, db, audit.Options{Full: true})
	slot := int(keyspace.Slot("stoa:stray:{same}:0"))
	if s := r.Slots; len(s.Largest) == 0 || s.Largest[0].Slot != slot || s.Largest[0].Keys != 300 || s.Largest[0].Ratio < 1000 ||
		s.Largest[0].Bytes < 300*40 || s.Heaviest[0].Bytes < s.Largest[0].Bytes {
		t.Errorf("slots: %+v, want slot %d with 300 keys first", s, slot)
	}
	if len(r.Owners) != 3 {
		t.Fatalf("%d owners, want 3", len(r.Owners))
	}
	keys, top := int64(0), 0.0
	for _, o := range r.Owners {
		keys, top = keys+o.Keys, max(top, o.Ratio)
		if o.UsedMemory == 0 || o.Keys > 0 != (o.Bytes > 0) {
			t.Errorf("owner %+v: want memory, and bytes where there are keys", o)
		}
	}
	if keys != r.Keys || top < 2.9 {
		t.Errorf("owners have %d of %d keys, the most %.2f times the mean; want all, and about 3", keys, r.Keys, top)
	}
}

func TestReport_StableJSON(t *testing.T) {
	db := redistest.Open(t, redistest.Server(t).URL)
	sound(t, db)
	send(t, db, "SET stoa:wishlist:1 x")
	text, err := json.Marshal(mustRun(t, db, audit.Options{Full: true}))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	want := []string{"began", "denied", "faults", "families", "findings", "gone", "ignored", "keys", "looked", "mode", "moved", "owners",
		"ping", "prefix", "seconds", "slots", "unknown", "unread"}
	slices.Sort(want)
	if fields := slices.Sorted(maps.Keys(got)); !slices.Equal(fields, want) {
		t.Errorf("fields:\ngot  %v\nwant %v", fields, want)
	}
	finding := got["findings"].([]any)[0].(map[string]any)
	if slices.Sort(want); !slices.Equal(slices.Sorted(maps.Keys(finding)), []string{"count", "examples", "family", "fault", "of"}) {
		t.Errorf("a finding has %v", finding)
	}
}

func TestRun_RateAndCancellation(t *testing.T) {
	db := redistest.Open(t, redistest.Server(t).URL)
	var raw [][]string
	for i := range 3000 {
		raw = append(raw, []string{"SET", fmt.Sprintf("stoa:blob:%022d", i), "x", "EX", "3600"})
	}
	sendRaw(t, db, raw...)
	began := time.Now()
	var seen []audit.Progress
	mustRun(t, db, audit.Options{Rate: 10_000, Progress: func(p audit.Progress) { seen = append(seen, p) }})
	if time.Now().Before(began.Add(200 * time.Millisecond)) {
		t.Errorf("3,000 names at 10,000 per second took %s", time.Since(began))
	}
	if !slices.IsSortedFunc(seen, func(a, b audit.Progress) int {
		return int(1e6 * (a.Part - b.Part))
	}) || len(seen) < 2 || seen[0].Part <= 0 || seen[len(seen)-1].Part >= 1 {
		t.Errorf("progress: %v, want growing parts of 1", seen)
	}
	stop := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err := audit.Run(ctx, db, schemas, audit.Options{Rate: 1000, Progress: func(audit.Progress) { cancel(stop) }})
	if !errors.Is(err, stop) && !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
	if _, err := audit.Run(t.Context(), db, nil, audit.Options{Found: func(audit.Fault) error { return stop }}); !errors.Is(err, stop) {
		t.Errorf("Found failed: got %v, want its error", err)
	}
}

func TestRun_UserWithoutAccessToSomeKeys(t *testing.T) {
	s := redistest.Server(t)
	db := redistest.Open(t, s.URL)
	keys := sound(t, db)
	send(t, db, "SET stoa:wishlist:1 x", "SET stoa:cart:{ever} {}")
	if _, err := s.Do("ACL", "SETUSER", "auditor", "on", ">secret", "%R~stoa:cart:*", "-@all",
		"+scan", "+type", "+pttl", "+strlen", "+getrange", "+memory|usage", "+ping", "+hello", "+client|setname"); err != nil {
		t.Fatal(err)
	}
	line := strings.Fields(acl.User{Name: "operator", Secret: ">secret", ReadOnly: true}.Line(shop))
	if _, err := s.Do(append([]string{"ACL", "SETUSER"}, line[1:]...)...); err != nil {
		t.Fatal(err)
	}
	operator := redistest.Open(t, strings.Replace(s.URL, "redis://", "redis://operator:secret@", 1))
	if r := mustRun(t, operator, audit.Options{Full: true}); r.Looked != keys+1 || r.Denied != 1 || r.Owners[0].UsedMemory == 0 {
		t.Errorf("the operator: %d looked at, %d denied, %+v; want all that is declared, %d", r.Looked, r.Denied, r.Owners, keys+1)
	}
	narrow := redistest.Open(t, strings.Replace(s.URL, "redis://", "redis://auditor:secret@", 1))
	for _, full := range []bool{false, true} {
		r := mustRun(t, narrow, audit.Options{Full: full})
		if r.Keys != keys+2 || r.Denied != keys || r.Looked != 2 || r.Faults != 2 || len(r.Unknown) != 1 {
			t.Errorf("full=%t: %d keys, %d denied, %d looked at, %v; want %d, %d, 2, and that one lives for ever and one is unknown",
				full, r.Keys, r.Denied, r.Looked, r.Findings, keys+2, keys)
		}
	}
}

func TestRun_FailsIfServerGoesAway(t *testing.T) {
	s := redistest.Server(t)
	db := redistest.Open(t, s.URL)
	sound(t, db)
	s.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if r, err := audit.Run(ctx, db, schemas, audit.Options{}); !errors.Is(err, redis.ErrUnavailable) {
		t.Errorf("got %+v and %v, want ErrUnavailable", r, err)
	}
}

// A declared key is never unknown, with any arguments.
func TestRun_DeclaredKeyIsNeverUnknown(t *testing.T) {
	db := redistest.Open(t, redistest.Server(t).URL)
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		who := keyspace.Text{S: rapid.String().Draw(t, "who")}
		day := keyspace.Int{N: rapid.Int64().Draw(t, "day")}
		word := keyspace.WordOf[state]("open")
		if rapid.Bool().Draw(t, "closed") {
			word = keyspace.WordOf[state]("closed")
		}
		set, err := carts.At(who).SetCmd(cart{}, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		replies := db.DoMulti(ctx, []keyspace.Cmd{
			set, visitCmd(who, day.N, "1"),
			blobs.At(keyspace.Hashed(who)).SetCmd("x", time.Minute),
			{Name: "SADD", Key: members.At(who).Key, Args: []string{"a"}}, {Name: "EXPIRE", Key: members.At(who).Key, Args: []string{"60"}},
			{Name: "ZADD", Key: ranks.At(word).Key, Args: []string{"1", "a"}},
		})
		if err := keyspace.FirstErr(replies); err != nil {
			t.Fatal(err)
		}
		r, err := audit.Run(ctx, db, schemas, audit.Options{Samples: 1})
		if err != nil || len(r.Unknown) > 0 || r.Keys < 5 {
			t.Fatalf("of %d keys these are unknown: %+v (%v)", r.Keys, r.Unknown, err)
		}
	})
}

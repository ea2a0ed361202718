package keyspace

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestTheACLAllowsTheFamiliesAndNothingElse(t *testing.T) {
	s := New("test")
	Def1[id](s, "user:sign:{{uid}}", BitmapOf("days"), Expire(time.Hour), Doc{})
	Def2[id, Int](s, "user:log:{uid}:{n}", ListOf("lines"), Expire(time.Hour), Doc{})
	DefChannel1[id](s, "news:{uid}", RawMessages("text"), Doc{})
	fields := func(a ACL) []string { return strings.Fields(a.Line(s)) }

	app := fields(ACL{})
	const head = "user stoa on #stoa-sha256 resetchannels -@all ~stoa:user:log:*:* ~stoa:user:sign:{*} &stoa:news:* "
	if got := strings.Join(app, " "); !strings.HasPrefix(got, head) {
		t.Errorf("got  %s\nwant %s…", got, head)
	}
	for _, want := range []string{"+get", "+setbit", "+rpush", "+ltrim", "+publish", "+ssubscribe", "+evalsha", "+unlink", "+time", "+pexpire"} {
		if !slices.Contains(app, want) {
			t.Errorf("the program lacks %s", want)
		}
	}
	for _, never := range []string{"+hset", "+zadd", "+xadd", "+sadd", "+keys", "+flushall", "+config|get", "+blpop", "+sort", "+@all"} {
		if slices.Contains(app, never) {
			t.Errorf("the program has %s", never)
		}
	}

	looker := fields(ACL{User: "eve", Prefix: "shop", Secret: ">x", ReadOnly: true, Commands: []string{"slowlog|get"}})
	if got := strings.Join(looker, " "); !strings.HasPrefix(got, "user eve on >x resetchannels -@all %R~shop:user:log:*:* %R~shop:user:sign:{*} &shop:news:* ") {
		t.Errorf("got %s", got)
	}
	for _, want := range []string{"+get", "+lrange", "+subscribe", "+scan", "+memory|usage", "+slowlog|get"} {
		if !slices.Contains(looker, want) {
			t.Errorf("who only looks lacks %s", want)
		}
	}
	for _, never := range slices.Concat(keeps, writes["string"], writes["list"], writes["channel"]) {
		if slices.Contains(looker, "+"+never) {
			t.Errorf("who only looks has %s", never)
		}
	}

	if wide := strings.Join(fields(ACL{Wide: true}), " "); !strings.HasPrefix(wide, "user stoa on #stoa-sha256 resetchannels -@all ~stoa:* &stoa:* +append ") {
		t.Errorf("got %s", wide)
	}
}

func TestEveryFamilyHasAnExample(t *testing.T) {
	for _, f := range origin.Families() {
		name := f.Example()
		find := parser.Key
		if f.IsChannel() {
			find = parser.Channel
		}
		found, ok := find(name)
		if !ok || found.Family != f {
			t.Errorf("%q, of %s, parsed as %v", name, f.Pattern, found.Family)
			continue
		}
		want := name
		if f.IsChannel() {
			want = ""
		}
		if key := found.Key(); key.String() != want || key.IsZero() != f.IsChannel() {
			t.Errorf("the key parsed out of %q is %q", name, key)
		}
	}
	if key := (Parsed{}).Key(); !key.IsZero() {
		t.Errorf("nothing parsed is the key %q", key)
	}
}

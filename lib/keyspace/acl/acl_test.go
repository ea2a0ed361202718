package acl

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/keyspace/internal/commands"
)

// id is a segment of twelve base64url bytes.
type id struct{ s string }

func (i id) AppendSegment(b []byte) []byte { return append(b, i.s...) }
func (id) SegmentForm() keyspace.Form {
	return keyspace.Form{Alphabet: keyspace.Base64URL, Min: 12, Max: 12}
}

func TestLine_AllowsOnlyTheFamilies(t *testing.T) {
	s := keyspace.New("test")
	keyspace.Def1[id](s, "user:sign:{{uid}}", keyspace.BitmapOf("days"), keyspace.Expire(time.Hour), keyspace.Doc{})
	keyspace.Def2[id, keyspace.Int](s, "user:log:{uid}:{n}", keyspace.ListOf("lines"), keyspace.Expire(time.Hour), keyspace.Doc{})
	keyspace.DefChannel1[id](s, "news:{uid}", keyspace.RawMessages("text"), keyspace.Doc{})
	fields := func(u User) []string { return strings.Fields(u.Line(s)) }

	app := fields(User{})
	const head = "user stoa on #stoa-sha256 resetchannels -@all ~stoa:user:log:*:* ~stoa:user:sign:{*} &stoa:news:* "
	if got := strings.Join(app, " "); !strings.HasPrefix(got, head) {
		t.Errorf("got  %s\nwant %s…", got, head)
	}
	for _, want := range []string{"+get", "+setbit", "+rpush", "+ltrim", "+publish", "+ssubscribe", "+evalsha", "+unlink", "+time", "+pexpire",
		"+asking"} {
		if !slices.Contains(app, want) {
			t.Errorf("the program lacks %s", want)
		}
	}
	for _, never := range []string{"+hset", "+zadd", "+xadd", "+sadd", "+keys", "+flushall", "+config|get", "+blpop", "+sort", "+@all"} {
		if slices.Contains(app, never) {
			t.Errorf("the program has %s", never)
		}
	}

	reader := fields(User{Name: "eve", Prefix: "shop", Secret: ">x", ReadOnly: true, Commands: []string{"slowlog|get"}})
	if got := strings.Join(reader, " "); !strings.HasPrefix(got,
		"user eve on >x resetchannels -@all %R~shop:user:log:*:* %R~shop:user:sign:{*} &shop:news:* ") {
		t.Errorf("got %s", got)
	}
	for _, want := range []string{"+get", "+lrange", "+subscribe", "+scan", "+memory|usage", "+slowlog|get", "+asking"} {
		if !slices.Contains(reader, want) {
			t.Errorf("the read-only user lacks %s", want)
		}
	}
	for _, never := range slices.Concat(writesAnyKey, commands.Writes["string"], commands.Writes["list"], commands.Writes["channel"]) {
		if slices.Contains(reader, "+"+never) {
			t.Errorf("the read-only user has %s", never)
		}
	}

	if wide := strings.Join(fields(User{Wide: true}), " "); !strings.HasPrefix(wide,
		"user stoa on #stoa-sha256 resetchannels -@all ~stoa:* &stoa:* +append ") {
		t.Errorf("got %s", wide)
	}
}

func TestLine_Brownfield(t *testing.T) {
	s := keyspace.New("legacy").Brownfield()
	keyspace.Def1[keyspace.Int](s, "app.user-{id}", keyspace.HashOf("name, mail"), keyspace.Forever("accounts are kept"), keyspace.Doc{})
	keyspace.Def2[keyspace.Raw, keyspace.Int](s, "{region}/cart/{{user}}", keyspace.HashOf("product → count"), keyspace.Expire(time.Hour),
		keyspace.Doc{})
	keyspace.Def1[keyspace.Raw](s, "Sess::{token}", keyspace.BytesOf("PHP session"), keyspace.UpTo(time.Hour), keyspace.Doc{})
	keyspace.Def0(s, "#jobs waiting", keyspace.ListOf("job"), keyspace.Forever("taken off by workers"), keyspace.Doc{})
	line := User{NoPrefix: true}.Line(s)
	for _, want := range []string{" ~app.user-* ", " ~*/cart/{*} ", " ~#jobs?waiting ", " ~Sess::* "} {
		if !strings.Contains(line, want) {
			t.Errorf("%q lacks %q", line, want)
		}
	}
	glob := keyspace.New("test").Brownfield()
	keyspace.Def1[keyspace.Text](glob, `a*[b]?\{x}`, keyspace.BytesOf("bytes"), keyspace.Expire(time.Hour), keyspace.Doc{})
	if line := (User{}).Line(glob); !strings.Contains(line, ` ~stoa:a\*\[b\]\?\\* `) {
		t.Errorf("got %s, want escaped glob characters", line)
	}
	if line := (User{NoPrefix: true, Wide: true}).Line(glob); !strings.Contains(line, " ~* ") {
		t.Errorf("got %s, want all keys", line)
	}
}

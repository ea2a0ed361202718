package catalogue

import (
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
)

// id is a segment of twelve base64url bytes.
type id struct{ s string }

func (i id) AppendSegment(b []byte) []byte { return append(b, i.s...) }
func (id) SegmentForm() keyspace.Form {
	return keyspace.Form{Alphabet: keyspace.Base64URL, Min: 12, Max: 12}
}

type greeting struct {
	From string `json:"from"`
	N    int    `json:"n"`
}

func sample() (one, two *keyspace.Schema) {
	one, two = keyspace.New("rooms"), keyspace.New("accounts")
	keyspace.Def1[id](one, "room:{{room}}:state", keyspace.HashOf("a|b"), keyspace.Forever("the janitor"),
		keyspace.Doc{Purpose: "what runs", Together: "room"})
	keyspace.Def0(two, "user:all", keyspace.BytesOf("x"), keyspace.Expire(45*24*time.Hour),
		keyspace.Doc{Purpose: "everybody", Owner: "rooms", MaxBytes: 1 << 30})
	keyspace.Def1[keyspace.Text](two, "user:info:{name}", keyspace.JSONOf[int](),
		keyspace.Expire(time.Hour).Jitter(5*time.Minute).Negative(1500*time.Millisecond),
		keyspace.Doc{Purpose: "profile", InvalidatedBy: []string{"avatar", "e-mail"}})
	keyspace.DefChannel0(two, "channel:user_status", keyspace.RawMessages("text"), keyspace.Doc{Purpose: "changes", MaxBytes: 1000})
	return one, two
}

func TestMarkdown_OneTablePerOwner(t *testing.T) {
	one, two := sample()
	const want = "## accounts\n\n" +
		"| pattern | type | form | arguments | life | purpose | invalidated by | max bytes |\n|---|---|---|---|---|---|---|---|\n" +
		"| `channel:user_status` | channel | text |  | at most once | changes |  | 1000 B |\n" +
		"| `user:info:{name}` | string | json int | name: escaped text, 1 to 192 bytes | 1 h ± 5 min, empty 1500 ms | profile | avatar, " +
		"e-mail | 64 KiB |\n" +
		"\n## rooms\n\n" +
		"| pattern | type | form | arguments | life | purpose | invalidated by | max bytes |\n|---|---|---|---|---|---|---|---|\n" +
		"| `room:{{room}}:state` | hash | a\\|b | room: base64url, 12 bytes | none: the janitor | what runs |  | 64 KiB |\n" +
		"| `user:all` | string | x |  | 45 d | everybody |  | 1 GiB |\n"
	for _, order := range [][]*keyspace.Schema{{one, two}, {two, one}} {
		if got := New(order...).Markdown(); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}

func TestCatalogue_JSON(t *testing.T) {
	one, two := sample()
	got, err := New(one, two).JSON()
	if err != nil {
		t.Fatal(err)
	}
	const want = `    {
      "owner": "rooms",
      "pattern": "room:{{room}}:state",
      "type": "hash",
      "form": "a|b",
      "arguments": [
        {
          "name": "room",
          "form": "base64url, 12 bytes",
          "hash_tag": true
        }
      ],
      "life": {
        "ms": 0,
        "jitter_ms": 0,
        "empty_ms": 0,
        "stale_ms": 0,
        "lease": false,
        "variable": false,
        "reason": "the janitor"
      },
      "purpose": "what runs",
      "invalidated_by": [],
      "together": "room",
      "version": 1,
      "max_key_bytes": 25,
      "max_value_bytes": 65536
    },
`
	if !strings.Contains(string(got), want) {
		t.Errorf("got\n%s\nwhich lacks\n%s", got, want)
	}
	if empty, _ := New().JSON(); string(empty) != "{\n  \"families\": []\n}\n" {
		t.Errorf("without families: %s", empty)
	}
}

func TestCatalogue_ChannelDelivery(t *testing.T) {
	s := keyspace.New("test")
	log := keyspace.Def0(s, "bus:log", keyspace.StreamOf("event"), keyspace.Forever("trimmed"), keyspace.Doc{})
	keyspace.DefChannel0(s, "bus:event", keyspace.MessagesOf[greeting]().LoggedIn(log.Family), keyspace.Doc{MaxBytes: 1000})
	keyspace.DefChannel0(s, "bus:wake", keyspace.RawMessages("empty"), keyspace.Doc{})
	got := New(s).Families
	if e := got[0]; e.Delivery != "logged in bus:log" || e.Form != "json {from string, n int}" || e.MaxValueBytes != 1000 {
		t.Errorf("bus:event: %+v", e)
	}
	if e := got[2]; e.Delivery != "at most once" || e.Lives() != "at most once" {
		t.Errorf("bus:wake: %+v", e)
	}
	if e := got[1]; e.Delivery != "" || e.Lives() != "none: trimmed" {
		t.Errorf("bus:log: %+v", e)
	}
}

func TestString_LivesAndForms(t *testing.T) {
	for want, ttl := range map[string]keyspace.TTL{
		"up to 24 h":   keyspace.UpTo(24 * time.Hour),
		"2 d":          keyspace.Expire(48 * time.Hour),
		"36 h":         keyspace.Expire(36 * time.Hour),
		"lease of 5 s": keyspace.Lease(5 * time.Second),
		"90 min":       keyspace.Expire(90 * time.Minute),
	} {
		if got := Describe(keyspace.Def0(keyspace.New("test"), "user:x", keyspace.CounterKind(), keyspace.Expire(time.Hour),
			keyspace.Doc{}).Family).Life; got.String() == want {
			t.Errorf("an hour reads %q", want)
		}
		f := keyspace.Def0(keyspace.New("test"), "user:x", keyspace.CounterKind(), ttl, keyspace.Doc{})
		if got := Describe(f.Family).Life.String(); got != want {
			t.Errorf("%v reads %q, want %q", ttl, got, want)
		}
	}
	for want, f := range map[string]keyspace.Form{
		"one of a, b": {Words: []string{"a", "b"}}, "hex, 4 bytes or more": {Alphabet: keyspace.Hex, Min: 4},
		"digits, 1 to 8 bytes": {Alphabet: keyspace.Digits, Max: 8}, "escaped text": {}, "base64url, 22 bytes": keyspace.Hashed{}.SegmentForm(),
	} {
		if got := f.String(); got != want {
			t.Errorf("%#v reads %q, want %q", f, got, want)
		}
	}
}

func TestHTML_SelfContainedAndEscaped(t *testing.T) {
	one, two := sample()
	keyspace.Def0(two, "user:odd", keyspace.BytesOf("<script>alert(1)</script>"), keyspace.Expire(time.Hour), keyspace.Doc{Purpose: "a & b"})
	page := New(one, two).HTML("Keys <of> a test")
	for _, want := range []string{
		"<title>Keys &lt;of&gt; a test</title>", "<code>room:{{room}}:state</code>", "&lt;script&gt;alert(1)", "a &amp; b",
		"<h2>accounts</h2>", "avatar, e-mail", "base64url, 12 bytes; hash tag", `<article id="hash:room:{{room}}:state">`,
		`<a href="#hash:room:%7B%7Broom%7D%7D:state">`,
		"<dt>delivery</dt><dd>at most once</dd>", "5 families",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	for _, never := range []string{"<script", "http://", "https://", "src="} {
		if strings.Contains(page, never) {
			t.Errorf("the page has %s", never)
		}
	}
	if t.Failed() {
		t.Log(page)
	}
}

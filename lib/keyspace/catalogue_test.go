package keyspace

import (
	"strings"
	"testing"
	"time"
)

func sample() (one, two *Schema) {
	one, two = New("rooms"), New("accounts")
	Def1[id](one, "room:{{room}}:state", HashOf("a|b"), Forever("the janitor"), Doc{Purpose: "what runs", Together: "room"})
	Def0(two, "user:all", BytesOf("x"), Expire(45*24*time.Hour), Doc{Purpose: "everybody", Owner: "rooms", MaxBytes: 1 << 30})
	Def1[Text](two, "user:info:{name}", JSONOf[int](), Expire(time.Hour).Jitter(5*time.Minute).Negative(1500*time.Millisecond),
		Doc{Purpose: "profile", InvalidatedBy: []string{"avatar", "e-mail"}})
	DefChannel0(two, "channel:user_status", RawMessages("text"), Doc{Purpose: "changes", MaxBytes: 1000})
	return one, two
}

func TestTheCatalogueIsOneTableForEachOwner(t *testing.T) {
	one, two := sample()
	const want = "## accounts\n\n" +
		"| pattern | type | form | arguments | life | purpose | invalidated by | max bytes |\n|---|---|---|---|---|---|---|---|\n" +
		"| `channel:user_status` | channel | text |  | at most once | changes |  | 1000 B |\n" +
		"| `user:info:{name}` | string | json int | name: escaped text, 1 to 192 bytes | 1 h ± 5 min, empty 1500 ms | profile | avatar, e-mail | 64 KiB |\n" +
		"\n## rooms\n\n" +
		"| pattern | type | form | arguments | life | purpose | invalidated by | max bytes |\n|---|---|---|---|---|---|---|---|\n" +
		"| `room:{{room}}:state` | hash | a\\|b | room: base64url, 12 bytes | none: the janitor | what runs |  | 64 KiB |\n" +
		"| `user:all` | string | x |  | 45 d | everybody |  | 1 GiB |\n"
	for _, order := range [][]*Schema{{one, two}, {two, one}} {
		if got := NewCatalogue(order...).Markdown(); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}

func TestTheCatalogueIsJSON(t *testing.T) {
	one, two := sample()
	got, err := NewCatalogue(one, two).JSON()
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
	if empty, _ := NewCatalogue().JSON(); string(empty) != "{\n  \"families\": []\n}\n" {
		t.Errorf("without families: %s", empty)
	}
}

func TestLivesAndFormsReadWell(t *testing.T) {
	for want, ttl := range map[string]TTL{
		"up to 24 h":   UpTo(24 * time.Hour),
		"2 d":          Expire(48 * time.Hour),
		"36 h":         Expire(36 * time.Hour),
		"lease of 5 s": Lease(5 * time.Second),
		"90 min":       Expire(90 * time.Minute),
	} {
		if got := describe(declare(New("test"), "user:x")).Life; got.String() == want {
			t.Errorf("an hour reads %q", want)
		}
		f := Def0(New("test"), "user:x", CounterKind(), ttl, Doc{})
		if got := describe(f.Family).Life.String(); got != want {
			t.Errorf("%v reads %q, want %q", ttl, got, want)
		}
	}
	for want, f := range map[string]Form{
		"one of a, b": {Words: []string{"a", "b"}}, "hex, 4 bytes or more": {Alphabet: Hex, Min: 4},
		"digits, 1 to 8 bytes": {Alphabet: Digits, Max: 8}, "escaped text": {}, "base64url, 22 bytes": Hashed{}.SegmentForm(),
	} {
		if got := f.String(); got != want {
			t.Errorf("%#v reads %q, want %q", f, got, want)
		}
	}
}

func TestTheCataloguePageStandsAloneAndEscapes(t *testing.T) {
	one, two := sample()
	Def0(two, "user:odd", BytesOf("<script>alert(1)</script>"), Expire(time.Hour), Doc{Purpose: "a & b"})
	page := NewCatalogue(one, two).HTML("Keys <of> a test")
	for _, want := range []string{
		"<title>Keys &lt;of&gt; a test</title>", "<code>room:{{room}}:state</code>", "&lt;script&gt;alert(1)", "a &amp; b",
		"<h2>accounts</h2>", "avatar, e-mail", "base64url, 12 bytes; hash tag", `<article id="hash:room:{{room}}:state">`, `<a href="#hash:room:%7B%7Broom%7D%7D:state">`,
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

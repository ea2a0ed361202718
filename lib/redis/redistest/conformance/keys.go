package conformance

import (
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
)

var (
	keys = keyspace.New("redistest")

	value   = keyspace.Def1[keyspace.Int](keys, "value:{{n}}", keyspace.BytesOf("text"), keyspace.UpTo(time.Hour), keyspace.Doc{})
	other   = keyspace.Def1[keyspace.Int](keys, "other:{{n}}", keyspace.BytesOf("text"), keyspace.UpTo(time.Hour), keyspace.Doc{})
	counter = keyspace.Def1[keyspace.Text](keys, "counter:{{name}}", keyspace.CounterKind(), keyspace.Forever("the test removes it"),
		keyspace.Doc{})
	bits   = keyspace.Def1[keyspace.Int](keys, "bits:{{n}}", keyspace.BitmapOf("days"), keyspace.Expire(time.Hour), keyspace.Doc{})
	fields = keyspace.Def1[keyspace.Int](keys, "fields:{{n}}", keyspace.HashOf("a, b"), keyspace.Forever("the test removes it"),
		keyspace.Doc{})
	scores = keyspace.Def1[keyspace.Int](keys, "scores:{{n}}", keyspace.ZSetOf("member, score"), keyspace.Forever("the test removes it"),
		keyspace.Doc{})

	hits    = keyspace.Def1[keyspace.Int](keys, "hits:{{n}}", keyspace.CounterKind(), keyspace.UpTo(time.Hour), keyspace.Doc{})
	visits  = keyspace.Def1[keyspace.Int](keys, "visits:{{n}}", keyspace.CounterKind(), keyspace.Expire(time.Hour), keyspace.Doc{})
	cart    = keyspace.Def1[keyspace.Int](keys, "cart:{{n}}", keyspace.HashOf("item, count"), keyspace.Expire(time.Hour), keyspace.Doc{})
	ranking = keyspace.Def1[keyspace.Int](keys, "ranking:{{n}}", keyspace.ZSetOf("member, score"), keyspace.Expire(time.Hour), keyspace.Doc{})
	members = keyspace.Def1[keyspace.Int](keys, "members:{{n}}", keyspace.SetOf("name"), keyspace.Expire(time.Hour), keyspace.Doc{})
	recent  = keyspace.Def1[keyspace.Int](keys, "recent:{{n}}", keyspace.ListOf("text"), keyspace.Expire(time.Hour), keyspace.Doc{})
	feed    = keyspace.Def1[keyspace.Int](keys, "feed:{{n}}", keyspace.StreamOf("what"), keyspace.Expire(time.Hour), keyspace.Doc{})

	news   = keyspace.DefChannel1[keyspace.Int](keys, "news:{{n}}", keyspace.RawMessages("text"), keyspace.Doc{})
	prices = keyspace.DefChannel0(keys, "prices", keyspace.MessagesOf[map[string]int](), keyspace.Doc{})
)

// Functions: the library that testFunctions loads has add, and no library has none.
type (
	addKeys struct{ First, Second keyspace.Counter }
	addArgs struct{ N int }
)

var (
	add  = keyspace.DefFunction[addKeys, addArgs]("conformance_add", keyspace.Reply.Texts, counter.Family, counter.Family)
	none = keyspace.DefFunction[addKeys, addArgs]("conformance_none", keyspace.Reply.Texts, counter.Family, counter.Family)
)

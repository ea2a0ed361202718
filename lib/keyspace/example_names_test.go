package keyspace_test

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
)

// CountryCode is an argument with its own form: two lower-case letters.
type CountryCode struct{ S string }

func (c CountryCode) AppendSegment(b []byte) []byte { return append(b, strings.ToLower(c.S)...) }

func (CountryCode) SegmentForm() keyspace.Form {
	return keyspace.Form{Alphabet: keyspace.AnyText, Min: 2, Max: 2}
}

var _ keyspace.Formed = CountryCode{}

// spelled returns the text of an argument in a key.
func spelled[A keyspace.Segment](a A) string { return string(a.AppendSegment(nil)) }

var countryKey = keyspace.Def1[CountryCode](shapes, "country:{code}", keyspace.BytesOf("its name"), keyspace.Expire(day),
	keyspace.Doc{Purpose: "a country's name"})

// An argument of the wrong form never becomes a key: At panics, and Try, for external input, returns an error.
func ExampleForm() {
	show(spelled(CountryCode{"DE"}), CountryCode{}.SegmentForm())
	key, err := countryKey.Try(CountryCode{"FR"})
	show(key, err)
	_, err = countryKey.Try(CountryCode{"Atlantis"})
	show(errors.Is(err, keyspace.ErrArgument))
	// Output:
	// de escaped text, 2 bytes
	// country:fr <nil>
	// true
}

// A word from a user is in the list, or ParseWord refuses it.
func ExampleParseWord() {
	var list keyspace.Words = orderStates{}
	show(list.Words())
	state, ok := keyspace.ParseWord[orderStates]("paid")
	show(orderStateKey.At(OrderID{keyspace.Int{N: 7}}, state), ok)
	_, ok = keyspace.ParseWord[orderStates]("stolen")
	show(ok)
	// Output:
	// [pending paid sent]
	// order:7:status:paid true
	// false
}

// Named1 is for a pattern that is only known at run time.
func ExampleNamed1() {
	configured := "tenant_a:visits:{user}"
	visits := keyspace.Named1[UserID](configured, keyspace.CounterKind(), keyspace.UpTo(day),
		keyspace.Doc{Purpose: "visits of a tenant's users", MaxBytes: 20})
	show(visits.At(UserID{keyspace.Int{N: 7}}))
	// Output:
	// tenant_a:visits:7
}

// Families of another program; only their names are known.
func ExampleFamilyOf() {
	users, err := keyspace.FamilyOf("app.user-{id}", keyspace.Form{Alphabet: keyspace.Digits})
	if err != nil {
		fmt.Println(err)
		return
	}
	tokens, _ := keyspace.FamilyOf("app.token-{hash}", keyspace.Form{Alphabet: keyspace.Hex, Min: 4, Max: 4})
	parser := keyspace.ParserOf(users, tokens)
	for _, key := range []string{"app.user-17", "app.token-00ff", "app.user-ann"} {
		found, ok := parser.Key(key)
		if !ok {
			show(key, "belongs to none")
			continue
		}
		show(key, found.Family.Pattern, found.Args[:1])
	}
	_, err = keyspace.FamilyOf("user:{id}")
	show(err)
	// Output:
	// app.user-17 app.user-{id} [17]
	// app.token-00ff app.token-{hash} [00ff]
	// app.user-ann belongs to none
	// has more placeholders than its 0 arguments
}

// A pattern that no version of the program writes is retired.
func ExampleRetire() {
	s := keyspace.New("mail")
	keyspace.Retire(s, "mail:inbox:{user}", "swept by the job mail.tidy until May")
	keyspace.Def1[UserID](s, "mail:inbox:{user}", keyspace.ListOf("message"), keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "a user's messages"})
	show(keyspace.Lint(s))
	// Output:
	// keyspace: mail: "mail:inbox:{user}" can meet "mail:inbox:{user}", which mail has retired: both can be "mail:inbox:0"
}

// A deployment puts its name before all of its keys.
func ExampleValidPrefix() {
	show(keyspace.ValidPrefix("shop-staging"))
	show(keyspace.ValidPrefix("shop:staging") != nil, keyspace.ValidPrefix(strings.Repeat("x", keyspace.MaxPrefix+1)) != nil)
	show(keyspace.Logical("shop-staging", "shop-staging:user:7"))
	show(keyspace.Logical("shop-staging", "shop:user:7"))
	// Output:
	// <nil>
	// true true
	// user:7 true
	//  false
}

// A cluster stores a key in the slot of its hash tag.
func ExampleSlot() {
	one, other := keyspace.Slot("shop:order:{7}:view"), keyspace.Slot("shop:order:{7}:visits:paid")
	show(one == other, one < keyspace.Slots)
	// Output:
	// true true
}

// The largest key of a family is known before any key exists.
func ExampleFamily() {
	for _, f := range []*keyspace.Family{userKey.Family, codeKey.Family, cacheKey.Family} {
		show(f.Pattern, f.Type, f.MaxKeyBytes() <= keyspace.MaxKey, f.Example())
	}
	show(len(spelled(keyspace.Text{S: "short"})) <= keyspace.MaxText, keyspace.MaxArgs)
	// Output:
	// user:{id} string true user:0
	// verification:code:{address} string true verification:code:aaaaaaaaaaaaaaaaaaaaaa
	// cache:{cache}:{key} string true cache:user:a
	// true 3
}

// The name of a command that runs a script contains the script, so that scripts need no registration.
func ExampleScriptName() {
	name := keyspace.ScriptName("return 1")
	show(strings.HasPrefix(name, keyspace.ScriptMark), strings.HasSuffix(name, " return 1"))
	// Output:
	// true true
}

// The alphabets, the narrowest first.
func ExampleAlphabet() {
	for _, a := range []keyspace.Alphabet{keyspace.Digits, keyspace.Hex, keyspace.Base64URL, keyspace.AnyText, keyspace.RawText} {
		f := keyspace.Form{Alphabet: a, Max: 8}
		show(f.Match("42"), f.Match("c0ffee"), f.Match("Q4x-_"), f.Match("a:b"))
	}
	// Output:
	// true false false false
	// true true false false
	// true true true false
	// true true true false
	// true true true true
}

// The name of a command that calls a function contains the name of the function.
func ExampleDefFunction_name() {
	type keys struct{ Moves keyspace.Counter }
	f := keyspace.DefFunction[keys, struct{}]("spend", keyspace.Reply.Int, movesKey.Family)
	fmt.Println(f.Cmd(keys{movesKey.At(chess)}, struct{}{}).Name == keyspace.FunctionMark+"spend")
	// Output: true
}

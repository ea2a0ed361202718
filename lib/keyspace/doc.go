/*
Package keyspace declares every Redis key and channel of a program once, typed,
and makes it impossible to spell one anywhere else.

# Declaring

A family is a pattern, the types of its arguments, what its keys hold, how long
they live and why they exist. A domain declares its families in one file:

	var Keys = keyspace.New("shop")

	var cartKey = keyspace.Def1[UserID](Keys, "cart:{uid}",
		keyspace.JSONOf[Cart](),
		keyspace.Expire(24*time.Hour).Jitter(time.Hour),
		keyspace.Doc{Purpose: "what a customer has put aside", InvalidatedBy: []string{"order placed"}})

Patterns and reasons must be constants; a life is a required argument, and
[Forever] wants a reason. What the compiler cannot refuse, such as a pattern
with another number of placeholders than arguments, panics while the program is
initialised.

A placeholder fills a whole level. {uid} becomes the bare argument; {{uid}}
keeps one pair of braces in the key, "cart:{V1StGXR8_Z5j}", where Redis Cluster
takes them for the hash tag: all keys with that tag share a slot. Families whose
keys meet in one command or script are tagged everywhere and say so with
[Doc].Together; [Atomic] makes keys of one tag, and [SameSlot] checks keys made
elsewhere.

# Arguments

An argument is a [Segment]: a struct, so that a plain string does not pass for
an identifier. [Int], [Hashed] and [Word] serve most needs. [Hashed] is for
what comes from outside: e-mail and IP addresses, tokens. [Text] escapes
instead, byte by byte, so that nothing in it can end its level or its hash tag.
Neither has a longest input that it refuses.

A Segment type promises a [Form]: an alphabet and lengths, or a list of words.
At holds every argument against it and panics when one breaks the promise.

# A layout that is there already

The keys of a Redis that has run for years keep their names. A schema of
[Schema.Brownfield] takes them as they are: placeholders beside text, as in
"app.user-{id}" and "user_{id}_profile", any separator, arguments that are [Raw].
What is ambiguous is found all the same, with a key that shows it.

# Using

At returns a handle with the commands of the family's type:

	cart, ok, err := cartKey.At(uid).Get(ctx, db)

Each kind has the commands that its type is used with: [Bytes], [JSON], [Counter],
[Bitmap], [HyperLogLog], [Hash], [Record] for a struct in a hash, [Set], [ZSet], [Geo],
[List] and [Stream]. Those that write give the key its declared life in the same step.
Whoever sends a [Cmd] of their own gives it themselves; a command that writes another
type than the key's is refused ([ErrType]).

A [Batch] sends commands in one round trip, and gives each a typed result:

	var b keyspace.Batch
	cart := cartKey.At(uid).GetIn(&b)
	seen := b.Int(seenKey.At(uid).AddCmd(1))
	err := b.Run(ctx, db) // or b.RunAtomic: nothing of other clients in between

[DefScript] binds a Lua script to the families of its keys and to typed arguments, and
[DefFunction] a function that servers keep themselves. All and Keys of a family find the
keys that are there, with their arguments parsed:

	for uid, err := range cartKey.All(ctx, db) {

db is an [Executor], for example package redis's DB, which puts the
deployment's prefix before each key; see [ValidPrefix].

# Channels

Channels of pub/sub are families as well, with what they carry in place of a
life. [MessagesOf] types the messages, and [RawMessages] leaves them to their
owner:

	var status = keyspace.DefChannel1[UserID](Keys, "channel:user_status:{uid}",
		keyspace.MessagesOf[StatusChanged](),
		keyspace.Doc{Purpose: "who came and went", MaxBytes: 200})

	err := status.At(uid).Publish(ctx, db, StatusChanged{…})

[Payload.Carrying] names the types of messages of several kinds.

# Checking

[Lint] returns every fault of all families at once: style, length, missing
documentation, and by [Disjoint] each pair of families that one key could belong
to, with that key. One test over all schemas of the program is enough:

	if err := keyspace.Lint(accounts.Keys, shop.Keys); err != nil {
		t.Fatal(err)
	}

A [Parser] goes the other way, from a key to its family and arguments, without
allocating; it is what an audit of a live server is made of. Package
keyspace/catalogue writes the reference, as JSON, as Markdown and as a page. Package
keyspace/acl writes the line of a Redis user who may do with the families what the
program does, and nothing else.

# Changing

Keys outlive the program that wrote them. Package keyspace/lock keeps the text of what is
declared beside the sources, and tells what the next version changes, and which change of
layout must not be without a higher [Doc].Version or another pattern. What is truth in
Redis is moved by package keyspace/move.
*/
package keyspace

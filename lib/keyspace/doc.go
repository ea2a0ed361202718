/*
Package keyspace declares every Redis key and channel of a program once, with
types, and prevents the program from building a key in any other way.

# Declaring

A family is a pattern, the types of its arguments, the content of its keys, their
TTL and their purpose. A domain declares its families in one file:

	var Keys = keyspace.New("shop")

	var cartKey = keyspace.Def1[UserID](Keys, "cart:{uid}",
		keyspace.JSONOf[Cart](),
		keyspace.Expire(24*time.Hour).Jitter(time.Hour),
		keyspace.Doc{Purpose: "the shopping cart of a customer", InvalidatedBy: []string{"order placed"}})

Patterns and reasons must be constants. A TTL is a required argument, and
[Forever] requires a reason. A mistake that the compiler cannot find, such as a
pattern whose number of placeholders differs from the number of arguments, panics
during the initialisation of the program.

A placeholder fills a whole level. {uid} becomes the plain argument. {{uid}} keeps
one pair of braces in the key, "cart:{V1StGXR8_Z5j}". Redis Cluster uses them as
the hash tag: all keys with the same tag are in the same slot. Families that are
used in one command or script need the same hash tag and are declared with
[Doc].Together. [Atomic] makes keys of one tag, and [SameSlot] checks keys from
other sources.

# Arguments

An argument is a [Segment]. It is a struct, so that a plain string is not accepted
as an identifier. [Int], [Hashed] and [Word] cover most needs. [Hashed] is for
external input: e-mail addresses, IP addresses, tokens. [Text] escapes its input
byte by byte instead, so that no input can end its level or its hash tag. Neither
type limits the length of its input.
A Segment type declares a [Form]: an alphabet and lengths, or a list of words. At
checks every argument against it and panics if the argument does not match.

# Keys of an existing Redis

The keys of a Redis that has run for years keep their names. [Schema.Brownfield]
accepts them as they are: placeholders next to text, as in "app.user-{id}" and
"user_{id}_profile", any separator, and arguments that are [Raw]. [Lint] still
finds ambiguous patterns and shows a key as proof.

# Using

At returns a handle with the commands of the family's type:

	cart, ok, err := cartKey.At(uid).Get(ctx, db)

Each kind of handle has the usual commands of its type: [Bytes], [JSON], [Counter],
[Bitmap], [HyperLogLog], [Hash], [Record] for a struct in a hash, [Set], [ZSet],
[Geo], [List] and [Stream]. Commands that write also set the declared TTL,
atomically. Callers that send their own [Cmd] must set the TTL themselves. A command
that writes another type than the key's is refused ([ErrType]).

A [Batch] sends commands in one round trip, and returns a typed result for each:

	var b keyspace.Batch
	cart := cartKey.At(uid).GetIn(&b)
	seen := b.Int(seenKey.At(uid).AddCmd(1))
	err := b.Run(ctx, db) // or b.RunAtomic: no commands of other clients in between

[DefScript] binds a Lua script to the families of its keys and to typed arguments.
[DefFunction] does the same for a function that is stored in the server. All and
Keys of a family find the existing keys, with their arguments parsed:

	for uid, err := range cartKey.All(ctx, db) {

db is an [Executor], for example package redis's DB. It adds the prefix of the
deployment to each key; see [ValidPrefix].

# Channels

Pub/sub channels are families as well. They declare their payload instead of a TTL.
[MessagesOf] gives the messages a type, and [RawMessages] leaves their format to
the owner:

	var status = keyspace.DefChannel1[UserID](Keys, "channel:user_status:{uid}",
		keyspace.MessagesOf[StatusChanged](),
		keyspace.Doc{Purpose: "users that connected or disconnected", MaxBytes: 200})

	err := status.At(uid).Publish(ctx, db, StatusChanged{…})

[Payload.Carrying] declares the types of messages of several kinds.

# Checking

[Lint] returns all faults of all families at once: style, length, missing
documentation and, by [Disjoint], each pair of families that one key could belong
to, with that key. One test over all schemas of the program is enough:

	if err := keyspace.Lint(accounts.Keys, shop.Keys); err != nil {
		t.Fatal(err)
	}

A [Parser] finds the family and the arguments of a key, without allocating; audits
of a live server use it. Package keyspace/catalogue writes the reference as JSON,
as Markdown and as a page. Package keyspace/acl writes the ACL line of a Redis user
that has only the permissions that the families need.

# Changing

Keys outlive the program that wrote them. Package keyspace/lock stores the
declarations in a text file next to the sources. It reports the changes of the next
version, and refuses a change of layout without a higher [Doc].Version or another
pattern. Package keyspace/tools/move migrates data whose only copy is in Redis.
*/
package keyspace

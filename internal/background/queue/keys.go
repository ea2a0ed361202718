package queue

import "github.com/stoa-dev/stoa/lib/keyspace"

// Keys is the keyspace of the queue.
var Keys = keyspace.New("queue")

// The keys of a topic share its hash tag, because scripts move messages between them.
var (
	streamKeys = keyspace.Def1[keyspace.Text](Keys, "queue:{{topic}}:stream", keyspace.StreamOf("key, payload"),
		keyspace.Forever("an entry goes when it is acknowledged"),
		keyspace.Doc{Purpose: "a topic's messages until they are handled", MaxBytes: 1 << 30, Together: "topic"})

	deadKeys = keyspace.Def1[keyspace.Text](Keys, "queue:{{topic}}:dead", keyspace.StreamOf("key, payload, attempts, error, was"),
		keyspace.Forever("an operator replays or drops them"),
		keyspace.Doc{Purpose: "a topic's dead letters", MaxBytes: 1 << 28, Together: "topic"})

	noteKeys = keyspace.Def1[keyspace.Text](Keys, "queue:{{topic}}:notes",
		keyspace.HashOf("entry → tries that do not count, and the last error"),
		keyspace.Forever("a field goes with its entry"),
		keyspace.Doc{Purpose: "what happened to messages that wait for another try", MaxBytes: 1 << 26, Together: "topic"})

	topicsKey = keyspace.Def0(Keys, "queue:topics", keyspace.SetOf("topics"),
		keyspace.Forever("one member for each topic ever used"),
		keyspace.Doc{Purpose: "which topics there are, for lists"})

	wakeChannel = keyspace.DefChannel0(Keys, "queue:wake", keyspace.RawMessages("empty"),
		keyspace.Doc{Purpose: "says that something was published, so that consumers need not poll often"})
)

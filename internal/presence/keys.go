package presence

import (
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/cluster"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// Keys are the families of this domain.
var Keys = keyspace.New("presence")

// keyLife is three times the longest time between two renewals.
const keyLife = 24 * time.Hour

var (
	connectionKeys = keyspace.Def1[accounts.ID](Keys, "user:connection:{{uid}}", keyspace.BytesOf("node:kind and number:device:Unix seconds in base 36 of each connection, with spaces between them"),
		keyspace.UpTo(keyLife), keyspace.Doc{Purpose: "a user's connections; each counts while its node lives", Together: "uid", MaxBytes: 32 << 10})

	statusKeys = keyspace.Def1[accounts.ID](Keys, "user:status:{{uid}}", keyspace.BytesOf("wish (1 online, 2 away, 3 busy):version"),
		keyspace.UpTo(keyLife), keyspace.Doc{Purpose: "what a user wishes to be while on line; SQL has it, too", Together: "uid", InvalidatedBy: []string{"a newer wish"}, MaxBytes: 32})

	versionKeys = keyspace.Def1[accounts.ID](Keys, "user:presence_version:{{uid}}", keyspace.CounterKind(),
		keyspace.UpTo(keyLife), keyspace.Doc{Purpose: "the version of a user's status, at least the Unix ms of its last change", Together: "uid", MaxBytes: 32})

	heldKeys = keyspace.Def1[cluster.ID](Keys, "presence:node:{node}", keyspace.SetOf("users"),
		keyspace.UpTo(keyLife), keyspace.Doc{Purpose: "whose connections a node holds, for when it dies", MaxBytes: 64 << 20})

	nodesKey = keyspace.Def0(Keys, "presence:nodes", keyspace.HashOf("node → writing, 0 once its connections are complete, or the Unix ms of a sweep after its death"),
		keyspace.Forever("one small field for each node; those of dead ones go after an hour"),
		keyspace.Doc{Purpose: "whether Redis has the connections of each node", Version: 2})

	statusChannel = keyspace.DefChannel0(Keys, "channel:user_status", events.Payload(api.EventPresenceChanged),
		keyspace.Doc{Purpose: "changes of users whom their friends see", MaxBytes: 1 << 10, Version: 2})
)

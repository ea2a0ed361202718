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

// keyTTL is three times the longest time between two renewals.
const keyTTL = 24 * time.Hour

var (
	// A value with a socket and an event stream: "kX3…:s1f:Qb7…:t6y2k0 kX3…:e2a:Qb7…:t6y2m4".
	connectionKeys = keyspace.Def1[accounts.ID](Keys, "user:connection:{{uid}}",
		keyspace.BytesOf("node:kind and number:device:Unix seconds in base 36 of each connection, with spaces between them"),
		keyspace.UpTo(keyTTL), keyspace.Doc{Purpose: "a user's connections; each counts while its node is live", Together: "uid",
			MaxBytes: 32 << 10})

	statusKeys = keyspace.Def1[accounts.ID](Keys, "user:status:{{uid}}", keyspace.BytesOf("wish (1 online, 2 away, 3 busy):version"),
		keyspace.UpTo(keyTTL), keyspace.Doc{Purpose: "the status that others see while the user is connected, a copy of the wish in SQL",
			Together:      "uid",
			InvalidatedBy: []string{"a newer wish"}, MaxBytes: 32})

	versionKeys = keyspace.Def1[accounts.ID](Keys, "user:presence_version:{{uid}}", keyspace.CounterKind(),
		keyspace.UpTo(keyTTL), keyspace.Doc{Purpose: "the version of a user's status, at least the Unix ms of its last change", Together: "uid",
			MaxBytes: 32})

	nodeUserKeys = keyspace.Def1[cluster.ID](Keys, "presence:node:{node}", keyspace.SetOf("users"),
		keyspace.UpTo(keyTTL), keyspace.Doc{Purpose: "the users with connections to a node; the sweep reads them after the node's death",
			MaxBytes: 64 << 20})

	nodesKey = keyspace.Def0(Keys, "presence:nodes", keyspace.HashOf("node → writing, 0 once its connections are complete, or the Unix ms "+
		"of a sweep after its death"),
		keyspace.Forever("one small field for each node; the fields of dead nodes are deleted after an hour"),
		keyspace.Doc{Purpose: "whether Redis has the connections of each node", Version: 2})

	statusChannel = keyspace.DefChannel0(Keys, "channel:user_status", events.Payload(api.EventPresenceChanged),
		keyspace.Doc{Purpose: "presence changes of users who are visible to their friends", MaxBytes: 1 << 10, Version: 2})
)

package web

import (
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
)

// Keys has the key families of this package.
var Keys = keyspace.New("web")

// maxWindow is the longest window of an operation's rate limit.
const maxWindow = 24 * time.Hour

var (
	userLimits = keyspace.Def2[keyspace.Text, keyspace.Text](Keys, "limit:api:{{uid}}:{api}",
		keyspace.CounterKind(), keyspace.UpTo(maxWindow),
		keyspace.Doc{Purpose: "requests of a user to one operation in the current window", MaxBytes: 16})

	addressLimits = keyspace.Def2[keyspace.Hashed, keyspace.Int](Keys, "ratelimit:{who}:{window}",
		keyspace.CounterKind(), keyspace.UpTo(maxWindow),
		keyspace.Doc{Purpose: "requests of a client network to one public operation, or to all pages and probes; window is the window's " +
			"length in seconds", MaxBytes: 16})
)

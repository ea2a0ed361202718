package web

import (
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
)

// Keys has the families of this package.
var Keys = keyspace.New("web")

// maxWindow is the longest window that an operation's limit may have.
const maxWindow = 24 * time.Hour

var (
	userLimits = keyspace.Def2[keyspace.Text, keyspace.Text](Keys, "limit:api:{{uid}}:{api}",
		keyspace.CounterKind(), keyspace.UpTo(maxWindow),
		keyspace.Doc{Purpose: "requests of a user to one operation in the running window", MaxBytes: 16})

	addressLimits = keyspace.Def2[keyspace.Hashed, keyspace.Int](Keys, "ratelimit:{who}:{window}",
		keyspace.CounterKind(), keyspace.UpTo(maxWindow),
		keyspace.Doc{Purpose: "requests of a household to one public operation, or to all pages and probes; window is the window's length in seconds", MaxBytes: 16})
)

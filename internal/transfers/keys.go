package transfers

import (
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
)

// Keys are the key families of this package.
var Keys = keyspace.New("transfers")

// progressLife is the TTL of a transfer's progress.
const progressLife = time.Hour

var progressKeys = keyspace.Def1[ID](Keys, "file:transfer:{id}",
	keyspace.HashOf("status (0 pending, 1 transferring, 2 done, 3 failed, 4 rejected), stored, received, percent, chunk, chunks"),
	keyspace.Expire(progressLife), keyspace.Doc{Purpose: "how far a transfer has come, between commits too; SQL has what is stored",
		MaxBytes: 1 << 10})

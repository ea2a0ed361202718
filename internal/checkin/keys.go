package checkin

import (
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// Keys is the check-in part of the keyspace, without the records and the boards.
var Keys = keyspace.New("checkin")

var (
	// claimKeys exist in redis-first mode only.
	claimKeys = keyspace.Def2[accounts.ID, keyspace.Int](Keys, "user:signed:{{uid}}:{day}",
		keyspace.BytesOf("at, kind, request, words and minutes"),
		// The nightly snapshot reads each of them at least twice.
		keyspace.Expire(3*24*time.Hour),
		keyspace.Doc{Purpose: "a check-in that was answered before SQL had it: who was first", MaxBytes: 128})

	appliedKey = keyspace.Def0(Keys, "checkin:applied", keyspace.HashOf("node → Unix ms"),
		keyspace.Forever("one field for each live node, or for the last one that lived; another node removes a dead one's"),
		keyspace.Doc{Purpose: "the time up to which each node's commits are in Redis"})
)

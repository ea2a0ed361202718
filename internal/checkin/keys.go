package checkin

import (
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// Keys is the check-in part of the keyspace.
var Keys = keyspace.New("checkin")

var (
	// recordKeys need no care on a cluster: every command names one record.
	recordKeys = keyspace.Def2[accounts.ID, keyspace.Int](Keys, "user:sign:{{uid}}:{year}",
		keyspace.BitmapOf("108 bytes, see streak.Record").Checked(streak.CheckRecord),
		// A user who is away costs nothing; writes and one read in a hundred renew.
		keyspace.Expire(45*24*time.Hour),
		keyspace.Doc{Purpose: "one user's year: signed and covered days, and what came before", MaxBytes: streak.RecordSize})

	// claimKeys exist in redis-first mode only.
	claimKeys = keyspace.Def2[accounts.ID, keyspace.Int](Keys, "user:signed:{{uid}}:{day}",
		keyspace.BytesOf("at, kind, request, words and minutes"),
		// The nightly snapshot looks at each of them at least twice.
		keyspace.Expire(3*24*time.Hour),
		keyspace.Doc{Purpose: "a check-in that was answered before SQL had it: who was first", MaxBytes: 128})

	appliedKey = keyspace.Def0(Keys, "checkin:applied", keyspace.HashOf("node → Unix ms"),
		keyspace.Forever("one field for each live node, or for the last one that lived; another node removes a dead one's"),
		keyspace.Doc{Purpose: "the time up to which each node's commits are in Redis"})
)

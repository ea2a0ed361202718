package records

import (
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// Keys is the records' share of check-in's part of the keyspace.
var Keys = keyspace.New("checkin")

// recordKeys need no care on a cluster: every command names one record.
var recordKeys = keyspace.Def2[accounts.ID, keyspace.Int](Keys, "user:sign:{{uid}}:{year}",
	keyspace.BitmapOf("108 bytes, see streak.Record").Checked(streak.CheckRecord),
	// A user who is away costs nothing; writes and one read in a hundred renew.
	keyspace.Expire(45*24*time.Hour),
	keyspace.Doc{Purpose: "one user's year: signed and covered days, and what came before", MaxBytes: streak.RecordSize})

// BitmapOf is the key of a record.
func BitmapOf(user accounts.ID, year int) keyspace.Bitmap {
	return recordKeys.At(user, keyspace.Int{N: int64(year)})
}

package records

import (
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// Keys is the records' part of check-in's keyspace.
var Keys = keyspace.New("checkin")

// recordKeys work on a cluster, because every command names one record.
var recordKeys = keyspace.Def2[accounts.ID, keyspace.Int](Keys, "user:sign:{{uid}}:{year}",
	keyspace.BitmapOf("108 bytes, see streak.Record").Checked(streak.CheckRecord),
	// The record of an inactive user expires. Writes and one read in a hundred renew it.
	keyspace.Expire(45*24*time.Hour),
	keyspace.Doc{Purpose: "one user's year: signed and covered days, and what came before", MaxBytes: streak.RecordSize})

// BitmapOf returns the key of a record.
func BitmapOf(user accounts.ID, year int) keyspace.Bitmap {
	return recordKeys.At(user, keyspace.Int{N: int64(year)})
}

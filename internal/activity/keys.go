package activity

import (
	"time"

	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// Keys are the key families of this domain.
var Keys = keyspace.New("activity")

// keyTTL is the TTL of a day's keys. It restarts with each write of the day. It includes two days more than
// daysWithSets: the job that counts a finished month of 31 days needs the set of its first day, and may run late.
const keyTTL = (daysWithSets + 2) * 24 * time.Hour

// date is a day as a key segment, such as 2026-11-24.
type date struct{ civil.Day }

// AppendSegment implements [keyspace.Segment].
func (d date) AppendSegment(b []byte) []byte { return append(b, d.String()...) }

// SegmentForm implements [keyspace.Formed].
func (date) SegmentForm() keyspace.Form {
	return keyspace.Form{Alphabet: keyspace.Base64URL, Min: len(time.DateOnly), Max: len(time.DateOnly)}
}

// estimateTag is the hash tag of all estimates. They share a slot, so that one command counts several of them.
type estimateTag struct{}

// Words implements [keyspace.Words].
func (estimateTag) Words() []string { return []string{"days"} }

var (
	setKeys = keyspace.Def1[date](Keys, "stats:dau:{date}", keyspace.SetOf("users"),
		keyspace.Expire(keyTTL), keyspace.Doc{Purpose: "the active users of a day; SQL has their number", MaxBytes: 256 << 20})

	estimateKeys = keyspace.Def2[keyspace.Word[estimateTag], date](Keys, "stats:dau_hll:{{slot}}:{date}",
		keyspace.BytesOf("HyperLogLog of users"),
		keyspace.Expire(keyTTL), keyspace.Doc{Purpose: "an estimate of the active users of a day, if activity.count is approximate",
			Together: "slot", MaxBytes: 16 << 10})
)

func setKey(d civil.Day) keyspace.Set { return setKeys.At(date{d}) }

func estimateKey(d civil.Day) keyspace.Key {
	return estimateKeys.At(keyspace.WordOf[estimateTag]("days"), date{d}).Key
}

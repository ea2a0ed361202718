package activity

import (
	"time"

	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// Keys are the key families of this domain.
var Keys = keyspace.New("activity")

// keyLife restarts with each write until the end of the day: 30 days, and two more, because the first day of a month of
// 31 days is needed in the night after its end, by a job that may be late.
const keyLife = (kept + 2) * 24 * time.Hour

// date is a day as a key segment, such as 2026-11-24.
type date struct{ civil.Day }

// AppendSegment implements [keyspace.Segment].
func (d date) AppendSegment(b []byte) []byte { return append(b, d.String()...) }

// SegmentForm implements [keyspace.Formed].
func (date) SegmentForm() keyspace.Form {
	return keyspace.Form{Alphabet: keyspace.Base64URL, Min: len(time.DateOnly), Max: len(time.DateOnly)}
}

// together is the hash tag of all estimates, because they are small and counted together.
type together struct{}

// Words implements [keyspace.Words].
func (together) Words() []string { return []string{"days"} }

var (
	setKeys = keyspace.Def1[date](Keys, "stats:dau:{date}", keyspace.SetOf("users"),
		keyspace.Expire(keyLife), keyspace.Doc{Purpose: "the active users of a day; SQL keeps the number", MaxBytes: 256 << 20})

	estimateKeys = keyspace.Def2[keyspace.Word[together], date](Keys, "stats:dau_hll:{{slot}}:{date}", keyspace.BytesOf("HyperLogLog of users"),
		keyspace.Expire(keyLife), keyspace.Doc{Purpose: "like stats:dau if activity.count is approximate", Together: "slot", MaxBytes: 16 << 10})
)

func setKey(d civil.Day) keyspace.Set { return setKeys.At(date{d}) }

func estimateKey(d civil.Day) keyspace.Key {
	return estimateKeys.At(keyspace.WordOf[together]("days"), date{d}).Key
}

package codes

import (
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
)

// Keys is the keyspace of codes, which is part of the accounts keyspace.
var Keys = keyspace.New("accounts")

// AppendSegment implements keyspace.Segment.
func (p Purpose) AppendSegment(b []byte) []byte { return append(b, '0'+byte(p)) }

// SegmentForm implements keyspace.Formed: one of six words, so that a code's key never equals the key of a limit.
func (Purpose) SegmentForm() keyspace.Form {
	return keyspace.Form{Words: []string{"1", "2", "3", "4", "5", "6"}}
}

var (
	triesKeys = keyspace.Def2[keyspace.Hashed, Purpose](Keys, "user:verify_code:{email}:{type}", keyspace.CounterKind(),
		keyspace.UpTo(MaxLife),
		keyspace.Doc{Purpose: "tries of a verification code from one client network; the code's hash is in SQL",
			InvalidatedBy: []string{"a new code", "the code was used"}, MaxBytes: 8})

	minuteKeys = keyspace.Def1[keyspace.Hashed](Keys, "user:verify_code:1m:{email}", keyspace.CounterKind(),
		keyspace.UpTo(time.Minute),
		keyspace.Doc{Purpose: "codes requested for an address and purpose, per minute; separate for each known client network", MaxBytes: 8})

	dayKeys = keyspace.Def1[keyspace.Hashed](Keys, "user:verify_code:24h:{email}", keyspace.CounterKind(),
		keyspace.UpTo(24*time.Hour),
		keyspace.Doc{Purpose: "codes requested for an address and purpose, per day; separate for each known client network", MaxBytes: 8})

	hourKeys = keyspace.Def1[keyspace.Hashed](Keys, "user:verify_code:1h:{ip}", keyspace.CounterKind(),
		keyspace.UpTo(time.Hour),
		keyspace.Doc{Purpose: "codes requested from an IPv4 address or an IPv6 /64, or from a network of them (IPv4 /24, IPv6 /48), per hour",
			MaxBytes: 8})

	allKey = keyspace.Def0(Keys, "user:verify_code:all", keyspace.CounterKind(),
		keyspace.UpTo(time.Hour),
		keyspace.Doc{Purpose: "codes mailed by the whole server, per hour", MaxBytes: 8})

	wrongKey = keyspace.Def0(Keys, "limit:wrong_code", keyspace.CounterKind(),
		keyspace.UpTo(time.Hour),
		keyspace.Doc{Purpose: "wrong verification codes, per hour", MaxBytes: 8})

	wrongFromKeys = keyspace.Def1[keyspace.Hashed](Keys, "limit:wrong_code:{network}", keyspace.CounterKind(),
		keyspace.UpTo(time.Hour),
		keyspace.Doc{Purpose: "wrong verification codes from one network (IPv4 /24, IPv6 /48), per hour", MaxBytes: 8})
)

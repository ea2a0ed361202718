package accounts

import (
	"time"

	"github.com/stoa-dev/stoa/internal/foundation/events"
	"github.com/stoa-dev/stoa/keyspace"
)

// Keys are the families of this domain.
var Keys = keyspace.New("accounts")

// AppendSegment implements keyspace.Segment.
func (p Purpose) AppendSegment(b []byte) []byte { return append(b, '0'+byte(p)) }

// SegmentForm implements keyspace.Formed: one of four words, so that a code's
// key can never be one of a limit.
func (Purpose) SegmentForm() keyspace.Form {
	return keyspace.Form{Words: []string{"1", "2", "3", "4"}}
}

// maxCopyLife bounds how long Redis may answer for SQL. A Redis that lost a
// tombstone in an asynchronous failover can accept a revoked token no longer
// than this; one SELECT per device and hour is what it costs.
const maxCopyLife = time.Hour

var (
	accessKey = keyspace.Def2[ID, DeviceID](Keys, "auth:at:{{uid}}:{device}",
		keyspace.BytesOf("session: rev, then expires (Unix ms), SHA-256 of the token, zone, next zone, from (Unix ms); or rev alone: revoked").Checked(checkCopy),
		keyspace.UpTo(maxCopyLife),
		keyspace.Doc{
			Purpose:       "what a check of an access token needs: hash, expiry, the user's clock",
			InvalidatedBy: []string{"refresh", "log-out", "a device too many", "change of zone"},
			MaxBytes:      256,
		})

	// An hour more while SQL is away costs little: nobody's profile changes then.
	userKey = keyspace.Def1[ID](Keys, "user:info:{uid}", keyspace.CachedOf[User](),
		keyspace.Expire(time.Hour).Jitter(5*time.Minute).Negative(5*time.Minute).StaleIfError(time.Hour),
		keyspace.Doc{
			Purpose: "who a user is: name, address, calendar, picture, who may find them",
			InvalidatedBy: []string{AvatarChanged.Name(), InfoChanged.Name(), EmailChanged.Name(),
				PasswordChanged.Name(), AccountDeleted.Name(), AccountBanned.Name()},
			MaxBytes: 4096,
			Version:  2,
		})

	notifications = keyspace.DefChannel1[ID](Keys, "channel:system_notification:{uid}", keyspace.MessagesOf[events.Event](),
		keyspace.Doc{Purpose: "what happens to an account and its sessions, see api/events.go", MaxBytes: 8 << 10})

	codeTriesKey = keyspace.Def2[keyspace.Hashed, Purpose](Keys, "user:verify_code:{email}:{type}", keyspace.CounterKind(),
		keyspace.UpTo(time.Hour),
		keyspace.Doc{Purpose: "tries of a verification code; the code's hash is in SQL", InvalidatedBy: []string{"a new code", "the code was used"}, MaxBytes: 8})

	codeMinuteKey = keyspace.Def1[keyspace.Hashed](Keys, "user:verify_code:1m:{email}", keyspace.CounterKind(),
		keyspace.UpTo(time.Minute),
		keyspace.Doc{Purpose: "codes asked for by an address, per minute", MaxBytes: 8})

	codeDayKey = keyspace.Def1[keyspace.Hashed](Keys, "user:verify_code:24h:{email}", keyspace.CounterKind(),
		keyspace.UpTo(24*time.Hour),
		keyspace.Doc{Purpose: "codes asked for by an address, per day", MaxBytes: 8})

	codeHourKey = keyspace.Def1[keyspace.Hashed](Keys, "user:verify_code:1h:{ip}", keyspace.CounterKind(),
		keyspace.UpTo(time.Hour),
		keyspace.Doc{Purpose: "codes asked for from an IP address, per hour", MaxBytes: 8})

	loginFailKey = keyspace.Def1[keyspace.Hashed](Keys, "limit:login_fail:{email}", keyspace.CounterKind(),
		keyspace.UpTo(24*time.Hour),
		keyspace.Doc{Purpose: "wrong passwords and codes of an address; at the limit log-in is locked", InvalidatedBy: []string{"log-in"}, MaxBytes: 8})

	cardKey = keyspace.Def1[ID](Keys, "user:qrcode:user:{uid}", keyspace.CachedOf[Card](),
		keyspace.UpTo(cardLife),
		keyspace.Doc{Purpose: "a user's card, for as long as it is good", InvalidatedBy: []string{CardChanged.Name()}, MaxBytes: 256})

	cardTokenKey = keyspace.Def1[keyspace.Hashed](Keys, "user:qrcode:token:{token}", keyspace.CachedOf[Card](),
		keyspace.UpTo(cardLife),
		keyspace.Doc{Purpose: "whose card it is, for as long as it is good", InvalidatedBy: []string{CardChanged.Name()}, MaxBytes: 256})
)

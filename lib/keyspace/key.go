package keyspace

import (
	"context"
	"time"
)

// A Key is the logical name of one Redis key: the pattern of its family with the arguments filled in, without the
// prefix of the deployment, which the executor adds. Only a [Family] makes Keys, so a Key is always declared and
// escaped, and its type is known. The zero Key has no name.
type Key struct {
	s   string
	fam *Family
}

// String returns the logical key, for example "user:sign:{V1StGXR8_Z5j}:2026".
func (k Key) String() string { return k.s }

// Family returns the declaration this key was made from.
func (k Key) Family() *Family { return k.fam }

// IsZero reports whether k is the zero Key.
func (k Key) IsZero() bool { return k.fam == nil }

// renew must not send PEXPIRE 0 for a key that never expires, because that deletes the key.
func renew(k Key) Cmd {
	life := k.fam.TTL.Draw()
	if life == 0 {
		return Cmd{Name: "PERSIST", Key: k}
	}
	return Cmd{Name: "PEXPIRE", Key: k, Args: []string{Millis(life)}}
}

// DeleteCmd deletes the key, whatever its type; the reply is 1 if it existed.
func (k Key) DeleteCmd() Cmd { return k.plainCmd("UNLINK") }

// Delete deletes the key, whatever its type.
func (k Key) Delete(ctx context.Context, db Executor) error { return db.Do(ctx, k.DeleteCmd()).Err }

// ExistsCmd checks whether the key exists: 1 or 0.
func (k Key) ExistsCmd() Cmd { return k.plainCmd("EXISTS") }

// Exists reports whether the key exists.
func (k Key) Exists(ctx context.Context, db Executor) (bool, error) {
	return db.Do(ctx, k.ExistsCmd()).Bool()
}

// RenewCmd sets the family's TTL again, or removes the TTL if keys of the family never expire; the reply is 1 if that
// changed the key.
func (k Key) RenewCmd() Cmd { return renew(k) }

// Renew sets the family's TTL again. It does not create a missing key.
func (k Key) Renew(ctx context.Context, db Executor) error { return db.Do(ctx, k.RenewCmd()).Err }

// Left returns the remaining TTL, in whole milliseconds; 0 means that the key never expires. ok is false if the key
// does not exist.
func (k Key) Left(ctx context.Context, db Executor) (left time.Duration, ok bool, err error) {
	ms, err := db.Do(ctx, k.plainCmd("PTTL")).Int()
	if err != nil || ms == -2 {
		return 0, false, err
	}
	if ms == -1 {
		return 0, true, nil
	}
	return max(time.Duration(ms), 1) * time.Millisecond, true, nil
}

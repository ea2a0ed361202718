package keyspace

import (
	"context"
	"time"
)

// A Key is the logical name of one Redis key: its family's pattern with the
// arguments filled in, without the deployment's prefix, which the executor
// adds. Only a [Family] makes keys, so a Key is always declared, escaped and of
// a known type. The zero Key names nothing.
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

// renew must not send PEXPIRE 0 for a key that lives for ever: it deletes.
func renew(k Key) Cmd {
	life := k.fam.TTL.Draw()
	if life == 0 {
		return Cmd{Name: "PERSIST", Key: k}
	}
	return Cmd{Name: "PEXPIRE", Key: k, Args: []string{millis(life)}}
}

// DeleteCmd removes the key, whatever its type; the reply is 1 when it was there.
func (k Key) DeleteCmd() Cmd { return k.ask("UNLINK") }

// Delete removes the key, whatever its type.
func (k Key) Delete(ctx context.Context, db Executor) error { return db.Do(ctx, k.DeleteCmd()).Err }

// ExistsCmd asks whether the key is there: 1 or 0.
func (k Key) ExistsCmd() Cmd { return k.ask("EXISTS") }

// Exists reports whether the key is there.
func (k Key) Exists(ctx context.Context, db Executor) (bool, error) {
	return db.Do(ctx, k.ExistsCmd()).Bool()
}

// RenewCmd gives the key its family's life anew, or takes its life away where the family
// lives for ever; the reply is 1 when that changed something.
func (k Key) RenewCmd() Cmd { return renew(k) }

// Renew gives the key its family's life anew. A key that is not there stays so.
func (k Key) Renew(ctx context.Context, db Executor) error { return db.Do(ctx, k.RenewCmd()).Err }

// Left returns how long the key has to live, in whole milliseconds; 0 is for ever. ok is
// false when there is no key.
func (k Key) Left(ctx context.Context, db Executor) (left time.Duration, ok bool, err error) {
	ms, err := db.Do(ctx, k.ask("PTTL")).Int()
	if err != nil || ms == -2 {
		return 0, false, err
	}
	if ms == -1 {
		return 0, true, nil
	}
	return max(time.Duration(ms), 1) * time.Millisecond, true, nil
}

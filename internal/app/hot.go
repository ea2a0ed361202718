package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/keyspace/audit"
	"github.com/stoa-dev/stoa/lib/redis"
)

const (
	hotEvery = 15 * time.Second
	// hotLife is how long a node's note is valid without a newer one.
	hotLife = time.Minute
)

// hotNote lists the keys that a node uses most.
type hotNote struct {
	At   int64       `json:"at"` // Unix milliseconds
	Keys []audit.Hot `json:"keys"`
}

func (n *hotNote) old(now time.Time) bool { return now.Sub(time.UnixMilli(n.At)) > hotLife }

// writeHotKeys stores the keys that this node uses most, and deletes the entries of dead nodes. It does nothing without
// Redis.
func (a *App) writeHotKeys(ctx context.Context) error {
	note := hotNote{At: time.Now().UnixMilli()}
	for _, k := range a.redis.HotKeys() {
		note.Keys = append(note.Keys, audit.Hot{Key: a.redis.Physical(k.Key), Family: k.Key.Family().Pattern, PerSecond: k.PerSecond})
	}
	if len(note.Keys) == 0 {
		return nil // the earlier note expires
	}
	err := func() error {
		text, err := json.Marshal(note)
		if err != nil {
			return err
		}
		notes, err := hotKey.At().All(ctx, a.redis)
		if err != nil {
			return err
		}
		cmds := []keyspace.Cmd{hotKey.At().SetCmd(a.node, string(text))}
		for node, text := range notes {
			var other hotNote
			if json.Unmarshal([]byte(text), &other) != nil || other.old(time.Now()) {
				cmds = append(cmds, keyspace.Cmd{Name: "HDEL", Key: hotKey.At().Key, Args: []string{node}})
			}
		}
		cmds = append(cmds, keyspace.Cmd{Name: "PEXPIRE", Key: hotKey.At().Key, Args: []string{keyspace.Millis(hotLife)}})
		return keyspace.FirstErr(a.redis.DoMulti(ctx, cmds))
	}()
	if errors.Is(err, redis.ErrUnavailable) {
		return nil
	}
	return err
}

// HotKeys returns the keys that all nodes together use most, in descending order.
func HotKeys(ctx context.Context, db *redis.DB) ([]audit.Hot, error) {
	notes, err := hotKey.At().All(ctx, db)
	if err != nil {
		return nil, err
	}
	sum := map[string]audit.Hot{}
	for _, text := range notes {
		var n hotNote
		if err := json.Unmarshal([]byte(text), &n); err != nil || n.old(time.Now()) {
			continue // from another version, or from a node that no longer runs
		}
		for _, k := range n.Keys {
			k.PerSecond += sum[k.Key].PerSecond
			sum[k.Key] = k
		}
	}
	var all []audit.Hot
	for _, k := range sum {
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b audit.Hot) int {
		return cmp.Or(cmp.Compare(b.PerSecond, a.PerSecond), cmp.Compare(a.Key, b.Key))
	})
	return all, nil
}

package keyspace

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// AddCmd appends an entry of alternating fields and values. keep is the approximate number of entries that the stream
// retains; 0 retains all. The reply is the id of the entry.
func (h Stream) AddCmd(keep int, fields ...string) Cmd {
	args := []string{"*"}
	if keep > 0 {
		args = []string{"MAXLEN", "~", strconv.Itoa(keep), "*"}
	}
	return h.write("XADD", append(args, fields...)...)
}

// Add appends an entry with at least one field, and returns the id of the entry. keep is the approximate number of
// entries that the stream retains; 0 retains all.
func (h Stream) Add(ctx context.Context, db Executor, keep int, fields map[string]string) (id string, err error) {
	args := make([]string, 0, 2*len(fields))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		args = append(args, name, fields[name])
	}
	id, _, err = db.Do(ctx, h.AddCmd(keep, args...)).Text()
	return id, err
}

// RangeCmd gets up to n entries from one id to another, both included; "-" is the first and "+" the last.
func (h Stream) RangeCmd(from, to string, n int) Cmd {
	return h.plainCmd("XRANGE", from, to, "COUNT", strconv.Itoa(n))
}

// Range returns up to n entries from one id to another, both included; "-" is the first and "+" the last. "(" before an
// id excludes that entry: use it to get the next page after the last entry of this one. "(" needs Redis 6.2.
func (h Stream) Range(ctx context.Context, db Executor, from, to string, n int) ([]StreamEntry, error) {
	return db.Do(ctx, h.RangeCmd(from, to, n)).Entries()
}

// RangeBackCmd is RangeCmd in reverse order, the newest entry first: from is the later id.
func (h Stream) RangeBackCmd(from, to string, n int) Cmd {
	return h.plainCmd("XREVRANGE", from, to, "COUNT", strconv.Itoa(n))
}

// RangeBack is Range in reverse order, the newest entry first; from "+" to "-" returns all.
func (h Stream) RangeBack(ctx context.Context, db Executor, from, to string, n int) ([]StreamEntry, error) {
	return db.Do(ctx, h.RangeBackCmd(from, to, n)).Entries()
}

// LenCmd gets the number of entries.
func (h Stream) LenCmd() Cmd { return h.plainCmd("XLEN") }

// Len returns the number of entries.
func (h Stream) Len(ctx context.Context, db Executor) (int64, error) {
	return db.Do(ctx, h.LenCmd()).Int()
}

// RemoveCmd deletes entries; the reply is the number of deleted entries.
func (h Stream) RemoveCmd(ids ...string) Cmd { return h.plainCmd("XDEL", ids...) }

// Remove deletes entries and returns the number of deleted entries.
func (h Stream) Remove(ctx context.Context, db Executor, ids ...string) (int64, error) {
	return db.Do(ctx, h.RemoveCmd(ids...)).Int()
}

// TrimCmd deletes all entries except exactly the newest keep; the reply is the number of deleted entries.
func (h Stream) TrimCmd(keep int) Cmd { return h.plainCmd("XTRIM", "MAXLEN", "=", strconv.Itoa(keep)) }

// Trim deletes all entries except exactly the newest keep, and returns the number of deleted entries.
func (h Stream) Trim(ctx context.Context, db Executor, keep int) (int64, error) {
	return db.Do(ctx, h.TrimCmd(keep)).Int()
}

// JoinCmd creates a consumer group, and the stream if it does not exist.
func (h Stream) JoinCmd(group, after string) Cmd {
	return multiKey([]Key{h.Key}, 1, 1, "XGROUP", "CREATE", group, after, "MKSTREAM")
}

// Join creates a consumer group that gets the entries after an id; "0" means all entries, and "$" only new entries. If
// the stream does not exist, Join creates it with its TTL. If the group already exists, it is not changed and made is
// false.
func (h Stream) Join(ctx context.Context, db Executor, group, after string) (made bool, err error) {
	r := db.Do(ctx, h.JoinCmd(group, after))
	if r.Kind == ErrorReply && strings.Contains(r.Err.Error(), "BUSYGROUP") {
		return false, nil
	}
	return r.Err == nil, r.Err
}

// ReadCmd gets up to n new entries for a consumer of a group; see Read.
func (h Stream) ReadCmd(group, consumer string, n int) Cmd {
	args := []string{"GROUP", group, consumer, "COUNT", strconv.Itoa(n), "STREAMS"}
	return multiKey([]Key{h.Key}, 0, len(args), "XREADGROUP", append(args, ">")...)
}

// Read gets up to n entries that no consumer of the group has received yet, and does not wait for entries. An entry is
// pending for its consumer until Done, or until Claim assigns it to another consumer. The group must exist; see Join.
func (h Stream) Read(ctx context.Context, db Executor, group, consumer string, n int) ([]StreamEntry, error) {
	streams, err := db.Do(ctx, h.ReadCmd(group, consumer, n)).Items()
	if err != nil || len(streams) == 0 {
		return nil, err
	}
	pair, err := streams[0].Items()
	if err != nil || len(pair) != 2 {
		return nil, err
	}
	return pair[1].Entries()
}

// DoneCmd acknowledges entries; the reply is the number of entries that were pending.
func (h Stream) DoneCmd(group string, ids ...string) Cmd {
	return h.plainCmd("XACK", append([]string{group}, ids...)...)
}

// Done acknowledges entries, and returns the number of entries that were pending.
func (h Stream) Done(ctx context.Context, db Executor, group string, ids ...string) (int64, error) {
	return db.Do(ctx, h.DoneCmd(group, ids...)).Int()
}

// ClaimCmd assigns to a consumer up to n entries that have been pending for at least idle. It only scans the first
// pending entries; see Claim.
func (h Stream) ClaimCmd(group, consumer string, idle time.Duration, n int) Cmd {
	return h.claimCmd(group, consumer, idle, claimStart, n)
}

// claimStart is the cursor of the first pending entry, and claimEnd is the cursor after a complete scan.
const claimStart, claimEnd = "0", "0-0"

func (h Stream) claimCmd(group, consumer string, idle time.Duration, from string, n int) Cmd {
	return h.plainCmd("XAUTOCLAIM", group, consumer, Millis(idle), from, "COUNT", strconv.Itoa(n))
}

// Claim assigns to a consumer up to n entries that have been pending for at least idle, in whole milliseconds, for
// example because their consumer has crashed. Each round trip scans ten times n pending entries. Claim repeats until it
// has n entries or has scanned all. It needs Redis 6.2.
func (h Stream) Claim(ctx context.Context, db Executor, group, consumer string, idle time.Duration, n int) (all []StreamEntry, err error) {
	for from := claimStart; ; {
		items, err := db.Do(ctx, h.claimCmd(group, consumer, idle, from, n-len(all))).Items()
		var claimed []StreamEntry
		if err == nil && len(items) >= 2 {
			from, _, err = items[0].Text()
			if err == nil {
				claimed, err = items[1].Entries()
			}
		}
		if all = append(all, claimed...); err != nil && len(all) > 0 {
			return all, nil // the consumer already owns these entries
		}
		if err != nil || len(items) < 2 || len(all) >= n || from == claimEnd {
			return all, err
		}
	}
}

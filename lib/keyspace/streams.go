package keyspace

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// AddCmd appends an entry of fields and values by turns, and keeps about that many
// entries, all with 0; the reply is the entry's id.
func (h Stream) AddCmd(keep int, fields ...string) Cmd {
	args := []string{"*"}
	if keep > 0 {
		args = []string{"MAXLEN", "~", strconv.Itoa(keep), "*"}
	}
	return h.write("XADD", append(args, fields...)...)
}

// Add appends an entry, which has a field at least, keeps about that many entries, all
// with 0, and returns the entry's id.
func (h Stream) Add(ctx context.Context, db Executor, keep int, fields map[string]string) (id string, err error) {
	args := make([]string, 0, 2*len(fields))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		args = append(args, name, fields[name])
	}
	id, _, err = db.Do(ctx, h.AddCmd(keep, args...)).Text()
	return id, err
}

// RangeCmd asks for up to n entries from one id to another, both included; "-" is the
// first and "+" the last.
func (h Stream) RangeCmd(from, to string, n int) Cmd {
	return h.ask("XRANGE", from, to, "COUNT", strconv.Itoa(n))
}

// Range returns up to n entries from one id to another, both included; "-" is the first
// and "+" the last. "(" before an id leaves it out, so that the next page begins behind
// the last entry of this one; that needs Redis 6.2.
func (h Stream) Range(ctx context.Context, db Executor, from, to string, n int) ([]StreamEntry, error) {
	return db.Do(ctx, h.RangeCmd(from, to, n)).Entries()
}

// RangeBackCmd is RangeCmd from the newest entry on: from is the later id.
func (h Stream) RangeBackCmd(from, to string, n int) Cmd {
	return h.ask("XREVRANGE", from, to, "COUNT", strconv.Itoa(n))
}

// RangeBack is Range from the newest entry on: "+" and "-" are all.
func (h Stream) RangeBack(ctx context.Context, db Executor, from, to string, n int) ([]StreamEntry, error) {
	return db.Do(ctx, h.RangeBackCmd(from, to, n)).Entries()
}

// LenCmd asks how many entries there are.
func (h Stream) LenCmd() Cmd { return h.ask("XLEN") }

// Len returns how many entries there are.
func (h Stream) Len(ctx context.Context, db Executor) (int64, error) {
	return db.Do(ctx, h.LenCmd()).Int()
}

// RemoveCmd takes entries out; the reply is how many were there.
func (h Stream) RemoveCmd(ids ...string) Cmd { return h.ask("XDEL", ids...) }

// Remove takes entries out and returns how many were there.
func (h Stream) Remove(ctx context.Context, db Executor, ids ...string) (int64, error) {
	return db.Do(ctx, h.RemoveCmd(ids...)).Int()
}

// TrimCmd keeps the newest entries, exactly that many; the reply is how many went.
func (h Stream) TrimCmd(keep int) Cmd { return h.ask("XTRIM", "MAXLEN", "=", strconv.Itoa(keep)) }

// Trim keeps the newest entries, exactly that many, and returns how many went.
func (h Stream) Trim(ctx context.Context, db Executor, keep int) (int64, error) {
	return db.Do(ctx, h.TrimCmd(keep)).Int()
}

// JoinCmd makes a group of consumers, and the stream if there is none.
func (h Stream) JoinCmd(group, after string) Cmd {
	return placed([]Key{h.Key}, 1, 1, "XGROUP", "CREATE", group, after, "MKSTREAM")
}

// Join makes a group of consumers that gets the entries behind an id, "0" for all and "$"
// for those to come. The stream is made, and gets its life, if there is none; a group that
// is there already stays as it is, and made is false.
func (h Stream) Join(ctx context.Context, db Executor, group, after string) (made bool, err error) {
	r := db.Do(ctx, h.JoinCmd(group, after))
	if r.Kind == ErrorReply && strings.Contains(r.Err.Error(), "BUSYGROUP") {
		return false, nil
	}
	return r.Err == nil, r.Err
}

// ReadCmd gives a consumer of a group up to n entries that no consumer had; see Read.
func (h Stream) ReadCmd(group, consumer string, n int) Cmd {
	args := []string{"GROUP", group, consumer, "COUNT", strconv.Itoa(n), "STREAMS"}
	return placed([]Key{h.Key}, 0, len(args), "XREADGROUP", append(args, ">")...)
}

// Read gives a consumer of a group up to n entries that no consumer had, and does not
// wait for any. Each is its consumer's until Done, or until another takes it over with
// Claim. The group must be there, see Join.
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

// DoneCmd says that entries are dealt with; the reply is how many of them were open.
func (h Stream) DoneCmd(group string, ids ...string) Cmd {
	return h.ask("XACK", append([]string{group}, ids...)...)
}

// Done says that entries are dealt with, and returns how many of them were open.
func (h Stream) Done(ctx context.Context, db Executor, group string, ids ...string) (int64, error) {
	return db.Do(ctx, h.DoneCmd(group, ids...)).Int()
}

// ClaimCmd gives a consumer up to n entries that others have kept for so long, of the first that are
// open; see Claim.
func (h Stream) ClaimCmd(group, consumer string, idle time.Duration, n int) Cmd {
	return h.claimCmd(group, consumer, idle, claimStart, n)
}

// claimStart is where the open entries begin, and claimEnd says that all were looked at.
const claimStart, claimEnd = "0", "0-0"

func (h Stream) claimCmd(group, consumer string, idle time.Duration, from string, n int) Cmd {
	return h.ask("XAUTOCLAIM", group, consumer, millis(idle), from, "COUNT", strconv.Itoa(n))
}

// Claim gives a consumer up to n entries that others have kept open for so long, in whole
// milliseconds: those of a consumer that died. It looks at ten times n open entries in one round trip,
// and goes on until it has found n or has looked at all. It needs Redis 6.2.
func (h Stream) Claim(ctx context.Context, db Executor, group, consumer string, idle time.Duration, n int) (all []StreamEntry, err error) {
	for from := claimStart; ; {
		items, err := db.Do(ctx, h.claimCmd(group, consumer, idle, from, n-len(all))).Items()
		var some []StreamEntry
		if err == nil && len(items) >= 2 {
			from, _, err = items[0].Text()
			if err == nil {
				some, err = items[1].Entries()
			}
		}
		if all = append(all, some...); err != nil && len(all) > 0 {
			return all, nil // these are the consumer's now
		}
		if err != nil || len(items) < 2 || len(all) >= n || from == claimEnd {
			return all, err
		}
	}
}

package checkin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/checkin/records"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

const (
	// redisBudget bounds a caller's wait for one response of Redis, before SQL is used. The embedded engine gets more
	// time, because it may be slow but is never away.
	redisBudget    = 50 * time.Millisecond
	embeddedBudget = time.Second
)

// redisStore has every Redis call of this package. It embeds the calls for the records, from package records, and adds
// those for the claims of redis-first mode.
type redisStore struct {
	*records.Store
	db *redis.DB
}

func newRedisStore(db *redis.DB, pace Pace, mode string) *redisStore {
	budget := redisBudget
	switch {
	case mode == RedisFirst:
		budget = firstBudget
	case db.Mode() == "embedded":
		budget = embeddedBudget
	}
	return &redisStore{records.New(records.Config{Redis: db, Budget: cmp.Or(pace.Budget, budget), ScanPage: pace.ScanPage}), db}
}

// patient returns s with the time limits of background work.
func (s *redisStore) patient() *redisStore { return &redisStore{s.Patient(), s.db} }

// rank sends the commands that move users on the boards, in one round trip.
func (s *redisStore) rank(ctx context.Context, boards []keyspace.Cmd) error {
	if len(boards) == 0 {
		return nil
	}
	if err := keyspace.FirstErr(s.Send(ctx, boards)); err != nil {
		return fmt.Errorf("boards: %w", err)
	}
	return nil
}

// writeRecords merges the records that were computed from the log into Redis. A merge preserves newer days.
func (s *redisStore) writeRecords(ctx context.Context, states []state) error {
	var lost, keys, perhaps []records.Key
	var recs, merged []*streak.Record
	for _, st := range states {
		lost = append(lost, st.lost...)
		for _, k := range st.records {
			keys, recs = append(keys, k), append(recs, streak.RecordOf(k.Year, st.history))
		}
		for _, k := range st.held {
			perhaps, merged = append(perhaps, k), append(merged, streak.RecordOf(k.Year, st.history))
		}
	}
	if err := s.Drop(ctx, lost); err != nil {
		return err
	}
	found, err := s.Held(ctx, perhaps)
	if err != nil {
		return err
	}
	for i, h := range found {
		if h.There && !h.Foreign { // the next read loads the others
			keys, recs = append(keys, perhaps[i]), append(recs, merged[i])
		}
	}
	return s.Load(ctx, keys, recs)
}

// claim claims the days of requests, in one round trip. A day goes to its request, unless another request was first. A
// day that is already signed stays without an owner.
func (s *redisStore) claim(ctx context.Context, reqs []request, signed func(request) bool) ([]*row, error) {
	readOnly := make([]bool, len(reqs))
	cmds := make([]keyspace.Cmd, len(reqs))
	for i, r := range reqs {
		key := claimKeys.At(r.user, dayKey(r.day))
		if readOnly[i] = signed(r); readOnly[i] {
			cmds[i] = keyspace.Cmd{Name: "GET", Key: key.Key}
			continue
		}
		cmds[i] = key.SetCmd(claimText(r), claimKeys.TTL.Draw())
		cmds[i].Args = append(cmds[i].Args, "NX", "GET")
	}
	out := make([]*row, len(reqs))
	for i, reply := range s.Send(ctx, cmds) {
		text, found, err := reply.Text()
		if err != nil {
			return nil, err
		}
		switch own, ok := reqs[i], true; {
		case found:
			if own, ok = parseClaim(own.user, own.day, text); !ok {
				return nil, fmt.Errorf("%w: a claim", keyspace.ErrReply)
			}
			fallthrough
		case !readOnly[i]:
			out[i] = &row{at: own.at.UnixMilli(), kind: own.kind, req: own.req}
		}
	}
	return out, nil
}

func dayKey(d civil.Day) keyspace.Int { return keyspace.Int{N: int64(d)} }

func claimText(r request) string {
	return fmt.Sprintf("%d %d %d %d %d", r.at.UnixMilli(), r.kind, r.req, r.act.Words, r.act.Minutes)
}

func parseClaim(user accounts.ID, day civil.Day, text string) (request, bool) {
	r := request{user: user, day: day}
	var at int64
	n, err := fmt.Sscanf(text, "%d %d %d %d %d", &at, &r.kind, &r.req, &r.act.Words, &r.act.Minutes)
	r.at = time.UnixMilli(at)
	return r, err == nil && n == 5 && text == claimText(r)
}

// claims returns a user's claims of the days from first to last.
func (s *redisStore) claims(ctx context.Context, users []accounts.ID, first, last civil.Day) (out []request, err error) {
	var cmds []keyspace.Cmd
	for _, user := range users {
		cmd := keyspace.Cmd{Name: "MGET", Key: claimKeys.At(user, dayKey(first)).Key}
		for d := first + 1; d <= last; d++ {
			cmd.More = append(cmd.More, claimKeys.At(user, dayKey(d)).Key)
		}
		cmds = append(cmds, cmd)
	}
	for i, reply := range s.Send(ctx, cmds) {
		items, err := reply.Items()
		if err != nil {
			return nil, err
		}
		for j, item := range items {
			if r, ok := parseClaim(users[i], first+civil.Day(j), item.Str); ok {
				out = append(out, r)
			}
		}
	}
	return out, nil
}

// claimed returns the existing claims of these days.
func (s *redisStore) claimed(ctx context.Context, keys []rowKey) (map[rowKey]request, error) {
	replies := s.Send(ctx, mapped(keys, func(k rowKey) keyspace.Cmd {
		return keyspace.Cmd{Name: "GET", Key: claimKeys.At(k.user, dayKey(k.day)).Key}
	}))
	if err := keyspace.FirstErr(replies); err != nil {
		return nil, err
	}
	out := make(map[rowKey]request, len(keys))
	for i, reply := range replies {
		if r, ok := parseClaim(keys[i].user, keys[i].day, reply.Str); ok {
			out[keys[i]] = r
		}
	}
	return out, nil
}

var claimParser = keyspace.ParserOf(claimKeys.Family)

// claimsPage returns the claims in the next page of all keys, and the cursor of the page after it, like
// [records.Store.Page].
func (s *redisStore) claimsPage(ctx context.Context, cursor string) (rows []request, next string, err error) {
	names, next, err := s.Page(ctx, cursor)
	if err != nil {
		return nil, "", err
	}
	var keys []rowKey
	for _, name := range names {
		found, ok := claimParser.Key(name)
		if !ok {
			continue
		}
		user, err := ids.Parse[accounts.User](found.Args[0])
		if err != nil {
			continue // the form of the key allows no other; see keys.go
		}
		day, err := strconv.ParseInt(found.Args[1], 10, 32)
		if err != nil {
			continue // no day of a calendar
		}
		keys = append(keys, rowKey{user, civil.Day(day)})
	}
	if len(keys) == 0 {
		return nil, next, nil
	}
	claims, err := s.claimed(ctx, keys)
	return slices.Collect(maps.Values(claims)), next, err
}

// risks returns what this Redis may lose of the writes that it has acknowledged, for each server. It returns
// [redis.ErrUnavailable] if a server did not respond, and another error if Redis cannot store data durably.
func (s *redisStore) risks(ctx context.Context) (risks []string, err error) {
	servers, err := s.db.Info(ctx)
	if err != nil {
		return nil, err
	}
	for _, server := range servers {
		version := server.Fields["redis_version"]
		major, _, _ := strings.Cut(version, ".")
		n, _ := strconv.Atoi(major)
		switch {
		case errors.Is(server.Err, redis.ErrUnavailable):
			return nil, server.Err
		case server.Err != nil:
			risks = append(risks, server.Addr+" does not return its settings: "+server.Err.Error())
		case n < 7:
			return nil, fmt.Errorf("checkin.mode = redis needs Redis 7.0 or later, and %s is %s", server.Addr, version)
		case server.Fields["aof_enabled"] != "1":
			risks = append(risks, server.Addr+": AOF is off: a restart loses check-ins that are not yet in SQL")
		}
	}
	// Both settings are needed: with no-appendfsync-on-rewrite, a rewrite of the file suspends appendfsync.
	const sync, pause = "appendfsync", "no-appendfsync-on-rewrite"
	if servers, err = s.db.Settings(ctx, sync, pause); err != nil {
		return nil, err
	}
	for _, server := range servers {
		if errors.Is(server.Err, redis.ErrUnavailable) {
			return nil, server.Err
		}
		if server.Err != nil {
			risks = append(risks, fmt.Sprintf("%s does not tell %s, which should be always, and %s, which should be no (stoa keys acl "+
				"--config-get lets it): %v",
				server.Addr, sync, pause, server.Err))
			continue
		}
		if is := server.Fields[sync]; is != "always" {
			risks = append(risks, server.Addr+" has "+sync+" "+is+
				": a failure of the machine loses some seconds of check-ins that are not yet in SQL")
		}
		if is := server.Fields[pause]; is != "no" {
			risks = append(risks, server.Addr+" has "+pause+" "+is+
				": a failure of the machine while redis saves or rewrites its file loses the check-ins of that time that are not yet in SQL")
		}
	}
	return risks, nil
}

// errBehind reports that the call needs a complete Redis.
var errBehind = fmt.Errorf("%w, or not complete yet", redis.ErrUnavailable)

// unclaim deletes a user's claims of the days from first to last.
func (s *redisStore) unclaim(ctx context.Context, user accounts.ID, first, last civil.Day) error {
	cmd := keyspace.Cmd{Name: "UNLINK", Key: claimKeys.At(user, dayKey(first)).Key}
	for d := first + 1; d <= last; d++ {
		cmd.More = append(cmd.More, claimKeys.At(user, dayKey(d)).Key)
	}
	return keyspace.FirstErr(s.Send(ctx, []keyspace.Cmd{cmd}))
}

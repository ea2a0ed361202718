package live

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

var (
	//go:embed lua/report.lua
	reportSource string
	//go:embed lua/clear.lua
	clearSource string

	reportScript = redis.NewScript(reportSource)
	clearScript  = redis.NewScript(clearSource)
)

// errOvertaken reports that another publisher has a newer token.
var errOvertaken = errors.New("live: another publisher has the lease")

// viewerLife is the time until a viewer expires unless its node renews it.
const viewerLife = 30 * time.Second

// redisStore has all Redis calls of this package.
type redisStore struct{ db *redis.DB }

// isUnavailable reports whether Redis is unavailable.
func isUnavailable(err error) bool { return errors.Is(err, redis.ErrUnavailable) }

func text(n int64) string { return strconv.FormatInt(n, 10) }

// report stores the info and figures of a stream, and returns its number of viewers. It returns errOvertaken.
func (s *redisStore) report(ctx context.Context, id ID, a OnAir, c Stats, now time.Time) (int, error) {
	info, err := json.Marshal(a)
	if err != nil {
		return 0, err
	}
	n, err := reportScript.Run(ctx, s.db, []keyspace.Key{fenceKeys.At(id).Key, infoKeys.At(id).Key, statsKeys.At(id).Key,
		subscriberKeys.At(id).Key},
		text(a.Token), string(info), text(infoLife.Milliseconds()), text(statsLife.Milliseconds()), text(now.UnixMilli()), text(c.Bitrate),
		text(c.Packets), text(c.Bytes), text(c.Lost)).Int()
	if err == nil && n < 0 {
		err = errOvertaken
	}
	return int(n), err
}

// clear deletes the info and figures of a stream. It returns errOvertaken.
func (s *redisStore) clear(ctx context.Context, id ID, token int64) error {
	n, err := clearScript.Run(ctx, s.db, []keyspace.Key{fenceKeys.At(id).Key, infoKeys.At(id).Key, statsKeys.At(id).Key}, text(token)).Int()
	if err == nil && n == 0 {
		err = errOvertaken
	}
	return err
}

// forget deletes the keys of a deleted stream, except the fence, which refuses its last publisher.
func (s *redisStore) forget(ctx context.Context, id ID) error {
	return s.db.Do(ctx, keyspace.Cmd{Name: "UNLINK", Key: infoKeys.At(id).Key,
		More: []keyspace.Key{statsKeys.At(id).Key, subscriberKeys.At(id).Key}}).Err
}

// states returns the present states of streams, in one round trip.
func (s *redisStore) states(ctx context.Context, list []ID, now time.Time) (map[ID]State, error) {
	const each = 4
	cmds := make([]keyspace.Cmd, 0, each*len(list))
	for _, id := range list {
		cmds = append(cmds, keyspace.Cmd{Name: "GET", Key: publisherKeys.At(id).Key}, keyspace.Cmd{Name: "GET", Key: infoKeys.At(id).Key},
			keyspace.Cmd{Name: "HGETALL", Key: statsKeys.At(id).Key},
			keyspace.Cmd{Name: "ZCOUNT", Key: subscriberKeys.At(id).Key, Args: []string{"(" + text(now.UnixMilli()), "+inf"}})
	}
	all := make(map[ID]State, len(list))
	replies := s.db.DoMulti(ctx, cmds)
	if err := keyspace.FirstErr(replies); err != nil {
		return nil, err
	}
	for i, part := range slices.Collect(slices.Chunk(replies, each)) {
		state, err := parseState(part)
		if err != nil {
			return nil, err
		}
		all[list[i]] = state
	}
	return all, nil
}

// parseState returns the state in the replies for one stream.
func parseState(r []keyspace.Reply) (s State, err error) {
	held, _, heldErr := r[0].Text()
	info, found, infoErr := r[1].Text()
	fields, fieldsErr := r[2].Items()
	viewers, viewersErr := r[3].Int()
	if err := errors.Join(heldErr, infoErr, fieldsErr, viewersErr); err != nil || !found {
		return State{}, err
	}
	var a OnAir
	token, _, _ := strings.Cut(held, " ")
	if json.Unmarshal([]byte(info), &a) != nil || token != text(a.Token) {
		return State{}, nil // the info is of an earlier publisher
	}
	s.OnAir, s.Stats.Viewers = &a, int(viewers)
	for pair := range slices.Chunk(fields, 2) {
		if len(pair) < 2 {
			break
		}
		n, _ := strconv.ParseInt(pair[1].Str, 10, 64)
		switch pair[0].Str {
		case "bitrate":
			s.Stats.Bitrate = n
		case "packets":
			s.Stats.Packets = n
		case "bytes":
			s.Stats.Bytes = n
		case "lost":
			s.Stats.Lost = n
		}
	}
	return s, nil
}

// entry returns the member of the sorted set for a viewer.
func (w Watching) entry() string {
	user := "-"
	if !w.User.IsZero() {
		user = w.User.String()
	}
	return w.Session.String() + "." + w.Node + "." + user
}

// renew makes viewers valid for another viewerLife and deletes expired ones, in one round trip.
func (s *redisStore) renew(ctx context.Context, viewers map[ID][]Watching, now time.Time) error {
	var cmds []keyspace.Cmd
	for id, list := range viewers {
		key := subscriberKeys.At(id).Key
		if len(list) > 0 {
			add := keyspace.Cmd{Name: "ZADD", Key: key}
			for _, w := range list {
				add.Args = append(add.Args, text(now.Add(viewerLife).UnixMilli()), w.entry())
			}
			cmds = append(cmds, add)
		}
		cmds = append(cmds, keyspace.Cmd{Name: "ZREMRANGEBYSCORE", Key: key, Args: []string{"-inf", text(now.UnixMilli())}},
			keyspace.Cmd{Name: "PEXPIRE", Key: key, Args: []string{text(subscribersLife.Milliseconds())}})
	}
	if len(cmds) == 0 {
		return nil
	}
	return keyspace.FirstErr(s.db.DoMulti(ctx, cmds))
}

// deleteViewer deletes a viewer.
func (s *redisStore) deleteViewer(ctx context.Context, id ID, w Watching) error {
	return s.db.Do(ctx, keyspace.Cmd{Name: "ZREM", Key: subscriberKeys.At(id).Key, Args: []string{w.entry()}}).Err
}

// mostViewers is the largest number of viewers in a list.
const mostViewers = 1000

// viewers returns at most mostViewers viewers of a stream.
func (s *redisStore) viewers(ctx context.Context, id ID, now time.Time) ([]Watching, error) {
	items, err := s.db.Do(ctx, keyspace.Cmd{Name: "ZRANGEBYSCORE", Key: subscriberKeys.At(id).Key,
		Args: []string{"(" + text(now.UnixMilli()), "+inf", "LIMIT", "0", strconv.Itoa(mostViewers)}}).Items()
	var all []Watching
	for _, it := range items {
		parts := strings.SplitN(it.Str, ".", 3)
		if len(parts) != 3 {
			continue
		}
		w := Watching{Node: parts[1]}
		var bad error
		if w.Session, bad = ids.Parse[Session](parts[0]); bad != nil {
			continue
		}
		w.User, _ = ids.Parse[accounts.User](parts[2])
		all = append(all, w)
	}
	return all, err
}

// withPublisher reports which streams have a publisher, or will have one at once, in one round trip.
func (s *redisStore) withPublisher(ctx context.Context, list []ID) (map[ID]bool, error) {
	cmds := make([]keyspace.Cmd, len(list))
	for i, id := range list {
		cmds[i] = keyspace.Cmd{Name: "EXISTS", Key: publisherKeys.At(id).Key}
	}
	all := make(map[ID]bool, len(list))
	for i, r := range s.db.DoMulti(ctx, cmds) {
		n, err := r.Int()
		if err != nil {
			return nil, err
		}
		all[list[i]] = n > 0
	}
	return all, nil
}

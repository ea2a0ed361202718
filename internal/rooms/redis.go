package rooms

import (
	"context"
	_ "embed"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/rooms/playback"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

var (
	//go:embed lua/command.lua
	commandSource string
	//go:embed lua/load.lua
	loadSource string
	//go:embed lua/buffer.lua
	bufferSource string

	commandScript = redis.NewScript(commandSource)
	loadScript    = redis.NewScript(loadSource)
	bufferScript  = redis.NewScript(bufferSource)
)

// redisStore has all Redis calls of this package.
type redisStore struct{ db *redis.DB }

// errNoState reports that Redis has no register of a room.
var errNoState = errors.New("rooms: Redis has no such register")

// redisUnavailable reports whether Redis is unavailable.
func redisUnavailable(err error) bool { return errors.Is(err, redis.ErrUnavailable) }

func text(n int64) string { return strconv.FormatInt(n, 10) }

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// stateFields are the fields of a register, in the order of the scripts.
var stateFields = []string{"g", "v", "i", "p", "t", "r", "s", "h"}

func stateArgs(s playback.State) []string {
	return []string{text(s.Generation), text(s.Version), s.Item, text(s.Position), text(s.Time), text(s.Rate), flag(s.Paused), flag(s.Held)}
}

// parseState returns the register of a reply, or errNoState if it has none.
func parseState(list []keyspace.Reply) (s playback.State, err error) {
	if len(list) != len(stateFields) {
		return s, keyspace.ErrReply
	}
	if list[0].Nil() {
		return s, errNoState
	}
	for i, to := range []*int64{&s.Generation, &s.Version, nil, &s.Position, &s.Time, &s.Rate} {
		if to != nil {
			var fault error
			*to, fault = strconv.ParseInt(list[i].Str, 10, 64)
			err = errors.Join(err, fault)
		}
	}
	s.Item, s.Paused, s.Held = list[2].Str, list[6].Str == "1", list[7].Str == "1"
	return s, err
}

// states returns the registers of rooms in one round trip. Rooms without a register are omitted.
func (s *redisStore) states(ctx context.Context, list []ID) (map[ID]playback.State, error) {
	cmds := make([]keyspace.Cmd, len(list))
	for i, id := range list {
		cmds[i] = keyspace.Cmd{Name: "HMGET", Key: stateKeys.At(id).Key, Args: stateFields}
	}
	all := make(map[ID]playback.State, len(list))
	for i, r := range s.db.DoMulti(ctx, cmds) {
		fields, err := r.Items()
		if err != nil {
			return nil, err
		}
		switch state, err := parseState(fields); {
		case errors.Is(err, errNoState):
		case err != nil:
			return nil, err
		default:
			all[list[i]] = state
		}
	}
	return all, nil
}

// command runs a command at a time of the servers' clock, and returns the resulting register. It returns false if the
// sender saw another register, and errNoState if there is none.
func (s *redisStore) command(ctx context.Context, id ID, c playback.Command, now time.Time) (playback.State, bool, error) {
	list, err := commandScript.Run(ctx, s.db, []keyspace.Key{stateKeys.At(id).Key, holdingKeys.At(id).Key}, text(c.Generation),
		text(c.Version), string(c.Verb), text(now.UnixMilli()),
		text(c.Position), text(c.Rate), c.Item, text(stateLife.Milliseconds()), text(playback.MaxPosition), text(playback.MaxAhead)).Items()
	switch {
	case err != nil:
		return playback.State{}, false, err
	case len(list) == 0:
		return playback.State{}, false, keyspace.ErrReply
	case list[0].N < 0:
		return playback.State{}, false, errNoState
	}
	state, err := parseState(list[1:])
	return state, list[0].N == 1, err
}

// load stores a register unless Redis has another one than old, and returns the register that Redis has then.
func (s *redisStore) load(ctx context.Context, id ID, state, old playback.State) (playback.State, error) {
	list, err := loadScript.Run(ctx, s.db, []keyspace.Key{stateKeys.At(id).Key},
		append([]string{text(stateLife.Milliseconds()), text(old.Generation), text(old.Version)}, stateArgs(state)...)...).Items()
	if err != nil {
		return playback.State{}, err
	}
	return parseState(list)
}

// buffer records whether a viewer's player waits for data. For the zero viewer it records nothing. It returns the
// number of viewers that the room waits for.
func (s *redisStore) buffer(ctx context.Context, id ID, user ParticipantID, waiting bool, now time.Time) (int64, error) {
	until := int64(0)
	if waiting {
		until = now.Add(bufferingLife).UnixMilli()
	}
	return bufferScript.Run(ctx, s.db, []keyspace.Key{bufferingKeys.At(id).Key, holdingKeys.At(id).Key}, text(now.UnixMilli()), user.String(),
		text(until),
		text(now.Add(maxHold).UnixMilli()), text((maxHold + bufferingLife).Milliseconds())).Int()
}

// dropWaiting removes viewers from the waiting players.
func (s *redisStore) dropWaiting(ctx context.Context, id ID, users []ParticipantID) error {
	return keyspace.FirstErr(s.db.DoMulti(ctx, dropWaitingCmds(id, users)))
}

func dropWaitingCmds(id ID, users []ParticipantID) []keyspace.Cmd {
	names := make([]string, len(users))
	for i, u := range users {
		names[i] = u.String()
	}
	return []keyspace.Cmd{{Name: "ZREM", Key: bufferingKeys.At(id).Key, Args: names}, {Name: "ZREM", Key: holdingKeys.At(id).Key, Args: names}}
}

// clearWaiting removes all waiting players of a room.
func (s *redisStore) clearWaiting(ctx context.Context, id ID) error {
	return s.db.Do(ctx, keyspace.Cmd{Name: "UNLINK", Key: bufferingKeys.At(id).Key, More: []keyspace.Key{holdingKeys.At(id).Key}}).Err
}

// isWatching reports whether a viewer watches a room on one of these nodes.
func (s *redisStore) isWatching(ctx context.Context, id ID, user ParticipantID, nodes []string) (bool, error) {
	entries := make([]string, len(nodes))
	for i, node := range nodes {
		entries[i] = entry(user, node)
	}
	list, err := s.db.Do(ctx, keyspace.Cmd{Name: "ZMSCORE", Key: onlineKeys.At(id).Key, Args: entries}).Items()
	return slices.ContainsFunc(list, func(r keyspace.Reply) bool { return !r.Nil() }), err
}

// forget deletes all keys of a closed room.
func (s *redisStore) forget(ctx context.Context, id ID) error {
	return s.db.Do(ctx, keyspace.Cmd{Name: "UNLINK", Key: stateKeys.At(id).Key,
		More: []keyspace.Key{bufferingKeys.At(id).Key, holdingKeys.At(id).Key, onlineKeys.At(id).Key, viewersKeys.At(id).Key}}).Err
}

// Presence is a viewer on a node.
type Presence struct {
	User   ParticipantID
	Active time.Time // last activity
	node   string
}

// entry returns the member of a sorted set for a viewer on a node.
func entry(user ParticipantID, node string) string { return user.String() + "." + node }

// viewerReport is a node's report about the viewers of a room.
type viewerReport struct {
	room    ID
	present map[ParticipantID]time.Time // viewers with their last activity
	left    []ParticipantID
	held    bool // the room may wait for players, including those of viewers who left
}

// writeOnline writes a node's viewers to Redis.
func (s *redisStore) writeOnline(ctx context.Context, node string, reports []viewerReport) error {
	var cmds []keyspace.Cmd
	for _, m := range reports {
		key := onlineKeys.At(m.room).Key
		if len(m.present) > 0 {
			add := keyspace.Cmd{Name: "ZADD", Key: key}
			for user, at := range m.present {
				add.Args = append(add.Args, text(at.UnixMilli()), entry(user, node))
			}
			cmds = append(cmds, add, keyspace.Cmd{Name: "PEXPIRE", Key: key, Args: []string{text(onlineLife.Milliseconds())}})
		}
		if len(m.left) > 0 {
			remove := keyspace.Cmd{Name: "ZREM", Key: key}
			for _, user := range m.left {
				remove.Args = append(remove.Args, entry(user, node))
			}
			cmds = append(cmds, remove)
			if m.held {
				cmds = append(cmds, dropWaitingCmds(m.room, m.left)...)
			}
		}
	}
	if len(cmds) == 0 {
		return nil
	}
	return keyspace.FirstErr(s.db.DoMulti(ctx, cmds))
}

// online returns the entries of viewers in Redis, at most limit for each room (0: all), in one round trip. The
// latest activity is first.
func (s *redisStore) online(ctx context.Context, list []ID, limit int) (map[ID][]Presence, error) {
	cmds := make([]keyspace.Cmd, len(list))
	for i, id := range list {
		cmds[i] = keyspace.Cmd{Name: "ZREVRANGE", Key: onlineKeys.At(id).Key, Args: []string{"0", strconv.Itoa(limit - 1), "WITHSCORES"}}
	}
	all := make(map[ID][]Presence, len(list))
	for i, r := range s.db.DoMulti(ctx, cmds) {
		items, err := r.Items()
		if err != nil {
			return nil, err
		}
		for j := 0; j+1 < len(items); j += 2 {
			name, score := items[j].Str, items[j+1]
			user, node, _ := strings.Cut(name, ".")
			viewer, err := ids.Parse[Participant](user)
			at, _, scoreErr := score.Float()
			if err := errors.Join(err, scoreErr); err != nil {
				return nil, err
			}
			all[list[i]] = append(all[list[i]], Presence{viewer, time.UnixMilli(int64(at)).UTC(), node})
		}
	}
	return all, nil
}

// dropOnline deletes entries whose nodes are dead or no longer have the viewer.
func (s *redisStore) dropOnline(ctx context.Context, id ID, dead []Presence) error {
	cmd := keyspace.Cmd{Name: "ZREM", Key: onlineKeys.At(id).Key}
	for _, p := range dead {
		cmd.Args = append(cmd.Args, entry(p.User, p.node))
	}
	return s.db.Do(ctx, cmd).Err
}

// count is a number of viewers and the node that counted them.
type count struct {
	n    int
	node string
}

// writeCounts stores the numbers of viewers of rooms.
func (s *redisStore) writeCounts(ctx context.Context, node string, counts map[ID]int) error {
	var cmds []keyspace.Cmd
	for id, n := range counts {
		cmds = append(cmds, viewersKeys.At(id).SetCmd(strconv.Itoa(n)+" "+node, viewersLife))
	}
	return keyspace.FirstErr(s.db.DoMulti(ctx, cmds))
}

// counts returns the numbers of viewers that were counted within the last minute, in one round trip.
func (s *redisStore) counts(ctx context.Context, list []ID) (map[ID]count, error) {
	keys := make([]keyspace.Key, len(list))
	for i, id := range list {
		keys[i] = viewersKeys.At(id).Key
	}
	all := make(map[ID]count, len(list))
	for i, r := range s.db.MGet(ctx, keys) {
		if r.Err != nil {
			return nil, r.Err
		}
		n, node, ok := strings.Cut(r.Str, " ")
		if number, err := strconv.Atoi(n); ok && err == nil {
			all[list[i]] = count{number, node}
		}
	}
	return all, nil
}

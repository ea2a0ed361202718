package ranking

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/leaderboard"
)

// patience bounds the wait of background work for Redis.
const patience = 5 * time.Second

// Of returns a board of package leaderboard.
func (bs *Boards) Of(b Board) leaderboard.Board {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if bs.all[b] == nil {
		bs.all[b] = bs.open(b, bs.kind)
	}
	return bs.all[b]
}

func (bs *Boards) open(b Board, kind string) leaderboard.Board {
	if kind == Compact {
		return leaderboard.Compact(bs.redis, CompactKeys(b))
	}
	return leaderboard.Exact(bs.redis, ExactKeys(b))
}

// drop deletes a board of either kind.
func (bs *Boards) drop(ctx context.Context, b Board, kind string) error {
	bs.mu.Lock()
	delete(bs.all, b)
	bs.mu.Unlock()
	return bs.open(b, kind).Drop(ctx)
}

func (bs *Boards) send(ctx context.Context, cmds []keyspace.Cmd) []keyspace.Reply {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return bs.redis.DoMulti(ctx, cmds)
}

// Moves are changes of the boards that go to Redis together. There are few boards, so that finding one takes a
// comparison or two.
type Moves struct {
	Room   int // the expected number of entries of a board; only a guess
	boards []boardMoves
}

type boardMoves struct {
	board   Board
	entries []leaderboard.Entry
}

func (ms *Moves) movesOn(b Board) *boardMoves {
	i := slices.IndexFunc(ms.boards, func(m boardMoves) bool { return m.board == b })
	if i < 0 {
		i = len(ms.boards)
		ms.boards = append(ms.boards, boardMoves{b, make([]leaderboard.Entry, 0, ms.Room)})
	}
	return &ms.boards[i]
}

// Add adds the moves of a placement.
func (ms *Moves) Add(p Placement) {
	for i := range p.boards() {
		b, e := p.entry(i)
		if p.Told != nil && i < p.Told.boards() {
			if same, applied := p.Told.entry(i); same == b {
				e.Told = &applied
			}
		}
		m := ms.movesOn(b)
		m.entries = append(m.entries, e)
	}
}

// boards returns the number of boards of a placement.
func (p *Placement) boards() int { return 2 + len(p.seasons) }

// entry returns the entry of a placement on the i-th of its boards.
func (p *Placement) entry(i int) (b Board, e leaderboard.Entry) {
	var was streak.Score
	if p.From != nil {
		was = *p.From
	}
	switch i {
	case 0:
		b, e = StreakBoard, leaderboard.Entry{Value: int64(p.Streak), At: p.ran, Dies: p.Dies,
			From: leaderboard.Standing{Value: int64(was.Streak), Dies: was.Dies}}
	case 1:
		b, e = TotalBoard, leaderboard.Entry{Value: int64(p.Total), At: p.at, From: leaderboard.Standing{Value: int64(was.Total)}}
	default:
		s := p.seasons[i-2]
		b, e = s.board, leaderboard.Entry{Value: int64(s.days), At: s.at, From: leaderboard.Standing{Value: int64(s.days) - 1}}
	}
	e.Member, e.Replay = p.user.String(), p.From == nil
	e.Restart = p.Restart && i < 2 // a season's days only grow
	return b, e
}

// AppendCmds appends the commands that make the moves.
func (bs *Boards) AppendCmds(cmds []keyspace.Cmd, ms Moves) []keyspace.Cmd {
	for _, m := range ms.boards {
		cmds = append(cmds, bs.Of(m.board).Update(m.entries)...)
	}
	return cmds
}

// Move makes moves on current boards and on those of former seasons, in one round trip. No job sweeps the latter. They
// fold in the moves at once, or discard them if they are not loaded.
func (bs *Boards) Move(ctx context.Context, ms Moves) error {
	now := bs.now()
	moving := Current(now)
	var moves Moves
	var former []leaderboard.Board
	for _, m := range ms.boards {
		if !slices.Contains(moving, m.board) {
			if bs.kind == Exact { // it would store the moves without being loaded
				begun, err := bs.begun(ctx, m.board)
				if err != nil {
					return err
				}
				if !begun {
					continue
				}
			}
			former = append(former, bs.Of(m.board))
		}
		moves.boards = append(moves.boards, m)
	}
	if cmds := bs.AppendCmds(nil, moves); len(cmds) > 0 {
		if err := keyspace.FirstErr(bs.send(ctx, cmds)); err != nil {
			return fmt.Errorf("boards: %w", err)
		}
	}
	for _, b := range former {
		if _, err := b.Sweep(ctx, now); err != nil {
			return err
		}
	}
	return nil
}

// begun reports whether an exact board is loaded, or being loaded. A load that begins later reads all rows that are
// already committed.
func (bs *Boards) begun(ctx context.Context, b Board) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, ok, err := ExactKeys(b).Loaded.Get(ctx, bs.redis)
	return ok, err
}

// Leave removes a user with that history from all stored boards. If the boards may already have the removal, it removes
// the user from every place that is possible.
func (bs *Boards) Leave(ctx context.Context, user accounts.ID, clock civil.Clock, h streak.History, now time.Time, again bool) error {
	p, _ := placementFrom(bs.freezes, user, clock, h)
	if !p.Dies.After(now) {
		p.Streak = 0
	}
	for _, b := range Kept(now) {
		e := leaderboard.Entry{Member: user.String(), Replay: again}
		if !again {
			value := b.value(p.Score)
			if b == StreakBoard {
				e.Dies = p.Dies
			}
			if b.season != 0 {
				value, _ = h.SignedIn(b.Span())
			}
			if e.Value = int64(value); value == 0 {
				continue
			}
		}
		if err := bs.remove(ctx, b, e); err != nil {
			return fmt.Errorf("board %s: %w", b.Key(), err)
		}
	}
	return nil
}

// Remove removes a member from a board. A compact board's counts stay as they are.
func (bs *Boards) Remove(ctx context.Context, b Board, member string) error {
	return bs.remove(ctx, b, leaderboard.Entry{Member: member})
}

func (bs *Boards) remove(ctx context.Context, b Board, e leaderboard.Entry) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return bs.Of(b).Remove(ctx, e)
}

// Members returns some of a board's members and the next cursor. A cursor is "0" at the beginning and empty after the
// last page. Of a compact board, it returns the best members only.
func (bs *Boards) Members(ctx context.Context, b Board, cursor string, n int) (members []string, next string, err error) {
	if bs.kind == Compact {
		top, err := bs.Of(b).Top(ctx, bs.now(), leaderboard.MaxTop)
		if errors.Is(err, leaderboard.ErrNotLoaded) {
			return nil, "", nil
		}
		for _, r := range top {
			members = append(members, r.Member)
		}
		return members, "", err
	}
	reply := bs.send(ctx, []keyspace.Cmd{{Name: "ZSCAN", Key: scoreKeys.At(b).Key, Args: []string{cursor, "COUNT", strconv.Itoa(n)}}})[0]
	items, err := reply.Items()
	if err != nil {
		return nil, "", err
	}
	if len(items) != 2 {
		return nil, "", fmt.Errorf("%w: ZSCAN", keyspace.ErrReply)
	}
	for i, item := range items[1].List {
		if i%2 == 0 {
			members = append(members, item.Str)
		}
	}
	if next, _, err = items[0].Text(); next == "0" {
		next = ""
	}
	return members, next, err
}

// View reads a board: of an exact one the entries of some users, of a compact one the best, because it has no others.
// ok is false while it is not loaded.
func (bs *Boards) View(ctx context.Context, b Board, users []accounts.ID) (v View, ok bool, err error) {
	now := bs.now()
	if bs.kind == Compact {
		v, err = bs.best(ctx, b, now)
	} else if _, err = bs.Of(b).Top(ctx, now, 1); err == nil {
		v, err = bs.entriesOf(ctx, b, users)
	}
	if errors.Is(err, leaderboard.ErrNotLoaded) {
		return View{}, false, nil
	}
	return v, err == nil, err
}

func (bs *Boards) entriesOf(ctx context.Context, b Board, users []accounts.ID) (View, error) {
	members := make([]string, len(users))
	for i, user := range users {
		members[i] = user.String()
	}
	cmds := []keyspace.Cmd{{Name: "ZMSCORE", Key: scoreKeys.At(b).Key, Args: members}}
	if b == StreakBoard {
		cmds = append(cmds, keyspace.Cmd{Name: "ZMSCORE", Key: deathKeys.At(b).Key, Args: members})
	}
	out := View{board: b, entries: make(map[accounts.ID]entry, len(users)), above: -1, deaths: true}
	for i, reply := range bs.send(ctx, cmds) {
		list, err := reply.Items()
		if err != nil {
			return View{}, err
		}
		for j, item := range list {
			n, ok, err := item.Float()
			e := out.entries[users[j]]
			switch {
			case err != nil:
				return View{}, err
			case !ok:
			case i == 0:
				e.isPlaced, e.score = true, int64(n)
			case n < 1<<53:
				e.dies = int64(n)
			}
			out.entries[users[j]] = e
		}
	}
	return out, nil
}

func (bs *Boards) best(ctx context.Context, b Board, now time.Time) (View, error) {
	top, err := bs.Of(b).Top(ctx, now, leaderboard.MaxTop)
	if err != nil {
		return View{}, err
	}
	out := View{board: b, entries: make(map[accounts.ID]entry, len(top)), above: -1}
	for _, r := range top {
		e := entry{isPlaced: true, score: scoreOf(int(r.Value), r.At)}
		if user, err := ids.Parse[accounts.User](r.Member); err == nil {
			out.entries[user] = e
		}
		if len(top) == leaderboard.MaxTop {
			out.above = e.score // the last one's in the end
		}
	}
	return out, nil
}

// rules returns the rules that the deaths of the streak board were computed with.
func (bs *Boards) rules(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s, _, err := rulesKey.At().Get(ctx, bs.redis)
	return s, err
}

func (bs *Boards) setRules(ctx context.Context, rules string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return rulesKey.At().Set(ctx, bs.redis, rules)
}

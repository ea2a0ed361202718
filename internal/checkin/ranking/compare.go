package ranking

import (
	"fmt"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
)

// expiryMargin is the time around its death when an entry is not compared.
const expiryMargin = 10 * time.Second

// View has the entries of some users on a board.
type View struct {
	board   Board
	entries map[accounts.ID]entry
	above   int64 // all users with more are among the entries; -1: all users are
	deaths  bool  // entries have their deaths
}

// entry is one user's entry on a board.
type entry struct {
	isPlaced bool
	score    int64
	dies     int64 // Unix ms; 0 if unknown
}

// Wrong reports whether a user's entry differs from the history. It returns the entry as it is and as it should be.
func (bs *Boards) Wrong(seen View, user accounts.ID, clock civil.Clock, h streak.History, now time.Time) (was, becomes string, wrong bool) {
	b := seen.board
	is, should := seen.entries[user], entry{}
	if b.season != 0 {
		if days, at := h.SignedIn(b.Span()); days > 0 {
			should = entry{isPlaced: true, score: scoreOf(days, at)}
		}
	} else if p, ok := placementFrom(bs.freezes, user, clock, h); ok && b.value(p.Score) > 0 {
		if should = (entry{isPlaced: true, score: scoreOf(b.value(p.Score), p.reached(b))}); b == StreakBoard {
			should.dies = p.Dies.UnixMilli()
		}
	}
	dying := func(e entry) bool { return e.dies != 0 && now.Add(expiryMargin).UnixMilli() >= e.dies }
	if b == StreakBoard && dying(should) {
		if now.Add(-expiryMargin).UnixMilli() < should.dies {
			return "", "", false
		}
		should = entry{}
	}
	if !seen.deaths {
		should.dies = 0
	}
	switch {
	case is == should, !is.isPlaced && (!should.isPlaced || should.score <= seen.above):
		return "", "", false
	case !should.isPlaced && b == StreakBoard && dying(is):
		return "", "", false // dead streaks are removed before they are read
	}
	return is.String(), should.String(), true
}

// scoreOf returns the order of package leaderboard in one number.
func scoreOf(value int, at time.Time) int64 {
	since2020 := min(max(at.Unix()-1577836800, 0), 1<<32-1)
	return int64(value)<<32 + 1<<32 - 1 - since2020
}

func (e entry) String() string {
	if !e.isPlaced {
		return "not on it"
	}
	text := fmt.Sprintf("%d since %s", e.score>>32, time.Unix(1<<32-1-e.score&(1<<32-1)+1577836800, 0).UTC().Format(time.RFC3339))
	if e.dies != 0 {
		text += ", dies " + time.UnixMilli(e.dies).UTC().Format(time.RFC3339)
	}
	return text
}

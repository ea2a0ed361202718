package checkin

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/checkin/ranking"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
	"github.com/stoa-dev/stoa/internal/webhooks"
)

// Routes adds the check-in operations.
func (s *Service) Routes(a *web.API) {
	tags := []string{"check-in"}
	web.Handle(a, web.Op{Method: http.MethodPost, Path: "/v1/checkin", ID: "checkin.mark", Tags: tags,
		Summary: "Check in for today",
		Description: "The response is sent when the check-in is durable. Today is the date in the user's zone by the server's clock. A second " +
			"check-in on the same day changes nothing and returns `new: false`. For a few minutes after midnight, a client can still sign " +
			"yesterday by sending `day`.",
		Errors: []*errs.Error{ErrDayClosed, webhooks.ErrRefused, webhooks.ErrUnavailable, ErrStore}}, s.postMark)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/checkin", ID: "checkin.status", Tags: tags,
		Summary:     "Get the streak",
		Description: "Returns the streak, the longest streak, the total, and whether today and yesterday are signed.",
		Errors:      []*errs.Error{ErrStore}}, s.getStatus)
	web.Handle(a, web.Op{Method: http.MethodPost, Path: "/v1/checkin/makeup", ID: "checkin.make_up", Tags: tags,
		Summary: "Check in for a missed day",
		Description: "The day must be over, neither signed nor covered, not older than the server allows and not before the account was " +
			"created. The number of make-ups in a calendar month is limited.",
		Errors: []*errs.Error{ErrMakeupOff, ErrMakeupDay, ErrDayCounts, ErrMakeupLimit, webhooks.ErrRefused, webhooks.ErrUnavailable, ErrStore}},
		s.postMakeUp)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/checkin/makeup", ID: "checkin.makeups", Tags: tags,
		Summary:     "List make-up days",
		Description: "Returns the days that can be made up, how many are left, and the days that were made up.",
		Errors:      []*errs.Error{ErrCursor, ErrStore}}, s.getMakeups)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/checkin/calendar/{year}", ID: "checkin.year", Tags: tags,
		Summary: "List the days of a year", Errors: []*errs.Error{ErrYear, ErrStore}}, s.getYear)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/checkin/calendar/{year}/{month}", ID: "checkin.month", Tags: tags,
		Summary: "List the days of a month", Errors: []*errs.Error{ErrYear, ErrStore}}, s.getMonth)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/checkin/stats", ID: "checkin.stats", Tags: tags,
		Summary: "Get totals of all time", Errors: []*errs.Error{ErrStore}}, s.getStats)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/checkin/boards/{board}", ID: "checkin.board", Tags: tags,
		Summary: "Get a leaderboard",
		Description: "Returns the top of the board and the caller's entry. Boards are `streak` (current streaks; ended ones are neither shown " +
			"nor counted), `total_days`, and `week` and `month` (days checked in within a season, by each user's own calendar). Of users with " +
			"the same value, the one who reached it first ranks higher. On compact boards, users below the best 1,000 share a rank if their " +
			"values are equal, and have no neighbours. With `scope=friends` the board has only the caller and the caller's friends, and equal " +
			"values share a rank. A row without user, name and avatar belongs to a user who is hidden by their own setting, banned or deleted, " +
			"or who blocks the caller or is blocked.",
		Errors: []*errs.Error{ranking.ErrBoard, ranking.ErrSeason, ErrStore}}, s.getBoard)
}

func (s *Service) postMark(ctx context.Context, caller accounts.Caller,
	in *web.Body[api.CheckinRequest]) (*web.Body[api.CheckinReply], error) {
	act := Activity{Words: in.Body.Words, Minutes: in.Body.Minutes}
	var res Result
	var err error
	if in.Body.Day == "" {
		res, err = s.Mark(ctx, caller.User, caller.Clock, act, web.RequestID(ctx))
	} else {
		var day civil.Day
		if day, err = civil.ParseDay(in.Body.Day); err != nil {
			return nil, ErrDayClosed
		}
		res, err = s.MarkDay(ctx, caller.User, caller.Clock, day, act, web.RequestID(ctx))
	}
	if err != nil {
		return nil, err
	}
	return web.NewBody(api.CheckinReply{New: res.New, At: api.At(res.At.UTC()), CheckinStatus: wireStatus(res.Status)}), nil
}

func (s *Service) getStatus(ctx context.Context, caller accounts.Caller, _ *web.Empty) (*web.Body[api.CheckinStatus], error) {
	status, err := s.Status(ctx, caller.User, caller.Clock)
	if err != nil {
		return nil, err
	}
	return web.NewBody(wireStatus(status)), nil
}

func wireStatus(s streak.Status) api.CheckinStatus {
	return api.CheckinStatus{Day: s.Day.String(), Today: s.Today, Yesterday: s.Yesterday, Streak: s.Streak, Longest: s.Longest, Total: s.Total,
		Freezes: s.Freezes, FreezesUsed: s.Used}
}

func (s *Service) postMakeUp(ctx context.Context, caller accounts.Caller,
	in *web.Body[api.MakeupRequest]) (*web.Body[api.MakeupReply], error) {
	day, err := civil.ParseDay(in.Body.Day)
	if err != nil {
		return nil, ErrMakeupDay
	}
	res, err := s.MakeUp(ctx, caller.User, caller.Clock, day, web.RequestID(ctx))
	if err != nil {
		return nil, err
	}
	return web.NewBody(api.MakeupReply{MadeUp: wireMakeup(res.Makeup), Left: res.Left, Status: wireStatus(res.Status)}), nil
}

type makeupsInput struct {
	Cursor string `query:"cursor" maxLength:"20" doc:"the next field of the previous page"`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"20" doc:"maximum number of history entries"`
}

func (s *Service) getMakeups(ctx context.Context, caller accounts.Caller, in *makeupsInput) (*web.Body[api.Makeups], error) {
	m, err := s.Makeups(ctx, caller.User, caller.Clock, in.Cursor, in.Limit)
	if err != nil {
		return nil, err
	}
	return web.NewBody(api.Makeups{
		Left: m.Left, Limit: m.Limit, Days: web.List(m.Days, civil.Day.String),
		History: web.List(m.History, wireMakeup), Next: m.Cursor,
	}), nil
}

func wireMakeup(m Makeup) api.Makeup { return api.Makeup{Day: m.Day.String(), At: api.At(m.At.UTC())} }

type yearInput struct {
	Year int `path:"year" minimum:"1970" maximum:"9999"`
}

type monthInput struct {
	Year  int `path:"year" minimum:"1970" maximum:"9999"`
	Month int `path:"month" minimum:"1" maximum:"12"`
}

func (s *Service) getYear(ctx context.Context, caller accounts.Caller, in *yearInput) (*web.Body[api.Calendar], error) {
	return s.calendar(ctx, caller, in.Year, 0)
}

func (s *Service) getMonth(ctx context.Context, caller accounts.Caller, in *monthInput) (*web.Body[api.Calendar], error) {
	return s.calendar(ctx, caller, in.Year, time.Month(in.Month))
}

func (s *Service) calendar(ctx context.Context, caller accounts.Caller, year int, month time.Month) (*web.Body[api.Calendar], error) {
	c, err := s.Calendar(ctx, caller.User, caller.Clock, year, month)
	if err != nil {
		return nil, err
	}
	return web.NewBody(api.Calendar{
		Year: c.Year, Month: int(c.Month),
		Days: web.List(c.Signed, civil.Day.String), Covered: web.List(c.Covered, civil.Day.String),
	}), nil
}

func (s *Service) getStats(ctx context.Context, caller accounts.Caller, _ *web.Empty) (*web.Body[api.CheckinStats], error) {
	st, err := s.Stats(ctx, caller.User, caller.Clock)
	if err != nil {
		return nil, err
	}
	return web.NewBody(api.CheckinStats{Streak: st.Streak, Longest: st.Longest, Total: st.Total, Words: st.Words, Minutes: st.Minutes,
		Freezes: st.Freezes, FreezesUsed: st.Used, Names: api.ActivityNames{Words: cmp.Or(s.rules.WordsName, "words"),
			Minutes: cmp.Or(s.rules.MinutesName, "minutes")}}), nil
}

type boardInput struct {
	Board  string `path:"board" doc:"streak, total_days, week or month"`
	Season string `query:"season" maxLength:"8" doc:"2026-W47 or 2026-11; absent: the current one"`
	Scope  string `query:"scope" enum:"all,friends" default:"all" doc:"all: all users; friends: the caller's friends and the caller"`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"10" doc:"maximum number of rows"`
	Around int    `query:"around" minimum:"0" maximum:"50" default:"0" doc:"number of neighbours on each side"`
}

func (s *Service) getBoard(ctx context.Context, caller accounts.Caller, in *boardInput) (*web.Body[api.Board], error) {
	board, err := ranking.ParseBoard(in.Board, in.Season, caller.Clock.Today(s.now()))
	if err != nil {
		return nil, err
	}
	var found ranking.Ranking
	var people map[accounts.ID]accounts.User
	if in.Scope == "friends" {
		found, people, err = s.FriendsBoard(ctx, board, caller.User, in.Limit, in.Around)
	} else {
		found, people, err = s.board(ctx, board, caller, in.Limit, in.Around)
	}
	if err != nil {
		return nil, err
	}
	shown := s.shown(ctx, caller.User, found, people)
	wire := func(r ranking.Row) api.BoardRow {
		row := api.BoardRow{Rank: r.Rank, Value: r.Value}
		if u, ok := shown[r.User]; ok { // the id would lead to the name, and so would the picture
			row.User, row.Name, row.Avatar = u.ID.String(), u.Name, u.Avatar
		}
		return row
	}
	out := api.Board{Board: in.Board, Season: board.Season(), Entries: web.List(found.Top, wire)}
	if in.Around > 0 {
		out.Around = web.List(found.Around, wire)
	}
	if found.Me != nil {
		me := wire(*found.Me)
		out.Me = &me
	}
	return web.NewBody(out), nil
}

// apartBudget bounds a board's wait for the users who are hidden from the caller.
const apartBudget = 250 * time.Millisecond

// shown returns the users of a ranking whose names the viewer sees. If the blocks cannot be read, only the viewer is
// shown.
func (s *Service) shown(ctx context.Context, viewer accounts.ID, found ranking.Ranking,
	people map[accounts.ID]accounts.User) map[accounts.ID]accounts.User {
	now, users := s.now(), standing(found)
	shown := make(map[accounts.ID]accounts.User, len(users))
	for _, id := range users {
		if u, ok := people[id]; ok && u.ShownTo(viewer, now) {
			shown[id] = u
		}
	}
	if s.apart == nil {
		return shown
	}
	asking, cancel := context.WithTimeout(ctx, apartBudget)
	defer cancel()
	apart, err := s.apart.Apart(asking, viewer, users)
	maps.DeleteFunc(shown, func(user accounts.ID, _ accounts.User) bool { return user != viewer && (err != nil || apart[user]) })
	return shown
}

// board returns a board of all users, with the users on it.
func (s *Service) board(ctx context.Context, b ranking.Board, caller accounts.Caller,
	n, near int) (ranking.Ranking, map[accounts.ID]accounts.User, error) {
	found, err := s.Boards.Read(ctx, b, caller.User, caller.Clock, n, near)
	if err != nil {
		return found, nil, err
	}
	people, err := s.users.UsersOf(ctx, standing(found))
	return found, people, err
}

// standing returns the users of a ranking, some of them twice.
func standing(r ranking.Ranking) []accounts.ID {
	rows := slices.Concat(r.Top, r.Around)
	if r.Me != nil {
		rows = append(rows, *r.Me)
	}
	return web.List(rows, func(r ranking.Row) accounts.ID { return r.User })
}

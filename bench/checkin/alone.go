package main

import (
	"context"
	"database/sql"
	"errors"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/civil"
)

// alone is check-in without Redis in the original design: a month's calendar and the statistics are rows that are read
// and updated.
type alone struct {
	db                                           *sql.DB
	readStats, readDays, updateDays, updateStats *sql.Stmt
}

func newAlone(ctx context.Context, db *sql.DB, people []accounts.ID) (*alone, error) {
	for _, ddl := range []string{
		"CREATE TABLE user_calendar (user_id VARCHAR(12) NOT NULL PRIMARY KEY, sign_days BIGINT NOT NULL)",
		"CREATE TABLE user_stats (user_id VARCHAR(12) NOT NULL PRIMARY KEY, streak_days INT NOT NULL, max_streak_days INT NOT NULL, " +
			"total_days INT NOT NULL, last_sign_date INT NOT NULL)",
	} {
		if _, err := db.ExecContext(ctx, ddl); err != nil {
			return nil, err
		}
	}
	err := errors.Join(
		insert(ctx, db, "INSERT INTO user_calendar VALUES ", len(people), func(i int) []any { return []any{people[i].String(), 0} }),
		insert(ctx, db, "INSERT INTO user_stats VALUES ", len(people), func(i int) []any { return []any{people[i].String(), 0, 0, 0, 0} }))
	a := &alone{db: db}
	for into, query := range map[**sql.Stmt]string{
		&a.readStats:  "SELECT streak_days, max_streak_days, total_days, last_sign_date FROM user_stats WHERE user_id = ?",
		&a.readDays:   "SELECT sign_days FROM user_calendar WHERE user_id = ?",
		&a.updateDays: "UPDATE user_calendar SET sign_days = sign_days | ? WHERE user_id = ?",
		&a.updateStats: "UPDATE user_stats SET streak_days = ?, max_streak_days = ?, total_days = total_days + 1, last_sign_date = ? WHERE " +
			"user_id = ?",
	} {
		var fault error
		*into, fault = db.PrepareContext(ctx, query)
		err = errors.Join(err, fault)
	}
	return a, err
}

// mark returns the next check-in of each user in turn.
func (a *alone) mark(people []accounts.ID) func(context.Context, int) error {
	return func(ctx context.Context, n int) error {
		return a.markOn(ctx, people[n%len(people)], civil.DayOf(day(n, len(people)).Date()))
	}
}

func (a *alone) markOn(ctx context.Context, user accounts.ID, today civil.Day) error {
	tx, err := a.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	var streak, longest, total, last int
	if err := tx.StmtContext(ctx, a.readStats).QueryRowContext(ctx, user.String()).Scan(&streak, &longest, &total, &last); err != nil {
		return err
	}
	if last != int(today)-1 {
		streak = 0
	}
	streak++
	_, _, date := today.Date()
	if _, err := tx.StmtContext(ctx, a.updateDays).ExecContext(ctx, int64(1)<<(date-1), user.String()); err != nil {
		return err
	}
	if _, err := tx.StmtContext(ctx, a.updateStats).ExecContext(ctx, streak, max(longest, streak), int(today), user.String()); err != nil {
		return err
	}
	return tx.Commit()
}

func (a *alone) status(ctx context.Context, user accounts.ID) error {
	var streak, longest, total, last int
	return a.readStats.QueryRowContext(ctx, user.String()).Scan(&streak, &longest, &total, &last)
}

func (a *alone) month(ctx context.Context, user accounts.ID) error {
	var days int64
	return a.readDays.QueryRowContext(ctx, user.String()).Scan(&days)
}

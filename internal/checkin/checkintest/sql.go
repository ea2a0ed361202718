package checkintest

import (
	"context"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// Log is the log of check-ins. Its writes are not applied to Redis.
type Log struct {
	DB    *sqldb.DB
	Clock *Clock
}

// Histories returns all days of some users.
func (l Log) Histories(ctx context.Context, users []accounts.ID) (map[accounts.ID]streak.History, error) {
	out := map[accounts.ID]streak.History{}
	for _, user := range users {
		rows, err := l.DB.QueryContext(ctx, "SELECT day, at, kind FROM checkins WHERE user_id = ? ORDER BY day", user)
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		var h streak.History
		for rows.Next() {
			var m streak.Mark
			var at int64
			if err := rows.Scan(&m.Day, &at, &m.Kind); err != nil {
				return nil, err
			}
			m.At = time.UnixMilli(at)
			h.Marks = append(h.Marks, m)
		}
		if err := rows.Err(); err != nil {
			return nil, err
		}
		out[user] = h
	}
	return out, nil
}

// Record returns the year of a user as Redis should have it.
func (l Log) Record(ctx context.Context, user accounts.ID, year int) (*streak.Record, error) {
	histories, err := l.Histories(ctx, []accounts.ID{user})
	return streak.RecordOf(year, histories[user]), err
}

// Write adds check-ins of users on some days.
func (l Log) Write(t *testing.T, users []accounts.ID, days ...civil.Day) {
	t.Helper()
	in := l.DB.Inserter(sqldb.Upsert{Table: "checkins", Columns: []string{"user_id", "day", "at", "kind", "words", "minutes", "req"},
		Key: []string{"user_id", "day"}})
	var args []any
	for i, user := range users {
		for _, d := range days {
			args = append(args, user.String(), int64(d), l.Clock.Now().UnixMilli(), int64(streak.Tapped), int64(0), int64(0), int64(i))
		}
	}
	if _, err := in.Insert(t.Context(), args); err != nil {
		t.Fatal(err)
	}
}

package checkin

import (
	"fmt"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/checkin/transfer"
	"github.com/stoa-dev/stoa/internal/foundation/civil"
	"github.com/stoa-dev/stoa/internal/foundation/ids"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb/sqldbtest"
)

func TestEveryStatementReadsRows(t *testing.T) {
	t.Parallel()
	for _, e := range sqldbtest.Engines(t) {
		t.Run(e.Name, func(t *testing.T) {
			db := e.Open(t)
			s, ctx := newSQLStore(db), t.Context()
			user, now := ids.New[accounts.User](), time.Now().UTC().Truncate(time.Millisecond)
			users, day := []accounts.ID{user}, civil.Clock{}.Today(now)
			row := request{user: user, day: day, at: now, kind: streak.Tapped, act: Activity{3, 2}, req: 1}
			if _, err := s.write(ctx, []request{row}); err != nil {
				t.Fatal(err)
			}
			if err := s.grant(ctx, user, GrantEntry{streak.Grant{N: 2, At: now}, "a test"}); err != nil {
				t.Fatal(err)
			}
			made := makeup{user: user, month: streak.MonthOf(day), day: day - 3, at: now, req: 7}
			freeze := func(streak.History) ([]civil.Day, error) { return []civil.Day{day - 4}, nil }
			if _, _, _, err := s.makeUp(ctx, made, 2, freeze); err != nil {
				t.Fatal(err)
			}
			if err := s.persist(ctx, []totals{{User: user, Total: 2}}, []month{{User: user, Month: 202611}}); err != nil {
				t.Fatal(err)
			}
			// An import names the user among the touched.
			file := fmt.Sprintf("user,day\n%s,%s\n", user, day-9)
			if _, err := db.ExecContext(ctx, "INSERT INTO users (id, email, email_key, name, zone, zone_next, zone_from, created) VALUES (?, 'a@example.org', 'a@example.org', 'Ann', 'UTC', '', 0, 0)", user); err != nil {
				t.Fatal(err)
			}
			if sum, faults, err := imports(t, db, file, transfer.ImportOptions{Format: transfer.CSV}); err != nil || sum.New != 1 {
				t.Fatal(sum, faults, err)
			}
			long := now.AddDate(0, 0, -30)
			counted := func(n int64, err error) (int, error) { return int(n), err }
			sqldbtest.Reads(t, "sql.go", map[string]func() (int, error){
				"newSQLStore": func() (int, error) {
					again := row
					again.req = 2
					held, err := s.write(ctx, []request{again})
					return int(held[row.key()].req), err
				},
				"historiesFrom": func() (int, error) {
					all, err := s.histories(ctx, users)
					return len(all[user].Marks) * len(all[user].Grants), err
				},
				"activity": func() (int, error) {
					words, minutes, err := s.activity(ctx, user)
					return int(words * minutes), err
				},
				"since": func() (n int, err error) {
					err = s.since(ctx, long, func(rows []logRow) error { n += len(rows); return nil })
					return n, err
				},
				"grantedSince": func() (n int, err error) {
					err = s.grantedSince(ctx, long, func(users []accounts.ID) error { n += len(users); return nil })
					return n, err
				},
				"newest": func() (int, error) {
					at, err := s.newest(ctx)
					return int(at.Unix()), err
				},
				"grantsOf": func() (int, error) {
					all, err := s.grantsOf(ctx, user, 5)
					return len(all), err
				},
				"tryMakeUp": func() (int, error) { // the same request again finds its row
					n, _, _, err := s.makeUp(ctx, made, 2, freeze)
					return n, err
				},
				"makeups": func() (int, error) {
					all, err := s.makeups(ctx, user, madeUp{Month: 1_000_000}, 5)
					return len(all), err
				},
				"makeupsIn": func() (int, error) { return s.makeupsIn(ctx, user, made.month) },
				"usersAfter": func() (int, error) {
					all, err := s.usersAfter(ctx, "", "", 5)
					return len(all), err
				},
				"countUsers": func() (int, error) { return counted(s.countUsers(ctx, "", "")) },
				"activeAfter": func() (int, error) {
					all, err := s.activeAfter(ctx, "", day-30, 5)
					return len(all), err
				},
				"countActive": func() (int, error) { return counted(s.countActive(ctx, day-30)) },
				"firstYears": func() (int, error) {
					years, err := s.firstYears(ctx, users)
					return years[user], err
				},
				"arrivals": func() (int, error) {
					log, err := s.arrivals(ctx, false, arrival{At: long.UnixMilli()}, 5)
					if err != nil {
						return 0, err
					}
					touched, err := s.arrivals(ctx, true, arrival{At: long.UnixMilli()}, 5)
					return len(log) * len(touched), err
				},
				"touched": func() (int, error) {
					all, err := s.touched(ctx, users)
					return len(all), err
				},
				"persisted": func() (int, error) {
					sums, months, err := s.persisted(ctx, users)
					return len(sums) * len(months), err
				},
				"erase": func() (int, error) { // of a user of its own
					other := row
					other.user = ids.New[accounts.User]()
					if _, err := s.write(ctx, []request{other}); err != nil {
						return 0, err
					}
					gone, _, err := s.erase(ctx, other.user)
					if gone {
						return 1, err
					}
					return 0, err
				},
			})
		})
	}
}

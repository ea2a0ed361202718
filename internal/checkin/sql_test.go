package checkin

import (
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
)

// TestBatch_AddedButUnreadIsOutcomeUnknown adds a batch whose rows cannot be read because the server is gone. The
// change must reach Redis.
func TestBatch_AddedButUnreadIsOutcomeUnknown(t *testing.T) {
	t.Parallel()
	for _, e := range sqldbtest.Engines(t) {
		t.Run(e.Name, func(t *testing.T) {
			s, ctx := newSQLStore(e.Open(t)), t.Context()
			now := time.Now().UTC().Truncate(time.Millisecond)
			one := func(req int64) request {
				return request{user: ids.New[accounts.User](), day: civil.Clock{}.Today(now), at: now, kind: streak.Tapped, req: req}
			}
			here, comes := one(1), one(2)
			if _, err := s.write(ctx, []request{here}); err != nil {
				t.Fatal(err)
			}
			gone := e.Open(t)
			if err := gone.Close(); err != nil {
				t.Fatal(err)
			}
			s.find = newSQLStore(gone).find
			if _, err := s.write(ctx, sorted([]request{here, comes})); !unanswered(err) || !retryable(err) {
				t.Errorf("a row was added, and the other one not read: %v, want an outcome that is unknown", err)
			}
			if _, err := s.write(ctx, []request{here}); err == nil || unanswered(err) {
				t.Errorf("nothing was added: %v, want an error that leaves nothing open", err)
			}
			if all, err := s.histories(ctx, []accounts.ID{comes.user}); err != nil || len(all[comes.user].Marks) != 1 {
				t.Errorf("SQL has %v of the row that was added (%v)", all, err)
			}
		})
	}
}

func TestStatements_ReadRows(t *testing.T) {
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
			long := now.AddDate(0, 0, -30)
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

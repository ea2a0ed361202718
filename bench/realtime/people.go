package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/storage/migrations"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/testkit/costs"
)

// person is a user with a session.
type person struct {
	id    string
	token string
}

// senders is the number of users who write at the same time.
const senders = 64

// populate writes users with a session each, in the form of the server. The first ones are friends of their receivers
// in figures 2 and 3, and the very first one of all members of their groups.
func (b *bench) populate(ctx context.Context, n int) error {
	if err := b.db.Migrate(ctx, migrations.FS); err != nil {
		return err
	}
	users := make([]accounts.User, n)
	var err error
	for i := range users {
		if users[i], err = accounts.NewUser(fmt.Sprintf("person%d@example.org", i), "Person", "UTC"); err != nil {
			return err
		}
	}
	if err := b.db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return accounts.InsertUsers(ctx, tx, users) }); err != nil {
		return err
	}
	now := b.db.Now()
	sessions := &rows{db: b.db, into: costs.SessionTable, each: costs.SessionColumns}
	for _, u := range users {
		tokens, row := costs.NewSession(u.ID, now)
		if err := sessions.add(ctx, row...); err != nil {
			return err
		}
		b.people = append(b.people, person{u.ID.String(), tokens.AccessToken})
	}
	if err := sessions.flush(ctx); err != nil {
		return err
	}
	friends := &rows{db: b.db, into: "friends (user_id, friend_id, remark, tag, source, sort, since, updated, version, gone)", each: 10}
	lists := &rows{db: b.db, into: "friend_lists (user_id, version, pruned, asked, seen)", each: 5}
	version := map[string]int{}
	befriend := func(a, c person) error {
		for _, pair := range [][2]person{{a, c}, {c, a}} {
			version[pair[0].id]++
			if err := friends.add(ctx, pair[0].id, pair[1].id, "", "", "id", 0, now.UnixMilli(), now.UnixMilli(), version[pair[0].id],
				0); err != nil {
				return err
			}
		}
		return nil
	}
	for i, p := range b.people[senders:] {
		if err := befriend(b.people[i%senders], p); err != nil {
			return err
		}
	}
	for i, p := range b.people[1:max(*crowdOf, *reach+1)] {
		if i+1 < senders || (i+1)%senders != 0 { // not a friend already
			if err := befriend(b.people[0], p); err != nil {
				return err
			}
		}
	}
	for id, v := range version {
		if err := lists.add(ctx, id, v, 0, 0, 0); err != nil {
			return err
		}
	}
	if err := friends.flush(ctx); err != nil {
		return err
	}
	return lists.flush(ctx)
}

// rows inserts many rows.
type rows struct {
	db   *sqldb.DB
	into string
	each int
	args []any
}

func (r *rows) add(ctx context.Context, args ...any) error {
	r.args = append(r.args, args...)
	if len(r.args) < 500*r.each {
		return nil
	}
	return r.flush(ctx)
}

func (r *rows) flush(ctx context.Context) error {
	if len(r.args) == 0 {
		return nil
	}
	row := "(" + strings.TrimSuffix(strings.Repeat("?, ", r.each), ", ") + ")"
	_, err := r.db.ExecContext(ctx, "INSERT INTO "+r.into+" VALUES "+strings.TrimSuffix(strings.Repeat(row+", ", len(r.args)/r.each), ", "),
		r.args...)
	r.args = r.args[:0]
	return err
}

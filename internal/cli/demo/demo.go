package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/servicekeys"
	"github.com/stoa-dev/stoa/internal/storage/migrations"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// domain is reserved: no mail to it is delivered.
const domain = "@demo.example"

// person is a member of the cast.
type person struct{ name, zone, bio string }

// Indexes of the members of the cast with a part of their own. The visitor logs in as ada.
const (
	ada      = 0
	bo       = 1
	eunji    = 4
	giulia   = 6
	hana     = 7
	jonas    = 9
	lin      = 11
	mingyuan = 12
	noor     = 13
	petra    = 15
	quinn    = 16
	siyu     = 18
	uma      = 21
	vera     = 22
	xiaofeng = 24
	zoe      = 27
	mei      = 29
	omar     = 35
)

var cast = []person{
	{"Ada", "Europe/London", "Learning Chinese, twenty words a day."}, {"Bo", "Europe/Stockholm", "Walks along the canal, in any weather."},
	{"Chidi", "Africa/Lagos", ""},
	{"Diego", "America/Bogota", "Músico los fines de semana"}, {"Eun-ji", "Asia/Seoul", "Concerts and cameras."}, {"Farah", "Asia/Dubai", ""},
	{"Giulia", "Europe/Rome", "Cooks more than she can eat."}, {"Hana", "Asia/Tokyo", "本と猫"}, {"Ines", "Europe/Lisbon", ""},
	{"Jonas", "Europe/Berlin", "Rides his bicycle to work."}, {"Kiran", "Asia/Kolkata", ""}, {"Lin", "Asia/Shanghai", "早起，跑步，喝茶。"},
	{"明远", "Asia/Shanghai", "语文老师，喜欢讲成语故事。"}, {"Noor", "Asia/Karachi", "New here. Say hello!"}, {"Olu", "Africa/Lagos", ""},
	{"Petra", "Europe/Prague", "Draws trees."}, {"Quinn", "America/Toronto", "Please write, do not call."},
	{"Rosa", "America/Mexico_City", ""},
	{"思雨", "Asia/Shanghai", "读书会发起人"}, {"Sione", "Pacific/Auckland", ""}, {"Tariq", "Africa/Cairo", ""},
	{"Uma", "Asia/Kathmandu", "Mountains."}, {"Vera", "Europe/Warsaw", "Jonas told me about this place."}, {"Wairimu", "Africa/Nairobi", ""},
	{"晓峰", "Asia/Taipei", "在读《红楼梦》，第三遍。"}, {"Ximena", "America/Lima", ""}, {"Yara", "America/Sao_Paulo", ""},
	{"Zoe", "America/New_York", "Plays the cello."}, {"Anders", "Europe/Oslo", ""}, {"Mei", "Asia/Singapore", "一日一画"},
	{"Tomas", "Europe/Vilnius", ""}, {"Leila", "Africa/Casablanca", ""}, {"Sam", "America/Los_Angeles", ""}, {"Niko", "Europe/Athens", ""},
	{"Ivy", "Australia/Sydney", ""}, {"Omar", "Asia/Riyadh", ""},
}

// address is the e-mail address of a member of the cast.
func address(i int) string {
	if i == ada {
		return "ada" + domain
	}
	return fmt.Sprintf("person%d%s", i, domain)
}

// Filled is the result of [Fill].
type Filled struct {
	Existed      bool // the demo already existed: nothing was written
	People, Days int64
	Friendships  int
	Messages     int
	LogIn        string // the visitor's address
}

// Fill migrates the database that cfg names and fills it if it has no accounts. If it already has a complete demo, Fill
// changes nothing. It returns an error if the database has other accounts. Fill is not one transaction: an interrupted
// Fill leaves a partial demo, which a later Fill refuses. No other process may use the accounts of the database during
// Fill.
func Fill(ctx context.Context, cfg app.Config) (out Filled, err error) {
	now := time.Now()
	clock := &clock{at: now}
	db, err := sqldb.Open(ctx, sqldb.Config{URL: cfg.SQL, Dir: cfg.Data, MaxConns: cfg.SQLConns, Now: clock.Now})
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := checkOlder(ctx, db); err != nil {
		return out, err
	}
	if err := db.Migrate(ctx, migrations.FS); err != nil {
		return out, err
	}
	out.LogIn = address(ada)
	switch found, err := existing(ctx, db); {
	case err != nil:
		return out, err
	case found:
		out.Existed = true
		return out, nil
	}
	// The key exists until the demo is complete.
	keys := servicekeys.NewAdmin(db)
	_, key, err := keys.Create(ctx, fillKey, []servicekeys.Scope{servicekeys.TokensIssue, servicekeys.UsersBan}, maxRate, 0)
	if err != nil {
		return out, err
	}
	stories := year(now, cfg.Checkin)
	if out.People, out.Days, err = write(ctx, db, clock, now, stories); err != nil {
		return out, err
	}
	s := &stage{ctx: ctx, db: db, clock: clock, now: now, stories: stories}
	if s.users, err = users(ctx, db); err != nil {
		return out, err
	}
	if err := s.open(cfg, key); err != nil {
		return out, err
	}
	err = s.perform()
	if err = errors.Join(err, s.close()); err != nil {
		return out, err
	}
	out.Friendships, out.Messages = s.friendships, s.messages
	return out, keys.Revoke(ctx, fillKey)
}

// The names of the service keys of Fill and of Play.
const (
	fillKey = "demo-fill"
	playKey = "demo-play"
)

// maxRate is the number of requests a minute that such a key may make.
const maxRate = 1_000_000

// existing reports whether db has a complete demo. It returns an error if db has other accounts.
func existing(ctx context.Context, db *sqldb.DB) (bool, error) {
	found, err := accounts.NewDirectory(db).List(ctx, accounts.ID{}, 1)
	if err != nil || len(found) == 0 {
		return false, err
	}
	keys, err := servicekeys.NewAdmin(db).List(ctx)
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(keys, func(k servicekeys.Key) bool { return k.Name == fillKey }) {
		return false, fmt.Errorf("%s has a part of a demo that was interrupted: remove this database, or name another folder with --data", db)
	}
	if _, err := users(ctx, db); err != nil {
		return false, otherAccounts(db)
	}
	return true, nil
}

// checkOlder returns an error if a database of an earlier version has accounts, because it must not be migrated.
func checkOlder(ctx context.Context, db *sqldb.DB) error {
	have, _, err := db.Version(ctx)
	if err != nil || have == 0 || have == migrations.Newest() {
		return err
	}
	var n int
	err = db.QueryRowContext(ctx, "SELECT COUNT(*) FROM users WHERE email NOT LIKE ?", "%"+domain).Scan(&n)
	if err == nil && n > 0 {
		err = otherAccounts(db)
	}
	return err
}

// otherAccounts returns the error for a database with accounts that are not a demo's.
func otherAccounts(db *sqldb.DB) error {
	return fmt.Errorf("%s has accounts already that are not a demo's, and was not changed: name another folder with --data, or another "+
		"database with --sql", db)
}

// users returns the accounts of the cast, in the order of the cast.
func users(ctx context.Context, db *sqldb.DB) ([]accounts.User, error) {
	emails := make([]string, len(cast))
	for i := range cast {
		emails[i] = address(i)
	}
	found, err := accounts.NewDirectory(db).ByEmail(ctx, emails)
	if err != nil {
		return nil, err
	}
	out := make([]accounts.User, len(cast))
	for i, email := range emails {
		u, ok := found[strings.ToLower(email)]
		if !ok {
			return nil, fmt.Errorf("the demo lacks %s: it was not completed, or users were deleted", email)
		}
		out[i] = u
	}
	return out, nil
}

// clockOf returns the calendar of a member of the cast, who never changes the time zone.
func clockOf(i int) civil.Clock { return civil.Clock{Zone: cast[i].zone} }

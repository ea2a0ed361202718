package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/checkin/transfer"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
	"github.com/stoa-dev/stoa/internal/messaging"
	"github.com/stoa-dev/stoa/internal/migrations"
	"github.com/stoa-dev/stoa/internal/social"
)

// domain is reserved: no mail to it can reach anybody.
const domain = "@demo.example"

// cast are the people of a demo, the visitor first, each with a zone.
var cast = []struct{ name, zone string }{
	{"Ada", "Europe/London"}, {"Bo", "Europe/Stockholm"}, {"Chidi", "Africa/Lagos"}, {"Diego", "America/Bogota"}, {"Eun-ji", "Asia/Seoul"}, {"Farah", "Asia/Dubai"},
	{"Giulia", "Europe/Rome"}, {"Hana", "Asia/Tokyo"}, {"Ines", "Europe/Lisbon"}, {"Jonas", "Europe/Berlin"}, {"Kiran", "Asia/Kolkata"}, {"Lin", "Asia/Shanghai"},
	{"明远", "Asia/Shanghai"}, {"Noor", "Asia/Karachi"}, {"Olu", "Africa/Lagos"}, {"Petra", "Europe/Prague"}, {"Quinn", "America/Toronto"}, {"Rosa", "America/Mexico_City"},
	{"思雨", "Asia/Shanghai"}, {"Sione", "Pacific/Auckland"}, {"Tariq", "Africa/Cairo"}, {"Uma", "Asia/Kathmandu"}, {"Vera", "Europe/Warsaw"}, {"Wairimu", "Africa/Nairobi"},
	{"晓峰", "Asia/Taipei"}, {"Ximena", "America/Lima"}, {"Yara", "America/Sao_Paulo"}, {"Zoe", "America/New_York"}, {"Anders", "Europe/Oslo"}, {"Mei", "Asia/Singapore"},
	{"Tomas", "Europe/Vilnius"}, {"Leila", "Africa/Casablanca"}, {"Sam", "America/Los_Angeles"}, {"Niko", "Europe/Athens"}, {"Ivy", "Australia/Sydney"}, {"Omar", "Asia/Riyadh"},
}

// address is the e-mail address of one of the cast.
func address(i int) string {
	if i == 0 {
		return "ada" + domain
	}
	return fmt.Sprintf("person%d%s", i, domain)
}

// Filled is what there is after [Fill].
type Filled struct {
	People, Days int64
	Chats        int    // of the visitor
	LogIn        string // the visitor's address
}

// Fill migrates a database that has no accounts, and fills it. Others it does not touch: it
// returns an error. It is not one transaction: what a Fill that failed has left goes with the
// database.
func Fill(ctx context.Context, db *sqldb.DB) (Filled, error) {
	if err := db.Migrate(ctx, migrations.FS); err != nil {
		return Filled{}, err
	}
	directory := accounts.NewDirectory(db)
	if some, err := directory.List(ctx, accounts.ID{}, 1); err != nil {
		return Filled{}, err
	} else if len(some) > 0 {
		return Filled{}, fmt.Errorf("%s has accounts already: a demo fills an empty database only. What an interrupted one has left goes with the database: remove %[1]s", db)
	}
	history, err := days(db.Now())
	if err != nil {
		return Filled{}, err
	}
	var wrong error // with a row: a fault of this file
	sum, err := transfer.Import(ctx, db, bytes.NewReader(history), transfer.ImportOptions{
		Format: transfer.JSONL, CreateAccounts: true, MaxFaults: 1,
		Fault:    func(f transfer.Fault) { wrong = f },
		Progress: func(transfer.Imported) error { return nil },
	})
	if err := errors.Join(err, wrong); err != nil {
		return Filled{}, err
	}
	if err := meetCast(ctx, db, directory); err != nil {
		return Filled{}, err
	}
	return Filled{People: sum.Accounts, Days: sum.New, Chats: len(chats), LogIn: address(0)}, nil
}

// days has a year of days of the cast, up to yesterday, in the form of an import. It is
// the same for the same day.
func days(now time.Time) ([]byte, error) {
	var b bytes.Buffer
	out := json.NewEncoder(&b)
	random := rand.New(rand.NewPCG(1, 1))
	today := now.UTC().Truncate(24 * time.Hour)
	for i, person := range cast {
		diligence := 0.45 + 0.54*random.Float64() // of ten days, four to nearly all
		run := 3 + random.IntN(30)                // days in a row until yesterday
		if i%6 == 5 {
			run = 0 // has not been here for some days
		}
		since := 90 + random.IntN(275)
		if i == 0 {
			diligence, run, since = 0.8, 11, 364
		}
		for back := since; back >= 1; back-- {
			here := random.Float64() < diligence
			if back <= run {
				here = true
			} else if back <= run+3 {
				here = false
			}
			if !here {
				continue
			}
			if err := out.Encode(map[string]any{"email": address(i), "name": person.name, "zone": person.zone, "day": today.AddDate(0, 0, -back).Format(time.DateOnly),
				"words": random.IntN(40), "minutes": 5 + random.IntN(55)}); err != nil {
				return nil, err
			}
		}
	}
	return b.Bytes(), nil
}

// meetCast makes Ada the friend of a third and of those with whom she chats, and the others friends of their
// neighbours.
func meetCast(ctx context.Context, db *sqldb.DB, directory accounts.Directory) error {
	emails := make([]string, len(cast))
	for i := range cast {
		emails[i] = address(i)
	}
	users, err := directory.ByEmail(ctx, emails)
	if err != nil {
		return err
	}
	chatting := map[int]bool{}
	for _, chat := range chats {
		chatting[chat.with] = true
	}
	var pairs [][2]accounts.ID
	id := func(i int) accounts.ID { return users[strings.ToLower(emails[i])].ID }
	for i := 1; i < len(cast); i++ {
		if i%3 == 1 || chatting[i] {
			pairs = append(pairs, [2]accounts.ID{id(0), id(i)})
		}
		if i+1 < len(cast) {
			pairs = append(pairs, [2]accounts.ID{id(i), id(i + 1)})
		}
	}
	if err := social.Befriend(ctx, db, pairs); err != nil {
		return err
	}
	return messaging.WriteSeeds(ctx, db, seeds(db.Now(), id))
}

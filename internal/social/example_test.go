package social_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/social"
	"github.com/stoa-dev/stoa/internal/storage/migrations"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/redis"
)

func Example() {
	if err := befriend(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// friends: false
	// Bob has one request: Hi, it's Ann
	// friends: true
	// Ann calls him Bobby
}

// befriend makes Ann and Bob friends.
func befriend(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "stoa")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	db, err := sqldb.Open(ctx, sqldb.Config{Dir: dir})
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.Migrate(ctx, migrations.FS); err != nil {
		return err
	}
	rdb, err := redis.Open(ctx, redis.Config{}) // embedded
	if err != nil {
		return err
	}
	defer rdb.Close()
	log := slog.New(slog.DiscardHandler)
	bus := events.NewBus(rdb, "node-1", log)
	caches := cache.NewRuntime(rdb, bus.Nodes(), cache.Config{})
	people, err := accounts.New(accounts.Config{DB: db, Redis: rdb, Caches: caches, Bus: bus, Secret: make([]byte, 32), Log: log})
	if err != nil {
		return err
	}
	s, err := social.New(social.Config{DB: db, Caches: caches, Bus: bus, People: people, Log: log})
	if err != nil {
		return err
	}
	ann, _ := accounts.NewUser("ann@example.org", "Ann", "UTC")
	bob, _ := accounts.NewUser("bob@example.org", "Bob", "UTC")
	if err := db.Tx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		return accounts.InsertUsers(ctx, tx, []accounts.User{ann, bob})
	}); err != nil {
		return err
	}

	are, err := s.IsFriend(ctx, ann.ID, bob.ID)
	if err != nil {
		return err
	}
	fmt.Println("friends:", are)
	if _, _, err := s.SendRequest(ctx, ann.ID, social.RequestDraft{User: bob.ID, Message: "Hi, it's Ann", Remark: "Bobby"}); err != nil {
		return err
	}
	waiting, _, err := s.Received(ctx, bob.ID, "", 10)
	if err != nil {
		return err
	}
	fmt.Println("Bob has one request:", waiting[0].Message)
	if _, err := s.Accept(ctx, bob.ID, waiting[0].ID, "", ""); err != nil {
		return err
	}
	if are, err = s.IsFriend(ctx, bob.ID, ann.ID); err != nil {
		return err
	}
	fmt.Println("friends:", are)
	f, err := s.Friend(ctx, ann.ID, bob.ID)
	if err != nil {
		return err
	}
	fmt.Println("Ann calls him", f.Remark)
	return nil
}

// Command byhand is handwritten code in place of package cache, with otter and rueidis. It has two tiers, one load at a
// time in a process, and a message to the other processes for each change. It ignores races between a load and a
// change.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/redis/rueidis"
)

type user struct{ Name string }

const channel = "user:changed"

func key(id int64) string { return "user:" + strconv.FormatInt(id, 10) }

type users struct {
	redis  rueidis.Client
	memory *otter.Cache[int64, user]
}

func (u *users) get(ctx context.Context, id int64) (user, error) {
	return u.memory.Get(ctx, id, otter.LoaderFunc[int64, user](func(ctx context.Context, id int64) (u2 user, err error) {
		text, err := u.redis.Do(ctx, u.redis.B().Get().Key(key(id)).Build()).AsBytes()
		if err == nil {
			return u2, json.Unmarshal(text, &u2)
		}
		if !rueidis.IsRedisNil(err) {
			log.Print(err)
		}
		u2 = user{fmt.Sprint("user ", id)}
		if text, err = json.Marshal(u2); err != nil {
			return u2, err
		}
		return u2, u.redis.Do(ctx, u.redis.B().Set().Key(key(id)).Value(string(text)).Ex(time.Hour).Build()).Error()
	}))
}

func (u *users) drop(ctx context.Context, id int64) error {
	for _, r := range u.redis.DoMulti(ctx, u.redis.B().Del().Key(key(id)).Build(),
		u.redis.B().Publish().Channel(channel).Message(strconv.FormatInt(id, 10)).Build()) {
		if err := r.Error(); err != nil {
			return err
		}
	}
	u.memory.Invalidate(id)
	return nil
}

func (u *users) listen(ctx context.Context) error {
	return u.redis.Receive(ctx, u.redis.B().Subscribe().Channel(channel).Build(), func(m rueidis.PubSubMessage) {
		if id, err := strconv.ParseInt(m.Message, 10, 64); err == nil {
			u.memory.Invalidate(id)
		}
	})
}

func main() {
	ctx, stop := context.WithCancel(context.Background())
	opt, err := rueidis.ParseURL(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	client, err := rueidis.NewClient(opt)
	if err != nil {
		log.Fatal(err)
	}
	memory, err := otter.New(&otter.Options[int64, user]{MaximumSize: 10_000, ExpiryCalculator: otter.ExpiryWriting[int64, user](time.Hour)})
	if err != nil {
		log.Fatal(err)
	}
	u := &users{client, memory}
	listening := make(chan error)
	go func() { listening <- u.listen(ctx) }()
	fmt.Println(u.get(ctx, 7))
	fmt.Println(u.drop(ctx, 7))
	stop()
	<-listening
	client.Close()
}

package redistest

import (
	"context"
	"slices"
	"testing"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

// Answering returns a database whose server sends the same reply to every command, for tests of unexpected replies: a
// reply of another form, or an error. For a [redis.ServerError] use Reply{Kind: keyspace.ErrorReply, Err: it}.
func Answering(t testing.TB, r keyspace.Reply) *redis.DB {
	t.Helper()
	db, err := redis.Wrap(answering(r), redis.WrapConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

type answering keyspace.Reply

func (answering) Mode() string { return "standalone" }

func (a answering) Do(_ context.Context, cmds []redis.Command) []keyspace.Reply {
	return slices.Repeat([]keyspace.Reply{keyspace.Reply(a)}, len(cmds))
}

func (answering) Subscribe(ctx context.Context, _ string, on redis.Handler) error {
	on.Subscribed()
	<-ctx.Done()
	return ctx.Err()
}

func (a answering) Owners(context.Context) ([]redis.Server, error) {
	return []redis.Server{{Addr: "answering", Do: a.Do}}, nil
}

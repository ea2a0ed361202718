package keyspace_test

import (
	"context"
	"errors"

	"github.com/stoa-dev/stoa/lib/keyspace"
)

// A future can be passed to a function before the batch runs.
func ExampleFuture() {
	ctx, db := context.Background(), embedded()
	defer db.Close()
	var b keyspace.Batch
	var counts []*keyspace.Future[int64]
	for n := range 3 {
		counts = append(counts, b.Int(movesKey.At(GameID{keyspace.Int{N: int64(n)}}).AddCmd(int64(10*n))))
	}
	_, _, err := counts[2].Get()
	show(err)
	if err := b.Run(ctx, db); err != nil {
		show(err)
	}
	for _, count := range counts {
		show(count.Value())
	}
	// Output:
	// keyspace: the batch has not run
	// 0
	// 10
	// 20
}

// Moved is a message of a game's channel.
type Moved struct{ Player, To string }

var movedChannel keyspace.C1[GameID, keyspace.Messages[Moved]] = keyspace.DefChannel1[GameID](games, "channel:game_moved:{{game}}",
	keyspace.MessagesOf[Moved](), keyspace.Doc{Purpose: "each move, for who looks on", MaxBytes: 200})

func ExampleMessages() {
	ctx, db := context.Background(), embedded()
	defer db.Close()
	err := announce(ctx, db, Moved{"ann", "e4"})
	show(err)
	show(movedChannel.At(chess).Decode(`{"Player":"ann","To":"e4"}`)) // a received message
	// Output:
	// <nil>
	// {ann e4} <nil>
}

func announce(ctx context.Context, to keyspace.Publisher, m Moved) error {
	return movedChannel.At(chess).Publish(ctx, to, m)
}

// away is an Executor that tests a program while Redis is unavailable.
type away struct{}

var errAway = errors.New("away")

func (away) Do(context.Context, keyspace.Cmd) keyspace.Reply { return keyspace.Fail(errAway) }

func (a away) DoMulti(ctx context.Context, cmds []keyspace.Cmd) []keyspace.Reply {
	replies := make([]keyspace.Reply, len(cmds))
	for i, cmd := range cmds {
		replies[i] = a.Do(ctx, cmd)
	}
	return replies
}

func ExampleFail() {
	_, err := movesKey.At(chess).Add(context.Background(), away{}, 1)
	show(errors.Is(err, errAway))
	show(keyspace.FirstErr(away{}.DoMulti(context.Background(), make([]keyspace.Cmd, 2))))
	// Output:
	// true
	// away
}

// A custom command returns a reply, which is read by its kind.
func ExampleReply() {
	ctx, db := context.Background(), embedded()
	defer db.Close()
	title := titleKey.At(chess)
	title.Set(ctx, db, "Chess")
	r := db.Do(ctx, keyspace.Cmd{Name: "GETRANGE", Key: title.Key, Args: []string{"0", "2"}})
	switch r.Kind {
	case keyspace.TextReply:
		show(r.Str)
	case keyspace.IntReply:
		show(r.N)
	case keyspace.ListReply:
		show(len(r.List))
	case keyspace.NilReply, keyspace.ErrorReply:
		show("nothing", r.Err)
	}
	_, err := r.Items() // the reply is not a list
	show(errors.Is(err, keyspace.ErrReply))

	r = db.Do(ctx, keyspace.Cmd{Name: "SADD", Key: title.Key, Args: []string{"ann"}})
	show(errors.Is(r.Err, keyspace.ErrType)) // the command was not sent

	var b keyspace.Batch
	b.Do(title.DeleteCmd())
	b.Do(titleKey.At(GameID{keyspace.Int{N: 8}}).DeleteCmd())
	show(errors.Is(b.RunAtomic(ctx, db), keyspace.ErrCrossSlot))
	// Output:
	// Che
	// true
	// true
	// true
}

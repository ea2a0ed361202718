package move_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strconv"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/keyspace/tools/move"
	"github.com/stoa-dev/stoa/lib/redis"
	_ "github.com/stoa-dev/stoa/lib/redis/embedded"
)

// Room identifies a room by its number.
type Room struct{ keyspace.Int }

var (
	rooms = keyspace.New("rooms")

	// The old family is a plain text.
	topicKey = keyspace.Def1[Room](rooms, "room:topic:{{room}}", keyspace.BytesOf("text"), keyspace.Forever("until the room goes"),
		keyspace.Doc{Purpose: "what a room talks about"})
	// The new family is a JSON document.
	settingsKey = keyspace.Def1[Room](rooms, "room:settings:{{room}}", keyspace.JSONOf[settings](), keyspace.Forever("until the room goes"),
		keyspace.Doc{Purpose: "a room's topic, and soon more"})
	roomMove = keyspace.Def0(rooms, "room:move_settings", keyspace.HashOf("see package move"),
		keyspace.Forever("removed by hand after the move"),
		keyspace.Doc{Purpose: "how far the move of topics is"})
)

type settings struct {
	Topic string `json:"topic"`
}

var topics = move.Plan[Room, string]{
	State: roomMove.At(),
	Poll:  20 * time.Millisecond, // for an example; use a second
	Parse: func(args []string) (Room, error) {
		n, err := strconv.ParseInt(args[0], 10, 64)
		return Room{keyspace.Int{N: n}}, err
	},
	Old: move.Side[Room, string]{
		Family: topicKey.Family,
		Key:    func(r Room) keyspace.Key { return topicKey.At(r).Key },
		Get: func(ctx context.Context, db keyspace.Executor, r Room) (string, bool, error) {
			return topicKey.At(r).Get(ctx, db)
		},
		Set: func(r Room, topic string) ([]keyspace.Cmd, error) {
			return []keyspace.Cmd{topicKey.At(r).SetCmd(topic, 0)}, nil
		},
	},
	New: move.Side[Room, string]{
		Family: settingsKey.Family,
		Key:    func(r Room) keyspace.Key { return settingsKey.At(r).Key },
		Get: func(ctx context.Context, db keyspace.Executor, r Room) (string, bool, error) {
			s, ok, err := settingsKey.At(r).Get(ctx, db)
			return s.Topic, ok, err
		},
		Set: func(r Room, topic string) ([]keyspace.Cmd, error) {
			cmd, err := settingsKey.At(r).SetCmd(settings{topic}, 0)
			return []keyspace.Cmd{cmd}, err
		},
	},
}

func Example() {
	ctx := context.Background()
	db, err := redis.Open(ctx, redis.Config{URL: "embedded"})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	must := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}

	// Every node reads and writes with its own Mover.
	m := move.Start(db, topics)
	tea, chess := Room{keyspace.Int{N: 1}}, Room{keyspace.Int{N: 2}}
	must(m.Set(ctx, tea, "oolong"))
	must(m.Set(ctx, chess, "openings"))

	// One process runs the move.
	for {
		phase, err := m.Phase(ctx)
		must(err)
		fmt.Println("phase", phase)
		switch phase {
		case move.Both:
			must(m.Set(ctx, tea, "sencha"))
			filled, err := m.Fill(ctx)
			must(err)
			compared, err := m.Compare(ctx)
			must(err)
			fmt.Println(filled.Keys, "filled,", compared.Differ, "differ")
		case move.New:
			_, err := m.Clean(ctx)
			must(err)
			continue
		case move.Done:
			for _, r := range []Room{tea, chess} {
				s, _, err := settingsKey.At(r).Get(ctx, db)
				must(err)
				_, left, err := topicKey.At(r).Get(ctx, db)
				must(err)
				fmt.Println(s.Topic, "in the old key too:", left)
			}
			return
		}
		_, err = m.Advance(ctx)
		must(err)
	}
	// Output:
	// phase old
	// phase both
	// 2 filled, 0 differ
	// phase switched
	// phase new
	// phase done
	// sencha in the old key too: false
	// openings in the old key too: false
}

// The errors of a move, and their causes.
func ExampleMover_Advance() {
	ctx := context.Background()
	db, err := redis.Open(ctx, redis.Config{URL: "embedded"})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	m := move.Start(db, topics)
	tea := Room{keyspace.Int{N: 1}}
	show := func(err error) {
		switch {
		case errors.Is(err, move.ErrPhase):
			fmt.Println("not in this phase")
		case errors.Is(err, move.ErrNotEmpty):
			fmt.Println("keys of the new family are there: who wrote them?")
		case errors.Is(err, move.ErrDiffers):
			fmt.Println("fill and compare first")
		case errors.Is(err, move.ErrCommand):
			fmt.Println("a command for the wrong key")
		case errors.Is(err, move.ErrBusy):
			fmt.Println("compare once more, when less is written")
		default:
			fmt.Println(err)
		}
	}
	_, err = m.Fill(ctx)
	show(err)
	_, err = m.Write(ctx, tea, []keyspace.Cmd{settingsKey.At(tea).DeleteCmd()}, nil)
	show(err)
	show(settingsKey.At(tea).Set(ctx, db, settings{"oolong"}))
	_, err = m.Advance(ctx)
	show(err)
	show(settingsKey.At(tea).Delete(ctx, db))
	_, err = m.Advance(ctx)
	show(err)
	_, err = m.Advance(ctx)
	show(err)
	// Output:
	// not in this phase
	// a command for the wrong key
	// <nil>
	// keys of the new family are there: who wrote them?
	// <nil>
	// <nil>
	// fill and compare first
}

package collection_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"time"

	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/cache/collection"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

var (
	blocksKey = keyspace.Def1[keyspace.Int](shop, "user:blocks:{user}", keyspace.CachedSetOf[int64](),
		keyspace.Expire(time.Hour).Negative(time.Hour), keyspace.Doc{Purpose: "whom a user blocks"})
	boardKey = keyspace.Def1[keyspace.Int](shop, "game:scores:{game}", keyspace.CachedZSetOf[string](), keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "who has how much"})
)

func ExampleAsk() {
	ctx := context.Background()
	rt, err := cache.Open(ctx, cache.Options{}) // embedded; set a URL for a real Redis
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	blocks := collection.NewSet(rt, blocksKey, collection.Policy{}, collection.SetSource[keyspace.Int, int64]{
		Load: func(_ context.Context, user keyspace.Int) ([]int64, error) {
			if user.N == 1 {
				return []int64{2, 3}, nil
			}
			return nil, nil
		},
	})
	ann, bob := keyspace.Int{N: 1}, keyspace.Int{N: 2}
	annsOfBob, bobsOfAnn := blocks.Ask(ann, bob.N), blocks.Ask(bob, ann.N)
	err = collection.Ask(ctx, annsOfBob, bobsOfAnn) // one round trip, after both are loaded
	fmt.Println(annsOfBob.Yes(), bobsOfAnn.Yes(), err)

	err = blocks.Mutate(ctx, bob, func(context.Context) error {
		return nil /* INSERT … */
	}, func(e *collection.SetEdit[int64]) { e.Add(ann.N) })
	in, asked := blocks.Has(ctx, bob, ann.N)
	fmt.Println(in, asked, err)
	// Output:
	// true false <nil>
	// true <nil> <nil>
}

func ExampleZSet() {
	ctx := context.Background()
	rt, err := cache.Open(ctx, cache.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	board := collection.NewZSet(rt, boardKey, collection.Policy{}, collection.ZSetSource[keyspace.Int, string]{
		Load: func(context.Context, keyspace.Int) (map[string]float64, error) {
			return map[string]float64{"ann": 30, "bob": 20, "eve": 10}, nil
		},
	})
	chess := keyspace.Int{N: 7}
	page, next, err := board.Page(ctx, chess, "", 2)
	fmt.Println(page, next != "", err)
	fmt.Println(board.CountAbove(ctx, chess, 15))
	fmt.Println(board.Score(ctx, chess, "eve"))
	// Output:
	// [{ann 30} {bob 20}] true <nil>
	// 2 <nil>
	// 10 true <nil>
}

func ExampleZSetEdit() {
	ctx := context.Background()
	rt, err := cache.Open(ctx, cache.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	table := map[string]float64{"ann": 30, "bob": 20} // your database
	board := collection.NewZSet(rt, boardKey, collection.Policy{}, collection.ZSetSource[keyspace.Int, string]{
		Load: func(context.Context, keyspace.Int) (map[string]float64, error) { return maps.Clone(table), nil },
	})
	chess := keyspace.Int{N: 8}
	change := func(e *collection.ZSetEdit[string]) { e.Set("eve", 40); e.Remove("bob") }
	err = board.Mutate(ctx, chess, func(context.Context) error {
		table["eve"] = 40
		delete(table, "bob")
		return nil
	}, change)
	page, next, _ := board.Page(ctx, chess, "", 10)
	fmt.Println(page, next == "", err)

	_, _, err = board.Page(ctx, chess, "a cursor of another list", 10)
	fmt.Println(errors.Is(err, collection.ErrCursor))
	table["ann"] = math.NaN()
	_, err = board.Len(ctx, keyspace.Int{N: 9}) // loads the collection
	fmt.Println(errors.Is(err, collection.ErrScore))
	// Output:
	// [{eve 40} {ann 30}] true <nil>
	// true
	// true
}

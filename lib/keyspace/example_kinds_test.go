package keyspace_test

import (
	"context"
	"fmt"
	"log"
	"math"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	_ "github.com/stoa-dev/stoa/lib/redis/embedded"
)

// GameID identifies a game; all keys of a game share its hash tag.
type GameID struct{ keyspace.Int }

var games = keyspace.New("games")

var (
	titleKey = keyspace.Def1[GameID](games, "game:title:{{game}}", keyspace.BytesOf("text"), keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "what a game is called"})
	rulesKey = keyspace.Def1[GameID](games, "game:rules:{{game}}", keyspace.JSONOf[map[string]int](), keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "the rules"})
	movesKey = keyspace.Def1[GameID](games, "game:moves:{{game}}", keyspace.CounterKind(), keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "how many moves were made"})
	seatsKey = keyspace.Def1[GameID](games, "game:seats:{{game}}", keyspace.BitmapOf("one bit for each seat"), keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "taken seats"})
	cameKey = keyspace.Def2[GameID, keyspace.Int](games, "game:came:{{game}}:{day}", keyspace.BitmapOf("one bit for each player"),
		keyspace.Expire(time.Hour), keyspace.Doc{Purpose: "who came on a day"})
	viewersKey = keyspace.Def1[GameID](games, "game:viewers:{{game}}", keyspace.HyperLogLogOf("users"), keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "how many looked on", MaxBytes: 13 << 10})
	stateKeys = keyspace.Def1[GameID](games, "game:state:{{game}}", keyspace.HashOf("turn, round"), keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "where a game is"})
	playersKey = keyspace.Def1[GameID](games, "game:players:{{game}}", keyspace.SetOf("user"), keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "who plays"})
	winnersKey = keyspace.Def1[GameID](games, "game:winners:{{game}}", keyspace.SetOf("user"), keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "who has won"})
	scoresKey = keyspace.Def1[GameID](games, "game:scores:{{game}}", keyspace.ZSetOf("user → points"), keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "the score"})
	placesKey = keyspace.Def1[GameID](games, "game:places:{{game}}", keyspace.GeoOf("user"), keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "where the players are"})
	waitingKey = keyspace.Def1[GameID](games, "game:waiting:{{game}}", keyspace.ListOf("user"), keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "who waits for a seat"})
	servingKey = keyspace.Def1[GameID](games, "game:serving:{{game}}", keyspace.ListOf("user"), keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "who is being seated"})
	eventsKey = keyspace.Def1[GameID](games, "game:events:{{game}}", keyspace.StreamOf("kind, user"), keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "what took place"})
)

var chess = GameID{keyspace.Int{N: 7}}

// embedded opens an empty Redis inside this process.
func embedded() *redis.DB {
	db, err := redis.Open(context.Background(), redis.Config{URL: "embedded"})
	if err != nil {
		log.Fatal(err)
	}
	return db
}

// show prints the results of a call.
func show(results ...any) { fmt.Println(results...) }

func ExampleKey() {
	ctx, db := context.Background(), embedded()
	defer db.Close()
	title := titleKey.At(chess)
	title.Set(ctx, db, "Chess")
	show(title.Exists(ctx, db))
	title.Renew(ctx, db) // for example after a read
	show(title.Left(ctx, db))
	title.Delete(ctx, db)
	show(title.Left(ctx, db))
	// Output:
	// true <nil>
	// 1h0m0s true <nil>
	// 0s false <nil>
}

func ExampleBytes() {
	ctx, db := context.Background(), embedded()
	defer db.Close()
	title := titleKey.At(chess)
	show(title.Add(ctx, db, "Chess"))
	show(title.Add(ctx, db, "Go"))
	show(title.Append(ctx, db, "!"))
	show(title.Take(ctx, db))
	show(title.Len(ctx, db))
	// Output:
	// true <nil>
	// false <nil>
	// 6 <nil>
	// Chess! true <nil>
	// 0 <nil>
}

func ExampleJSON() {
	ctx, db := context.Background(), embedded()
	defer db.Close()
	rules := rulesKey.At(chess)
	rules.Set(ctx, db, map[string]int{"minutes": 5})
	show(rules.Add(ctx, db, map[string]int{"minutes": 9}))
	show(rules.Get(ctx, db))
	show(rules.Take(ctx, db))
	// Output:
	// false <nil>
	// map[minutes:5] true <nil>
	// map[minutes:5] true <nil>
}

func ExampleCounter() {
	ctx, db := context.Background(), embedded()
	defer db.Close()
	moves := movesKey.At(chess)
	show(moves.Add(ctx, db, 2))
	moves.Set(ctx, db, 40)
	show(moves.Add(ctx, db, -1))
	show(moves.Take(ctx, db))
	show(moves.Get(ctx, db))
	// Output:
	// 2 <nil>
	// 39 <nil>
	// 39 <nil>
	// 0 <nil>
}

func ExampleBitmap() {
	ctx, db := context.Background(), embedded()
	defer db.Close()
	seats := seatsKey.At(chess)
	show(seats.SetBit(ctx, db, 3))
	show(seats.SetBit(ctx, db, 3)) // it was taken already
	seats.SetBit(ctx, db, 9)
	show(seats.Count(ctx, db))
	show(seats.First(ctx, db))
	seats.ClearBit(ctx, db, 3)
	show(seats.Bit(ctx, db, 3))
	// Output:
	// false <nil>
	// true <nil>
	// 2 <nil>
	// 3 <nil>
	// false <nil>
}

// The players that came on both days, computed in Redis.
func ExampleBitmap_StoreAnd() {
	ctx, db := context.Background(), embedded()
	defer db.Close()
	first, second, both := cameKey.At(chess, keyspace.Int{N: 1}), cameKey.At(chess, keyspace.Int{N: 2}), cameKey.At(chess, keyspace.Int{N: 0})
	for _, player := range []int{3, 5} {
		first.SetBit(ctx, db, player)
	}
	second.SetBit(ctx, db, 5)
	show(both.StoreAnd(ctx, db, first, second))
	show(both.First(ctx, db))
	show(both.Left(ctx, db))
	// Output:
	// 1 <nil>
	// 5 <nil>
	// 1h0m0s true <nil>
}

func ExampleHyperLogLog() {
	ctx, db := context.Background(), embedded()
	defer db.Close()
	viewers, before := viewersKey.At(chess), viewersKey.At(GameID{keyspace.Int{N: 8}})
	viewers.Add(ctx, db, "ann", "bob", "ann")
	show(viewers.Count(ctx, db))
	before.Add(ctx, db, "ann")
	show(before.Count(ctx, db))
	// Output:
	// 2 <nil>
	// 1 <nil>
}

func ExampleHash() {
	ctx, db := context.Background(), embedded()
	defer db.Close()
	state := stateKeys.At(chess)
	state.SetSome(ctx, db, map[string]string{"turn": "ann", "round": "1"})
	show(state.Add(ctx, db, "round", 1))
	show(state.SetNew(ctx, db, "turn", "bob"))
	show(state.Get(ctx, db, "turn"))
	show(state.GetSome(ctx, db, "round", "winner"))
	show(state.Remove(ctx, db, "turn"))
	show(state.All(ctx, db))
	// Output:
	// 2 <nil>
	// false <nil>
	// ann true <nil>
	// map[round:2] <nil>
	// 1 <nil>
	// map[round:2] <nil>
}

func ExampleSet() {
	ctx, db := context.Background(), embedded()
	defer db.Close()
	players, winners := playersKey.At(chess), winnersKey.At(chess)
	show(players.Add(ctx, db, "ann", "bob", "eve"))
	show(players.Move(ctx, db, winners, "ann"))
	show(players.HasEach(ctx, db, "ann", "bob"))
	all, _ := players.Union(ctx, db, winners)
	slices.Sort(all)
	show(all)
	show(winners.All(ctx, db))
	// Output:
	// 3 <nil>
	// true <nil>
	// [false true] <nil>
	// [ann bob eve]
	// [ann] <nil>
}

func ExampleZSet() {
	ctx, db := context.Background(), embedded()
	defer db.Close()
	scores := scoresKey.At(chess)
	scores.SetSome(ctx, db, keyspace.Scored{Member: "ann", Score: 12}, keyspace.Scored{Member: "bob", Score: 7},
		keyspace.Scored{Member: "eve", Score: 1})
	show(scores.Raise(ctx, db, "ann", 10)) // a lower score does not count
	show(scores.Add(ctx, db, "bob", 6))
	show(scores.Top(ctx, db, 2))
	show(scores.RankTop(ctx, db, "eve"))
	show(scores.ByScore(ctx, db, 10, math.Inf(1), 100))
	show(scores.KeepTop(ctx, db, 2))
	// Output:
	// false <nil>
	// 13 <nil>
	// [{bob 13} {ann 12}] <nil>
	// 2 true <nil>
	// [{ann 12} {bob 13}] <nil>
	// 1 <nil>
}

func ExampleGeo() {
	ctx, db := context.Background(), embedded()
	defer db.Close()
	places := placesKey.At(chess)
	places.Set(ctx, db, "ann", keyspace.Point{Lat: 52.52, Lon: 13.405})
	places.Set(ctx, db, "bob", keyspace.Point{Lat: 48.8566, Lon: 2.3522})
	metres, _, err := places.Distance(ctx, db, "ann", "bob")
	fmt.Printf("%.0f km %v\n", metres/1000, err)
	show(places.Remove(ctx, db, "bob"))
	show(places.Len(ctx, db))
	// Output:
	// 878 km <nil>
	// 1 <nil>
	// 1 <nil>
}

// A worker that crashes loses no element of this queue: the element is in another list.
func ExampleList() {
	ctx, db := context.Background(), embedded()
	defer db.Close()
	waiting, serving := waitingKey.At(chess), servingKey.At(chess)
	show(waiting.Push(ctx, db, "ann", "bob"))
	show(waiting.Move(ctx, db, serving))
	show(serving.Range(ctx, db, 0, -1))
	show(serving.Remove(ctx, db, "ann"))
	show(waiting.Pop(ctx, db, 10))
	// Output:
	// 2 <nil>
	// ann true <nil>
	// [ann] <nil>
	// 1 <nil>
	// [bob] <nil>
}

func ExampleStream() {
	ctx, db := context.Background(), embedded()
	defer db.Close()
	events := eventsKey.At(chess)
	show(events.Join(ctx, db, "referees", "0"))
	events.Add(ctx, db, 1000, map[string]string{"kind": "move", "user": "ann"})
	all, err := events.Read(ctx, db, "referees", "zoe", 10)
	show(len(all), all[0].Fields, err)
	show(events.Done(ctx, db, "referees", all[0].ID))
	show(events.Read(ctx, db, "referees", "zoe", 10))
	// Output:
	// true <nil>
	// 1 map[kind:move user:ann] <nil>
	// 1 <nil>
	// [] <nil>
}

func ExampleMillis() {
	fmt.Println(keyspace.Millis(90 * time.Second))
	// Output:
	// 90000
}

package cache_test

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/vmihailenco/msgpack/v5"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/keyspace"
	_ "github.com/stoa-dev/stoa/lib/redis/embedded"
)

// MessagePack is a codec for values of any type.
type MessagePack[V any] struct{}

func (MessagePack[V]) Name() string { return "msgpack" }

func (MessagePack[V]) Append(b []byte, v V) ([]byte, error) {
	to := bytes.NewBuffer(b)
	err := msgpack.NewEncoder(to).Encode(v)
	return to.Bytes(), err
}

func (MessagePack[V]) Decode(b []byte, v *V) error { return msgpack.Unmarshal(b, v) }

// Protobuf is a codec for pointers to messages: Protobuf[pb.User, *pb.User] for a generated type pb.User.
type Protobuf[T any, M interface {
	*T
	proto.Message
}] struct{}

func (Protobuf[T, M]) Name() string { return "protobuf" }

func (Protobuf[T, M]) Append(b []byte, m M) ([]byte, error) {
	return proto.MarshalOptions{}.MarshalAppend(b, m)
}

func (Protobuf[T, M]) Decode(b []byte, m *M) error {
	*m = new(T)
	return proto.Unmarshal(b, *m)
}

type product struct {
	Name  string
	Cents int
}

func ExampleCodec() {
	ctx := context.Background()
	rt, err := cache.Open(ctx, cache.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	load := func(_ context.Context, id int) (product, error) { return product{"lamp", 100 * id}, nil }
	products := cache.Keyed(rt, "product", strconv.Itoa, load, cache.WithCodec(MessagePack[product]{}))

	p, err := products.Get(ctx, 7)
	fmt.Println(p, err)
	products.Clear() // clears this process' memory
	e, err := products.Lookup(ctx, 7)
	fmt.Println(e.Value, "from", e.Tier, err)
	// Output:
	// {lamp 700} <nil>
	// {lamp 700} from redis <nil>
}

func ExampleCodec_protobuf() {
	ctx := context.Background()
	rt, err := cache.Open(ctx, cache.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	load := func(_ context.Context, id int) (*wrapperspb.StringValue, error) {
		return wrapperspb.String("lamp " + strconv.Itoa(id)), nil
	}
	labels := cache.Keyed(rt, "label", strconv.Itoa, load,
		cache.WithCodec(Protobuf[wrapperspb.StringValue, *wrapperspb.StringValue]{}))

	if _, err := labels.Get(ctx, 7); err != nil {
		fmt.Println(err)
	}
	labels.Clear()
	e, err := labels.Lookup(ctx, 7)
	fmt.Println(e.Value.GetValue(), "from", e.Tier, err)
	// Output:
	// lamp 7 from redis <nil>
}

func ExampleCache_Refresh() {
	ctx := context.Background()
	rt, err := cache.Open(ctx, cache.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	cents := 700
	load := func(context.Context, int) (int, error) { return cents, nil }
	prices := cache.Keyed(rt, "price", strconv.Itoa, load)

	_, ok := prices.Peek(7)
	fmt.Println("in memory:", ok)
	price, err := prices.Get(ctx, 7)
	fmt.Println(price, err)

	cents = 800
	price, err = prices.Refresh(ctx, 7)
	fmt.Println(price, err)

	cents = 900 // likewise for all other prices
	if err := prices.ClearEverywhere(ctx); err != nil {
		fmt.Println(err)
	}
	price, err = prices.Get(ctx, 7)
	fmt.Println(price, err)
	// Output:
	// in memory: false
	// 700 <nil>
	// 800 <nil>
	// 900 <nil>
}

func ExampleOnRemoval() {
	ctx := context.Background()
	rt, err := cache.Open(ctx, cache.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	load := func(_ context.Context, id int) (string, error) { return "page " + strconv.Itoa(id), nil }
	removed := make(chan string, 1)
	pages := cache.Keyed(rt, "page", strconv.Itoa, load,
		cache.MaxWeight(64<<20, func(_ int, page string) uint32 { return uint32(len(page)) }), // 64 MiB
		cache.OnRemoval(func(id int, page string, why cache.Removal) { removed <- fmt.Sprint(page, " was ", why) }))

	page, err := pages.Get(ctx, 7)
	fmt.Println(page, err)
	pages.Clear()
	fmt.Println(<-removed)
	// Output:
	// page 7 <nil>
	// page 7 was invalidated
}

func ExampleCompress() {
	ctx := context.Background()
	rt, err := cache.Open(ctx, cache.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	load := func(_ context.Context, id int) (string, error) { return string(bytes.Repeat([]byte("la"), id)), nil }
	songs := cache.Keyed(rt, "song", strconv.Itoa, load, cache.Compress(1000))

	song, err := songs.Get(ctx, 5000)
	fmt.Println(len(song), err)
	songs.Clear()
	e, err := songs.Lookup(ctx, 5000)
	fmt.Println(len(e.Value), "from", e.Tier, err)
	// Output:
	// 10000 <nil>
	// 10000 from redis <nil>
}

func ExampleCache_GetFresh() {
	ctx := context.Background()
	rt, err := cache.Open(ctx, cache.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	stock := 3 // other programs change it without notifying the cache
	load := func(context.Context, int) (int, error) { return stock, nil }
	stocks := cache.Keyed(rt, "stock", strconv.Itoa, load, cache.TTL(time.Hour))

	n, err := stocks.Get(ctx, 7)
	fmt.Println(n, err)
	stock = 2
	n, err = stocks.GetFresh(ctx, 7, time.Minute) // recent enough for a list of products
	fmt.Println(n, err)
	n, err = stocks.GetFresh(ctx, 7, 0) // at the checkout
	fmt.Println(n, err)
	n, err = stocks.Get(ctx, 7)
	fmt.Println(n, err)
	// Output:
	// 3 <nil>
	// 3 <nil>
	// 2 <nil>
	// 2 <nil>
}

func ExampleLifeOf() {
	ctx := context.Background()
	rt, err := cache.Open(ctx, cache.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	type token struct {
		Text string
		Ends time.Time
	}
	asked := 0
	load := func(context.Context, string) (token, error) { // from an issuer of tokens
		asked++
		return token{fmt.Sprint("token ", asked), time.Now().Add(10 * time.Minute)}, nil
	}
	tokens := cache.Keyed(rt, "token", func(of string) string { return of }, load,
		cache.TTL(time.Hour), // at most
		cache.LifeOf(func(t token) time.Duration { return time.Until(t.Ends) - time.Minute }))

	for range 2 {
		t, err := tokens.Get(ctx, "payments")
		fmt.Println(t.Text, err)
	}
	// Output:
	// token 1 <nil>
	// token 1 <nil>
}

// A family without arguments has one value; the keys of families with two and three arguments have as many fields.
func ExampleNew3() {
	ctx := context.Background()
	rt, err := cache.Open(ctx, cache.Options{}) // embedded; set a URL for a real Redis
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	keys, life := keyspace.New("shop"), keyspace.Expire(time.Hour)
	rates := cache.New0(rt, keyspace.Def0(keys, "rates", keyspace.CachedOf[float64](), life, keyspace.Doc{Purpose: "the rate of the day"}),
		cache.Policy{}, cache.Source[struct{}, float64]{Load: func(context.Context, struct{}) (float64, error) { return 1.08, nil }})
	prices := cache.New2(rt, keyspace.Def2[keyspace.Int, keyspace.Text](keys, "price:{product}:{country}", keyspace.CachedOf[int](), life,
		keyspace.Doc{Purpose: "a price"}),
		cache.Policy{}, cache.Source[keyspace.Args2[keyspace.Int, keyspace.Text], int]{
			Load: func(_ context.Context, at keyspace.Args2[keyspace.Int, keyspace.Text]) (int, error) {
				return 100 * int(at.A.N), nil
			},
		})
	stocks := cache.New3(rt, keyspace.Def3[keyspace.Int, keyspace.Text, keyspace.Text](keys, "stock:{product}:{country}:{town}",
		keyspace.CachedOf[int](), life, keyspace.Doc{Purpose: "number of items"}),
		cache.Policy{}, cache.Source[keyspace.Args3[keyspace.Int, keyspace.Text, keyspace.Text], int]{
			Load: func(_ context.Context, at keyspace.Args3[keyspace.Int, keyspace.Text, keyspace.Text]) (int, error) {
				return len(at.C.S), nil
			},
		})
	fmt.Println(rates.Get(ctx, struct{}{}))
	fmt.Println(prices.Get(ctx, keyspace.Args2[keyspace.Int, keyspace.Text]{A: keyspace.Int{N: 7}, B: keyspace.Text{S: "GR"}}))
	fmt.Println(stocks.Get(ctx, keyspace.Args3[keyspace.Int, keyspace.Text, keyspace.Text]{A: keyspace.Int{N: 7}, B: keyspace.Text{S: "GR"},
		C: keyspace.Text{S: "Athens"}}))
	// Output:
	// 1.08 <nil>
	// 700 <nil>
	// 6 <nil>
}

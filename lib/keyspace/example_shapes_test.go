package keyspace_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
)

// Each kind of identifier has its own type, so that it cannot replace another.
type (
	UserID    struct{ keyspace.Int }
	OrderID   struct{ keyspace.Int }
	ItemID    struct{ keyspace.Int }
	ProductID struct{ keyspace.Int }
	RoomID    struct{ keyspace.Int }
	Year      struct{ keyspace.Int }
	Moment    struct{ keyspace.Int }    // Unix milliseconds
	SessionID struct{ keyspace.Hashed } // a key must not contain a secret
	TokenID   struct{ keyspace.Hashed }
	Address   struct{ keyspace.Hashed }
	CacheKey  struct{ keyspace.Text }
)

// Closed lists of words.
type (
	userStates  struct{}
	orderStates struct{}
	caches      struct{}
	operations  struct{}
)

func (userStates) Words() []string  { return []string{"active", "away", "banned"} }
func (orderStates) Words() []string { return []string{"pending", "paid", "sent"} }
func (caches) Words() []string      { return []string{"user", "product", "order"} }
func (operations) Words() []string  { return []string{"login", "logout", "order"} }

type (
	UserState  = keyspace.Word[userStates]
	OrderState = keyspace.Word[orderStates]
	Cache      = keyspace.Word[caches]
	Operation  = keyspace.Word[operations]
)

// The types of JSON values.
type (
	Person  struct{ Name, Language string }
	Bill    struct{ Total, Items int }
	Product struct {
		Name  string
		Cents int
	}
)

var shapes = keyspace.New("shapes")

const day = 24 * time.Hour

// The simple shape: a type and an identifier.
var (
	userKey = keyspace.Def1[UserID](shapes, "user:{id}", keyspace.JSONOf[Person](), keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "a user"})
	billKey = keyspace.Def1[OrderID](shapes, "order:{id}", keyspace.JSONOf[Bill](), keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "an order"})
	sessionKey = keyspace.Def1[SessionID](shapes, "session:{id}", keyspace.HashOf("user, device, since"), keyspace.UpTo(30*day),
		keyspace.Doc{Purpose: "a session"})
	productKey = keyspace.Def1[ProductID](shapes, "product:{id}", keyspace.JSONOf[Product](), keyspace.Expire(time.Hour).Jitter(5*time.Minute),
		keyspace.Doc{Purpose: "a product"})
	tokenKey = keyspace.Def1[TokenID](shapes, "token:{id}", keyspace.BytesOf("the user's number"), keyspace.Expire(day),
		keyspace.Doc{Purpose: "an access token"})
	codeKey = keyspace.Def1[Address](shapes, "verification:code:{address}", keyspace.BytesOf("six digits"), keyspace.Expire(5*time.Minute),
		keyspace.Doc{Purpose: "a code that was mailed"})
)

// Composite: two things, or one aspect of a thing.
var (
	userOrderKey = keyspace.Def2[OrderID, UserID](shapes, "order:{order}:user:{user}", keyspace.JSONOf[Bill](), keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "an order as its user sees it"})
	basketKey = keyspace.Def1[UserID](shapes, "cart:user:{user}", keyspace.HashOf("product → count"), keyspace.Expire(30*day),
		keyspace.Doc{Purpose: "a user's cart"})
	profileCache = keyspace.Def1[UserID](shapes, "cache:user:{user}:profile", keyspace.JSONOf[Person](),
		keyspace.Expire(time.Hour).Negative(time.Minute), keyspace.Doc{Purpose: "a profile", InvalidatedBy: []string{"profile changed"}})
	profileKey = keyspace.Def1[UserID](shapes, "user:{user}:profile", keyspace.JSONOf[Person](), keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "a user's profile"})
	loginKey = keyspace.Def1[UserID](shapes, "user:{user}:session", keyspace.SetOf("session"), keyspace.Expire(30*day),
		keyspace.Doc{Purpose: "a user's sessions"})
	cartKey = keyspace.Def1[UserID](shapes, "user:{user}:cart", keyspace.HashOf("total, changed"), keyspace.Expire(30*day),
		keyspace.Doc{Purpose: "a cart's head"})
	historyKey = keyspace.Def2[UserID, OrderID](shapes, "user:{user}:order:{order}", keyspace.JSONOf[Bill](), keyspace.Expire(time.Hour),
		keyspace.Doc{Purpose: "one of a user's orders"})
	stateKey = keyspace.Def1[OrderID](shapes, "order:{order}:status", keyspace.BytesOf("one word"), keyspace.Expire(day),
		keyspace.Doc{Purpose: "where an order is"})
	linesKey = keyspace.Def1[OrderID](shapes, "order:{order}:items", keyspace.ListOf("product, count"), keyspace.Expire(day),
		keyspace.Doc{Purpose: "what was ordered"})
	cacheKey = keyspace.Def2[Cache, CacheKey](shapes, "cache:{cache}:{key}", keyspace.BytesOf("the cache's own"),
		keyspace.Expire(time.Hour), keyspace.Doc{Purpose: "any cache"})
	refreshKey = keyspace.Def1[UserID](shapes, "token:{user}:refresh", keyspace.BytesOf("SHA-256 of the token"), keyspace.Expire(30*day),
		keyspace.Doc{Purpose: "what a user refreshes with"})
	sessionData = keyspace.Def1[SessionID](shapes, "session:{id}:data", keyspace.HashOf("name → value"), keyspace.UpTo(30*day),
		keyspace.Doc{Purpose: "what a session keeps"})
)

// With a time in the key, so that old values are not read by mistake.
var yearCache = keyspace.Def2[UserID, Year](shapes, "cache:user:{user}:profile:{year}", keyspace.JSONOf[Person](),
	keyspace.Expire(time.Hour), keyspace.Doc{Purpose: "a profile of a year"})

// With a status in the key: one set or flag for each status.
var (
	userStateKey = keyspace.Def2[UserID, UserState](shapes, "user:{user}:status:{status}", keyspace.BytesOf("since, Unix ms"),
		keyspace.Lease(time.Minute), keyspace.Doc{Purpose: "a user is in this status"})
	orderStateKey = keyspace.Def2[OrderID, OrderState](shapes, "order:{order}:status:{status}", keyspace.BytesOf("since, Unix ms"),
		keyspace.Expire(day), keyspace.Doc{Purpose: "an order is in this status"})
)

// Nested: a part of a thing.
var (
	cartItemsKey = keyspace.Def1[UserID](shapes, "user:{user}:cart:items", keyspace.ListOf("product"), keyspace.Expire(30*day),
		keyspace.Doc{Purpose: "what is in a cart"})
	itemKey = keyspace.Def2[OrderID, ItemID](shapes, "order:{order}:item:{item}", keyspace.JSONOf[Product](), keyspace.Expire(day),
		keyspace.Doc{Purpose: "one item of an order"})
)

// With the type, or the kind of token, as the first level.
var (
	friendsKey = keyspace.Def1[UserID](shapes, "set:user:{user}:friends", keyspace.SetOf("user"), keyspace.Expire(day),
		keyspace.Doc{Purpose: "a user's friends"})
	messagesKey = keyspace.Def1[RoomID](shapes, "list:chat:room:{room}:messages", keyspace.ListOf("message"), keyspace.Expire(day),
		keyspace.Doc{Purpose: "a room's latest messages"})
	appTokenKey = keyspace.Def1[UserID](shapes, "token:app:user:{user}", keyspace.BytesOf("SHA-256 of the token"), keyspace.Expire(day),
		keyspace.Doc{Purpose: "a user's token for the app"})
)

// A log of operations.
var logKey = keyspace.Def2[Operation, Moment](shapes, "log:{operation}:{time}", keyspace.JSONOf[map[string]string](),
	keyspace.Expire(90*day), keyspace.Doc{Purpose: "an operation that took place"})

// The usual shapes of key patterns, declared in one file. No two of them ever make the same key.
func Example_shapes() {
	fmt.Println("faults:", keyspace.Lint(shapes))

	user, order := UserID{keyspace.Int{N: 12345}}, OrderID{keyspace.Int{N: 10001}}
	for _, key := range []fmt.Stringer{
		userKey.At(user), billKey.At(order), productKey.At(ProductID{keyspace.Int{N: 98765}}),
		userOrderKey.At(order, user), basketKey.At(user), profileCache.At(user), yearCache.At(user, Year{keyspace.Int{N: 2025}}),
		appTokenKey.At(user), userStateKey.At(user, keyspace.WordOf[userStates]("active")),
		orderStateKey.At(order, keyspace.WordOf[orderStates]("pending")), cartItemsKey.At(user),
		itemKey.At(order, ItemID{keyspace.Int{N: 2001}}), friendsKey.At(user), messagesKey.At(RoomID{keyspace.Int{N: 1001}}),
		profileKey.At(user), loginKey.At(user), cartKey.At(user), historyKey.At(user, order), stateKey.At(order), linesKey.At(order),
		cacheKey.At(keyspace.WordOf[caches]("user"), CacheKey{keyspace.Text{S: "ann@example.org"}}), refreshKey.At(user),
		logKey.At(keyspace.WordOf[operations]("login"), Moment{keyspace.Int{N: 1760000000000}}),
		codeKey.At(Address{keyspace.Hashed{S: "ann@example.org"}}), tokenKey.At(TokenID{keyspace.Hashed{S: "secret"}}),
		sessionKey.At(SessionID{keyspace.Hashed{S: "abc123"}}), sessionData.At(SessionID{keyspace.Hashed{S: "abc123"}}),
	} {
		found, _ := keyspace.NewParser(shapes).Key(key.String())
		fmt.Printf("%-32s %s\n", found.Family.Pattern, strings.TrimSpace(key.String()))
	}
	// Output:
	// faults: <nil>
	// user:{id}                        user:12345
	// order:{id}                       order:10001
	// product:{id}                     product:98765
	// order:{order}:user:{user}        order:10001:user:12345
	// cart:user:{user}                 cart:user:12345
	// cache:user:{user}:profile        cache:user:12345:profile
	// cache:user:{user}:profile:{year} cache:user:12345:profile:2025
	// token:app:user:{user}            token:app:user:12345
	// user:{user}:status:{status}      user:12345:status:active
	// order:{order}:status:{status}    order:10001:status:pending
	// user:{user}:cart:items           user:12345:cart:items
	// order:{order}:item:{item}        order:10001:item:2001
	// set:user:{user}:friends          set:user:12345:friends
	// list:chat:room:{room}:messages   list:chat:room:1001:messages
	// user:{user}:profile              user:12345:profile
	// user:{user}:session              user:12345:session
	// user:{user}:cart                 user:12345:cart
	// user:{user}:order:{order}        user:12345:order:10001
	// order:{order}:status             order:10001:status
	// order:{order}:items              order:10001:items
	// cache:{cache}:{key}              cache:user:ann@example.org
	// token:{user}:refresh             token:12345:refresh
	// log:{operation}:{time}           log:login:1760000000000
	// verification:code:{address}      verification:code:Q4xMev5gDN8eRVw2m-x23A
	// token:{id}                       token:K7gNU3sdo-OL0wNhqoVWhg
	// session:{id}                     session:bKE9UspwyIPg8LsQHkJaiQ
	// session:{id}:data                session:bKE9UspwyIPg8LsQHkJaiQ:data
}

package shop

import (
	"fmt"

	_ "github.com/go-redis/redis/v8" // want `github.com/go-redis/redis/v8 bypasses package redis`
	"github.com/redis/rueidis"       // want `github.com/redis/rueidis bypasses package redis`

	"github.com/stoa-dev/stoa/lib/keyspace"
)

var (
	other = keyspace.New("other")                            // want `keyspace.New belongs in keys.go`
	more  = keyspace.Def0(other, "cart:more")                // want `keyspace.Def0 belongs in keys.go`
	list  = keyspace.Def1[int](other, "cart:list:{uid}")     // want `keyspace.Def1 belongs in keys.go`
	pair  = (keyspace.Def2[int, string])(other, "cart:pair") // want `keyspace.Def2 belongs in keys.go`
	news  = keyspace.DefChannel0(other, "cart:news")         // want `keyspace.DefChannel0 belongs in keys.go`
	fine  = keyspace.Defined                                 // no declaration
	begin = (*keyspace.Schema).New
	_     = rueidis.Nil
)

const head = "cart:items:" // want `"cart:items:" is a key of cart:items:{uid}`

type tagged struct {
	Name string `json:"order:7" cart:"cart:items:7"`
}

func spell(uid, prefix string) []string {
	return []string{
		head + uid,
		"cart:items:7",           // want `"cart:items:7" is a key of cart:items:{uid}`
		"stoa:cart:items:" + uid, // want `"stoa:cart:items:" is a key`
		"shop:all",               // want `"shop:all" is a key of shop:all`
		"order:{7}",              // want `"order:[{]7[}]" is a key of order:[{][{]number[}][}];`
		`order:` + uid,           // want `"order:" is a key of order:[{][{]number`
		"order: no such number",  // prose
		"cart:items: " + uid,     // prose
		"reorder:7",
		"shop:allowed",
		"user:profile:" + uid,        // want `"user:profile:" begins a key`
		"user:profile:{" + uid + "}", // want `"user:profile:{" begins a key`
		"order:help",                 //keyvet:ok a topic of the manual
		"cart:items:8",               /* want `is a key` */ //keyvet:ok
		"http://" + uid,
		"user: " + uid,
	}
}

func format(uid string, n int) {
	_ = fmt.Sprintf("user:%s:profile", uid)     // want `"user:%s:profile" builds a key`
	_ = fmt.Sprintf("order:%d", n)              // want `"order:%d"`
	_ = fmt.Sprintf("%s:log:{%s}", "stoa", uid) // want `"%s:log:{%s}" builds a key`
	_ = fmt.Appendf(nil, "log:login:%d", n)     // want `"log:login:%d" builds a key`
	_ = fmt.Sprintf("%s:%d", uid, n)            // a host and a port
	_ = fmt.Sprintf("sqlite:%s", uid)           // two levels, the first of no family
	_ = fmt.Errorf("user: %s: %d", uid, n)
	_ = fmt.Sprint("user:%s:profile") // want `builds a key`
	_ = fmt.Sprintf("http://%s:%d/", uid, n)
	_ = fmt.Sprintf("cart:items:%d", n) // want `"cart:items:%d" builds a key of cart:items:{uid}; use cart`
}

func send(uid string) []keyspace.Cmd {
	return []keyspace.Cmd{
		{Name: "GET", Key: cart.At()},
		{Name: "MEMORY", Args: []string{"USAGE", "user:profile:7"}}, // want `"user:profile:7" is a key among the arguments`
		{Name: "CONFIG", Args: []string{"GET", "appendfsync"}},
		{Name: "EVAL", Args: []string{"return redis.call('GET', 'user:profile:7')"}}, // want `this script contains a key`
		{Name: "EVAL", Args: []string{"return redis.call('GET', KEYS[1])"}},
	}
}

var list2 = []string{"user:profile:7"} // not sent

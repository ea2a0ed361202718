package shop

import "github.com/stoa-dev/stoa/lib/keyspace"

// The only file that may declare keys.
var (
	Keys = keyspace.New("shop")
	cart = keyspace.Def1[int](Keys, "cart:items:{uid}")
	all  = keyspace.Def0(Keys, "shop:all")
)

package shop

import "github.com/stoa-dev/stoa/lib/keyspace"

// The one place for all of this.
var (
	Keys = keyspace.New("shop")
	cart = keyspace.Def1[int](Keys, "cart:items:{uid}")
	all  = keyspace.Def0(Keys, "shop:all")
)

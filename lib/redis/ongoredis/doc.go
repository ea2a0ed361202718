// Package ongoredis has the packages of Stoa's library work over a go-redis client that the
// program has already: caches, buses, leases, limits and boards share its connections, its
// certificates, its hooks and its settings.
//
//	client := goredis.NewClient(&goredis.Options{Addr: "localhost:6379"})
//	…
//	db, err := ongoredis.New(client, redis.WrapConfig{Prefix: "shop"})
//	…
//	rt, err := cache.Open(ctx, cache.Options{DB: db})
//	…
//	users := cache.Keyed(rt, "user", userKey, loadUser, cache.TTL(time.Hour))
//
//	ada, err := users.Get(ctx, 7)
//
// It is a module of its own. Versions of the library and of this module go together.
package ongoredis

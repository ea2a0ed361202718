// Package onrueidis lets the packages of Stoa's library use a [rueidis.Client] that the program already has. Caches,
// buses, leases, limits and boards share its connections, its certificates and its settings.
//
//	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"localhost:6379"}})
//	…
//	db, err := onrueidis.New(client, redis.WrapConfig{Prefix: "shop"})
//	…
//	rt, err := cache.Open(ctx, cache.Options{DB: db})
//	…
//	users := cache.Keyed(rt, "user", userKey, loadUser, cache.TTL(time.Hour))
//
//	ada, err := users.Get(ctx, 7)
//
// It is a module of its own. Use the same version of the library and of this module.
package onrueidis

// Package onrueidis has the packages of Stoa's library work over a [rueidis.Client] that the
// program has already: caches, buses, leases, limits and boards share its connections, its
// certificates and its settings.
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
// It is a module of its own. Versions of the library and of this module go together.
package onrueidis

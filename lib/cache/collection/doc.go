// Package collection keeps hashes, sets and sorted sets in Redis for package cache: the friends of a
// user, whom a user blocks, the requests to a user by their time. Each is loaded as a whole, and
// answers whether one member or a hundred are in it by one command.
//
//	friends := collection.NewHash(rt, friendsKey, collection.Policy{}, collection.HashSource[UserID, UserID, Remark]{Load: loadFriends})
//
//	yes, err := friends.Has(ctx, ada, bob)
//	err = friends.Mutate(ctx, ada, addBob, func(e *collection.HashEdit[UserID, Remark]) { e.Set(bob, remark) })
//
// [Hash] says how they behave. Their runtime is that of the values, [cache.Runtime], and so are the
// promises, the events and the errors; one change can drop values and edit collections.
package collection

// Package collection keeps hashes, sets and sorted sets in Redis for package cache. Examples are the friends of a user,
// the users whom a user blocks, and the requests to a user by their time. Each collection is loaded as a whole. One
// command reports whether one member or a hundred are in it.
//
//	friends := collection.NewHash(rt, friendsKey, collection.Policy{}, collection.HashSource[UserID, UserID, Remark]{Load: loadFriends})
//
//	yes, err := friends.Has(ctx, ada, bob)
//	err = friends.Mutate(ctx, ada, addBob, func(e *collection.HashEdit[UserID, Remark]) { e.Set(bob, remark) })
//
// [Hash] describes their behaviour. They share the runtime of the values, [cache.Runtime], with its guarantees, events
// and errors. One change can drop values and edit collections.
package collection

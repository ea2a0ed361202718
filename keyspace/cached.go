package keyspace

// Cached is a string key that holds one V for package cache, which alone reads
// and writes it: a value, or the mark of somebody who is loading or changing it.
type Cached[V any] struct{ Key }

// CachedOf is the [Kind] of [Cached]. The family's life is that of a value in the
// cache; see [TTL.Negative] and [TTL.StaleIfError].
func CachedOf[V any]() Kind[Cached[V]] {
	return Kind[Cached[V]]{"string", "cached json", func(k Key) Cached[V] { return Cached[V]{k} }}
}

// CachedHash is a hash key that holds a whole collection of V by F for package
// cache, which alone reads and writes it. Fields that begin with a zero byte are
// the cache's marks.
type CachedHash[F comparable, V any] struct{ Key }

// CachedHashOf is the [Kind] of [CachedHash]. The family's life is that of the
// collection in the cache, [TTL.Negative] that of an empty one.
func CachedHashOf[F comparable, V any]() Kind[CachedHash[F, V]] {
	return Kind[CachedHash[F, V]]{"hash", "cached json by field", func(k Key) CachedHash[F, V] { return CachedHash[F, V]{k} }}
}

// CachedSet is the like of [CachedHash] for a set of M.
type CachedSet[M comparable] struct{ Key }

// CachedSetOf is the [Kind] of [CachedSet].
func CachedSetOf[M comparable]() Kind[CachedSet[M]] {
	return Kind[CachedSet[M]]{"set", "cached members", func(k Key) CachedSet[M] { return CachedSet[M]{k} }}
}

// CachedZSet is the like of [CachedHash] for a sorted set of M.
type CachedZSet[M comparable] struct{ Key }

// CachedZSetOf is the [Kind] of [CachedZSet].
func CachedZSetOf[M comparable]() Kind[CachedZSet[M]] {
	return Kind[CachedZSet[M]]{"zset", "cached members by score", func(k Key) CachedZSet[M] { return CachedZSet[M]{k} }}
}

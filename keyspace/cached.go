package keyspace

import "strings"

// Cached is a string key that holds one V for package cache, which alone reads
// and writes it: a value, or the mark of somebody who is loading or changing it.
type Cached[V any] struct{ Key }

// CachedOf is the [Kind] of [Cached]. The family's life is that of a value in the
// cache; see [TTL.Negative] and [TTL.StaleIfError].
func CachedOf[V any]() Kind[Cached[V]] {
	return Kind[Cached[V]]{typ: "string", form: cachedForm + jsonForm[V](), bind: func(k Key) Cached[V] { return Cached[V]{k} }}
}

// cachedForm begins the form of what package cache reads and writes.
const cachedForm = "cached "

// IsCached reports whether the family's keys are those of package cache.
func (f *Family) IsCached() bool { return strings.HasPrefix(f.Form, cachedForm) }

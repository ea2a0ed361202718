package keyspace

import (
	"encoding/json"
	"errors"
	"strings"
)

// Cached is a string key that holds one V for package cache. Only package cache reads and writes it. It contains a
// value, a lease while a node loads the value, or a fence while the value changes.
type Cached[V any] struct{ Key }

// CachedOf is the [Kind] of [Cached]. The family's TTL is the lifetime of a value in the cache; see also [TTL.Negative]
// and [TTL.StaleIfError].
func CachedOf[V any]() Kind[Cached[V]] {
	return Kind[Cached[V]]{typ: "string", form: cachedForm + jsonForm[V](), bind: func(k Key) Cached[V] { return Cached[V]{k} },
		check: func(v []byte) error {
			payload, err := cachedPayload(v)
			if err != nil || payload == nil {
				return err
			}
			return json.Unmarshal(payload, new(V))
		}}
}

var errNotCached = errors.New("is neither a cached value nor a lease nor a fence")

// cachedPayload returns the JSON in a value of package cache. It returns nil if there is none, or if the value is
// compressed or has another codec. This function repeats a part of that package's layout; a test in package cache
// checks that both agree.
func cachedPayload(v []byte) ([]byte, error) {
	const lease, head, coded, compressed = 22, 47, 1, 2
	if len(v) >= lease && v[0] == 'L' {
		if v = v[lease:]; len(v) == 0 {
			return nil, nil
		}
	}
	switch {
	case len(v) >= 10 && v[0] == 'F':
		return nil, nil
	case len(v) < head || v[0] != 'V' || len(v) < head+8*int(v[head-1]):
		return nil, errNotCached
	case v[1] == '1': // a negative entry
		return nil, nil
	}
	payload := v[head+8*int(v[head-1]):]
	if len(payload) >= 2 && (payload[0] == coded || payload[0] == compressed) && len(payload) >= 2+int(payload[1]) {
		return nil, nil
	}
	return payload, nil
}

// CachedHash is a hash key that holds a whole collection of V by F for package cache. Only package cache reads and
// writes it. Fields that begin with a zero byte are the cache's own marks.
type CachedHash[F comparable, V any] struct{ Key }

// CachedHashOf is the [Kind] of [CachedHash]. The family's TTL is the lifetime of the collection in the cache;
// [TTL.Negative] is the lifetime of an empty one.
func CachedHashOf[F comparable, V any]() Kind[CachedHash[F, V]] {
	return Kind[CachedHash[F, V]]{typ: "hash", form: "cached by field, " + jsonForm[V](), bind: func(k Key) CachedHash[F, V] {
		return CachedHash[F, V]{k}
	}}
}

// CachedSet is like [CachedHash], for a set of M.
type CachedSet[M comparable] struct{ Key }

// CachedSetOf is the [Kind] of [CachedSet].
func CachedSetOf[M comparable]() Kind[CachedSet[M]] {
	return Kind[CachedSet[M]]{typ: "set", form: "cached members", bind: func(k Key) CachedSet[M] { return CachedSet[M]{k} }}
}

// CachedZSet is like [CachedHash], for a sorted set of M.
type CachedZSet[M comparable] struct{ Key }

// CachedZSetOf is the [Kind] of [CachedZSet].
func CachedZSetOf[M comparable]() Kind[CachedZSet[M]] {
	return Kind[CachedZSet[M]]{typ: "zset", form: "cached members by score", bind: func(k Key) CachedZSet[M] { return CachedZSet[M]{k} }}
}

// cachedForm is the beginning of the form of keys that package cache reads and writes.
const cachedForm = "cached "

// IsCached reports whether package cache owns the keys of the family.
func (f *Family) IsCached() bool { return strings.HasPrefix(f.Form, cachedForm) }

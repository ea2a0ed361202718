package keyspace

import (
	"encoding/json"
	"errors"
	"strings"
)

// Cached is a string key that holds one V for package cache, which alone reads
// and writes it: a value, a lease while a node loads it, or a fence while it changes.
type Cached[V any] struct{ Key }

// CachedOf is the [Kind] of [Cached]. The family's life is that of a value in the
// cache; see [TTL.Negative] and [TTL.StaleIfError].
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

// cachedPayload finds the JSON in what package cache has written; nil when there
// is none, or another codec's bytes, or compressed ones. It knows a part of that package's layout, and a test there keeps the two
// in agreement.
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
	case v[1] == '1': // there is no such thing
		return nil, nil
	}
	payload := v[head+8*int(v[head-1]):]
	if len(payload) >= 2 && (payload[0] == coded || payload[0] == compressed) && len(payload) >= 2+int(payload[1]) {
		return nil, nil
	}
	return payload, nil
}

// CachedHash is a hash key that holds a whole collection of V by F for package
// cache, which alone reads and writes it. Fields that begin with a zero byte are
// the cache's marks.
type CachedHash[F comparable, V any] struct{ Key }

// CachedHashOf is the [Kind] of [CachedHash]. The family's life is that of the
// collection in the cache, [TTL.Negative] that of an empty one.
func CachedHashOf[F comparable, V any]() Kind[CachedHash[F, V]] {
	return Kind[CachedHash[F, V]]{typ: "hash", form: "cached by field, " + jsonForm[V](), bind: func(k Key) CachedHash[F, V] { return CachedHash[F, V]{k} }}
}

// CachedSet is the like of [CachedHash] for a set of M.
type CachedSet[M comparable] struct{ Key }

// CachedSetOf is the [Kind] of [CachedSet].
func CachedSetOf[M comparable]() Kind[CachedSet[M]] {
	return Kind[CachedSet[M]]{typ: "set", form: "cached members", bind: func(k Key) CachedSet[M] { return CachedSet[M]{k} }}
}

// CachedZSet is the like of [CachedHash] for a sorted set of M.
type CachedZSet[M comparable] struct{ Key }

// CachedZSetOf is the [Kind] of [CachedZSet].
func CachedZSetOf[M comparable]() Kind[CachedZSet[M]] {
	return Kind[CachedZSet[M]]{typ: "zset", form: "cached members by score", bind: func(k Key) CachedZSet[M] { return CachedZSet[M]{k} }}
}

// cachedForm begins the form of what package cache reads and writes.
const cachedForm = "cached "

// IsCached reports whether the family's keys are those of package cache.
func (f *Family) IsCached() bool { return strings.HasPrefix(f.Form, cachedForm) }

package keyspace

import (
	"encoding/json"
	"errors"
	"strings"
)

// Cached is a string key that holds one V for package cache, which alone reads
// and writes it: a value, or the mark of somebody who is loading or changing it.
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
// is none. What it looks at is a part of that package's layout, and a test there
// holds the two together.
func cachedPayload(v []byte) ([]byte, error) {
	const lease, head = 22, 47
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
	return v[head+8*int(v[head-1]):], nil
}

// cachedForm begins the form of what package cache reads and writes.
const cachedForm = "cached "

// IsCached reports whether the family's keys are those of package cache.
func (f *Family) IsCached() bool { return strings.HasPrefix(f.Form, cachedForm) }

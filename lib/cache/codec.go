package cache

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/stoa-dev/stoa/lib/cache/internal/slots"
)

// A Codec encodes the values of a cache as bytes for Redis, and decodes them. The default is JSON. It has to be safe
// for concurrent use.
type Codec[V any] interface {
	// Name identifies the codec, and is stored with each value. A value stored under another name is loaded again, as
	// if it were absent. The name has 1 to 255 bytes. If a codec can no longer read its earlier bytes, it needs another
	// name.
	Name() string
	// Append appends v to b and returns the extended slice. Its error is returned to the reader of the value.
	Append(b []byte, v V) ([]byte, error)
	// Decode sets v, which is zero, to the value in b, which it may retain. A value that it cannot decode is loaded
	// again.
	Decode(b []byte, v *V) error
}

// jsonCodec is the default codec.
type jsonCodec[V any] struct{}

func (jsonCodec[V]) Name() string { return "" }

func (jsonCodec[V]) Append(b []byte, v V) ([]byte, error) {
	text, err := json.Marshal(v)
	if len(b) == 0 {
		return text, err
	}
	return append(b, text...), err
}

func (jsonCodec[V]) Decode(b []byte, v *V) error { return json.Unmarshal(b, v) }

// codecOr returns own, or JSON if own is nil. It panics if own has a name that cannot be stored.
func codecOr[V any](own Codec[V], pattern string) Codec[V] {
	if own == nil {
		return jsonCodec[V]{}
	}
	if n := len(own.Name()); n == 0 || n > 255 {
		panic(fmt.Sprintf("cache: the codec of %s has a name of %d bytes, not 1 to 255", pattern, n))
	}
	return own
}

var errUnreadable = errors.New("cache: the payload is damaged or from another codec")

// encode returns the payload of e's value.
func (c *core) encode(e *localCopy) (string, error) {
	body, err := c.types.encode(e)
	if err != nil {
		return "", err
	}
	return slots.Pack(c.types.codec, body, c.policy.CompressAbove), nil
}

// decode sets e's value to the one in a payload. An error means that the value has to be loaded again.
func (c *core) decode(e *localCopy, payload string) error {
	codec, body, ok := slots.Unpack(payload)
	if !ok || codec != c.types.codec {
		return errUnreadable
	}
	return c.types.decode(e, body)
}

package cache

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/stoa-dev/stoa/lib/cache/internal/slots"
)

// A Codec turns the values of a cache into the bytes that stand in Redis, and back. JSON is used
// where there is none. It has to be safe for concurrent use.
type Codec[V any] interface {
	// Name tells the bytes of one codec from those of another, and is stored with
	// each value: what was stored under another name is loaded again, as if it were
	// not there. It has 1 to 255 bytes. A codec whose bytes change in a way that it cannot read
	// itself needs another name.
	Name() string
	// Append appends v to b and returns the longer slice. An error is returned to
	// who reads the value.
	Append(b []byte, v V) ([]byte, error)
	// Decode sets v, which is zero, to the value in b, which it may keep. What it
	// cannot decode is loaded again.
	Decode(b []byte, v *V) error
}

// jsonCodec is what a cache without a codec has.
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

// codecOr is own, or JSON. It panics when own has no name that can be stored.
func codecOr[V any](own Codec[V], pattern string) Codec[V] {
	if own == nil {
		return jsonCodec[V]{}
	}
	if n := len(own.Name()); n == 0 || n > 255 {
		panic(fmt.Sprintf("cache: the codec of %s has a name of %d bytes, not 1 to 255", pattern, n))
	}
	return own
}

var errUnreadable = errors.New("cache: another codec wrote this, or it is damaged")

// encode is the payload of e's value.
func (c *core) encode(e *localCopy) (string, error) {
	body, err := c.types.encode(e)
	if err != nil {
		return "", err
	}
	return slots.Pack(c.types.codec, body, c.policy.CompressAbove), nil
}

// decode sets e's value to the one in a payload. The error says that it has to be
// loaded again.
func (c *core) decode(e *localCopy, payload string) error {
	codec, body, ok := slots.Unpack(payload)
	if !ok || codec != c.types.codec {
		return errUnreadable
	}
	return c.types.decode(e, body)
}

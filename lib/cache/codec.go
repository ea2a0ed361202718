package cache

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/klauspost/compress/s2"
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

// A payload is JSON, or one of these bytes, the length of the codec's name, the
// name, and what the codec wrote. No JSON begins like that, so that a version of this package
// that knows none of it finds a value that it cannot read.
const (
	isCoded      = 1
	isCompressed = 2 // a checksum and an S2 block stand in the place of what the codec wrote
)

// mostUnpacked is the length in bytes of the longest value that is compressed: as long as one can be in
// Redis.
const mostUnpacked = 512 << 20

var checksums = crc32.MakeTable(crc32.Castagnoli)

var errUnreadable = errors.New("cache: another codec wrote this, or it is damaged")

// pack makes the payload of what a codec wrote. It is compressed when it has more than
// above bytes, unless above is 0 or that makes it no shorter.
func pack(codec string, body []byte, above int) string {
	mark := byte(isCoded)
	if above > 0 && len(body) > above && len(body) <= mostUnpacked {
		block := s2.Encode(nil, body)
		if sumLen+len(block) < len(body) {
			mark = isCompressed
			body = append(binary.BigEndian.AppendUint32(make([]byte, 0, sumLen+len(block)), crc32.Checksum(block, checksums)), block...)
		}
	}
	if codec == "" && mark == isCoded {
		return string(body)
	}
	return string([]byte{mark, byte(len(codec))}) + codec + string(body)
}

const sumLen = 4

// unpack is the inverse of pack; ok is false when the payload is damaged.
func unpack(payload string) (codec string, body []byte, ok bool) {
	if payload == "" || payload[0] != isCoded && payload[0] != isCompressed {
		return "", []byte(payload), true
	}
	if len(payload) < 2 || len(payload) < 2+int(payload[1]) {
		return "", nil, false
	}
	n := 2 + int(payload[1])
	codec, body = payload[2:n], []byte(payload[n:])
	if payload[0] == isCoded {
		return codec, body, true
	}
	// An S2 block has no checksum of its own, and may be damaged to another value.
	if len(body) < sumLen || crc32.Checksum(body[sumLen:], checksums) != binary.BigEndian.Uint32(body) {
		return "", nil, false
	}
	block := body[sumLen:]
	if long, err := s2.DecodedLen(block); err != nil || long > mostUnpacked {
		return "", nil, false
	}
	body, err := s2.Decode(nil, block)
	return codec, body, err == nil
}

// encode is the payload of e's value.
func (c *core) encode(e *localCopy) (string, error) {
	body, err := c.types.encode(e)
	if err != nil {
		return "", err
	}
	return pack(c.types.codec, body, c.policy.CompressAbove), nil
}

// decode sets e's value to the one in a payload. The error says that it has to be
// loaded again.
func (c *core) decode(e *localCopy, payload string) error {
	codec, body, ok := unpack(payload)
	if !ok || codec != c.types.codec {
		return errUnreadable
	}
	return c.types.decode(e, body)
}

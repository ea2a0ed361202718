package slots

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/klauspost/compress/s2"
)

// A payload is JSON, or one of these bytes, the length of the codec's name, the name, and the codec's output. No JSON
// begins like that, so a version of package cache without codecs treats it as an unreadable value.
const (
	isCoded      = 1
	isCompressed = 2 // a checksum and an S2 block replace the codec's output
)

// maxUnpacked is the length in bytes of the longest value that is compressed: the limit of a value in Redis.
const maxUnpacked = 512 << 20

const sumLen = 4

var checksums = crc32.MakeTable(crc32.Castagnoli)

// Pack makes the payload from a codec's output. It compresses bodies over above bytes, unless above is 0 or compression
// does not shorten them.
func Pack(codec string, body []byte, above int) string {
	mark := byte(isCoded)
	if above > 0 && len(body) > above && len(body) <= maxUnpacked {
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

// Unpack is the inverse of Pack; ok is false when the payload is damaged.
func Unpack(payload string) (codec string, body []byte, ok bool) {
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
	// An S2 block has no checksum of its own, and a damaged block may decode to another value.
	if len(body) < sumLen || crc32.Checksum(body[sumLen:], checksums) != binary.BigEndian.Uint32(body) {
		return "", nil, false
	}
	block := body[sumLen:]
	if long, err := s2.DecodedLen(block); err != nil || long > maxUnpacked {
		return "", nil, false
	}
	body, err := s2.Decode(nil, block)
	return codec, body, err == nil
}

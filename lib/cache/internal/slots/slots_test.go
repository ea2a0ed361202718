package slots

import (
	"encoding/binary"
	"hash/crc32"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

func FuzzSlot(f *testing.F) {
	whole := Envelope{Era: 1, ID: 2, Stored: 3, Soft: 4, Hard: 5, Took: 6, Tags: []uint64{7, 8}, Payload: `{"a":1}`}
	f.Add("")
	f.Add(whole.Text())
	f.Add(whole.Text()[:HeadLen+7])
	f.Add("L" + strings.Repeat("0", KeptAt-1) + whole.Text())
	f.Fuzz(func(t *testing.T, slot string) {
		e, ok := Parse(slot)
		if !ok {
			return
		}
		if again, ok := Parse(e.Text()); !ok || !reflect.DeepEqual(again, e) {
			t.Errorf("%q: got %+v, and of its own text %+v", slot, e, again)
		}
	})
}

func FuzzPayload(f *testing.F) {
	f.Add("", "{}", 0)
	f.Add("msgpack", strings.Repeat("a", 100), 50)
	f.Add("", "\x02\x00abcd", 1)
	f.Fuzz(func(t *testing.T, codec, body string, above int) {
		Unpack(body) // must not panic
		if len(codec) > 255 || codec == "" && body != "" && (body[0] == isCoded || body[0] == isCompressed) {
			return // no name, and no JSON
		}
		if gotCodec, got, ok := Unpack(Pack(codec, []byte(body), above)); !ok || gotCodec != codec || string(got) != body {
			t.Errorf("%q of %q above %d: got %q of %q, %v", body, codec, above, got, gotCodec, ok)
		}
	})
}

// A block that claims a larger size than any value gets no memory.
func TestUnpack_HugeBlockLengthIsDamaged(t *testing.T) {
	block := binary.AppendUvarint(nil, maxUnpacked+1)
	payload := string(binary.BigEndian.AppendUint32([]byte{isCompressed, 0}, crc32.Checksum(block, checksums))) + string(block)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, ok := Unpack(payload)
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; ok || got > maxUnpacked/2 {
		t.Errorf("%d bytes were allocated for it", got)
	}
}

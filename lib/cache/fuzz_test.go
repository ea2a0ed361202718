package cache

import (
	"encoding/binary"
	"hash/crc32"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

func FuzzSlot(f *testing.F) {
	whole := envelope{era: 1, id: 2, stored: 3, soft: 4, hard: 5, took: 6, tags: []uint64{7, 8}, payload: `{"a":1}`}
	f.Add("")
	f.Add(whole.text())
	f.Add(whole.text()[:headLen+7])
	f.Add("L" + strings.Repeat("0", keptAt-1) + whole.text())
	f.Fuzz(func(t *testing.T, slot string) {
		e, ok := parse(slot)
		if !ok {
			return
		}
		if again, ok := parse(e.text()); !ok || !reflect.DeepEqual(again, e) {
			t.Errorf("%q: got %+v, and of its own text %+v", slot, e, again)
		}
	})
}

func FuzzPayload(f *testing.F) {
	f.Add("", "{}", 0)
	f.Add("msgpack", strings.Repeat("a", 100), 50)
	f.Add("", "\x02\x00abcd", 1)
	f.Fuzz(func(t *testing.T, codec, body string, above int) {
		unpack(body) // whatever stands there, nothing panics
		if len(codec) > 255 || codec == "" && body != "" && (body[0] == isCoded || body[0] == isCompressed) {
			return // no name, and no JSON
		}
		if gotCodec, got, ok := unpack(pack(codec, []byte(body), above)); !ok || gotCodec != codec || string(got) != body {
			t.Errorf("%q of %q above %d: got %q of %q, %v", body, codec, above, got, gotCodec, ok)
		}
	})
}

// What says that it is longer than any value gets no memory.
func TestABlockThatClaimsToBeHugeIsDamaged(t *testing.T) {
	block := binary.AppendUvarint(nil, mostUnpacked+1)
	payload := string(binary.BigEndian.AppendUint32([]byte{isCompressed, 0}, crc32.Checksum(block, checksums))) + string(block)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, ok := unpack(payload)
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; ok || got > mostUnpacked/2 {
		t.Errorf("%d bytes were allocated for it", got)
	}
}

func FuzzCursor(f *testing.F) {
	for _, seed := range []string{"", "bQ", "cw", "c2E6MQ", "====", position{ordered: true, after: "é:\x00"}.cursor(), position{era: 9, at: "17"}.cursor()} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, cursor string) {
		p, err := positionOf(cursor)
		if err != nil || cursor == "" {
			return
		}
		if again, err := positionOf(p.cursor()); err != nil || again != p {
			t.Errorf("%q: got %+v, and of its own text %+v, %v", cursor, p, again, err)
		}
	})
}

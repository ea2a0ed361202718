package media_test

import (
	"testing"

	"github.com/pion/rtp"

	"github.com/stoa-dev/stoa/internal/live/media"
)

// BenchmarkJoin_FullGroupOfPictures measures a joining viewer while the source stores 6,000 pictures with different
// timestamps.
func BenchmarkJoin_FullGroupOfPictures(b *testing.B) {
	const pictures = 6000
	src := media.Unconnected()
	frame := []byte{0x10, 0, 0, 0, 0x9d, 1, 0x2a, 64, 1, 240, 0}
	for i := range uint32(pictures) {
		if i > 0 {
			frame = []byte{0x10, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0} // not a key frame
		}
		media.Forward(src, false, &rtp.Packet{Header: rtp.Header{Version: 2, Marker: true, SequenceNumber: uint16(i), Timestamp: 90 * i},
			Payload: frame})
	}
	b.ReportAllocs()
	for b.Loop() {
		if n := len(media.Join(src)); n != pictures {
			b.Fatalf("got %d packets", n)
		}
	}
}

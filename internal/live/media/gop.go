package media

import (
	"slices"
	"time"

	"github.com/pion/rtp"
	"github.com/pion/webrtc/v4"
)

// Bounds of a stored group of pictures. Ten seconds at 2.5 Mbit/s are 3 MB. A publisher that sends key frames less
// often sends them on request, as browsers do.
const (
	gopBytes   = 4 << 20
	gopPackets = 6000
	gopTime    = 12 * time.Second
)

// gop is the current group of pictures: the packets of the last key frame and the packets after it. The zero gop waits
// for a key frame.
type gop struct {
	packets []*rtp.Packet
	bytes   int
	began   time.Time
}

// add adds a packet. key reports whether the packet starts or continues a key frame.
func (g *gop) add(p *rtp.Packet, key bool, now time.Time) {
	switch {
	case key && (len(g.packets) == 0 || after(p.Timestamp, g.packets[0].Timestamp)):
		// Packets of this picture that arrived before its first packet remain.
		old := g.packets
		*g = gop{began: now}
		for _, q := range old {
			if !after(p.Timestamp, q.Timestamp) {
				g.packets, g.bytes = append(g.packets, q), g.bytes+len(q.Payload)
			}
		}
	case len(g.packets) == 0:
		return
	case after(g.packets[0].Timestamp, p.Timestamp):
		return // a late retransmission of the previous group
	case g.bytes+len(p.Payload) > gopBytes || len(g.packets) >= gopPackets || now.Sub(g.began) > gopTime:
		*g = gop{}
		return
	}
	g.packets, g.bytes = append(g.packets, p), g.bytes+len(p.Payload)
}

// after reports whether timestamp a is later than b. Timestamps wrap around.
func after(a, b uint32) bool { return a != b && a-b < 1<<31 }

// tick is the time between two pictures of a replay, in units of 90 kHz.
const tick = 90

// replay returns copies of a group's packets. Their pictures have timestamps that are a tick apart and end at the
// newest picture's timestamp.
func replay(packets []*rtp.Packet) []*rtp.Packet {
	if len(packets) == 0 {
		return nil
	}
	newest := packets[0].Timestamp
	for _, p := range packets {
		if after(p.Timestamp, newest) {
			newest = p.Timestamp
		}
	}
	ages := make([]uint32, len(packets)) // time before the newest; timestamps wrap around, ages do not
	for i, p := range packets {
		ages[i] = newest - p.Timestamp
	}
	slices.Sort(ages)
	ages = slices.Compact(ages)
	copies, out := make([]rtp.Packet, len(packets)), make([]*rtp.Packet, len(packets))
	for i, p := range packets {
		later, _ := slices.BinarySearch(ages, newest-p.Timestamp)
		copies[i], out[i] = *p, &copies[i]
		copies[i].Timestamp = newest - uint32(later)*tick
	}
	return out
}

// isKey reports whether a packet begins a picture that can be decoded alone.
func isKey(mime string, payload []byte) bool {
	if mime == webrtc.MimeTypeH264 {
		return h264Key(payload)
	}
	return vp8Key(payload)
}

// vp8Key parses the payload descriptor of RFC 7741 and the first byte of the frame.
func vp8Key(b []byte) bool {
	if len(b) < 1 || b[0]&0x10 == 0 || b[0]&0x07 != 0 {
		return false // not the start of the first partition
	}
	at := 1
	if b[0]&0x80 != 0 {
		if len(b) < 2 {
			return false
		}
		more := b[1]
		at++
		if more&0x80 != 0 { // the picture's id has one or two bytes
			if len(b) <= at {
				return false
			}
			if b[at]&0x80 != 0 {
				at++
			}
			at++
		}
		if more&0x40 != 0 {
			at++
		}
		if more&0x30 != 0 {
			at++
		}
	}
	return len(b) > at && b[at]&0x01 == 0
}

// Types of NAL units from RFC 6184.
const (
	nalIDR  = 5
	nalSPS  = 7
	nalSTAP = 24
	nalFU   = 28
)

// h264Key reports whether a packet has a sequence parameter set, or begins an IDR picture.
func h264Key(b []byte) bool {
	if len(b) < 2 {
		return false
	}
	switch b[0] & 0x1f {
	case nalIDR, nalSPS:
		return true
	case nalFU:
		return b[1]&0x80 != 0 && b[1]&0x1f == nalIDR
	case nalSTAP:
		for b = b[1:]; len(b) > 2; {
			size := int(b[0])<<8 | int(b[1])
			if t := b[2] & 0x1f; t == nalIDR || t == nalSPS {
				return true
			}
			if size+2 > len(b) {
				return false
			}
			b = b[size+2:]
		}
	}
	return false
}

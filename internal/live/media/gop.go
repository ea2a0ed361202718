package media

import (
	"slices"
	"time"

	"github.com/pion/rtp"
	"github.com/pion/webrtc/v4"
)

// Bounds of a group of pictures that is kept. Ten seconds of 2.5 Mbit/s are 3 MB; a publisher that sends key
// frames more rarely does so because it is asked for them, as browsers do.
const (
	gopBytes   = 4 << 20
	gopPackets = 6000
	gopTime    = 12 * time.Second
)

// gop is the group of pictures under way: the packets of the last key frame, and those that followed. The zero gop waits
// for a key frame.
type gop struct {
	packets []*rtp.Packet
	bytes   int
	began   time.Time
}

// add takes a packet in; key says that it begins, or is part of, a key frame.
func (g *gop) add(p *rtp.Packet, key bool, now time.Time) {
	switch {
	case key && (len(g.packets) == 0 || after(p.Timestamp, g.packets[0].Timestamp)):
		// What came of this picture before its first packet is kept.
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
		return // came again, late, of the group before
	case g.bytes+len(p.Payload) > gopBytes || len(g.packets) >= gopPackets || now.Sub(g.began) > gopTime:
		*g = gop{}
		return
	}
	g.packets, g.bytes = append(g.packets, p), g.bytes+len(p.Payload)
}

// after reports whether a timestamp is later than another one, around the end of their numbers.
func after(a, b uint32) bool { return a != b && a-b < 1<<31 }

// tick is the time between two pictures of a replay, in units of 90 kHz.
const tick = 90

// replay returns copies of a group's packets, with timestamps that lie a tick apart and end at the newest picture's own.
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
	ages := make([]uint32, len(packets)) // before the newest; timestamps wrap around, ages do not
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

// isKey reports whether a packet begins a picture that needs no other one.
func isKey(mime string, payload []byte) bool {
	if mime == webrtc.MimeTypeH264 {
		return h264Key(payload)
	}
	return vp8Key(payload)
}

// vp8Key reads the payload descriptor of RFC 7741 and the first byte of the frame.
func vp8Key(b []byte) bool {
	if len(b) < 1 || b[0]&0x10 == 0 || b[0]&0x07 != 0 {
		return false // not the begin of the first partition
	}
	at := 1
	if b[0]&0x80 != 0 {
		if len(b) < 2 {
			return false
		}
		more := b[1]
		at++
		if more&0x80 != 0 { // the picture's id has one byte, or two
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

// The types of NAL units, RFC 6184.
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

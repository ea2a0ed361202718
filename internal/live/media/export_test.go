package media

import (
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/pion/ice/v4"
	"github.com/pion/rtp"
	"github.com/pion/webrtc/v4"
)

// Unconnected returns a source of VP8 and Opus without a publisher.
func Unconnected() *Source {
	s := newSource(nil, func() bool { return true })
	s.Formats = Formats{Video: &Format{Mime: webrtc.MimeTypeVP8}, Audio: &Format{Mime: webrtc.MimeTypeOpus}}
	return s
}

// Connect creates a session and ends it.
func Connect(e *Engine) error {
	pc, err := e.connection()
	if err != nil {
		return err
	}
	return pc.Close()
}

// Hide makes an engine on all addresses ignore loopback addresses while hidden returns true.
func Hide(e *Engine, hidden func() bool) {
	e.all.options = append(e.all.options, ice.UDPMuxFromPortWithInterfaceFilter(func(name string) bool {
		return !hidden() || !strings.HasPrefix(name, "lo")
	}))
}

// OnLoopback returns functions of an engine that listens only on loopback addresses: its check, its open addresses, and
// its end.
func OnLoopback(port int, log *slog.Logger) (look func() error, open func() []net.Addr, end func() error) {
	a := &allAddresses{port: port, log: log, open: map[string]*address{}, options: []ice.UDPMuxFromPortOption{ice.UDPMuxFromPortWithLoopback(),
		ice.UDPMuxFromPortWithInterfaceFilter(func(name string) bool { return strings.HasPrefix(name, "lo") })}}
	return a.update, a.GetListenAddresses, a.Close
}

// Forward makes a source receive a packet of its pictures or sound.
func Forward(s *Source, sound bool, p *rtp.Packet) {
	if sound {
		s.forward(audio, webrtc.MimeTypeOpus, p, time.Now())
	} else {
		s.forward(video, webrtc.MimeTypeVP8, p, time.Now())
	}
}

// Forget deletes a source's group of pictures.
func Forget(s *Source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gop = gop{}
}

// Waiting returns the number of packets in a recorder's queue.
func Waiting(r *Recorder) int { return len(r.receiver.queue) }

// NearestLast is nearestLast.
var NearestLast = nearestLast

// WithoutCandidates is withoutCandidates.
var WithoutCandidates = withoutCandidates

// Join adds a viewer to a source and removes it. It returns the packets that the viewer gets at once.
func Join(s *Source) []*rtp.Packet {
	t := &receiver{queue: make(chan item, queued)}
	_, _ = s.add(t)
	s.remove(t)
	return t.backlog
}

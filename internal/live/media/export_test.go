package media

import (
	"time"

	"github.com/pion/rtp"
	"github.com/pion/webrtc/v4"
)

// Unconnected returns a source of VP8 and Opus that has no publisher.
func Unconnected() *Source {
	s := newSource(nil, func() bool { return true })
	s.Formats = Formats{Video: &Format{Mime: webrtc.MimeTypeVP8}, Audio: &Format{Mime: webrtc.MimeTypeOpus}}
	return s
}

// Connect makes a session, and ends it.
func Connect(e *Engine) error {
	pc, err := e.connection()
	if err != nil {
		return err
	}
	return pc.Close()
}

// Take has a source take a packet of its pictures or of its sound.
func Take(s *Source, sound bool, p *rtp.Packet) {
	if sound {
		s.take(audio, webrtc.MimeTypeOpus, p, time.Now())
	} else {
		s.take(video, webrtc.MimeTypeVP8, p, time.Now())
	}
}

// Forget has a source have no group of pictures.
func Forget(s *Source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gop = gop{}
}

// Waiting returns how many packets wait for a recorder.
func Waiting(r *Recorder) int { return len(r.taker.queue) }

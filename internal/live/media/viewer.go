package media

import (
	"context"
	"sync"
	"time"

	"github.com/pion/rtcp"
	"github.com/pion/rtp"
	"github.com/pion/webrtc/v4"
)

const (
	// burst is the number of replayed packets that are sent at a time, and pause is the time between two bursts. That
	// is about 16,000 packets per second, so that neither sockets nor networks lose them.
	burst = 32
	pause = 2 * time.Millisecond
	// boundTime bounds the time from the connection of a session until it can send.
	boundTime = 5 * time.Second
)

// track is a sent track.
type track struct {
	format Format
	kind   webrtc.RTPCodecType
	id     string

	mu    sync.Mutex
	to    webrtc.TrackLocalWriter
	ssrc  uint32
	pt    uint8
	bound chan struct{}
	once  sync.Once
}

func newTrack(f *Format, kind webrtc.RTPCodecType) *track {
	if f == nil {
		return nil
	}
	return &track{format: *f, kind: kind, id: kind.String(), bound: make(chan struct{})}
}

// Bind implements [webrtc.TrackLocal].
func (t *track) Bind(c webrtc.TrackLocalContext) (webrtc.RTPCodecParameters, error) {
	inner, err := webrtc.NewTrackLocalStaticRTP(t.format.capability(), t.id, stream) // it finds the matching codec
	if err != nil {
		return webrtc.RTPCodecParameters{}, err
	}
	codec, err := inner.Bind(c)
	if err != nil {
		return webrtc.RTPCodecParameters{}, err
	}
	t.mu.Lock()
	t.to, t.ssrc, t.pt = c.WriteStream(), uint32(c.SSRC()), uint8(codec.PayloadType)
	t.mu.Unlock()
	t.once.Do(func() { close(t.bound) })
	return codec, nil
}

// Unbind implements [webrtc.TrackLocal].
func (t *track) Unbind(webrtc.TrackLocalContext) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.to = nil
	return nil
}

// stream is the id of the stream that both tracks belong to.
const stream = "live"

// ID implements [webrtc.TrackLocal].
func (t *track) ID() string { return t.id }

// RID implements [webrtc.TrackLocal].
func (t *track) RID() string { return "" }

// StreamID implements [webrtc.TrackLocal].
func (t *track) StreamID() string { return stream }

// Kind implements [webrtc.TrackLocal].
func (t *track) Kind() webrtc.RTPCodecType { return t.kind }

// write sends a packet. It returns 0 as long as the library is not ready.
func (t *track) write(p *rtp.Packet) (int, error) {
	t.mu.Lock()
	to, h := t.to, p.Header
	h.SSRC, h.PayloadType = t.ssrc, t.pt
	t.mu.Unlock()
	if to == nil {
		return 0, nil
	}
	return to.WriteRTP(&h, p.Payload)
}

// Viewer is a session that a source is sent to. It is safe for concurrent use.
type Viewer struct {
	pc       *webrtc.PeerConnection
	src      *Source
	tracks   [2]*track
	receiver receiver

	mu      sync.Mutex
	closed  bool
	done    chan struct{}
	ups     sync.Once
	Kept    bool // the viewer began with a stored group of pictures; readable after First
	first   chan struct{}
	working sync.WaitGroup
}

// Watch answers a viewer's offer. The viewer ends with the source, or when the other side leaves. It returns ErrOffer,
// ErrCodec or ErrEnded.
func (e *Engine) Watch(ctx context.Context, src *Source, offer string) (_ *Viewer, sdp string, err error) {
	pc, err := e.connection()
	if err != nil {
		return nil, "", err
	}
	v := &Viewer{pc: pc, src: src, done: make(chan struct{}), first: make(chan struct{}), receiver: receiver{queue: make(chan item, queued)}}
	defer func() {
		if err != nil {
			v.Close()
		}
	}()
	v.tracks = [2]*track{newTrack(src.Formats.Video, webrtc.RTPCodecTypeVideo), newTrack(src.Formats.Audio, webrtc.RTPCodecTypeAudio)}
	if err := applyOffer(pc, offer); err != nil {
		return nil, "", err
	}
	offered := map[webrtc.RTPCodecType]bool{}
	for _, tr := range pc.GetTransceivers() {
		offered[tr.Kind()] = true
	}
	sent := 0
	for i, t := range v.tracks {
		if t == nil {
			continue
		}
		if !offered[t.kind] { // the viewer did not ask for this track
			v.tracks[i] = nil
			continue
		}
		sender, err := pc.AddTrack(t)
		if err != nil {
			return nil, "", err
		}
		sent++
		v.work(func() { v.handleFeedback(sender) })
	}
	if sent == 0 {
		return nil, "", ErrCodec
	}
	watch(pc, v.done, func(error) { v.Close() }, func() { v.ups.Do(func() { v.work(v.send) }) })
	v.work(func() {
		select {
		case <-src.Done():
			go v.Close()
		case <-v.done:
		}
	})
	sdp, err = answer(ctx, pc)
	return v, sdp, err
}

// work runs f in a goroutine that Close waits for.
func (v *Viewer) work(f func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.closed {
		v.working.Go(f)
	}
}

// handleFeedback handles a player's requests for key frames.
func (v *Viewer) handleFeedback(sender *webrtc.RTPSender) {
	for {
		packets, _, err := sender.ReadRTCP()
		if err != nil {
			return
		}
		for _, p := range packets {
			switch p.(type) {
			case *rtcp.PictureLossIndication, *rtcp.FullIntraRequest:
				v.src.lockAndRequestKeyFrame()
			}
		}
	}
}

// send sends the packets of the source to the viewer.
func (v *Viewer) send() {
	late := time.NewTimer(boundTime)
	defer late.Stop()
	for _, t := range v.tracks {
		if t == nil {
			continue
		}
		select {
		case <-t.bound:
		case <-v.done:
			return
		case <-late.C:
			go v.Close()
			return
		}
	}
	kept, err := v.src.add(&v.receiver)
	if err != nil {
		return // it ends with the source
	}
	defer v.src.remove(&v.receiver)
	v.Kept = kept
	begun := false
	write := func(kind int, p *rtp.Packet) bool {
		t := v.tracks[kind]
		if t == nil {
			return true
		}
		for {
			n, err := t.write(p)
			if err != nil {
				return true // the session reports its own end
			}
			if n > 0 || begun || len(p.Payload) == 0 {
				if !begun && n > 0 {
					begun = true
					close(v.first)
				}
				return true
			}
			select { // the library is not ready, although it reported so
			case <-v.done:
				return false
			case <-time.After(time.Millisecond):
			}
		}
	}
	for i, p := range v.receiver.backlog {
		if !write(video, p) {
			return
		}
		if i%burst == burst-1 {
			select {
			case <-v.done:
				return
			case <-time.After(pause):
			}
		}
	}
	v.receiver.backlog = nil
	for {
		select {
		case <-v.done:
			return
		case it := <-v.receiver.queue:
			if !write(it.kind, it.packet) {
				return
			}
		}
	}
}

// First is closed when the first packet was sent.
func (v *Viewer) First() <-chan struct{} { return v.first }

// Done is closed when the viewer has ended.
func (v *Viewer) Done() <-chan struct{} { return v.done }

// Close ends the session.
func (v *Viewer) Close() {
	v.mu.Lock()
	if v.closed {
		v.mu.Unlock()
		<-v.done
		return
	}
	v.closed = true
	v.mu.Unlock()
	close(v.done)
	_ = v.pc.Close()
	v.working.Wait()
}

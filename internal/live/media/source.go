package media

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pion/rtcp"
	"github.com/pion/rtp"
	"github.com/pion/webrtc/v4"
)

// keyFrameRequestInterval is the shortest time between two requests for a key frame.
const keyFrameRequestInterval = 300 * time.Millisecond

// Source receives the packets of a publisher, or of another node that relays one. It is safe for concurrent use.
type Source struct {
	Formats Formats

	pc      *webrtc.PeerConnection
	open    func() bool // reports whether packets are forwarded
	done    chan struct{}
	readers sync.WaitGroup

	mu          sync.Mutex
	ended       error // the reason of the end; nil before it
	receivers   map[*receiver]struct{}
	gop         gop
	ssrc        uint32 // of the pictures
	lastRequest time.Time
	counted     [2]counter // for pictures and sound

	packets, bytes, refused, dropped atomic.Uint64
}

// The tracks of a source.
const (
	video = 0
	audio = 1
)

// counter counts the packets of a track that did not arrive.
type counter struct {
	began   bool
	first   uint32 // extended sequence number
	highest uint32
	arrived uint64
}

func (c *counter) count(seq uint16) {
	if !c.began {
		c.began, c.first, c.highest = true, uint32(seq), uint32(seq)
	}
	if ahead := seq - uint16(c.highest); ahead < 1<<15 {
		c.highest += uint32(ahead)
	}
	c.arrived++
}

func (c *counter) lost() uint64 {
	expected := uint64(c.highest-c.first) + 1
	if !c.began || c.arrived >= expected {
		return 0
	}
	return expected - c.arrived
}

// Counts are the totals of a source since its start.
type Counts struct {
	Packets, Bytes uint64 // received and forwarded
	Lost           uint64 // packets that did not arrive
	Refused        uint64 // packets that arrived while open returned false
	Dropped        uint64 // packets that did not fit into viewers' queues
}

// Counts returns the totals.
func (s *Source) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Counts{s.packets.Load(), s.bytes.Load(), s.counted[video].lost() + s.counted[audio].lost(), s.refused.Load(), s.dropped.Load()}
}

func newSource(pc *webrtc.PeerConnection, open func() bool) *Source {
	return &Source{pc: pc, open: open, done: make(chan struct{}), receivers: map[*receiver]struct{}{}}
}

// Publish answers a publisher's offer. A packet is forwarded only if open, called for each packet, returns true. The
// source ends when the publisher does. It returns ErrOffer or ErrCodec.
func (e *Engine) Publish(ctx context.Context, offer string, open func() bool) (_ *Source, sdp string, err error) {
	pc, err := e.connection()
	if err != nil {
		return nil, "", err
	}
	s := newSource(pc, open)
	defer func() {
		if err != nil {
			s.Close(err)
		}
	}()
	s.follow()
	if err := applyOffer(pc, offer); err != nil {
		return nil, "", err
	}
	if s.Formats, err = pick(pc); err != nil {
		return nil, "", err
	}
	sdp, err = answer(ctx, pc)
	return s, sdp, err
}

// Pull starts a viewer's session at another node for a source with these formats. exchange sends the offer there and
// returns the answer. The session has its own UDP sockets. It returns ErrOffer, or an error of exchange.
func (e *Engine) Pull(ctx context.Context, f Formats,
	open func() bool, exchange func(ctx context.Context, offer string) (string, error)) (_ *Source, err error) {
	pc, err := e.ownConnection()
	if err != nil {
		return nil, err
	}
	s := newSource(pc, open)
	s.Formats = f
	defer func() {
		if err != nil {
			s.Close(err)
		}
	}()
	s.follow()
	for _, format := range []*Format{f.Video, f.Audio} {
		if format == nil {
			continue
		}
		kind := webrtc.RTPCodecTypeVideo
		if format == f.Audio {
			kind = webrtc.RTPCodecTypeAudio
		}
		if _, err := pc.AddTransceiverFromKind(kind, webrtc.RTPTransceiverInit{Direction: webrtc.RTPTransceiverDirectionRecvonly}); err != nil {
			return nil, err
		}
	}
	offer, err := pc.CreateOffer(nil)
	if err != nil {
		return nil, err
	}
	gathered := webrtc.GatheringCompletePromise(pc)
	if err := pc.SetLocalDescription(offer); err != nil {
		return nil, err
	}
	select {
	case <-gathered:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	sdp, err := exchange(ctx, pc.LocalDescription().SDP)
	if err != nil {
		return nil, err
	}
	if _, err := parse(sdp); err != nil {
		return nil, err
	}
	if err := pc.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeAnswer, SDP: sdp}); err != nil {
		return nil, errors.Join(ErrOffer, err)
	}
	return s, nil
}

// follow makes the source read its tracks and end with its connection.
func (s *Source) follow() {
	s.pc.OnTrack(func(t *webrtc.TrackRemote, r *webrtc.RTPReceiver) {
		kind, format := video, s.Formats.Video
		if t.Kind() == webrtc.RTPCodecTypeAudio {
			kind, format = audio, s.Formats.Audio
		}
		// If a picture has several sizes (simulcast), the first one in the offer is forwarded.
		forwarded := t.RID() == r.Tracks()[0].RID()
		s.mu.Lock()
		if s.ended != nil || format == nil {
			s.mu.Unlock()
			return
		}
		if kind == video && forwarded {
			s.ssrc = uint32(t.SSRC())
		}
		s.readers.Add(2)
		s.mu.Unlock()
		go func() { // the library processes RTCP only when it is read
			defer s.readers.Done()
			buf := make([]byte, 1500)
			for {
				if _, _, err := r.ReadSimulcast(buf, t.RID()); err != nil {
					return
				}
			}
		}()
		go func() {
			defer s.readers.Done()
			s.read(t, kind, format.Mime, forwarded)
		}()
	})
	watch(s.pc, s.done, func(err error) { s.end(err) }, nil)
}

// errGone reports that the other side of a session has left.
var errGone = errors.New("media: the peer has disconnected")

// watch calls end if a session fails or does not connect in time, and up each time it connects.
func watch(pc *webrtc.PeerConnection, done <-chan struct{}, end func(error), up func()) {
	var connected atomic.Bool
	pc.OnConnectionStateChange(func(state webrtc.PeerConnectionState) {
		switch state {
		case webrtc.PeerConnectionStateConnected:
			connected.Store(true)
			if up != nil {
				up()
			}
		case webrtc.PeerConnectionStateFailed, webrtc.PeerConnectionStateClosed:
			go end(errGone) // end closes the connection, which waits for this callback
		}
	})
	go func() {
		t := time.NewTimer(connectTime)
		defer t.Stop()
		select {
		case <-done:
		case <-t.C:
			if !connected.Load() {
				end(errGone)
			}
		}
	}()
}

// read reads a track until it ends, and forwards its packets if forwarded is true. It reads the others as well, so
// that the publisher gets feedback about them.
func (s *Source) read(t *webrtc.TrackRemote, kind int, mime string, forwarded bool) {
	for {
		p, _, err := t.ReadRTP()
		if errors.Is(err, webrtc.ErrCodecNotFound) {
			continue // this packet has a type that was not negotiated; others may follow
		}
		if err != nil {
			return
		}
		if !forwarded {
			continue
		}
		// Header extensions belong to the publisher's session.
		p.Header.Extension, p.Header.Extensions, p.Header.CSRC = false, nil, nil
		s.forward(kind, mime, p, time.Now())
	}
}

// forward forwards a received packet.
func (s *Source) forward(kind int, mime string, p *rtp.Packet, now time.Time) {
	if !s.open() {
		s.refused.Add(1)
		return
	}
	s.packets.Add(1)
	s.bytes.Add(uint64(len(p.Payload)))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counted[kind].count(p.SequenceNumber)
	key := kind == video && isKey(mime, p.Payload)
	if kind == video {
		s.gop.add(p, key, now)
	}
	waits := false
	for t := range s.receivers {
		if kind == video && t.waitsForKey {
			if !key {
				waits = true
				continue
			}
			t.waitsForKey = false
		}
		select {
		case t.queue <- item{kind, p}:
		default:
			s.dropped.Add(1)
			t.waitsForKey = t.waitsForKey || kind == video
		}
	}
	if waits {
		s.requestKeyFrame(now)
	}
}

// requestKeyFrame asks the publisher for a key frame. The caller holds s.mu.
func (s *Source) requestKeyFrame(now time.Time) {
	if s.ssrc == 0 || now.Sub(s.lastRequest) < keyFrameRequestInterval {
		return
	}
	s.lastRequest = now
	_ = s.pc.WriteRTCP([]rtcp.Packet{&rtcp.PictureLossIndication{MediaSSRC: s.ssrc}}) // the next packet retries
}

// lockAndRequestKeyFrame asks for a key frame on behalf of a viewer.
func (s *Source) lockAndRequestKeyFrame() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requestKeyFrame(time.Now())
}

// item is a packet of a track.
type item struct {
	kind   int
	packet *rtp.Packet
}

// queued is the largest number of packets in a queue: two seconds at 12 Mbit/s.
const queued = 2048

// receiver receives the packets of a source.
type receiver struct {
	backlog     []*rtp.Packet // the group of pictures at the start
	queue       chan item
	waitsForKey bool // owned by the source
}

// add adds a receiver. The receiver gets the current group of pictures and all later packets. add reports whether there
// is a group. It returns ErrEnded.
func (s *Source) add(t *receiver) (kept bool, err error) {
	s.mu.Lock()
	if s.ended != nil {
		s.mu.Unlock()
		return false, ErrEnded
	}
	packets := slices.Clip(s.gop.packets) // the source appends to the group, but changes no packet of it
	t.waitsForKey = len(packets) == 0
	if t.waitsForKey && s.Formats.Video != nil {
		s.requestKeyFrame(time.Now())
	}
	s.receivers[t] = struct{}{}
	s.mu.Unlock()
	t.backlog = replay(packets) // without the lock, because the publisher's packets wait for it
	return len(packets) > 0, nil
}

// remove removes a receiver.
func (s *Source) remove(t *receiver) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.receivers, t)
}

// Done is closed when the source has ended.
func (s *Source) Done() <-chan struct{} { return s.done }

// end records the end of the source and its reason, once.
func (s *Source) end(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended == nil {
		s.ended = cause
		close(s.done)
	}
}

// Close ends the source and its session. It waits for the goroutines that read the source.
func (s *Source) Close(cause error) {
	if cause == nil {
		cause = ErrEnded
	}
	s.end(cause)
	_ = s.pc.Close()
	s.readers.Wait()
}

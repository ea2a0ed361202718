// Package livetest has a publisher and a viewer of live streams for tests and benchmarks. They behave like other
// programs: they use WHIP and WHEP over HTTP, and WebRTC on loopback. Their pictures are synthetic. They have the
// headers of VP8 or H.264, and the time when they were sent.
package livetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pion/rtcp"
	"github.com/pion/rtp"
	"github.com/pion/rtp/codecs"
	"github.com/pion/webrtc/v4"
	"github.com/pion/webrtc/v4/pkg/media"
)

// Ask sends an offer and returns the answer.
type Ask func(ctx context.Context, offer string) (answer string, err error)

// Refused is a response with a status other than 201.
type Refused struct {
	Status int
	Body   string
}

// Error returns the status and the body.
func (r *Refused) Error() string { return fmt.Sprintf("%d: %s", r.Status, r.Body) }

// Post returns an [Ask] for WHIP and WHEP. It stores the address of the session in session.
func Post(c *http.Client, at, token string, session *string) Ask {
	return func(ctx context.Context, offer string) (string, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, at, strings.NewReader(offer))
		if err != nil {
			return "", err
		}
		req.Header.Set("Content-Type", "application/sdp")
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := c.Do(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return "", err
		}
		if resp.StatusCode != http.StatusCreated {
			return "", &Refused{resp.StatusCode, string(body)}
		}
		if session != nil {
			u, err := url.Parse(at)
			if err != nil {
				return "", err
			}
			if u, err = u.Parse(resp.Header.Get("Location")); err != nil {
				return "", err
			}
			*session = u.String()
		}
		return string(body), nil
	}
}

// connection creates a session of a program on this machine.
func connection() (*webrtc.PeerConnection, error) {
	se := webrtc.SettingEngine{}
	se.SetIncludeLoopbackCandidate(true)
	se.SetInterfaceFilter(func(name string) bool { return strings.HasPrefix(name, "lo") })
	se.SetNetworkTypes([]webrtc.NetworkType{webrtc.NetworkTypeUDP4})
	return webrtc.NewAPI(webrtc.WithSettingEngine(se)).NewPeerConnection(webrtc.Configuration{})
}

// negotiate sends an offer with all candidates, and applies the answer.
func negotiate(ctx context.Context, pc *webrtc.PeerConnection, ask Ask) error {
	offer, err := pc.CreateOffer(nil)
	if err != nil {
		return err
	}
	gathered := webrtc.GatheringCompletePromise(pc)
	if err := pc.SetLocalDescription(offer); err != nil {
		return err
	}
	<-gathered
	answer, err := ask(ctx, pc.LocalDescription().SDP)
	if err != nil {
		return err
	}
	return pc.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeAnswer, SDP: answer})
}

// Camera states the media that a publisher sends.
type Camera struct {
	Bitrate  int           // bits per second; 0: 400,000
	Rate     int           // pictures per second; 0: 30
	KeyEvery time.Duration // between key frames; 0: only on request
	Deaf     bool          // requests for key frames are ignored
	Waits    bool          // sending starts with the first request for a key frame
	Strange  bool          // the first packet has a type that was not negotiated
	H264     bool          // instead of VP8
	Sizes    int           // number of sizes of each picture, each in its own layer (simulcast); 0: one without a name
}

func (c Camera) mime() string {
	if c.H264 {
		return webrtc.MimeTypeH264
	}
	return webrtc.MimeTypeVP8
}

// Publisher publishes synthetic pictures.
type Publisher struct {
	Sent atomic.Int64 // pictures

	pc    *webrtc.PeerConnection
	video *pictures
	sizes []*webrtc.TrackLocalStaticRTP // the other sizes, after video
	audio *webrtc.TrackLocalStaticSample
	state atomic.Int32
	up    chan struct{}
	key   atomic.Bool
	stop  chan struct{}
	once  sync.Once
	all   sync.WaitGroup
}

// pictures is a track that can also send packets of other types.
type pictures struct {
	*webrtc.TrackLocalStaticRTP
	raw  webrtc.TrackLocalWriter
	ssrc webrtc.SSRC
}

// Bind implements [webrtc.TrackLocal].
func (p *pictures) Bind(c webrtc.TrackLocalContext) (webrtc.RTPCodecParameters, error) {
	p.raw, p.ssrc = c.WriteStream(), c.SSRC()
	return p.TrackLocalStaticRTP.Bind(c)
}

// Publish starts to publish, and returns when the connection is up.
func Publish(ctx context.Context, cam Camera, ask Ask) (_ *Publisher, err error) {
	if cam.Bitrate == 0 {
		cam.Bitrate = 400_000
	}
	if cam.Rate == 0 {
		cam.Rate = 30
	}
	pc, err := connection()
	if err != nil {
		return nil, err
	}
	p := &Publisher{pc: pc, up: make(chan struct{}), stop: make(chan struct{})}
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	inner, err := webrtc.NewTrackLocalStaticRTP(webrtc.RTPCodecCapability{MimeType: cam.mime(), ClockRate: 90000}, "video", "cam",
		layer(0, cam.Sizes)...)
	if err != nil {
		return nil, err
	}
	p.video = &pictures{TrackLocalStaticRTP: inner}
	if p.audio, err = webrtc.NewTrackLocalStaticSample(webrtc.RTPCodecCapability{MimeType: webrtc.MimeTypeOpus, ClockRate: 48000, Channels: 2},
		"audio", "cam"); err != nil {
		return nil, err
	}
	var once sync.Once
	pc.OnConnectionStateChange(func(s webrtc.PeerConnectionState) {
		p.state.Store(int32(s))
		if s == webrtc.PeerConnectionStateConnected {
			once.Do(func() { close(p.up) })
		}
	})
	for _, t := range []webrtc.TrackLocal{p.video, p.audio} {
		tr, err := pc.AddTransceiverFromTrack(t, webrtc.RTPTransceiverInit{Direction: webrtc.RTPTransceiverDirectionSendonly})
		if err != nil {
			return nil, err
		}
		for n := 1; n < cam.Sizes && t == p.video; n++ {
			size, err := webrtc.NewTrackLocalStaticRTP(inner.Codec(), inner.ID(), inner.StreamID(), layer(n, cam.Sizes)...)
			if err != nil {
				return nil, err
			}
			if err := tr.Sender().AddEncoding(size); err != nil {
				return nil, err
			}
			p.sizes = append(p.sizes, size)
		}
		if cam.H264 && t == p.video { // as OBS, which offers only this codec
			if err := tr.SetCodecPreferences([]webrtc.RTPCodecParameters{{PayloadType: 102, RTPCodecCapability: webrtc.RTPCodecCapability{
				MimeType: webrtc.MimeTypeH264, ClockRate: 90000, SDPFmtpLine: "level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42001f",
				RTCPFeedback: []webrtc.RTCPFeedback{{Type: "nack"}, {Type: "nack", Parameter: "pli"}}}}}); err != nil {
				return nil, err
			}
		}
		p.all.Go(func() {
			for {
				packets, _, err := tr.Sender().ReadRTCP()
				if err != nil {
					return
				}
				for _, r := range packets {
					if _, ok := r.(*rtcp.PictureLossIndication); ok && !cam.Deaf {
						p.key.Store(true)
					}
				}
			}
		})
	}
	if err := negotiate(ctx, pc, ask); err != nil {
		return nil, err
	}
	select {
	case <-p.up:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	p.all.Go(func() { p.film(cam) })
	return p, nil
}

// layer returns the option that names one of several sizes of a picture.
func layer(n, sizes int) (options []func(*webrtc.TrackLocalStaticRTP)) {
	if sizes > 0 {
		options = append(options, webrtc.WithRTPStreamID(strconv.Itoa(n)))
	}
	return options
}

// named sets the name of the size in a packet's header, in the form that the library expects.
func (p *Publisher) named(packet *rtp.Packet, rid string) {
	tr := p.pc.GetTransceivers()[0]
	for _, x := range tr.Sender().GetParameters().HeaderExtensions {
		switch x.URI {
		case "urn:ietf:params:rtp-hdrext:sdes:mid":
			_ = packet.Header.SetExtension(uint8(x.ID), []byte(tr.Mid()))
		case "urn:ietf:params:rtp-hdrext:sdes:rtp-stream-id":
			_ = packet.Header.SetExtension(uint8(x.ID), []byte(rid))
		}
	}
}

// film sends pictures and sound.
func (p *Publisher) film(cam Camera) {
	every := time.NewTicker(time.Second / time.Duration(cam.Rate))
	defer every.Stop()
	picture, payloader := Picture, rtp.Payloader(&codecs.VP8Payloader{})
	if cam.H264 {
		picture, payloader = pictureH264, &codecs.H264Payloader{}
	}
	packetizer := rtp.NewPacketizer(1200, 0, 0, payloader, rtp.NewRandomSequencer(), 90000)
	size := max(64, cam.Bitrate/8/cam.Rate)
	began, keyed, key := time.Now(), time.Time{}, true
	if cam.Strange {
		_, _ = p.video.raw.WriteRTP(&rtp.Header{Version: 2, SSRC: uint32(p.video.ssrc), PayloadType: 50}, []byte("strange"))
	}
	ts := uint32(0)
	for n := int64(0); ; n++ {
		select {
		case <-p.stop:
			return
		case now := <-every.C:
			if cam.Waits && n == 0 && !p.key.Load() {
				n--
				continue
			}
			if p.key.Swap(false) || cam.KeyEvery > 0 && now.Sub(keyed) >= cam.KeyEvery {
				key = true
			}
			frame := picture(key, size, n, time.Now())
			if key {
				keyed, key = now, false
			}
			ts = max(ts+90, uint32(time.Since(began).Milliseconds()*90)) // after a stall, two pictures follow each other at once
			for _, packet := range packetizer.Packetize(frame, 0) {
				packet.Timestamp = ts
				if cam.Sizes > 0 {
					p.named(packet, p.video.RID())
				}
				_ = p.video.WriteRTP(packet)
				for i, size := range p.sizes {
					packet := packet.Clone()
					packet.SequenceNumber += uint16(10_000 * (i + 1))
					p.named(packet, size.RID())
					_ = size.WriteRTP(packet)
				}
			}
			_ = p.audio.WriteSample(media.Sample{Data: []byte{0xfc, 0xff, 0xfe, byte(n)}, Duration: time.Second / time.Duration(cam.Rate)})
			p.Sent.Add(1)
		}
	}
}

// mark is the offset of the number and time in a picture.
const mark = 16

// Picture returns a synthetic picture of VP8, 320 by 240.
func Picture(key bool, size int, n int64, at time.Time) []byte {
	b := make([]byte, max(size, mark+16))
	copy(b, []byte{0x10, 0, 0, 0x9d, 0x01, 0x2a, 0x40, 0x01, 0xf0, 0x00})
	if !key {
		b[0] |= 1
	}
	binary.BigEndian.PutUint64(b[mark:], uint64(n))
	binary.BigEndian.PutUint64(b[mark+8:], uint64(at.UnixNano()))
	return b
}

// begin is the start code of H.264's NAL units in a byte stream, see Annex B.
const begin = "\x00\x00\x00\x01"

// pictureH264 returns a synthetic picture of H.264. Its slice has the number and time as text, which cannot contain a
// start code.
func pictureH264(key bool, size int, n int64, at time.Time) []byte {
	b := []byte(begin + "\x41") // a slice that depends on other pictures
	if key {
		// parameter sets, and a slice that can be decoded alone
		b = []byte(begin + "\x67\x42\xe0\x1f\x8c\x8d\x40" + begin + "\x68\xce\x3c\x80" + begin + "\x65")
	}
	b = fmt.Appendf(b, "%016x%016x", n, at.UnixNano())
	return append(b, bytes.Repeat([]byte{0xaa}, max(0, size-len(b)))...)
}

// readH264 parses a picture of pictureH264.
func readH264(b []byte) (key bool, n, at int64, ok bool) {
	i := bytes.LastIndex(b, []byte(begin))
	if i < 0 || len(b) < i+len(begin)+33 {
		return false, 0, 0, false
	}
	slice := b[i+len(begin):]
	n, err := strconv.ParseInt(string(slice[1:17]), 16, 64)
	if err != nil {
		return false, 0, 0, false
	}
	at, err = strconv.ParseInt(string(slice[17:33]), 16, 64)
	return slice[0]&0x1f == 5 && bytes.Contains(b, []byte(begin+"\x67")), n, at, err == nil
}

// Ended reports whether the other side has ended the session.
func (p *Publisher) Ended() bool {
	s := webrtc.PeerConnectionState(p.state.Load())
	return s == webrtc.PeerConnectionStateClosed || s == webrtc.PeerConnectionStateFailed || s == webrtc.PeerConnectionStateDisconnected
}

// Close ends the session without a request to the server. Only WebRTC signals the end.
func (p *Publisher) Close() {
	p.once.Do(func() { close(p.stop) })
	_ = p.pc.Close()
	p.all.Wait()
}

// Frame is a received picture.
type Frame struct {
	Key    bool
	Number int64
	Sent   time.Time
	Came   time.Time
	RTP    uint32 // its timestamp
	First  uint16 // sequence number of its first packet
	Last   uint16
}

// Viewer watches a stream.
type Viewer struct {
	pc    *webrtc.PeerConnection
	state atomic.Int32

	mu     sync.Mutex
	frames []Frame
	sounds int
}

// Watch starts to watch. Pictures arrive after it returns.
func Watch(ctx context.Context, ask Ask) (_ *Viewer, err error) {
	pc, err := connection()
	if err != nil {
		return nil, err
	}
	v := &Viewer{pc: pc}
	defer func() {
		if err != nil {
			v.Close()
		}
	}()
	pc.OnConnectionStateChange(func(s webrtc.PeerConnectionState) { v.state.Store(int32(s)) })
	pc.OnTrack(func(t *webrtc.TrackRemote, _ *webrtc.RTPReceiver) { v.read(t) })
	for _, kind := range []webrtc.RTPCodecType{webrtc.RTPCodecTypeVideo, webrtc.RTPCodecTypeAudio} {
		if _, err := pc.AddTransceiverFromKind(kind, webrtc.RTPTransceiverInit{Direction: webrtc.RTPTransceiverDirectionRecvonly}); err != nil {
			return nil, err
		}
	}
	return v, negotiate(ctx, pc, ask)
}

// read assembles pictures.
func (v *Viewer) read(t *webrtc.TrackRemote) {
	var picture bytes.Buffer
	var at Frame
	var units codecs.H264Packet
	h264, whole := t.Codec().MimeType == webrtc.MimeTypeH264, true
	for p := range inOrder(t) {
		if t.Kind() == webrtc.RTPCodecTypeAudio {
			v.mu.Lock()
			v.sounds++
			v.mu.Unlock()
			continue
		}
		if h264 {
			if p.Timestamp != at.RTP || whole {
				whole = false
				picture.Reset()
				at = Frame{RTP: p.Timestamp, First: p.SequenceNumber}
			}
			data, err := units.Unmarshal(p.Payload)
			if err != nil {
				continue
			}
			picture.Write(data)
			if !p.Marker {
				continue
			}
			whole = true
			key, n, sent, ok := readH264(picture.Bytes())
			if ok {
				at.Key, at.Number, at.Sent = key, n, time.Unix(0, sent)
				v.came(at, p)
			}
			continue
		}
		var vp8 codecs.VP8Packet
		data, err := vp8.Unmarshal(p.Payload)
		if err != nil {
			continue
		}
		if vp8.S == 1 {
			picture.Reset()
			at = Frame{RTP: p.Timestamp, First: p.SequenceNumber}
		}
		picture.Write(data)
		if b := picture.Bytes(); p.Marker && len(b) >= mark+16 {
			at.Key, at.Number = b[0]&1 == 0, int64(binary.BigEndian.Uint64(b[mark:]))
			at.Sent = time.Unix(0, int64(binary.BigEndian.Uint64(b[mark+8:])))
			v.came(at, p)
		}
	}
}

// mostEarly is the largest number of packets to wait for a missing one.
const mostEarly = 1024

// inOrder returns a track's packets in the order of sending, because retransmissions arrive later.
func inOrder(t *webrtc.TrackRemote) iter.Seq[*rtp.Packet] {
	return func(yield func(*rtp.Packet) bool) {
		early := map[uint16]*rtp.Packet{}
		var next uint16
		for begun := false; ; begun = true {
			p, _, err := t.ReadRTP()
			if err != nil {
				return
			}
			if !begun {
				next = p.SequenceNumber
			}
			if int16(p.SequenceNumber-next) < 0 { // no longer waited for
				continue
			}
			early[p.SequenceNumber] = p
			for len(early) > 0 {
				p, there := early[next]
				if !there && len(early) <= mostEarly {
					break
				}
				delete(early, next)
				next++
				if there && !yield(p) {
					return
				}
			}
		}
	}
}

// came stores a picture that is complete with its last packet.
func (v *Viewer) came(f Frame, last *rtp.Packet) {
	f.Came, f.Last = time.Now(), last.SequenceNumber
	v.mu.Lock()
	defer v.mu.Unlock()
	v.frames = append(v.frames, f)
}

// Frames returns all pictures received so far.
func (v *Viewer) Frames() []Frame {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.frames[:len(v.frames):len(v.frames)]
}

// Sounds returns the number of sound packets received so far.
func (v *Viewer) Sounds() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.sounds
}

// Ended reports whether the other side has ended the session.
func (v *Viewer) Ended() bool {
	s := webrtc.PeerConnectionState(v.state.Load())
	return s == webrtc.PeerConnectionStateClosed || s == webrtc.PeerConnectionStateFailed || s == webrtc.PeerConnectionStateDisconnected
}

// Close ends the session.
func (v *Viewer) Close() { _ = v.pc.Close() }

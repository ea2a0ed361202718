package media

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pion/ice/v4"
	"github.com/pion/interceptor"
	"github.com/pion/sdp/v3"
	"github.com/pion/transport/v5"
	"github.com/pion/transport/v5/stdnet"
	"github.com/pion/webrtc/v4"
)

// The errors of an offer.
var (
	// ErrOffer reports that a text is not a usable offer.
	ErrOffer = errors.New("media: invalid WebRTC offer")
	// ErrCodec reports that the other side has no codec that this package forwards, or that a viewer has no codec of
	// the publisher.
	ErrCodec = errors.New("media: no codec in common")
	// ErrEnded reports that a source has ended.
	ErrEnded = errors.New("media: the source has ended")
)

const (
	// answerTime bounds the creation of an answer.
	answerTime = 5 * time.Second
	// connectTime bounds the time until a session can send media.
	connectTime = 15 * time.Second
	// silentTime is the timeout for packets of the other side. After it, a session is disconnected. After the same time
	// again, it has failed.
	silentTime = 5 * time.Second
	// keepAlive is the time between two keep-alive packets of a session.
	keepAlive = time.Second
	// socketBuffer is the requested buffer size of each socket; the system may grant less.
	socketBuffer = 4 << 20
)

// Config states the addresses of an engine.
type Config struct {
	UDP       string   // host:port; without a host all addresses of the machine; port 0: any port
	PublicIPs []string // addresses for clients if the node is behind a NAT; none: its own addresses
	Log       *slog.Logger
}

// Engine creates sessions. It is safe for concurrent use.
type Engine struct {
	codecs  *webrtc.MediaEngine
	between *interceptor.Registry
	api     *webrtc.API
	relays  webrtc.SettingEngine // for sessions with their own sockets
	mux     ice.UDPMux
	all     *allAddresses // nil: the engine listens on one address
	log     *slog.Logger
}

// New opens the UDP port. Without a host, one address with an open port is enough, and [Engine.UpdateAddresses] retries
// the others.
func New(cfg Config) (_ *Engine, err error) {
	host, port, err := net.SplitHostPort(cfg.UDP)
	if err != nil {
		return nil, fmt.Errorf("media: %w", err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil, fmt.Errorf("media: port %q: %w", port, err)
	}
	se := webrtc.SettingEngine{LoggerFactory: logs{cfg.Log}}
	se.SetNetworkTypes([]webrtc.NetworkType{webrtc.NetworkTypeUDP4, webrtc.NetworkTypeUDP6})
	se.SetICETimeouts(silentTime, silentTime, keepAlive)
	// By default the library reads a packet before it reports a track, to find the codec. If that packet is a
	// retransmission, the library does not know the codec and drops the track. Here the description determines the
	// codec, see [pick].
	se.SetFireOnTrackBeforeFirstRTP(true)
	se.SetICEMulticastDNSMode(ice.MulticastDNSModeDisabled)
	e := &Engine{codecs: &webrtc.MediaEngine{}, between: &interceptor.Registry{}, log: cfg.Log}
	if err := register(e.codecs); err != nil {
		return nil, fmt.Errorf("media: %w", err)
	}
	if err := webrtc.RegisterDefaultInterceptorsWithOptions(e.codecs, e.between,
		webrtc.WithInterceptorLoggerFactory(se.LoggerFactory)); err != nil {
		return nil, fmt.Errorf("media: %w", err)
	}
	var only net.IP // the only address of the engine; nil: all
	if host == "" || net.ParseIP(host).IsUnspecified() {
		e.all = &allAddresses{port: number, log: cfg.Log, open: map[string]*address{}, options: []ice.UDPMuxFromPortOption{
			ice.UDPMuxFromPortWithReadBufferSize(socketBuffer), ice.UDPMuxFromPortWithWriteBufferSize(socketBuffer),
			ice.UDPMuxFromPortWithLoopback(), ice.UDPMuxFromPortWithLogger(se.LoggerFactory.NewLogger("ice"))}}
		if err := e.all.update(); err != nil && len(e.all.GetListenAddresses()) == 0 {
			return nil, err
		}
		se.SetIncludeLoopbackCandidate(true) // for programs on this machine, which may have no other address
		e.mux = e.all
	} else {
		addr, err := net.ResolveUDPAddr("udp", cfg.UDP)
		if err != nil {
			return nil, fmt.Errorf("media: %w", err)
		}
		conn, err := net.ListenUDP("udp", addr)
		if err != nil {
			return nil, fmt.Errorf("media: %w", err)
		}
		_, _ = conn.SetReadBuffer(socketBuffer), conn.SetWriteBuffer(socketBuffer)
		e.mux = ice.NewUDPMuxDefault(ice.UDPMuxParams{UDPConn: conn, Logger: se.LoggerFactory.NewLogger("ice")})
		se.SetIncludeLoopbackCandidate(addr.IP.IsLoopback())
		only = addr.IP
		cfg.Log.Info("live: UDP port open", "addresses", conn.LocalAddr().String())
	}
	defer func() {
		if err != nil {
			_ = e.mux.Close()
		}
	}()
	e.relays = se
	e.relays.SetIPFilter(func(ip net.IP) bool { return only == nil || ip.Equal(only) })
	se.SetICEUDPMux(e.mux)
	if len(cfg.PublicIPs) > 0 {
		if err := se.SetICEAddressRewriteRules(webrtc.ICEAddressRewriteRule{External: cfg.PublicIPs, AsCandidateType: webrtc.ICECandidateTypeHost,
			Mode: webrtc.ICEAddressRewriteReplace}); err != nil {
			return nil, fmt.Errorf("media: %w", err)
		}
	}
	e.api = e.apiWith(se)
	return e, nil
}

// UpdateAddresses updates the addresses of an engine that listens on all addresses of the machine. New sessions get the
// new addresses.
func (e *Engine) UpdateAddresses() {
	if e.all != nil {
		_ = e.all.update() // the next check retries
	}
}

// Close closes the port. All sessions must be closed before.
func (e *Engine) Close() error { return e.mux.Close() }

func (e *Engine) apiWith(se webrtc.SettingEngine) *webrtc.API {
	return webrtc.NewAPI(webrtc.WithSettingEngine(se), webrtc.WithMediaEngine(e.codecs), webrtc.WithInterceptorRegistry(e.between))
}

// connection creates a session. The library creates a certificate for each session, because one is valid for a month,
// and an engine may run longer.
func (e *Engine) connection() (*webrtc.PeerConnection, error) {
	return connect(e.api)
}

// ownConnection creates a session with its own UDP sockets, which close with it. The other node has one socket for all
// sessions, and assigns packets to sessions by source address. Two sessions between the same two sockets would get each
// other's packets.
func (e *Engine) ownConnection() (*webrtc.PeerConnection, error) {
	sockets, err := stdnet.NewNet()
	if err != nil {
		return nil, fmt.Errorf("media: %w", err)
	}
	se := e.relays
	se.SetNet(bufferedNet{sockets})
	return connect(e.apiWith(se))
}

func connect(api *webrtc.API) (*webrtc.PeerConnection, error) {
	return api.NewPeerConnection(webrtc.Configuration{BundlePolicy: webrtc.BundlePolicyMaxBundle})
}

// bufferedNet opens UDP sockets with large buffers.
type bufferedNet struct{ transport.Net }

// ListenUDP implements [transport.Net].
func (n bufferedNet) ListenUDP(network string, at *net.UDPAddr) (transport.UDPConn, error) {
	conn, err := n.Net.ListenUDP(network, at)
	if err == nil {
		_, _ = conn.SetReadBuffer(socketBuffer), conn.SetWriteBuffer(socketBuffer)
	}
	return conn, err
}

// Format is a codec with its parameters.
type Format struct {
	Mime     string `json:"mime"`
	Clock    uint32 `json:"clock"`
	Channels uint16 `json:"channels,omitempty"`
	Fmtp     string `json:"fmtp,omitempty"`
}

// Name returns the usual name of the codec: VP8, H264, opus.
func (f Format) Name() string { _, name, _ := strings.Cut(f.Mime, "/"); return name }

func (f Format) capability() webrtc.RTPCodecCapability {
	c := webrtc.RTPCodecCapability{MimeType: f.Mime, ClockRate: f.Clock, Channels: f.Channels, SDPFmtpLine: f.Fmtp}
	if f.Mime != webrtc.MimeTypeOpus {
		c.RTCPFeedback = feedback
	}
	return c
}

// Formats are the formats of a source; a track that does not exist is nil.
type Formats struct {
	Video *Format `json:"video,omitempty"`
	Audio *Format `json:"audio,omitempty"`
}

var feedback = []webrtc.RTCPFeedback{{Type: "goog-remb"}, {Type: "ccm", Parameter: "fir"}, {Type: "nack"}, {Type: "nack", Parameter: "pli"}}

// profiles are the profiles of H.264: baseline, constrained baseline, main, high.
var profiles = []string{"42001f", "42e01f", "4d001f", "64001f"}

// register adds the forwarded codecs, each with its retransmissions.
func register(m *webrtc.MediaEngine) error {
	if err := m.RegisterCodec(webrtc.RTPCodecParameters{PayloadType: 111,
		RTPCodecCapability: webrtc.RTPCodecCapability{MimeType: webrtc.MimeTypeOpus, ClockRate: 48000, Channels: 2,
			SDPFmtpLine: "minptime=10;useinbandfec=1"}}, webrtc.RTPCodecTypeAudio); err != nil {
		return err
	}
	video := []Format{{Mime: webrtc.MimeTypeVP8, Clock: 90000}}
	for _, p := range profiles {
		for _, mode := range []string{"1", "0"} {
			video = append(video, Format{Mime: webrtc.MimeTypeH264, Clock: 90000, Fmtp: "level-asymmetry-allowed=1;packetization-mode=" + mode +
				";profile-level-id=" + p})
		}
	}
	pt := webrtc.PayloadType(96)
	for _, f := range video {
		again := webrtc.RTPCodecCapability{MimeType: webrtc.MimeTypeRTX, ClockRate: 90000, SDPFmtpLine: "apt=" + strconv.Itoa(int(pt))}
		if err := errors.Join(m.RegisterCodec(webrtc.RTPCodecParameters{PayloadType: pt, RTPCodecCapability: f.capability()},
			webrtc.RTPCodecTypeVideo),
			m.RegisterCodec(webrtc.RTPCodecParameters{PayloadType: pt + 1, RTPCodecCapability: again}, webrtc.RTPCodecTypeVideo)); err != nil {
			return err
		}
		if pt += 2; pt == 110 { // 111 is used by Opus
			pt = 112
		}
	}
	return nil
}

const (
	// maxSections is the largest number of media sections of a description. Publishers and viewers need two.
	maxSections = 8
	// maxAttributes is the largest number of attributes of a description. A browser's offer has about 400.
	maxAttributes = 2000
)

// parse parses a description with the parser of the WebRTC library. It returns ErrOffer if the description exceeds a
// bound, or has a carriage return inside a line: the parser skips it there, and other programs do not.
func parse(text string) (*sdp.SessionDescription, error) {
	if strings.Contains(strings.ReplaceAll(text, "\r\n", "\n"), "\r") {
		return nil, fmt.Errorf("%w: carriage return inside a line", ErrOffer)
	}
	d := &sdp.SessionDescription{}
	if err := d.UnmarshalString(text); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOffer, err)
	}
	attributes := len(d.Attributes)
	for _, m := range d.MediaDescriptions {
		attributes += len(m.Attributes)
	}
	if len(d.MediaDescriptions) > maxSections || attributes > maxAttributes {
		return nil, fmt.Errorf("%w: %d media sections, %d attributes", ErrOffer, len(d.MediaDescriptions), attributes)
	}
	return d, nil
}

// withoutCandidates removes all addresses from an offer. The server sends packets only to addresses that send packets
// to it, not to addresses in an offer. It returns ErrOffer.
func withoutCandidates(offer string) (string, error) {
	d, err := parse(offer)
	if err != nil {
		return "", err
	}
	names := func(a sdp.Attribute) bool { return a.IsICECandidate() || a.Key == "remote-candidates" }
	d.Attributes = slices.DeleteFunc(d.Attributes, names)
	for _, m := range d.MediaDescriptions {
		m.Attributes = slices.DeleteFunc(m.Attributes, names)
	}
	text, err := d.Marshal()
	return string(text), err
}

// applyOffer applies a client's offer without its candidates. It returns ErrOffer.
func applyOffer(pc *webrtc.PeerConnection, offer string) error {
	text, err := withoutCandidates(offer)
	if err != nil {
		return err
	}
	if err := pc.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeOffer, SDP: text}); err != nil {
		return fmt.Errorf("%w: %w", ErrOffer, err)
	}
	return nil
}

// answer completes a session that has an offer, and returns the answer with all candidates.
func answer(ctx context.Context, pc *webrtc.PeerConnection) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	local, err := pc.CreateAnswer(nil)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrOffer, err)
	}
	gathered := webrtc.GatheringCompletePromise(pc)
	if err := pc.SetLocalDescription(local); err != nil {
		if errors.Is(err, webrtc.ErrUnsupportedCodec) {
			return "", ErrCodec
		}
		return "", fmt.Errorf("%w: %w", ErrOffer, err)
	}
	select {
	case <-gathered:
		return nearestLast(pc.LocalDescription().SDP), nil
	case <-ctx.Done():
		return "", fmt.Errorf("media: candidates not gathered in time: %w", ctx.Err())
	}
}

// candidateLists matches consecutive lines of candidates in a description.
var candidateLists = regexp.MustCompile(`(?m)(?:^a=candidate:[^\n]*\n)+`)

// nearestLast sorts the candidates of a description so that the most widely reachable ones are first. Some programs,
// such as ffmpeg, try only the first one, and the library returns them in no order.
func nearestLast(description string) string {
	return candidateLists.ReplaceAllStringFunc(description, func(list string) string {
		lines := slices.Collect(strings.Lines(list))
		slices.SortStableFunc(lines, func(a, b string) int { return cmp.Compare(nearness(a), nearness(b)) })
		return strings.Join(lines, "")
	})
}

// nearness is lower for addresses that more clients can reach. IPv4 is first, because more networks have it.
func nearness(candidate string) (n int) {
	addr, err := netip.ParseAddr(strings.Fields(candidate)[4])
	if err != nil {
		return 9
	}
	if addr.Is6() {
		n = 1
	}
	switch {
	case addr.IsLoopback():
		return 6 + n
	case addr.IsLinkLocalUnicast():
		return 4 + n
	case addr.IsPrivate():
		return 2 + n
	}
	return n
}

// pick makes each incoming track use one codec, the first forwarded one of the offer, and returns the codecs. It
// returns ErrCodec.
func pick(pc *webrtc.PeerConnection) (f Formats, err error) {
	for _, tr := range pc.GetTransceivers() {
		if tr.Direction() != webrtc.RTPTransceiverDirectionRecvonly && tr.Direction() != webrtc.RTPTransceiverDirectionSendrecv {
			continue
		}
		to := &f.Video
		if tr.Kind() == webrtc.RTPCodecTypeAudio {
			to = &f.Audio
		}
		all := tr.Receiver().GetParameters().Codecs
		at := slices.IndexFunc(all, func(c webrtc.RTPCodecParameters) bool { return c.MimeType != webrtc.MimeTypeRTX })
		if *to != nil || at < 0 {
			return Formats{}, ErrCodec // a second camera, or no known codec
		}
		chosen := all[at]
		*to = &Format{Mime: chosen.MimeType, Clock: chosen.ClockRate, Channels: chosen.Channels, Fmtp: chosen.SDPFmtpLine}
		keep := []webrtc.RTPCodecParameters{chosen}
		for _, c := range all {
			if c.MimeType == webrtc.MimeTypeRTX && c.SDPFmtpLine == fmt.Sprintf("apt=%d", chosen.PayloadType) {
				keep = append(keep, c)
			}
		}
		if err := tr.SetCodecPreferences(keep); err != nil {
			return Formats{}, fmt.Errorf("%w: %w", ErrCodec, err)
		}
	}
	if f.Video == nil && f.Audio == nil {
		return Formats{}, ErrCodec
	}
	return f, nil
}

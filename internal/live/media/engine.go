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

// The refusals of an offer.
var (
	// ErrOffer says that a text is no offer that can be answered.
	ErrOffer = errors.New("media: no offer of WebRTC that can be answered")
	// ErrCodec says that the other side has no codec that this package forwards, or a viewer none of the publisher's.
	ErrCodec = errors.New("media: no codec in common")
	// ErrEnded says that a source has ended.
	ErrEnded = errors.New("media: the source has ended")
)

const (
	// answerTime bounds the making of an answer.
	answerTime = 5 * time.Second
	// connectTime is how long a session may take until media can flow.
	connectTime = 15 * time.Second
	// silentTime is how long nothing may come of the other side, twice, until a session has ended.
	silentTime = 5 * time.Second
	// keepAlive is how often a session says that it is there.
	keepAlive = time.Second
	// socketBuffer is asked for of the system for each socket; it may give less.
	socketBuffer = 4 << 20
)

// Config says where an engine listens.
type Config struct {
	UDP       string   // host:port; without a host all addresses of the machine, with port 0 any
	PublicIPs []string // under which others reach it behind a NAT; none: its own
	Log       *slog.Logger
}

// Engine makes sessions. It is safe for concurrent use.
type Engine struct {
	codecs  *webrtc.MediaEngine
	between *interceptor.Registry
	api     *webrtc.API
	relays  webrtc.SettingEngine // of sessions with sockets of their own
	mux     ice.UDPMux
	all     *allAddresses // nil: it listens on one
	log     *slog.Logger
}

// New opens the UDP port; without a host that is done where at least one address lets it, and [Engine.Look] tries the others again.
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
	// By default the library reads a packet before it tells of a track, to know the codec. If that packet is a retransmission, it
	// does not know the codec and gives up the track. Here the description tells the codec, see [pick].
	se.SetFireOnTrackBeforeFirstRTP(true)
	se.SetICEMulticastDNSMode(ice.MulticastDNSModeDisabled)
	e := &Engine{codecs: &webrtc.MediaEngine{}, between: &interceptor.Registry{}, log: cfg.Log}
	if err := register(e.codecs); err != nil {
		return nil, fmt.Errorf("media: %w", err)
	}
	if err := webrtc.RegisterDefaultInterceptorsWithOptions(e.codecs, e.between, webrtc.WithInterceptorLoggerFactory(se.LoggerFactory)); err != nil {
		return nil, fmt.Errorf("media: %w", err)
	}
	var only net.IP // the address on which the engine listens; nil: all
	if host == "" || net.ParseIP(host).IsUnspecified() {
		e.all = &allAddresses{port: number, log: cfg.Log, open: map[string]*address{}, options: []ice.UDPMuxFromPortOption{
			ice.UDPMuxFromPortWithReadBufferSize(socketBuffer), ice.UDPMuxFromPortWithWriteBufferSize(socketBuffer),
			ice.UDPMuxFromPortWithLoopback(), ice.UDPMuxFromPortWithLogger(se.LoggerFactory.NewLogger("ice"))}}
		if err := e.all.look(); err != nil && len(e.all.GetListenAddresses()) == 0 {
			return nil, err
		}
		se.SetIncludeLoopbackCandidate(true) // for programs of this machine, which may have no other address
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
		cfg.Log.Info("live media: the UDP port is open", "addresses", conn.LocalAddr().String())
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
		if err := se.SetICEAddressRewriteRules(webrtc.ICEAddressRewriteRule{External: cfg.PublicIPs, AsCandidateType: webrtc.ICECandidateTypeHost, Mode: webrtc.ICEAddressRewriteReplace}); err != nil {
			return nil, fmt.Errorf("media: %w", err)
		}
	}
	e.api = e.apiWith(se)
	return e, nil
}

// Look has an engine that listens on all addresses of the machine listen on those that the machine has by now: sessions that begin get these.
func (e *Engine) Look() {
	if e.all != nil {
		_ = e.all.look() // the next one tries again
	}
}

// Close closes the port. Sessions have to be closed before.
func (e *Engine) Close() error { return e.mux.Close() }

func (e *Engine) apiWith(se webrtc.SettingEngine) *webrtc.API {
	return webrtc.NewAPI(webrtc.WithSettingEngine(se), webrtc.WithMediaEngine(e.codecs), webrtc.WithInterceptorRegistry(e.between))
}

// connection makes a session. Each has a certificate of its own, which the library makes: one is good for a month, and an engine
// may run for longer.
func (e *Engine) connection() (*webrtc.PeerConnection, error) {
	return connect(e.api)
}

// ownConnection makes a session with UDP sockets of its own, which close with it. The other node has one socket for all sessions, and
// assigns packets to sessions by source address. Two sessions between the same two sockets would get each other's packets.
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

// Name is the codec as people call it: VP8, H264, opus.
func (f Format) Name() string { _, name, _ := strings.Cut(f.Mime, "/"); return name }

func (f Format) capability() webrtc.RTPCodecCapability {
	c := webrtc.RTPCodecCapability{MimeType: f.Mime, ClockRate: f.Clock, Channels: f.Channels, SDPFmtpLine: f.Fmtp}
	if f.Mime != webrtc.MimeTypeOpus {
		c.RTCPFeedback = feedback
	}
	return c
}

// Formats are what a source has; nil where there is no such track.
type Formats struct {
	Video *Format `json:"video,omitempty"`
	Audio *Format `json:"audio,omitempty"`
}

var feedback = []webrtc.RTCPFeedback{{Type: "goog-remb"}, {Type: "ccm", Parameter: "fir"}, {Type: "nack"}, {Type: "nack", Parameter: "pli"}}

// profiles are those of H.264: baseline, constrained baseline, main, high.
var profiles = []string{"42001f", "42e01f", "4d001f", "64001f"}

// register adds the codecs that are forwarded, each with its retransmissions.
func register(m *webrtc.MediaEngine) error {
	if err := m.RegisterCodec(webrtc.RTPCodecParameters{PayloadType: 111,
		RTPCodecCapability: webrtc.RTPCodecCapability{MimeType: webrtc.MimeTypeOpus, ClockRate: 48000, Channels: 2, SDPFmtpLine: "minptime=10;useinbandfec=1"}}, webrtc.RTPCodecTypeAudio); err != nil {
		return err
	}
	video := []Format{{Mime: webrtc.MimeTypeVP8, Clock: 90000}}
	for _, p := range profiles {
		for _, mode := range []string{"1", "0"} {
			video = append(video, Format{Mime: webrtc.MimeTypeH264, Clock: 90000, Fmtp: "level-asymmetry-allowed=1;packetization-mode=" + mode + ";profile-level-id=" + p})
		}
	}
	pt := webrtc.PayloadType(96)
	for _, f := range video {
		again := webrtc.RTPCodecCapability{MimeType: webrtc.MimeTypeRTX, ClockRate: 90000, SDPFmtpLine: "apt=" + strconv.Itoa(int(pt))}
		if err := errors.Join(m.RegisterCodec(webrtc.RTPCodecParameters{PayloadType: pt, RTPCodecCapability: f.capability()}, webrtc.RTPCodecTypeVideo),
			m.RegisterCodec(webrtc.RTPCodecParameters{PayloadType: pt + 1, RTPCodecCapability: again}, webrtc.RTPCodecTypeVideo)); err != nil {
			return err
		}
		if pt += 2; pt == 110 { // 111 is Opus'
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

// parse parses a description with the parser of the WebRTC library. It returns ErrOffer if the description exceeds a bound, or has
// a carriage return inside a line: the parser skips it there, and other programs do not.
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

// withoutCandidates removes all addresses from an offer. The server sends packets only to addresses from which the client's packets
// arrive, not to addresses that an offer names. It returns ErrOffer.
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

// answer completes a session whose offer is known, and returns the answer with all candidates.
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
		return "", fmt.Errorf("media: candidates are not known in time: %w", ctx.Err())
	}
}

// candidateLists are the runs of lines of a description that name addresses.
var candidateLists = regexp.MustCompile(`(?m)(?:^a=candidate:[^\n]*\n)+`)

// nearestLast sorts the candidates of a description by how many others reach them. A program may try the first one alone, as ffmpeg
// does, and the library has them in no order.
func nearestLast(description string) string {
	return candidateLists.ReplaceAllStringFunc(description, func(list string) string {
		lines := slices.Collect(strings.Lines(list))
		slices.SortStableFunc(lines, func(a, b string) int { return cmp.Compare(nearness(a), nearness(b)) })
		return strings.Join(lines, "")
	})
}

// nearness is lower the more others reach a candidate's address. IPv4 comes first, as more networks have it.
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

// pick has each incoming track use one codec, the first of the offer that is forwarded, and returns them. ErrCodec.
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
			return Formats{}, ErrCodec // a second camera, or nothing that is known
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

package live

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/cursor"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/base/words"
	"github.com/stoa-dev/stoa/internal/config"
	"github.com/stoa-dev/stoa/internal/live/media"
)

// ID identifies a stream.
type ID = ids.ID[Stream]

// Session is a connection of a publisher or a viewer.
type Session struct{}

// SessionID identifies a session. It is part of the address that ends the session.
type SessionID = ids.ID[Session]

// Access states which users may watch. Its number is stored in SQL rows.
type Access int

// The values of Access.
const (
	ByKey Access = iota // only with the play key
	Open                // all users; the stream is on the list of live streams
)

var accesses = [...]string{"key", "open"}

// String returns the name in the API.
func (a Access) String() string { return accesses[a] }

// Stream is a stream with its settings; see keyspace.Doc.Version of streamKeys before you change it.
type Stream struct {
	ID      ID          `json:"id"`
	Owner   accounts.ID `json:"owner"`
	Title   string      `json:"title"`
	Access  Access      `json:"access,omitempty"`
	Record  bool        `json:"record,omitempty"`
	Created int64       `json:"created"`         // Unix ms
	Since   int64       `json:"since,omitempty"` // Unix ms of the publisher's start; 0: not live
	Last    int64       `json:"last,omitempty"`  // Unix ms of the end of the last publication
	Publish string      `json:"publish"`         // hash of the key
	Play    string      `json:"play"`            // hash of the key

	fence int64 // token of the last publisher
}

// OnAir is a live stream's info in Redis.
type OnAir struct {
	Token     int64         `json:"token"` // of the publisher's lease
	Session   SessionID     `json:"session"`
	Node      string        `json:"node"`
	Address   string        `json:"address"` // host:port of the node's HTTP
	Started   int64         `json:"started"` // Unix ms
	Formats   media.Formats `json:"formats"`
	Recording bool          `json:"recording,omitempty"`
}

// Stats are the figures of a publisher.
type Stats struct {
	Viewers int
	Bitrate int64 // bits per second since the last report
	Packets int64
	Bytes   int64
	Lost    int64 // packets
}

// State is the present state of a stream. OnAir is nil if the stream is not live.
type State struct {
	OnAir *OnAir
	Stats Stats
}

// Watching is a viewer's session.
type Watching struct {
	Session SessionID
	User    accounts.ID // zero for a viewer with a key
	Node    string
}

// Recording is a recording of one publisher's session.
type Recording struct {
	ID       SessionID
	Stream   ID
	File     string // the transfer; "" if there is none
	Fault    string // the code of the error if there is no file
	Started  int64  // Unix ms
	Duration int64  // ms
	Bytes    int64
}

// StreamKeys are a stream's keys. They are returned only once.
type StreamKeys struct{ Publish, Play string }

// The errors of this package. ErrStream is also the error for a stream that the caller may neither watch nor change.
var (
	ErrStream  = errs.New(errs.NotFound, "live.stream_unknown", "There is no such stream.")
	ErrMay     = errs.New(errs.Forbidden, "live.not_allowed", "This key does not allow the operation. Use another key.")
	ErrTitle   = errs.New(errs.Invalid, "live.title_invalid", "A stream's title is 1 to 100 printable characters.")
	ErrStreams = errs.New(errs.Conflict, "live.too_many", "You have the most streams allowed. Delete one first.")
	ErrBusy    = errs.New(errs.Conflict, "live.publishing", "Another client is publishing this stream. Stop it first.").Retry(leaseLife)
	ErrOffAir  = errs.New(errs.Conflict, "live.off_air", "The stream is not live.").Retry(5 * time.Second)
	ErrOffer   = errs.New(errs.Invalid, "live.offer_invalid", "The WebRTC offer is invalid. Create a new one.")
	ErrCodec   = errs.New(errs.Invalid, "live.codec", "The codecs do not match. Use VP8 or H.264, and Opus.")
	ErrSession = errs.New(errs.NotFound, "live.session_unknown", "There is no such session.")
	ErrCursor  = errs.New(errs.Invalid, "live.cursor", "That cursor does not come from this list.")
	ErrFull    = errs.New(errs.Unavailable, "live.full", "The server has no free sessions. Try again in 30 seconds.").Retry(30 * time.Second)
	ErrTooMany = errs.New(errs.TooMany, "live.too_many_viewers",
		"You, or your network, have too many streams open. Close one.").Retry(30 * time.Second)
	ErrMedia = errs.New(errs.Unavailable, "live.no_media", "This server does not offer live streams.").Retry(time.Minute)
	ErrNode  = errs.New(errs.Unavailable, "live.node_away", "The publisher's server is unavailable. Please try again.").Retry(5 * time.Second)
	ErrState = errs.New(errs.Unavailable, "live.state_away",
		"The stream's state is unavailable right now. Please try again.").Retry(2 * time.Second)
)

// Off turns media off, as an empty setting does.
const Off = "off"

// Settings are the operator's settings. A zero field selects its default.
type Settings struct {
	UDP         string        `koanf:"udp" default:":8189" help:"UDP address of the media of live streams, one port for all clients and other nodes; without a host all addresses of the machine; off carries none"`
	PublicIP    []string      `koanf:"public_ip" help:"addresses under which publishers and viewers reach this node behind a NAT that passes the UDP port on; none: the machine's own"`
	Owned       int           `koanf:"owned" default:"20" help:"streams that a user may have, at most 1000"`
	Sessions    int           `koanf:"sessions" default:"1000" help:"publishers and viewers that this node carries at a time, at most 100000; a tenth is kept for publishers and other nodes"`
	MaxFrom     int           `koanf:"max_from" default:"200" help:"viewers of this node from one client network (IPv4 address or IPv6 /64) that come with keys or as guests of rooms"`
	RecordBytes int64         `koanf:"record_bytes" default:"1073741824" help:"bytes at which the recording of a stream ends, or files.max_size where that is less"`
	RecordFor   time.Duration `koanf:"record_for" default:"720h" help:"how long a recording is kept"`
	Warm        int           `koanf:"warm" default:"100" help:"live streams that a node reads when it has started; at most 10000" zero:"none"`
}

// LeastRecordBytes is the smallest [Settings.RecordBytes].
const LeastRecordBytes = 1 << 20

func (c Settings) carries() bool { return c.UDP != "" && c.UDP != Off }

// Validate returns all faults, joined.
func (c Settings) Validate() error {
	config.Defaults(&c)
	_, _, err := net.SplitHostPort(c.UDP)
	var ips error
	for _, ip := range c.PublicIP {
		ips = errors.Join(ips, config.Refuse(net.ParseIP(ip) == nil, "public_ip", "%q is no IP address", ip))
	}
	return errors.Join(ips,
		config.Refuse(c.carries() && err != nil, "udp", "an address is host:port or :port; off carries no media"),
		config.Refuse(c.Owned < 1 || c.Owned > 1000, "owned", "%d is not between 1 and 1000", c.Owned),
		config.Refuse(c.Sessions < 1 || c.Sessions > 100_000, "sessions", "%d is not between 1 and 100000", c.Sessions),
		config.Refuse(c.MaxFrom < 1, "max_from", "%d is less than 1", c.MaxFrom),
		config.Refuse(c.RecordBytes < LeastRecordBytes, "record_bytes", "%d is less than %d", c.RecordBytes, LeastRecordBytes),
		config.Refuse(c.RecordFor < time.Hour || c.RecordFor > 10*365*24*time.Hour, "record_for", "%s is not between an hour and ten years",
			c.RecordFor),
		config.Refuse(c.Warm < 0 || c.Warm > 10_000, "warm", "%d is not between 0 and 10000", c.Warm))
}

// Prefix is the prefix of all keys of streams. No user's token has it.
const Prefix = "stoa_live_"

// kind is the kind of a token, and its first letter.
type kind byte

const (
	publishKey kind = 'p'
	playKey    kind = 'w'
	ticket     kind = 't' // signed; its bearer may begin to watch for a limited time
	relay      kind = 'r' // signed; for another node
)

const (
	// secretLen is the length of 24 random bytes in base64.
	secretLen = 32
	// untilLen is the length of Unix seconds in base 36, until the year 4453.
	untilLen = 7
	macLen   = 43
)

// newKey returns a new key of a stream.
func newKey(k kind, id ID) string {
	var secret [secretLen / 4 * 3]byte
	_, _ = rand.Read(secret[:]) // never fails
	return Prefix + string(k) + id.String() + base64.RawURLEncoding.EncodeToString(secret[:])
}

// hashOf returns the hash that SQL stores for a key, and Redis for a client network.
func hashOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// Holder is a caller with a key of a stream.
type Holder struct {
	Stream ID

	kind kind
	hash string // of a key; for a ticket, the hash of the play key at that time
	from string // client network
	seat seat   // of a ticket
}

// UserID implements web.Caller. Rate limits count by it. Callers of one client network with the same kind of key count
// as one. So viewers cannot use up the limits of the publisher, of other viewers or of other nodes.
func (h *Holder) UserID() string { return h.Stream.String() + string(h.kind) + hashOf(h.from) }

// seat is the right behind a ticket: a viewer's membership of a room.
type seat struct {
	room, viewer string
	by           accounts.ID       // the user who put the stream on the playlist
	device       accounts.DeviceID // the viewer's session; zero for a guest
}

func (s seat) String() string { return s.room + s.viewer + s.by.String() + s.device.String() }

// parseSeat parses the result of String.
func parseSeat(text string) (seat, bool) {
	if len(text) < 3*ids.Len {
		return seat{}, false
	}
	by, err := ids.Parse[accounts.User](text[2*ids.Len : 3*ids.Len])
	s := seat{room: text[:ids.Len], viewer: text[ids.Len : 2*ids.Len], by: by}
	if device := text[3*ids.Len:]; device != "" && err == nil {
		s.device, err = ids.Parse[accounts.Session](device)
	}
	return s, err == nil
}

// Caller is a publisher or viewer: a user, or the bearer of a key.
type Caller struct {
	User   accounts.ID       // zero: without an account
	Device accounts.DeviceID // the session of User; zero: the backend acts as the user
	Key    *Holder
}

// seated reports whether the caller has a ticket of a room.
func (c Caller) seated() bool { return c.Key != nil && c.Key.kind == ticket }

// session returns the session that the caller's right depends on, or zero.
func (c Caller) session() (user accounts.ID, device accounts.DeviceID) {
	if c.seated() && !c.Key.seat.device.IsZero() {
		user, _ = ids.Parse[accounts.User](c.Key.seat.viewer) // a viewer with a session is a user
		return user, c.Key.seat.device
	}
	return c.User, c.Device
}

func (c Caller) owns(s Stream) bool { return !c.User.IsZero() && c.User == s.Owner }

// mayPublish reports whether the caller may publish a stream as it is now.
func (c Caller) mayPublish(s Stream) bool {
	return c.owns(s) || c.Key != nil && same(c.Key.hash, s.Publish)
}

// mayWatch reports whether the caller may watch a stream as it is now.
func (c Caller) mayWatch(s Stream) bool {
	switch {
	case c.Key == nil:
		return c.owns(s) || s.Access == Open && !c.User.IsZero()
	case c.Key.kind == relay:
		return true
	case c.seated() && !(Caller{User: c.Key.seat.by}).mayWatch(s):
		return false
	}
	return same(c.Key.hash, s.Play)
}

// signer signs tokens with the server's secret. All nodes have the same secret, and it stays the same after a restart.
type signer []byte

// tokenPurpose is the purpose of a mac.
const tokenPurpose = "live ticket"

// mac returns the mac of a token's text and the hash of a play key. The text begins with the kind, which determines the
// length of the hash.
func (s signer) mac(text, play string) string {
	h := hmac.New(sha256.New, s)
	h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(tokenPurpose))))
	h.Write([]byte(tokenPurpose + text + play))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// sign returns a token that expires at until. The subject is a ticket's seat. A ticket belongs to the play key with the
// hash play, and becomes invalid with it.
func (s signer) sign(k kind, id ID, until time.Time, subject, play string) string {
	text := fmt.Sprintf("%c%s%0*s%s", k, id, untilLen, strconv.FormatInt(until.Unix(), 36), subject)
	return Prefix + text + s.mac(text, play)
}

// signed returns the subject of a token. It also reports whether sign made the token and it has not expired. rest is
// the part after the id.
func (s signer) signed(k kind, id ID, rest, play string, now time.Time) (subject string, ok bool) {
	if len(rest) < untilLen+macLen {
		return "", false
	}
	text, mac := rest[:len(rest)-macLen], rest[len(rest)-macLen:]
	until, err := strconv.ParseInt(text[:untilLen], 36, 64)
	return text[untilLen:], err == nil && hmac.Equal([]byte(mac), []byte(s.mac(string(k)+id.String()+text, play))) && now.Unix() < until
}

// signed is signer.signed with the present or the previous secret.
func (s *Service) signed(k kind, id ID, rest, play string) (subject string, ok bool) {
	now := s.db.Now()
	if subject, ok = s.signer.signed(k, id, rest, play, now); !ok && s.previous != nil {
		subject, ok = s.previous.signed(k, id, rest, play, now)
	}
	return subject, ok
}

// parseToken splits a token into its parts.
func parseToken(token string) (k kind, id ID, rest string, ok bool) {
	text, ok := strings.CutPrefix(token, Prefix)
	if !ok || len(text) < 1+ids.Len {
		return 0, id, "", false
	}
	id, err := ids.Parse[Stream](text[1 : 1+ids.Len])
	return kind(text[0]), id, text[1+ids.Len:], err == nil
}

// line returns a title, trimmed. It returns ErrTitle for an invalid one.
func line(s string) (string, error) {
	s, ok := words.Line(s, 100)
	if !ok || s == "" {
		return "", ErrTitle
	}
	return s, nil
}

// place is the position where a page of the list ends.
type place struct {
	since int64
	id    string
}

func (p place) cursor() string { return cursor.Of(p.id, p.since) }

// start is the position before the first entry of a list.
var start = place{since: 1 << 60}

// parsePlace returns the place of a cursor, or the start of the list for an empty one. It returns ErrCursor for an
// invalid one.
func parsePlace(text string) (place, error) {
	if text == "" {
		return start, nil
	}
	n, id, ok := cursor.Parse(text, 1)
	if !ok {
		return place{}, ErrCursor
	}
	return place{n[0], id}, nil
}

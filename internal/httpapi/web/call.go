package web

import (
	"bufio"
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/internal/base/clientnet"
	"github.com/stoa-dev/stoa/internal/base/i18n"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// call is one request on its way through the server, and its ResponseWriter.
type call struct {
	http.ResponseWriter
	api      *API
	r        *http.Request                         // as it came in
	route    *route                                // nil until the ServeMux found one
	caller   func(context.Context) (Caller, error) // of an invocation
	who      Caller                                // nil in a public operation and until the token is checked
	as       Caller                                // as whom who calls: see Delegate
	id       uint64
	seed     []byte // of what NewID returns; nil: each is drawn
	trace    string
	start    time.Time
	extended time.Time // when the write deadline was last moved

	wrote   bool
	swallow bool // the ServeMux's own words about 404 and 405
	status  int
	bytes   int64
}

type callKey struct{}

// callContext is a request's context with its call, and with what others ask of it.
type callContext struct {
	context.Context
	call *call
}

// Value implements context.Context.
func (c callContext) Value(key any) any {
	switch key.(type) {
	case callKey:
		return c.call
	case i18n.Key:
		return c.call.acceptLanguage
	case sqldb.LimitKey:
		return opTime
	case clientnet.Key:
		return func() string { return clientnet.Of(c.call.clientIP()) }
	}
	return c.Context.Value(key)
}

func callOf(ctx context.Context) *call { return ctx.Value(callKey{}).(*call) }

func (a *API) newCall(w http.ResponseWriter, r *http.Request) *call {
	c := &call{ResponseWriter: w, api: a, r: r, id: rand.Uint64()&maxID | 1, start: time.Now()}
	c.extended = c.start
	if t := r.Header.Get("X-Request-Id"); traceable(t) {
		c.trace = t
	} else {
		c.trace = strconv.FormatUint(c.id, 36)
	}
	return c
}

// traceable reports whether a client's request id can be repeated in headers
// and logs: 1 to 64 letters, digits, '.', '_' and '-'.
func traceable(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// Hijack implements http.Hijacker, for WebSockets.
func (c *call) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(c.ResponseWriter).Hijack()
	if err == nil {
		c.wrote, c.status = true, http.StatusSwitchingProtocols
	}
	return conn, rw, err
}

// Unwrap is for http.ResponseController.
func (c *call) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// WriteHeader replaces what the ServeMux says when it has no route.
func (c *call) WriteHeader(status int) {
	if status < 200 {
		c.ResponseWriter.WriteHeader(status)
		return
	}
	if c.wrote {
		return
	}
	if c.route == nil && !c.swallow {
		refused := !c.api.allowAway(c.r.Context(), c, unmatched)
		switch status {
		case http.StatusNotFound:
			if isBrowsing(c.r) {
				c.refuseByPage(newProblem(status, errNoRoute))
			} else {
				c.refuse(newProblem(status, errNoRoute))
			}
			refused = true
		case http.StatusMethodNotAllowed: // Allow is set
			c.refuse(newProblem(status, errMethod))
			refused = true
		}
		if refused {
			c.swallow = true
			return
		}
	}
	c.wrote, c.status = true, status
	c.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (c *call) Write(b []byte) (int, error) {
	if c.swallow {
		return len(b), nil
	}
	if !c.wrote {
		c.wrote, c.status = true, http.StatusOK
	}
	c.extend()
	n, err := c.ResponseWriter.Write(b)
	c.bytes += int64(n)
	return n, err
}

// extend gives the client time to read on, once a second at most. A stream does so
// itself.
func (c *call) extend() {
	now := time.Now()
	if c.route != nil && c.route.listen != nil || now.Sub(c.extended) < time.Second {
		return
	}
	c.extended = now
	// A recorder in a test has no deadlines.
	_ = http.NewResponseController(c.ResponseWriter).SetWriteDeadline(now.Add(answerTimeout))
}

// language is the one that people read the answer in.
func (c *call) language() i18n.Language { return i18n.Accepted(c.acceptLanguage()) }

func (c *call) acceptLanguage() string { return c.r.Header.Get("Accept-Language") }

// user is the caller's id, "" while nobody is known.
func (c *call) user() string {
	if c.who == nil {
		return ""
	}
	return c.who.UserID()
}

// maxID keeps request ids within BIGINT.
const maxID = 1<<63 - 1

// RequestID identifies what the client wants done: 1 to 2⁶³−1, random for
// each request, but the same for every try with one Idempotency-Key, so that a
// domain recognises in its own transaction what it committed before. (In public
// operations it is always random.) It is not the X-Request-ID, which tells
// tries apart in logs.
func RequestID(ctx context.Context) uint64 { return callOf(ctx).id }

// NewID returns the id of the T that the request makes. It is the same for every try of a request with an
// Idempotency-Key, so that a row with this id is what an earlier try has made, and nobody foresees it. Where tries are
// not kept, which is without a key, in public operations and in those with [Op.NoReplay] alone, it is a fresh one.
func NewID[T any](ctx context.Context) ids.ID[T] {
	if seed := callOf(ctx).seed; seed != nil {
		return ids.Of[T](seed)
	}
	return ids.New[T]()
}

// ClientIP returns the caller's address: the connection's, or, behind a
// proxy of Config.TrustProxy, the last one in X-Forwarded-For that no trusted
// proxy has. It is empty when there is none, as on a unix socket.
func ClientIP(ctx context.Context) string {
	if ip := callOf(ctx).clientIP(); ip.IsValid() {
		return ip.String()
	}
	return ""
}

// Header has the headers of the answer, also of a refusal, for a protocol that wants some
// there. What an operation always sends is part of its output instead.
func Header(ctx context.Context) http.Header { return callOf(ctx).Header() }

// UserAgent returns what the caller's program calls itself, as it came in.
func UserAgent(ctx context.Context) string { return callOf(ctx).r.UserAgent() }

// Origin returns the address at which the caller reaches this server, "https://stoa.example.org":
// Config.PublicURL or, without it, the request's Host. The scheme is https then if the connection is encrypted or a
// proxy of Config.TrustProxy says so. Origin is empty if the Host is no host.
func Origin(ctx context.Context) string {
	c := callOf(ctx)
	switch public := c.api.cfg.PublicURL.String(); {
	case public != "":
		return public
	case !plausible(c.r.Host):
		return ""
	case c.r.TLS != nil || c.api.trusts(c.peer()) && forwardedProto(c.r) == "https":
		return "https://" + c.r.Host
	}
	return "http://" + c.r.Host
}

// forwardedProto returns the scheme of the client's own request, in lower case. A proxy behind another one may append its
// own scheme to the first.
func forwardedProto(r *http.Request) string {
	first, _, _ := strings.Cut(r.Header.Get("X-Forwarded-Proto"), ",")
	return strings.ToLower(strings.TrimSpace(first))
}

// plausible reports whether a Host can be one: net/http lets pass what only looks
// like a URL's, of any length.
func plausible(host string) bool {
	const most = 253 + len(":65535")
	return host != "" && len(host) <= most && !strings.ContainsFunc(host, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(".-:[]", r)
	})
}

// peer is the connection's other end, invalid on a unix socket.
func (c *call) peer() netip.Addr {
	peer, err := netip.ParseAddrPort(c.r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return peer.Addr().Unmap().WithZone("")
}

func (c *call) clientIP() netip.Addr {
	ip := c.peer()
	if !c.api.trusts(ip) {
		return ip
	}
	lines := c.r.Header.Values("X-Forwarded-For")
	for i := len(lines) - 1; i >= 0; i-- {
		for rest, line, more := "", lines[i], true; more; line = rest {
			var last string
			if cut := strings.LastIndexByte(line, ','); cut >= 0 {
				rest, last = line[:cut], line[cut+1:]
			} else {
				rest, last, more = "", line, false
			}
			next, ok := forwardedAddr(strings.TrimSpace(last))
			if !ok {
				return ip // what stands further left, anybody may have written
			}
			ip = next.Unmap().WithZone("")
			if !c.api.trusts(ip) {
				return ip
			}
		}
	}
	return ip
}

// forwardedAddr reads an address of X-Forwarded-For, to which some proxies add the port, or at least the
// brackets that an IPv6 address has beside one.
func forwardedAddr(s string) (netip.Addr, bool) {
	if ip, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")); err == nil {
		return ip, true
	}
	with, err := netip.ParseAddrPort(s)
	return with.Addr(), err == nil
}

func (a *API) trusts(ip netip.Addr) bool {
	for _, p := range a.cfg.TrustProxy {
		if p.Contains(ip) {
			return true
		}
	}
	return false
}

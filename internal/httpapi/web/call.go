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
	"github.com/stoa-dev/stoa/internal/httpapi/idempotency"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// call is one request in progress, and its ResponseWriter.
type call struct {
	http.ResponseWriter
	api      *API
	r        *http.Request                         // as received
	route    *route                                // nil until the ServeMux has found one
	caller   func(context.Context) (Caller, error) // only for invocations
	who      Caller                                // nil in a public operation, and until the token is checked
	as       Caller                                // the caller that the handler gets: see Delegate
	id       uint64
	seed     []byte // seed of NewID; nil: NewID is random
	trace    string
	start    time.Time
	extended time.Time // time of the last extension of the write deadline

	wrote   bool
	swallow bool // drops the ServeMux's texts of 404 and 405
	status  int
	bytes   int64
}

type callKey struct{}

// callContext is a request's context. It provides the call, and values for other packages.
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
	c := &call{ResponseWriter: w, api: a, r: r, id: rand.Uint64()&idempotency.MaxID | 1, start: time.Now()}
	c.extended = c.start
	if t := r.Header.Get("X-Request-Id"); traceable(t) {
		c.trace = t
	} else {
		c.trace = strconv.FormatUint(c.id, 36)
	}
	return c
}

// traceable reports whether a client's request id is safe in headers and logs: 1 to 64 letters, digits, '.', '_' and
// '-'.
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

// Unwrap supports http.ResponseController.
func (c *call) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// WriteHeader replaces the ServeMux's own response if there is no route.
func (c *call) WriteHeader(status int) {
	if status < 200 {
		c.ResponseWriter.WriteHeader(status)
		return
	}
	if c.wrote {
		return
	}
	if c.route == nil && !c.swallow {
		refused := !c.api.allowPublic(c.r.Context(), c, unmatched)
		switch status {
		case http.StatusNotFound:
			if isBrowsing(c.r) {
				c.refuseByPage(newProblem(status, errNoRoute))
			} else {
				c.refuse(newProblem(status, errNoRoute))
			}
			refused = true
		case http.StatusMethodNotAllowed: // the Allow header is set
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

// extend moves the write deadline, at most once a second. A stream moves its own.
func (c *call) extend() {
	now := time.Now()
	if c.route != nil && c.route.listen != nil || now.Sub(c.extended) < time.Second {
		return
	}
	c.extended = now
	// A test recorder has no deadlines.
	_ = http.NewResponseController(c.ResponseWriter).SetWriteDeadline(now.Add(answerTimeout))
}

// language returns the language of texts for people in the response.
func (c *call) language() i18n.Language { return i18n.Accepted(c.acceptLanguage()) }

func (c *call) acceptLanguage() string { return c.r.Header.Get("Accept-Language") }

// user returns the caller's id, or "" while the caller is unknown.
func (c *call) user() string {
	if c.who == nil {
		return ""
	}
	return c.who.UserID()
}

// RequestID identifies the act that the client requests: 1 to 2⁶³−1. It is random for each request, but the same for
// every try with one Idempotency-Key, so that a domain recognises in its own transaction what an earlier try
// committed. In public operations it is always random. It is not the X-Request-ID, which distinguishes tries in logs.
func RequestID(ctx context.Context) uint64 { return callOf(ctx).id }

// NewID returns the id of the T that the request creates. It is unpredictable. It is the same for every try of a
// request with an Idempotency-Key, so that an existing row with this id was created by an earlier try. It is random
// where tries are not recorded: without a key, in public operations, and with [Op.NoReplay] but not [Op.Creates].
func NewID[T any](ctx context.Context) ids.ID[T] {
	if seed := callOf(ctx).seed; seed != nil {
		return ids.Of[T](seed)
	}
	return ids.New[T]()
}

// ClientIP returns the caller's address. It is the connection's address or, behind a proxy of Config.TrustProxy, the
// last address in X-Forwarded-For that is not a trusted proxy. It is empty if there is none, as on a unix socket.
func ClientIP(ctx context.Context) string {
	if ip := callOf(ctx).clientIP(); ip.IsValid() {
		return ip.String()
	}
	return ""
}

// Header returns the headers of the response, including a refusal, for protocols that need headers there. Headers
// that an operation always sends belong to its output instead.
func Header(ctx context.Context) http.Header { return callOf(ctx).Header() }

// UserAgent returns the User-Agent header as received.
func UserAgent(ctx context.Context) string { return callOf(ctx).r.UserAgent() }

// Origin returns this server's address as the caller uses it, such as "https://stoa.example.org". It is
// Config.PublicURL or, if that is empty, made of the request's Host. The scheme is then https if the connection is
// encrypted or a proxy of Config.TrustProxy reports https. Origin is empty if Host is not a host name.
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

// forwardedProto returns the scheme of the client's own request, in lower case. A second proxy may append its scheme
// to the first.
func forwardedProto(r *http.Request) string {
	first, _, _ := strings.Cut(r.Header.Get("X-Forwarded-Proto"), ",")
	return strings.ToLower(strings.TrimSpace(first))
}

// plausible reports whether host can be a host name, because net/http accepts other texts, of any length.
func plausible(host string) bool {
	const maxLen = 253 + len(":65535")
	return host != "" && len(host) <= maxLen && !strings.ContainsFunc(host, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(".-:[]", r)
	})
}

// peer returns the address of the connection's other end; invalid on a unix socket.
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
				return ip // the client may have forged the addresses to the left
			}
			ip = next.Unmap().WithZone("")
			if !c.api.trusts(ip) {
				return ip
			}
		}
	}
	return ip
}

// forwardedAddr parses an address of X-Forwarded-For. Some proxies append a port, or only the brackets of an IPv6
// address.
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

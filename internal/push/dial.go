package push

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// errPrivate reports an endpoint at an address that is not public.
var errPrivate = errors.New("the endpoint's address is not public")

// reserved lists networks that package netip does not exclude: no push service is there, and some lead to private
// networks.
var reserved = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"), // carrier-grade NAT
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.0.2.0/24"),
	netip.MustParsePrefix("192.88.99.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"),
	netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("64:ff9b::/96"), // IPv4 in IPv6, as are the next three
	netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("2001::/32"),
	netip.MustParsePrefix("2002::/16"),
	netip.MustParsePrefix("100::/64"),
	netip.MustParsePrefix("2001:db8::/32"),
	netip.MustParsePrefix("fec0::/10"),
}

// isPublic reports whether a push service can have this address.
func isPublic(ip netip.Addr) bool {
	ip = ip.Unmap()
	if !ip.IsGlobalUnicast() || ip.IsPrivate() || ip.Zone() != "" {
		return false
	}
	for _, p := range reserved {
		if p.Contains(ip) {
			return false
		}
	}
	return true
}

// dialer connects only to public addresses, unless private is set. It checks the address of the actual connection, so
// that a name that resolves differently next time does not help an attacker.
func dialer(private bool) func(ctx context.Context, network, addr string) (net.Conn, error) {
	d := &net.Dialer{Timeout: requestTime, KeepAlive: 30 * time.Second}
	if !private {
		d.Control = func(_, addr string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(addr)
			if err != nil || !isPublic(at.Addr()) {
				return fmt.Errorf("%w: %s", errPrivate, addr)
			}
			return nil
		}
	}
	return d.DialContext
}

// Package clientnet identifies the network of a caller, for rate limits. A client network is an IPv4 address or an
// IPv6 /64, because one subscriber has a whole /64.
package clientnet

import (
	"context"
	"net/netip"
)

// Key is the context key of a function that returns the caller's client network; the transport provides it.
type Key struct{}

// From returns the client network of the caller of ctx. It is empty if the network is unknown, as on a unix socket or
// in a job.
func From(ctx context.Context) string {
	if network, ok := ctx.Value(Key{}).(func() string); ok {
		return network()
	}
	return ""
}

// FromFar is [From], but returns "" for a near caller; see [IsNear].
func FromFar(ctx context.Context) string {
	h := From(ctx)
	if p, ok := prefixOf(h); ok && IsNear(p.Addr()) {
		return ""
	}
	return h
}

// prefixOf returns the addresses of a client network; ok is false for any other text.
func prefixOf(client string) (p netip.Prefix, ok bool) {
	if addr, err := netip.ParseAddr(client); err == nil {
		return netip.PrefixFrom(addr, addr.BitLen()), true
	}
	p, err := netip.ParsePrefix(client)
	return p, err == nil
}

// IsNear reports whether a caller is on this machine or in its private network, like probes, Prometheus and proxies.
// It is true for the zero address, because a unix socket has none.
func IsNear(ip netip.Addr) bool {
	return !ip.IsValid() || ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast()
}

// Of returns the client network of an address; it is empty for the zero address.
func Of(ip netip.Addr) string {
	if !ip.IsValid() {
		return ""
	}
	if ip.Is6() {
		if p, err := ip.WithZone("").Prefix(64); err == nil {
			return p.String()
		}
	}
	return ip.String()
}

// Parse is [Of] for an address in text; it is empty for any other text.
func Parse(ip string) string {
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		return ""
	}
	return Of(addr.Unmap())
}

// Site returns the site of a client network: the IPv4 address, or the IPv6 /56, which providers assign to a single
// home. It is empty for the empty client network.
func Site(client string) string {
	p, ok := prefixOf(client)
	if !ok {
		return ""
	}
	bits := 56
	if p.Addr().Is4() {
		bits = 32
	}
	return netip.PrefixFrom(p.Addr(), bits).Masked().String()
}

// Network returns the larger network that contains a client network: the IPv4 /24, or the IPv6 /48, because a
// provider may assign a whole /48 to one customer. It is empty for the empty client network.
func Network(client string) string {
	p, ok := prefixOf(client)
	if !ok {
		return ""
	}
	bits := 48
	if p.Addr().Is4() {
		bits = 24
	}
	return netip.PrefixFrom(p.Addr(), bits).Masked().String()
}

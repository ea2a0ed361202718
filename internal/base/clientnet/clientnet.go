// Package clientnet tells callers apart by where they call from, for limits: by their
// IPv4 address, or by the IPv6 /64, all of which one subscriber has.
package clientnet

import (
	"context"
	"net/netip"
)

// Key is the context's key of a function that returns the caller's household; the
// transport provides it.
type Key struct{}

// From returns the household of the caller on whose behalf ctx runs. It is empty where
// nobody knows, as on a unix socket or in a job.
func From(ctx context.Context) string {
	if of, ok := ctx.Value(Key{}).(func() string); ok {
		return of()
	}
	return ""
}

// FromFar is [From], but empty for somebody who is near, see [IsNear].
func FromFar(ctx context.Context) string {
	h := From(ctx)
	if p, ok := prefixOf(h); ok && IsNear(p.Addr()) {
		return ""
	}
	return h
}

// prefixOf returns the addresses of a household; ok is false for text that is none.
func prefixOf(household string) (p netip.Prefix, ok bool) {
	if addr, err := netip.ParseAddr(household); err == nil {
		return netip.PrefixFrom(addr, addr.BitLen()), true
	}
	p, err := netip.ParsePrefix(household)
	return p, err == nil
}

// IsNear reports whether a caller is on this machine or in its network, as probes,
// Prometheus and proxies are; on a unix socket there is no address.
func IsNear(ip netip.Addr) bool {
	return !ip.IsValid() || ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast()
}

// Of returns the household of an address; it is empty for the zero address.
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

// Parse is [Of] for an address in text; it is empty for text that is none.
func Parse(ip string) string {
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		return ""
	}
	return Of(addr.Unmap())
}

// Site returns the site of a household: the IPv4 address, or the IPv6 /56, which providers assign to a single home. It is empty for
// the empty household.
func Site(household string) string {
	p, ok := prefixOf(household)
	if !ok {
		return ""
	}
	bits := 56
	if p.Addr().Is4() {
		bits = 32
	}
	return netip.PrefixFrom(p.Addr(), bits).Masked().String()
}

// Network returns the network of a household: the IPv4 /24, or the IPv6 /48, which one customer of a provider can have
// whole. It is empty for the empty household.
func Network(household string) string {
	p, ok := prefixOf(household)
	if !ok {
		return ""
	}
	bits := 48
	if p.Addr().Is4() {
		bits = 24
	}
	return netip.PrefixFrom(p.Addr(), bits).Masked().String()
}

package clientnet

import (
	"context"
	"testing"
)

func TestParse_IsAnIPv4AddressOrIPv6Prefix(t *testing.T) {
	for ip, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1", "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64", "fe80::1%eth0": "fe80::/64",
		"": "", "a name": "",
	} {
		if got := Parse(ip); got != want {
			t.Errorf("%q: got %q, want %q", ip, got, want)
		}
	}
}

func TestNetwork_ContainsClientNetworksOfOneCustomer(t *testing.T) {
	for client, want := range map[string]string{
		"192.0.2.1": "192.0.2.0/24", "192.0.2.255": "192.0.2.0/24", "2001:db8:1:2::/64": "2001:db8:1::/48",
		"2001:db8:1:ffff::/64": "2001:db8:1::/48",
		"2001:db8:2:2::/64":    "2001:db8:2::/48", "": "", "a name": "",
	} {
		if got := Network(client); got != want {
			t.Errorf("%q: got %q, want %q", client, got, want)
		}
	}
}

func TestSite_IsAnAddressOrAHomesPrefix(t *testing.T) {
	for client, want := range map[string]string{
		"192.0.2.1": "192.0.2.1/32", "2001:db8:1:2::/64": "2001:db8:1::/56", "2001:db8:1:ff::/64": "2001:db8:1::/56",
		"2001:db8:1:100::/64": "2001:db8:1:100::/56", "": "", "a name": "",
	} {
		if got := Site(client); got != want {
			t.Errorf("%q: got %q, want %q", client, got, want)
		}
	}
}

func TestFrom_IsEmptyWithoutATransport(t *testing.T) {
	ctx := t.Context()
	if got := From(ctx); got != "" {
		t.Errorf("got %q", got)
	}
	if got := From(context.WithValue(ctx, Key{}, func() string { return "192.0.2.1" })); got != "192.0.2.1" {
		t.Errorf("got %q", got)
	}
}

package web

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"testing"
	"unicode/utf8"
)

// The server counts the last address that is no trusted proxy, or the peer itself, and never an address that a client
// can forge.
func FuzzForwardedFor(f *testing.F) {
	for _, seed := range []string{"", "1.2.3.4", "1.2.3.4, 10.0.0.1", ",,,", "unknown", "[::1]:80", "::ffff:1.2.3.4", "fe80::1%eth0",
		"10.0.0.1", " 1.2.3.4 ,", "1.2.3.4\x00"} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	a := New(Config{TrustProxy: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	f.Fuzz(func(t *testing.T, line string, proxied bool) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		peer := "192.0.2.7"
		if proxied {
			peer = "10.1.2.3"
		}
		r.RemoteAddr = peer + ":5"
		r.Header["X-Forwarded-For"] = []string{"203.0.113.9", line}
		ip := a.newCall(httptest.NewRecorder(), r).clientIP()
		if !ip.IsValid() || ip.Zone() != "" || !proxied && ip.String() != peer {
			t.Errorf("%q from %s: got %s", line, peer, ip)
		}
	})
}

func FuzzRequestID(f *testing.F) {
	for _, seed := range []string{"", "a", "a b", "a\r\nSet-Cookie: b", "é", "a.b_c-D9"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !traceable(s) {
			return
		}
		if len(s) > 64 || url.PathEscape(s) != s || s == "" {
			t.Errorf("%q would be in headers and logs", s)
		}
	})
}

func FuzzQuery(f *testing.F) {
	for _, seed := range []string{"", "a=b", "a=%ff", "a=%", "a=%zz", "%00", "a=\xff", "a=b;c=d", "a=%F0%9F%98%80"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if !validQuery(raw) {
			return
		}
		values, err := url.ParseQuery(raw)
		if err != nil {
			return // semicolons: huma ignores such a pair
		}
		for name, list := range values {
			for _, v := range list {
				if !utf8.ValidString(name) || !utf8.ValidString(v) {
					t.Errorf("%q lets %q=%q pass", raw, name, v)
				}
			}
		}
	})
}

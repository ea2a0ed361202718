package origin

import "testing"

func TestParse_ReturnsWhatBrowsersSend(t *testing.T) {
	for given, want := range map[string]string{
		"https://app.example.org":                             "https://app.example.org",
		"https://app.example.org:443":                         "https://app.example.org",
		"http://app.example.org:80":                           "http://app.example.org",
		"http://app.example.org:443":                          "http://app.example.org:443",
		"http://localhost:5173":                               "http://localhost:5173",
		"https://münchen.example":                             "https://xn--mnchen-3ya.example",
		"https://xn--mnchen-3ya.example":                      "https://xn--mnchen-3ya.example",
		"http://my_app:3000":                                  "http://my_app:3000",
		"http://[0:0::1]:8080":                                "http://[::1]:8080",
		"capacitor://localhost":                               "capacitor://localhost",
		"ionic://localhost":                                   "ionic://localhost",
		"tauri://localhost":                                   "tauri://localhost",
		"app://-":                                             "app://-",
		"chrome-extension://abcdefghijklmnopabcdefghijklmnop": "chrome-extension://abcdefghijklmnopabcdefghijklmnop",
	} {
		if got, err := Parse(given); err != nil || got.String() != want {
			t.Errorf("%s: got %s, %v, want %s", given, got, err, want)
		}
	}
	for _, given := range []string{
		"", "null", "*", "app.example.org", "https://", "https://app.example.org/", "https://app.example.org?", "https://App.example.org",
		"HTTPS://app.example.org",
		"https://a@app.example.org", "https://app.example.org:0", "https://app.example.org:65536", "https://app.example.org:",
		"https://*.example.org", "https://a..b",
		"https://xn--a", "https://a b", "https://[::1", "https://[192.0.2.1]", "https://a\nb", "file://", "app://é",
	} {
		if got, err := Parse(given); err == nil || got != (Origin{}) {
			t.Errorf("%q: got %s", given, got)
		}
	}
}

func TestPatterns_MatchListedOriginsAndSubdomains(t *testing.T) {
	ps := MustPatterns("https://app.example.org:443", "capacitor://localhost", "https://*.münchen.example", "http://*.dev.test:3000")
	for sent, want := range map[string]bool{
		"https://app.example.org": true, "https://app.example.org:443": true, "http://app.example.org": false,
		"https://app.example.org:8443": false,
		"https://b.app.example.org":    false, "https://example.org": false, "capacitor://localhost": true, "ionic://localhost": false,
		"https://a.xn--mnchen-3ya.example": true, "https://a.b.xn--mnchen-3ya.example": true, "https://xn--mnchen-3ya.example": false,
		"https://axn--mnchen-3ya.example": false,
		"http://a.dev.test:3000":          true, "http://a.dev.test": false, "https://a.dev.test:3000": false,
	} {
		o, err := Parse(sent)
		if err != nil {
			t.Errorf("%s: %v", sent, err)
		}
		if got := ps.Match(o); got != want {
			t.Errorf("%s: got %t", sent, got)
		}
	}
	for _, text := range []string{"*", "https://*", "https://*.", "https://*.org", "https://*.example.*", "https://a*.example.org",
		"https://a.*.example.org", "app://*.example.org", "http://*.192.0.2.1", "http://*.[::1]"} {
		var p Pattern
		if err := p.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%s: taken", text)
		}
	}
}

func TestAt_TreatsDefaultPortsAsEqual(t *testing.T) {
	for _, tc := range []struct {
		origin, host string
		want         bool
	}{
		{"https://stoa.example.org", "stoa.example.org", true},
		{"https://stoa.example.org", "Stoa.example.org:443", true},
		{"http://stoa.example.org", "stoa.example.org:80", true},
		{"https://stoa.example.org", "stoa.example.org:80", false},
		{"https://stoa.example.org:8443", "stoa.example.org:8443", true},
		{"https://stoa.example.org:8443", "stoa.example.org", false},
		{"http://[::1]:8080", "[::1]:8080", true},
		{"https://stoa.example.org", "evil.example/stoa.example.org", false},
		{"https://stoa.example.org", "", false},
	} {
		o, err := Parse(tc.origin)
		if err != nil {
			t.Fatal(err)
		}
		if got := o.At(tc.host); got != tc.want {
			t.Errorf("%s at %s: got %t", tc.origin, tc.host, got)
		}
	}
}

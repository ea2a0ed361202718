package weblink

import "testing"

func TestForeign(t *testing.T) {
	for s, want := range map[string]string{
		"https://example.org/a b.png":     "https://example.org/a%20b.png",
		"https://example.org/x?y=1#z":     "https://example.org/x?y=1#z",
		"https://example.org/a\\b":        "https://example.org/a%5Cb",
		"HTTPS://example.org/x":           "https://example.org/x",
		"http://example.org/x":            "",
		"https:example.org":               "",
		"https:///example.org":            "",
		"https://:443/x":                  "",
		"https://user@example.org/x":      "",
		"https://example.org@evil.org/x":  "",
		"https://exa\tmple.org/x":         "",
		"https://example.org/x\n":         "",
		"https:\\\\example.org\\x":        "",
		"https://example.org\\@evil.org/": "",
		" https://example.org/x":          "",
		"javascript:alert(1)":             "",
		"//example.org/x":                 "",
		"/v1/x":                           "",
	} {
		if got, ok := Foreign(s); got != want || ok != (want != "") {
			t.Errorf("%q: got %q, %t, want %q", s, got, ok, want)
		}
	}
}

func TestLocal(t *testing.T) {
	for s, want := range map[string]string{
		"/v1/avatars/x/64":     "/v1/avatars/x/64",
		"/v1/x?at=/../y":       "/v1/x?at=/../y",
		"/#/friends":           "/#/friends",
		"/v1/x/":               "/v1/x/",
		"/v1/a b":              "/v1/a%20b",
		"/":                    "/",
		"/v1/../../../x":       "",
		"/v1/./x":              "",
		"/v1/..":               "",
		"/v1/%2e%2e/x":         "",
		"/v1/.%2E/x":           "",
		"/v1/..%2fx":           "",
		"/v1/..\\x":            "",
		"/v1/..%5cx":           "",
		"/v1/.\t./x":           "",
		"/v1/.\n./x":           "",
		"/\\evil.org":          "",
		"//evil.org/v1/":       "",
		"///evil.org/v1/":      "",
		"/v1//x":               "",
		"v1/x":                 "",
		"":                     "",
		"https://evil.org/v1/": "",
	} {
		if got, ok := Local(s); got != want || ok != (want != "") {
			t.Errorf("%q: got %q, %t, want %q", s, got, ok, want)
		}
	}
}

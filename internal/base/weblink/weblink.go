// Package weblink checks addresses that come from one user and are loaded by the browsers of others. A browser parses
// an address differently from net/url: it resolves dots, treats backslashes as slashes and drops tabs. So an address
// is parsed once, checked as parsed, and stored in the form that the parsed URL prints.
package weblink

import (
	"net/url"
	"path"
	"strings"
)

// Foreign returns the form to store of an https address with a host and without a user.
func Foreign(s string) (_ string, ok bool) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return "", false
	}
	return u.String(), true
}

// Local returns the form to store of a path of this server. It has no host, and no segments or characters that lead a
// browser to another path.
func Local(s string) (_ string, ok bool) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || !strings.HasPrefix(u.Path, "/") || strings.Contains(u.Path, `\`) {
		return "", false
	}
	if clean := path.Clean(u.Path); u.Path != clean && u.Path != clean+"/" {
		return "", false
	}
	return u.String(), true
}

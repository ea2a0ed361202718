// Package origin parses web origins and compares them. It parses settings and headers into the form that browsers
// send: the port of http and https only if it is not the default, and the host in ASCII.
package origin

import (
	"errors"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// Origin is a scheme, a host and a port. The zero value is no origin.
type Origin struct {
	scheme, host string
	port         uint16 // 0: the scheme's default
}

var (
	errForm = errors.New("want an origin such as https://app.example.org: scheme and host in lower case, an optional port, and no path")
	errHost = errors.New("not a host name")
	errStar = errors.New("a wildcard must be the first label before a domain with at least two labels, such as https://*.example.org")
)

// form matches the scheme, the host and the port of an origin.
var form = regexp.MustCompile(`^([a-z][a-z0-9+.-]*)://(\[[0-9a-f:.]+\]|[^][:/?#@\\\s]+)(?::([0-9]{1,5}))?$`)

// defaultPorts has the schemes whose hosts are domains or addresses. Other schemes, such as capacitor and
// chrome-extension, have app names as hosts.
var defaultPorts = map[string]uint16{"http": 80, "https": 443}

// Parse returns the origin in a setting or a header.
func Parse(s string) (Origin, error) {
	parts := form.FindStringSubmatch(s)
	if parts == nil || strings.ToLower(s) != s {
		return Origin{}, errForm
	}
	o := Origin{scheme: parts[1], host: parts[2]}
	standard, web := defaultPorts[o.scheme]
	if parts[3] != "" {
		port, err := strconv.ParseUint(parts[3], 10, 16)
		if err != nil || port == 0 {
			return Origin{}, errForm
		}
		if uint16(port) != standard {
			o.port = uint16(port)
		}
	}
	var err error
	if web {
		o.host, err = webHost(o.host)
	} else if strings.Trim(o.host, label+".") != "" {
		err = errHost
	}
	if err != nil {
		return Origin{}, err
	}
	return o, nil
}

// label has the characters of host names in ASCII.
const label = "abcdefghijklmnopqrstuvwxyz0123456789-_"

// webHost returns a host as browsers write it.
func webHost(host string) (string, error) {
	if v6, ok := strings.CutPrefix(host, "["); ok {
		addr, err := netip.ParseAddr(strings.TrimSuffix(v6, "]"))
		if err != nil || !addr.Is6() {
			return "", errHost
		}
		return "[" + addr.String() + "]", nil
	}
	if strings.ContainsFunc(host, func(r rune) bool { return r > 0x7f }) || strings.Contains(host, "xn--") {
		ascii, err := idna.Lookup.ToASCII(host)
		if err != nil {
			return "", errHost
		}
		host = ascii
	}
	if strings.Trim(host, label+".") != "" || strings.HasPrefix(host, ".") || strings.Contains(host, "..") {
		return "", errHost
	}
	return host, nil
}

// String returns the origin as browsers send it, "" for the zero value.
func (o Origin) String() string {
	switch {
	case o == Origin{}:
		return ""
	case o.port == 0:
		return o.scheme + "://" + o.host
	}
	return o.scheme + "://" + o.host + ":" + strconv.Itoa(int(o.port))
}

// Secure reports whether the scheme is https.
func (o Origin) Secure() bool { return o.scheme == "https" }

// At reports whether a request with this Host header was sent to the origin's host and port.
func (o Origin) At(host string) bool {
	at, err := Parse(o.scheme + "://" + strings.ToLower(host))
	return err == nil && at == o
}

// UnmarshalText implements encoding.TextUnmarshaler for a setting with an http or https address.
func (o *Origin) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	if _, web := defaultPorts[parsed.scheme]; err == nil && !web {
		err = errors.New("the scheme must be https or http")
	}
	if err != nil {
		return err
	}
	*o = parsed
	return nil
}

// Pattern matches one origin, or all subdomains of a domain.
type Pattern struct {
	origin     Origin // with the domain, if subdomains is set
	subdomains bool
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Pattern) UnmarshalText(text []byte) error {
	scheme, rest, _ := strings.Cut(string(text), "://")
	rest, subdomains := strings.CutPrefix(rest, "*.")
	if strings.Contains(rest, "*") || string(text) == "*" {
		return errStar
	}
	o, err := Parse(scheme + "://" + rest)
	if err != nil {
		return err
	}
	_, web := defaultPorts[o.scheme]
	if _, err := netip.ParseAddr(o.host); subdomains &&
		(!web || err == nil || o.host[0] == '[' || !strings.Contains(strings.Trim(o.host, "."), ".")) {
		return errStar
	}
	*p = Pattern{o, subdomains}
	return nil
}

// Patterns are the origins of a setting.
type Patterns []Pattern

// Match reports whether one of the patterns matches an origin.
func (ps Patterns) Match(o Origin) bool {
	for _, p := range ps {
		if p.origin == o {
			if !p.subdomains {
				return true
			}
			continue
		}
		if p.subdomains && o.scheme == p.origin.scheme && o.port == p.origin.port && strings.HasSuffix(o.host, "."+p.origin.host) {
			return true
		}
	}
	return false
}

// MustParse is Parse for a text that is known to be an origin. It panics otherwise.
func MustParse(s string) Origin {
	o, err := Parse(s)
	if err != nil {
		panic(err)
	}
	return o
}

// MustPatterns returns the patterns of texts that are known to be valid. It panics otherwise.
func MustPatterns(texts ...string) Patterns {
	ps := make(Patterns, len(texts))
	for i, text := range texts {
		if err := ps[i].UnmarshalText([]byte(text)); err != nil {
			panic(err)
		}
	}
	return ps
}

package emails

import (
	netmail "net/mail"
	"net/netip"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/net/idna"

	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/mail"
)

// ErrInvalid reports text that is not an address for mail.
var ErrInvalid = errs.New(errs.Invalid, "auth.email_invalid", "That is not an e-mail address.")

// Address is an address that passed [Parse].
type Address struct {
	Given string // as written, trimmed
	Key   string // the unique form: lower case, the domain in ASCII
}

// Parse checks the format of an address. Upper and lower case of a to z name the same account, also before the @,
// because no provider distinguishes them. So do the two spellings of a domain, "müller.de" and "xn--mller-kva.de".
func Parse(s string) (Address, error) {
	s = strings.TrimSpace(s)
	a, err := netmail.ParseAddress(s)
	if err != nil || a.Address != s || len(s) > 254 || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return Address{}, ErrInvalid.On("body.email", "is not an e-mail address")
	}
	e := Address{Given: s, Key: Key(s)}
	if _, err := netmail.ParseAddress(e.Key); err != nil || len(e.Key) > 254 || !isPublicDomain(e.Key[strings.LastIndexByte(e.Key, '@')+1:]) {
		return Address{}, ErrInvalid.On("body.email", "names no mail domain")
	}
	return e, nil
}

// isPublicDomain reports whether mail to a domain leaves this machine and its network: no address literal, no name
// without a dot, and no name that RFC 6761, 6762 or 8375 reserves for local use.
func isPublicDomain(domain string) bool {
	domain = strings.ToLower(domain)
	if strings.ContainsAny(domain, "[]") || !strings.Contains(domain, ".") || strings.HasSuffix(domain, ".") {
		return false
	}
	if _, err := netip.ParseAddr(domain); err == nil {
		return false
	}
	return !slices.ContainsFunc([]string{".localhost", ".local", ".internal", ".home.arpa"}, func(local string) bool {
		return strings.HasSuffix(domain, local)
	})
}

// Key returns the unique form of an address. It changes only the letters a to z, except in the domain. The lower case
// of the Kelvin sign K is an ordinary k: a mailbox with that sign must not be confused with another one.
func Key(address string) string { return Lower(mail.ASCII(address)) }

// Keys returns the possible stored keys of an address, sorted: its key and, for accounts older than the normalization
// of domains, its domain in Unicode or in the given spelling.
func Keys(address string) []string {
	key := Key(address)
	keys := []string{key}
	at := strings.LastIndexByte(key, '@') + 1
	if domain, err := idna.Lookup.ToUnicode(key[at:]); err == nil && at > 0 {
		keys = append(keys, key[:at]+domain)
	}
	keys = append(keys, Lower(address))
	slices.Sort(keys)
	return slices.Compact(keys)
}

// Lower returns s with A to Z in lower case; other letters stay.
func Lower(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, s)
}

package keyspace

import (
	"fmt"
	"regexp"
	"strings"
)

// The limits on names. MaxKey includes the longest prefix.
const (
	MaxKey    = 512 // bytes of a physical key, prefix included
	MaxPrefix = 32  // bytes of a prefix, without the colon after it
)

var prefixPattern = regexp.MustCompile(`^[a-z][a-z0-9]*([_-][a-z0-9]+)*$`)

// ValidPrefix returns nil if a deployment may put prefix before all its keys and channels, such as "stoa",
// "stoa-staging" or "shop_2". A prefix has at most [MaxPrefix] bytes and consists of lower-case words joined by '_' or
// '-'. Braces are not allowed, because they would be the hash tag of every key. Colons are not allowed, so that a
// prefix is one level. The keys of one deployment are then never under the prefix of another, and deleting the keys of
// "stoa" cannot delete those of "stoa:staging".
func ValidPrefix(prefix string) error {
	switch {
	case len(prefix) > MaxPrefix:
		return fmt.Errorf("keyspace: the prefix %q is longer than %d bytes", prefix, MaxPrefix)
	case !prefixPattern.MatchString(prefix):
		return fmt.Errorf("keyspace: the prefix %q is not lower-case words joined by '_' or '-'", prefix)
	}
	return nil
}

// Logical removes the prefix from a physical key or channel; ok is false if the name belongs to another deployment. An
// empty prefix means that names have no prefix.
func Logical(prefix, physical string) (logical string, ok bool) {
	if prefix == "" {
		return physical, true
	}
	if n := len(prefix); len(physical) > n && physical[n] == ':' && strings.HasPrefix(physical, prefix) {
		return physical[n+1:], true
	}
	return "", false
}

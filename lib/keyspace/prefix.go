package keyspace

import (
	"fmt"
	"regexp"
	"strings"
)

// The limits on names. MaxKey leaves room for the longest prefix.
const (
	MaxKey    = 512 // bytes of a physical key, prefix included
	MaxPrefix = 32  // bytes of a prefix, without the colon behind it
)

var prefixes = regexp.MustCompile(`^[a-z][a-z0-9]*([_-][a-z0-9]+)*$`)

// ValidPrefix returns nil for a prefix that a deployment may put before all its
// keys and channels: "stoa", "stoa-staging", "shop_2". At most [MaxPrefix]
// bytes, lower-case words joined by '_' or '-'. There are no braces, for they
// would be every key's hash tag, and no colon: a prefix is one level, so that
// the keys of one deployment never lie under the prefix of another and a sweep
// of "stoa" cannot take "stoa:staging" along.
func ValidPrefix(prefix string) error {
	switch {
	case len(prefix) > MaxPrefix:
		return fmt.Errorf("keyspace: the prefix %q is longer than %d bytes", prefix, MaxPrefix)
	case !prefixes.MatchString(prefix):
		return fmt.Errorf("keyspace: the prefix %q is not lower-case words joined by '_' or '-'", prefix)
	}
	return nil
}

// Logical takes the prefix off a physical key or channel; ok is false when the
// name is another deployment's. An empty prefix says that names have none.
func Logical(prefix, physical string) (logical string, ok bool) {
	if prefix == "" {
		return physical, true
	}
	if n := len(prefix); len(physical) > n && physical[n] == ':' && strings.HasPrefix(physical, prefix) {
		return physical[n+1:], true
	}
	return "", false
}

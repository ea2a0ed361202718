// Package cache keeps values in process, in Redis and at their source, so that no
// reader can put an old value back after a change.
package cache

// Package rueidis replaces the client.
package rueidis

var Nil error

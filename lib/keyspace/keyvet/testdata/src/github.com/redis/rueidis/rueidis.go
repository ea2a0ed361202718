// Package rueidis stands for the client.
package rueidis

var Nil error

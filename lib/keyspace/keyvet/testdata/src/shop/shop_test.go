package shop

import "github.com/stoa-dev/stoa/lib/keyspace"

// A test may declare, and say what a key should be.
var (
	testKeys = keyspace.New("test")
	want     = "stoa:cart:items:7"
)

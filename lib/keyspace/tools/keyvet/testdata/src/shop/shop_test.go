package shop

import "github.com/stoa-dev/stoa/lib/keyspace"

// A test may declare families and contain keys.
var (
	testKeys = keyspace.New("test")
	want     = "stoa:cart:items:7"
)

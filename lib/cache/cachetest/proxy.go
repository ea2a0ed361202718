package cachetest

import (
	"testing"

	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

// A Proxy connects a node and a server and simulates network faults.
//
// Deprecated: use [redistest.Wire].
type Proxy = redistest.Wire

// A Direction is one way through a proxy.
//
// Deprecated: use [redistest.Direction].
type Direction = redistest.Direction

// The directions.
//
// Deprecated: use [redistest.ToServer] and [redistest.ToNode].
const (
	ToServer = redistest.ToServer
	ToNode   = redistest.ToNode
)

// NewProxy returns a proxy to a server, which ends with the test.
//
// Deprecated: use [redistest.NewWire].
func NewProxy(t testing.TB, target string) *Proxy { return redistest.NewWire(t, target) }

package cluster

import (
	"errors"
	"net"
	"strconv"
	"time"

	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/config"
)

// ID identifies one process. A restarted process is a new node.
type ID = ids.ID[Node]

// Boot identifies one run of a node, for records of its connections.
type Boot = ids.ID[boot]

type boot struct{}

// Node is the description that a node publishes.
type Node struct {
	ID        ID        `json:"id"`
	Boot      Boot      `json:"boot"`
	Address   string    `json:"address"`             // host:port of HTTP
	RTMPPort  int       `json:"rtmp_port,omitempty"` // 0: none
	GRPCPort  int       `json:"grpc_port,omitempty"` // 0: none
	Version   string    `json:"version"`
	Roles     []string  `json:"roles"`
	Status    Status    `json:"status"`
	Sockets   int       `json:"sockets"`         // connections of apps
	Order     string    `json:"order,omitempty"` // the id of the last order that it accepted
	Started   time.Time `json:"started"`         // by the node's clock
	Heartbeat time.Time `json:"last_heartbeat"`  // the time of this entry, by the node's clock
}

// Status is the state of a node as reported by the node.
type Status string

// The states of a node.
const (
	Starting Status = "starting" // some parts are not ready
	Serving  Status = "serving"
	Draining Status = "draining" // an operator ordered a drain or a stop, and current work finishes
	Drained  Status = "drained"  // it has no sockets and no leases, and accepts none until an order to serve again
	Stopped  Status = "stopped"
)

// Order is an operator's order to a node. The last order applies.
type Order struct {
	ID    string `json:"id"`             // unique
	Drain bool   `json:"drain"`          // false means serve again
	Stop  bool   `json:"stop,omitempty"` // end the process after the drain
}

// Entry is a node in the registry.
type Entry struct {
	Node
	Alive bool          // its lease exists
	Age   time.Duration // of its last heartbeat
}

// The bus carries node events on Topic. The data is the id of the node.
const (
	Topic  = "nodes"
	Joined = "node.joined"
	Left   = "node.left"
)

// Settings are the operator's settings.
type Settings struct {
	Advertise string `koanf:"advertise" help:"host:port at which other nodes reach this one; empty is the address it listens on, with the machine's name for 0.0.0.0"`
	RTMPPort  int    `koanf:"rtmp_port" help:"port of an RTMP server on the same host, published to other nodes; 0 is none"`
	GRPCPort  int    `koanf:"grpc_port" help:"port of a gRPC server on the same host, published to other nodes; 0 is none"`
}

// Validate returns all faults, joined.
func (s Settings) Validate() error {
	host, _, err := net.SplitHostPort(s.Advertise)
	port := func(key string, n int) error {
		return config.Refuse(n < 0 || n > 65535, key, "a port is at most 65535; 0 is none")
	}
	return errors.Join(
		config.Refuse(s.Advertise != "" && (err != nil || host == ""), "advertise", "an address to reach a node at is host:port"),
		port("rtmp_port", s.RTMPPort),
		port("grpc_port", s.GRPCPort))
}

// reachable returns the address for other nodes of a node that listens on addr, on a machine with that name.
func reachable(addr, machine string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = machine
	}
	return net.JoinHostPort(host, port)
}

// gone reports whether a score in the list marks a dead node.
func gone(score float64) bool { return score <= 0 }

// score returns the score of a heartbeat.
func score(at time.Time) string { return strconv.FormatInt(at.UnixMilli(), 10) }

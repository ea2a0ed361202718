package cluster

import (
	"errors"
	"net"
	"strconv"
	"time"

	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/config"
)

// ID names one process. A process that starts again is another node.
type ID = ids.ID[Node]

// Boot names one run of a node, for records of the connections that it holds.
type Boot = ids.ID[boot]

type boot struct{}

// Node is what a node publishes of itself.
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
	Order     string    `json:"order,omitempty"` // the id of the last order that it took
	Started   time.Time `json:"started"`         // by its own clock, as is
	Heartbeat time.Time `json:"last_heartbeat"`  // the time of this entry
}

// Status is what a node is doing, in its own words.
type Status string

// The states of a node.
const (
	Starting Status = "starting" // not all of its parts are up
	Serving  Status = "serving"
	Draining Status = "draining" // it was asked to drain or to stop, and ends what it has begun
	Drained  Status = "drained"  // it has no sockets and no leases, and takes none until it is told to serve again
	Stopped  Status = "stopped"
)

// Order is what an operator tells a node to do. The last one holds.
type Order struct {
	ID    string `json:"id"`             // unlike that of any other
	Drain bool   `json:"drain"`          // false: serve again
	Stop  bool   `json:"stop,omitempty"` // end once it is drained
}

// Entry is a node as the registry has it.
type Entry struct {
	Node
	Alive bool          // its lease is there
	Age   time.Duration // of its last heartbeat
}

// The bus carries the events of nodes under Topic. The data is the node's id.
const (
	Topic  = "nodes"
	Joined = "node.joined"
	Left   = "node.left"
)

// Settings are what an operator may choose.
type Settings struct {
	Advertise string `koanf:"advertise" help:"host:port at which other nodes reach this one; empty is the address it listens on, with the machine's name for 0.0.0.0"`
	RTMPPort  int    `koanf:"rtmp_port" help:"port of an RTMP server beside this node, told to the others; 0 is none"`
	GRPCPort  int    `koanf:"grpc_port" help:"port of a gRPC server beside this node, told to the others; 0 is none"`
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

// reachable returns where others reach a node that listens on addr, on a machine
// of that name.
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

// gone reports whether a score of the list is that of a node marked as gone.
func gone(score float64) bool { return score <= 0 }

// score returns a heartbeat's score.
func score(at time.Time) string { return strconv.FormatInt(at.UnixMilli(), 10) }

package gateway

import (
	"context"
	"encoding/base64"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/centrifugal/centrifuge"

	"github.com/stoa-dev/stoa/lib/bus"
)

// topic is the topic of the library's messages between nodes; the event's name is the target node, or everyone.
const (
	topic    = "gateway"
	everyone = "everyone"
)

// controller carries the library's messages between nodes: their announcements, and frames of a client whose stream
// is on one node and whose requests reach another. The guarantees of [bus.Bus.Pass] suffice: a lost frame equals one
// that the network lost.
type controller struct {
	base    context.Context //nolint:containedctx // the library gives none
	nodes   *bus.Bus
	log     *slog.Logger
	handler atomic.Pointer[centrifuge.ControlEventHandler] // nil until the library runs
}

// newController registers the handler of the messages; the bus must not run yet.
func newController(base context.Context, nodes *bus.Bus, log *slog.Logger) *controller {
	c := &controller{base: base, nodes: nodes, log: log}
	nodes.Handle(topic, bus.Handler{Event: c.handle})
	return c
}

func (c *controller) handle(e bus.Event) {
	handler := c.handler.Load()
	if handler == nil {
		return
	}
	data, err := base64.StdEncoding.DecodeString(e.Data)
	if err == nil {
		err = (*handler).HandleControl(data)
	}
	if err != nil {
		c.log.Warn("gateway: message of another node not handled", "err", err)
	}
}

// RegisterControlEventHandler implements centrifuge.Controller.
func (c *controller) RegisterControlEventHandler(h centrifuge.ControlEventHandler) error {
	c.handler.Store(&h)
	return nil
}

// PublishControl implements centrifuge.Controller.
func (c *controller) PublishControl(data []byte, nodeID, _ string) error {
	ctx, cancel := context.WithTimeout(c.base, time.Second)
	defer cancel()
	name := everyone
	if nodeID != "" {
		name = nodeID
	}
	// While Redis is unavailable nodes do not find each other; their own clients do not need it.
	_ = c.nodes.Pass(ctx, topic, name, base64.StdEncoding.EncodeToString(data))
	return nil
}

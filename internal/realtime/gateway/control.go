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

// topic is what nodes of the library tell each other; the event's name is the node that is
// meant, or everybody.
const (
	topic    = "gateway"
	everyone = "everyone"
)

// controller carries what the library's nodes tell each other: that they are there, and
// frames of a client whose stream is held by one node and whose requests reach another. It
// needs no more than what [bus.Bus.Pass] promises: a frame that is lost is one that the network lost.
type controller struct {
	base    context.Context //nolint:containedctx // the library gives none
	nodes   *bus.Bus
	log     *slog.Logger
	handler atomic.Pointer[centrifuge.ControlEventHandler] // nil until the library runs
}

// newController has nodes' words handled; the bus must not run yet.
func newController(base context.Context, nodes *bus.Bus, log *slog.Logger) *controller {
	c := &controller{base: base, nodes: nodes, log: log}
	nodes.Handle(topic, bus.Handler{Event: c.heard})
	return c
}

func (c *controller) heard(e bus.Event) {
	handler := c.handler.Load()
	if handler == nil {
		return
	}
	data, err := base64.StdEncoding.DecodeString(e.Data)
	if err == nil {
		err = (*handler).HandleControl(data)
	}
	if err != nil {
		c.log.Warn("another node's words to this gateway cannot be handled", "err", err)
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
	// While Redis is away nodes do not know of each other; their own clients need nobody else.
	_ = c.nodes.Pass(ctx, topic, name, base64.StdEncoding.EncodeToString(data))
	return nil
}

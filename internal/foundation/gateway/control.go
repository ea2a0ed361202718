package gateway

import (
	"context"
	"encoding/base64"
	"log/slog"
	"time"

	"github.com/centrifugal/centrifuge"

	"github.com/stoa-dev/stoa/bus"
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
	base  context.Context //nolint:containedctx // the library gives none
	nodes *bus.Bus
	log   *slog.Logger
}

// RegisterControlEventHandler implements centrifuge.Controller.
func (c *controller) RegisterControlEventHandler(h centrifuge.ControlEventHandler) error {
	c.nodes.Handle(topic, bus.Handler{Event: func(e bus.Event) {
		data, err := base64.StdEncoding.DecodeString(e.Data)
		if err == nil {
			err = h.HandleControl(data)
		}
		if err != nil {
			c.log.Warn("another node's words to this gateway cannot be handled", "err", err)
		}
	}})
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

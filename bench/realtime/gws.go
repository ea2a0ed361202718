package main

import (
	"context"
	"net/http"

	"github.com/centrifugal/centrifuge"
	"github.com/lxzan/gws"
)

// sockets runs the library on the WebSockets of gws, to measure the savings.
type sockets struct {
	gws.BuiltinEventHandler
	node    *centrifuge.Node
	upgrade *gws.Upgrader
}

func newGWS(node *centrifuge.Node) http.Handler {
	s := &sockets{node: node}
	s.upgrade = gws.NewUpgrader(s, &gws.ServerOption{ReadBufferSize: 512})
	return s
}

func (s *sockets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn, err := s.upgrade.Upgrade(w, r)
	if err != nil {
		return
	}
	go func() {
		t := &transport{conn}
		client, leave, err := centrifuge.NewClient(context.WithoutCancel(r.Context()), s.node, t)
		if err != nil {
			return
		}
		defer func() { _ = leave() }()
		conn.Session().Store("client", client)
		conn.ReadLoop()
	}()
}

// OnMessage implements gws.Event.
func (s *sockets) OnMessage(conn *gws.Conn, m *gws.Message) {
	defer func() { _ = m.Close() }()
	client, _ := conn.Session().Load("client")
	if !centrifuge.HandleReadFrame(client.(*centrifuge.Client), m, 1<<16) {
		_ = conn.WriteClose(1000, nil)
	}
}

// transport is a centrifuge.Transport.
type transport struct{ conn *gws.Conn }

func (*transport) Name() string                                { return "websocket" }
func (*transport) AcceptProtocol() string                      { return "h1" }
func (*transport) Protocol() centrifuge.ProtocolType           { return centrifuge.ProtocolTypeJSON }
func (*transport) ProtocolVersion() centrifuge.ProtocolVersion { return centrifuge.ProtocolVersion2 }
func (*transport) Unidirectional() bool                        { return false }
func (*transport) Emulation() bool                             { return false }
func (*transport) DisabledPushFlags() uint64                   { return centrifuge.PushFlagDisconnect }
func (*transport) PingPongConfig() centrifuge.PingPongConfig   { return centrifuge.PingPongConfig{} }

func (t *transport) Write(data []byte) error { return t.conn.WriteMessage(gws.OpcodeText, data) }

func (t *transport) WriteMany(list ...[]byte) error {
	for _, data := range list {
		if err := t.Write(data); err != nil {
			return err
		}
	}
	return nil
}

func (t *transport) Close(d centrifuge.Disconnect) error {
	return t.conn.WriteClose(uint16(d.Code), []byte(d.Reason)) //nolint:gosec // a code of WebSocket
}

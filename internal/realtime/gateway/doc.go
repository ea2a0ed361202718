// Package gateway holds the sockets of users' devices: WebSockets, and streams of HTTP where
// a network lets no WebSocket through.
//
// The wire is the library centrifuge's (github.com/centrifugal/centrifuge), whose protocol
// has maintained clients for JavaScript, Dart, Swift, Java, Kotlin, Python and C#. What the
// library leaves to its user is here:
//
//   - who may connect: an access token in the connect frame, refreshed on the open
//     connection, and cut off with its session (connections.go);
//   - calls: an RPC whose method is an operation id of the API goes the way of a request by
//     HTTP, web.API.Invoke (call.go);
//   - events: the broker's channels are those of package events, which says what is promised
//     (broker.go); every connection gets its user's personal channel, whose name is the user's
//     id, without asking;
//   - what nodes of the library tell each other, over package bus (control.go).
package gateway

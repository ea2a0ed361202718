// Package gateway serves the sockets of users' devices: WebSockets, and HTTP streams for networks that block
// WebSockets.
//
// The wire protocol is that of the library centrifuge (github.com/centrifugal/centrifuge), which has maintained
// clients for JavaScript, Dart, Swift, Java, Kotlin, Python and C#. This package adds the parts that the library
// leaves to its user:
//
//   - authentication: an access token in the connect frame, which is refreshed on the open connection; the connection ends
//     with its session (connections.go);
//   - calls: an RPC whose method is an operation id of the API runs like an HTTP request, by web.API.Invoke (call.go);
//   - events: the broker's channels are those of package events, which documents their guarantees (broker.go). Every connection
//     is subscribed to its user's personal channel, whose name is the user's id;
//   - messages between nodes of the library, over package bus (control.go).
package gateway

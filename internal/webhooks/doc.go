// Package webhooks notifies the app's own backend of events, and asks it before some acts of users.
//
// # After the fact
//
// An event is a message of the outbox (package queue), written in the transaction of the change. It is delivered at
// least once if and only if the transaction was committed, by a node with the role worker. A transaction with many
// events of one kind, such as a group commit of messages, writes one row for all of them, or several rows if one
// would exceed [rowSize].
//
// A delivery is a POST, signed by HMAC-SHA256 over its id, time and body as in Standard Webhooks. Any 2xx
// acknowledges it. Another status is a failure; five failures, with back-off, make it a dead letter. If the target
// cannot be reached, times out, or responds with 429, 502, 503 or 504, it is unavailable: the try does not count, and
// the delivery is sent when the target is back.
//
// A node delivers rows with one subject (a group, a user; all messages are one) in the order of their commits. Later
// ones may overtake after a failure, while the target is unavailable, and with several workers. Messages have numbers
// and groups have versions, so that the backend can order them.
//
// # Before the fact
//
// [Service.Before] posts an act that a user requests and waits for the verdict, within a time limit. A node has a
// bounded number of concurrent questions, at most half of them for one user. Further questions wait as long again,
// with users in rotation. A question without a place is refused with 503, whatever the policy is, so that a full
// queue does not bypass the backend.
//
// After five consecutive failures a circuit breaker sends no question for five seconds, then one question tries. If
// the backend is unavailable or returns no valid verdict, the operator's policy decides.
//
// Without a URL no question is sent and no row is written. A nil *Service has none.
//
// URLs are the operator's own, so private addresses are allowed. Redirects are not followed.
//
// The outbox is the truth. Redis has no data of this package, unless it stores the queue itself.
package webhooks

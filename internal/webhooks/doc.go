// Package webhooks tells the app's own backend what happens, and asks it beforehand.
//
// # After the fact
//
// What happened is a message of the outbox (package queue) in the transaction in which it
// happened: it is delivered if and only if that was committed, at least once, by some node with the
// role worker. A transaction that does many things of one kind, such as a group commit of messages,
// leaves one row for all of them; one that would exceed [rowSize] leaves several.
//
// A delivery is a POST, signed by HMAC-SHA256 over its id, time and body as Standard Webhooks has
// it. Any 2xx is an answer. Another status is a failure: five of them, with back-off, make a dead
// letter. While the target cannot be reached, does not answer in time, or says 429, 502, 503 or 504, it is
// away: no try counts, and what waits is sent when it is back.
//
// Rows with one subject (a group, a user; all messages are one) are delivered in the order of their commits by a
// node, unless one of them failed or the target was away: later ones may overtake it then, and with several workers any
// may. Messages have numbers, groups versions.
//
// # Before the fact
//
// [Service.Before] posts what a user wants to do and waits for the verdict, within a time limit. A node asks a bounded number
// of questions at a time, at most half of them on behalf of one user. Further questions wait as long again, users in rotation;
// a question that finds no place is refused with 503, whatever the policy: a full queue lets nothing through unasked.
//
// After five failures in a row the backend is not asked for five seconds (a circuit breaker), then one question tries. The
// operator's policy allows or refuses what the backend is not asked about because it is away, and what gets no sensible answer.
//
// Without an address nothing is asked, and no row is written. A nil *Service has none.
//
// Addresses are the operator's own, so private ones are allowed. Redirects are not followed.
//
// Truth: the outbox. Redis has nothing of this package, unless the queue itself is there.
package webhooks

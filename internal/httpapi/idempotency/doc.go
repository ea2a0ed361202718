// Package idempotency stores the responses to requests with an Idempotency-Key in SQL, so that a retry gets the response of
// the first try, on any node.
//
// A try first claims its row ([Store.Claim]). A second request during the try is refused with [ErrBusy], and another
// request with the same key with [ErrMismatch]. The end of the try stores its response, or frees the row
// ([Store.Finish]). If the node of a try dies, its claim expires, and the next try gets the same [Record.RequestID] and
// the same seed of new ids ([Secrets.Seed]). Concurrent requests claim their rows, and later store their responses, in one
// transaction each.
//
// The table has no request: a [Record] has a hash of it under the server's secret.
package idempotency

// Package web is the HTTP interface of Stoa without knowing any domain: a
// domain declares each operation once with [Handle], and gets from it the
// routing, decoding, checking, authentication, limits, idempotency, problem
// documents, metrics, log lines and the OpenAPI description.
//
//	web.Handle(a, web.Op{
//		Method: http.MethodPost, Path: "/v1/checkin", ID: "checkin.mark",
//		Summary: "Check in for today",
//		Errors:  []*errs.Error{checkin.ErrUnknown},
//	}, func(ctx context.Context, caller accounts.Caller, in *web.Body[api.CheckinRequest]) (*web.Body[api.CheckinReply], error) {
//		return mark(ctx, caller.User, web.RequestID(ctx), in.Body)
//	})
//
// # What a request goes through
//
// Panics are caught; security headers, X-Request-ID and, for listed origins,
// CORS headers are set. The ServeMux finds the route; an unknown one is 404, a
// wrong method 405 with Allow. The bearer token is resolved (401), the request
// counted against the limit (429), the body read (408, 413, 415) and checked:
// 400 when it is not one JSON value in UTF-8 without duplicate names, 422 when it is
// one but not what the operation's types say, unknown fields included. Then the
// handler runs, at most once for each Idempotency-Key.
//
// # Refusals
//
// Every refusal is an RFC 9457 problem document, [api.Problem]. No refusal
// repeats a value that the client sent. Errors that are no [errs.Error] are
// logged and answered by a bare 500.
//
// # Idempotency
//
// A signed-in client may send an Idempotency-Key (1 to 128 printable ASCII
// characters) with any write. Within 24 hours the same key, user, operation,
// path and body get the stored answer again, marked Idempotency-Replayed: true;
// another body gets 409 idempotency.mismatch; a second request while the first
// is running gets 409 idempotency.busy. Answers from 500 up, 408 and 429 are not
// stored: the retry runs again, as it does when the process died in mid-request. What the
// domain makes it names by [NewID], and notes under [RequestID]; both are the same for the
// retry, which finds there what an earlier try has committed. An operation that makes nothing
// comes to the same by running again, or is refused because it has happened. Only
// status, content type and body are stored. Requests that come together claim their keys,
// and later store their answers, in one transaction each (commit.go).
package web

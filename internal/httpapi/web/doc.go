// Package web is the HTTP interface of Stoa. It knows no domain. A domain declares each operation once with [Handle].
// The declaration gives the operation its routing, decoding, checks, authentication, rate limit, idempotency, problem
// documents, metrics, log lines and OpenAPI description.
//
//	web.Handle(a, web.Op{
//		Method: http.MethodPost, Path: "/v1/checkin", ID: "checkin.mark",
//		Summary: "Check in for today",
//		Errors:  []*errs.Error{checkin.ErrUnknown},
//	}, func(ctx context.Context, caller accounts.Caller, in *web.Body[api.CheckinRequest]) (*web.Body[api.CheckinReply], error) {
//		return mark(ctx, caller.User, web.RequestID(ctx), in.Body)
//	})
//
// # Steps of a request
//
// Panics are recovered. Security headers, X-Request-ID and, for listed origins, CORS headers are set. The ServeMux
// finds the route: an unknown path gets 404, a wrong method 405 with Allow. The bearer token is resolved (401), the
// request is counted against the rate limit (429), and the body is read (408, 413, 415) and checked. A body that is
// not one JSON value in UTF-8 without duplicate names gets 400. A body that does not fit the operation's types gets
// 422; unknown fields are refused as well. Then the handler runs, at most once for each Idempotency-Key.
//
// # Refusals
//
// Every refusal is an RFC 9457 problem document, [api.Problem]. A refusal never repeats a value that the client sent.
// An error that is not an [errs.Error] is logged, and the client gets a 500 without details.
//
// # Idempotency
//
// A signed-in client may send an Idempotency-Key (1 to 128 printable ASCII characters) with any write. Within 24
// hours, the same key, user, operation, path and body get the stored response, marked Idempotency-Replayed: true.
// Another body gets 409 idempotency.mismatch. A second request during the first gets 409 idempotency.busy. Responses
// with status 408, 429 or 500 and above are not stored: the retry runs again, as it does after a crash during the
// request.
//
// The ids of new objects come from [NewID], and [RequestID] identifies the request in the domain's own rows. Both are
// the same for a retry, so that it finds the rows that an earlier try committed. An operation that creates nothing
// has the same effect when it runs again, or is refused because it already happened. Only status, content type and
// body are stored. Package idempotency stores them.
package web

// Package bind reads the input of an operation from a request. The input is a struct in the style of huma. Its fields
// have tags path:"…", query:"…" and header:"…". It may have a Body (JSON), a RawBody (bytes) or a Stream.
//
// [New] examines the type once, and [Input.Bind] fills a value of it for each request. Each field is checked against its
// schema, which [Input.Describe] adds to the API description. A request that does not fit is refused with [ErrMalformed]
// or [ErrInvalid], and the refusal names each faulty field but no value.
//
// A field may be an [ids.ID] or a list of them. A malformed id in a path identifies nothing: the field's tag unknown has
// the codes of refusals, and the first code that is among the operation's own refuses the request. Without the tag, which a
// path must have, the refusal is [ids.ErrMalformed]. Other faults of the
// request precede it; checks of the handler, such as of the caller, follow it.
package bind

// Package servicekeys lets an app's own backend call the API: a key is a bearer token that belongs
// to no user. An operator makes it with stoa keys-service.
//
// A key has a name, scopes, a limit of requests a minute, perhaps an end, and when it was last used. It is
// shown once; SQL has its hash. Rotation makes another secret, beside which the old one lives on for a given time, and for
// that time the one before it, too: where the answer of a rotation got lost, the key is rotated again.
//
// With a key the operations of /v1/service are called, and, in the name of a user who is named in the header
// Stoa-Act-As, those of chats, groups, friends and check-in. [Need] says which scope an operation needs, and is the one
// place that does: what it does not name no key may call.
//
// # Truth
//
// SQL: service_keys. Each node has a copy in memory, at most [maxAge] old, so a key that was revoked is good for no
// longer than that, and a made-up one costs nothing but a look into the copy. While SQL is away no key
// is taken. There is nothing in Redis but limits, which begin anew when they are lost.
package servicekeys

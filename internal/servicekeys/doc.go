// Package servicekeys authenticates an app's own backend. A service key is a bearer token that belongs to no user. An
// operator creates it with stoa keys-service.
//
// A key has a name, scopes, a limit of requests per minute, an optional expiry and a time of last use. The token is
// shown once; SQL stores its hash. A rotation creates a new secret. The old secret stays valid for a given time, and so
// does the one before it: if the response of a rotation was lost, the operator rotates again.
//
// A key may call the operations of /v1/service and, as the user in the header Stoa-Act-As, those of chats, groups,
// friends and check-in. Only [Need] defines the scope of an operation. No key may call an operation that Need does not
// list.
//
// # Source of truth
//
// SQL is the source of truth: the table service_keys. Each node caches the keys in memory for at most [maxAge], so a
// revoked key is valid for no longer than that, and an unknown key costs only a lookup in memory. While SQL is
// unavailable no key is accepted. Redis holds only rate limits, which restart after a loss.
package servicekeys

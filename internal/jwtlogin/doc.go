// Package jwtlogin logs users in by a token of the app's own: a JSON Web Token that names the user, signed
// by the app's backend or its identity provider, is exchanged for a session of a device.
//
// A token is good if its signature, issuer, audience and times are: only algorithms that the operator has named are
// taken, never none, and an algorithm decides which key is asked, so that no public key can pass for a shared
// secret. Keys come from a shared secret, a file, or an address (JWKS), which is fetched every hour
// and, for a key that nobody knows, at most once in half a minute.
//
// The same token may be exchanged again until it expires: it is what proves who the user is, on each of their devices. Hence it must
// expire, within the operator's max_life at the latest. After that, and for log-outs, bans and refreshes, a session is as any other.
//
// Truth: accounts, which know the user by the external id in the token. This package holds nothing but keys, in memory.
package jwtlogin

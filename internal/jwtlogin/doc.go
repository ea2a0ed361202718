// Package jwtlogin logs users in with a token of the app: a JSON Web Token with the user's id, signed by the app's
// backend or its identity provider, is exchanged for a session of a device.
//
// The signature, issuer, audience and times of a token must be valid. Only the algorithms in the settings are accepted,
// never none. The algorithm selects the kind of key, so that a public key cannot be used as a shared secret. Keys come
// from a shared secret, a file, or an address (JWKS) that is fetched every hour and, for an unknown key, at most every
// 30 seconds.
//
// A token may be exchanged repeatedly until it expires, because it proves the user's identity on each device. So it
// must expire, at most max_life ahead. Afterwards the session is like any other, for log-outs, bans and refreshes.
//
// The accounts are the source of truth: they have the external id in the token. This package stores only keys, in
// memory.
package jwtlogin

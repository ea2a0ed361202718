// Package accounts knows who people are: registration, log-in by password or
// by mailed code, one session for each device, and the name and time zone that
// the rest of the program asks for.
//
// # What is truth
//
// SQL is: tables users, sessions and codes. A session holds the hashes of one
// access and one refresh token; no token, code or password is stored in a form
// that could be used, and none is ever logged. Losing Redis logs nobody out.
//
// # What is derived
//
// auth:at holds a copy of what a check needs: hash, expiry and the user's
// clock, so that [Service.Verify] is one GET. A copy carries its session's
// revision: an older one never replaces a newer one, and a revoked session
// leaves a tombstone that outlives whatever read the session before. A copy can
// only shorten a check, never refuse a good token: what does not match it is
// looked up in SQL. Copies live an hour at most, which bounds what a Redis that
// lost a tombstone (an asynchronous failover) can still accept.
//
// user:info holds users as everybody sees them ([Users]): name, address and
// calendar, kept by package cache in process and in Redis. Losing one costs a
// SELECT. What can happen to a user is an event ([InfoChanged] and the others),
// and whoever commits one does so inside [cache.Runtime.Change], so that no
// reader can put the old user back. Rules do not rest on these copies:
// [Service.Clocks] asks SQL.
//
// There is no copy for refresh tokens. A refresh changes the session in SQL
// anyway, and that UPDATE checks the token on the way: a copy would add a
// command and save nothing.
//
// The counters (tries of a code, failed log-ins, mails sent) live in Redis. When
// it is away, tries of a code are counted in SQL alone, where they are counted
// in any case, and the others in this process.
//
// # Tokens
//
// A token is a kind, two identifiers and a secret, "sa_USER.DEVICE.SECRET". A
// refresh replaces both tokens of its device. The new secrets are derived from
// the presented token, a nonce in the session and the server's secret, so that
// the same refresh token sent twice within ten seconds (two tabs, a lost
// answer) gets the same pair, though no pair is stored. A refresh token used
// later than that, or after the pair it brought was itself traded in, has been
// stolen or replayed: its device's session ends.
//
// # After the commit
//
// Revocation, rotation and a change of zone commit first and then write the
// copies. The same transaction leaves an outbox row ([TopicSession]) that
// writes them once more from what SQL says by then, and keeps trying for as
// long as an old copy could live.
//
// # Leaving
//
// A deleted account can be brought back by logging in until it is due; a job then
// makes it a tombstone, and a message ([TopicErased]) has every domain erase what
// is theirs: see leaving.go. No session is ever opened for a deleted or banned
// account: log-in, ban and deletion lock the user's row, and the latter two end
// what sessions there are. Nothing is written for a deleted account either, however
// late it comes (lockLiving).
//
// Operators change SQL alone ([Directory]); a message ([TopicChanged]) has some
// server tell the others.
package accounts

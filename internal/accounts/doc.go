// Package accounts implements accounts: registration, log-in by password or by mailed code, one session per device, and
// the names and time zones of users.
//
// # Source of truth
//
// SQL is the source of truth: the tables users, sessions, codes, avatars and cards. A session stores the hashes of one
// access token and one refresh token. No token, code or password is stored in a usable form or logged. Losing Redis
// logs out no device.
//
// # Derived data
//
// auth:at contains the hash and the expiry that a check of an access token needs. Package cache stores it in the
// process and in Redis: see Sessions.
//
// user:session contains the facts of a device, for people who inspect Redis, and its last use to the minute. The list
// of devices comes from SQL.
//
// user:info contains users as other users see them ([Users]): name, address and calendar, cached in the process and in
// Redis. Losing an entry costs a SELECT. Each kind of change is an event ([InfoChanged] and others). Its commit runs
// inside [aggregate.Caches.Change], so that no reader can store the old user again. No rule depends on these entries:
// [Service.Clocks] reads SQL.
//
// Refresh tokens are not cached. A refresh changes the session in SQL anyway, and that UPDATE checks the token. A cache
// entry would add a command and save nothing.
//
// The counters (tries of a code, failed log-ins, mails sent) are in Redis. While Redis is unavailable, tries of a code
// count only in SQL, which always counts them, and the other counters are in this process.
//
// # Tokens
//
// A token is a kind, two ids and a secret: "sa_USER.DEVICE.SECRET". A refresh replaces both tokens of its device. The
// new secrets are derived from the presented token, a nonce in the session and the server's secret. So the same refresh
// token returns the same pair within ten seconds (two tabs, or a lost response), although no pair is stored. A refresh
// token that is used later, or after its pair was rotated, is stolen or replayed, and ends the session of its device.
//
// The ten seconds start when the pair can reach the client. If a COMMIT takes longer, a request that arrived before its
// end gets the same pair. If a COMMIT has no response, the first request after it gets the same pair. Until then the
// token is as valuable to a thief as a current one.
//
// # Sessions
//
// [Service.Verify] costs no I/O if this process has cached the session and the user, and one GET for each of them that
// is only in Redis. A cache entry can only shorten a check, and never refuse a valid token: a token that does not match
// its entry is checked in SQL, because another node may have issued it a millisecond ago. The caller's clock comes from
// [Users].
//
// A refresh, and each end of a session, commits inside [aggregate.Caches.Change]. Every node refuses the old token
// within MaxStale, half a second, even if the committing node dies at once or a node receives no invalidation (the
// fence stays until it expires). The end of a session must not depend on Redis, so it proceeds without a fence
// ([cache.Proceed]). Then the transaction enqueues the keys to drop, and every node checks for such messages five times
// a second (package drops). The first node that has Redis drops the keys for all. A node that finds such a message and
// cannot drop the keys uses no cache entry until the drop is done. So if the node that ends a session has lost Redis,
// the other nodes accept the session for about a quarter of a second; the longest measured time is 241 ms. If a node
// loses both the messages of Redis and SQL, entries in Redis are valid for at most an hour.
//
// To end all sessions of a user ([Service.RevokeAll]; a new password, a ban, a deletion) their devices are listed and
// fenced one by one. A cache tag per user would drop them with one key, but costs two more commands for each uncached
// session at every request of an occasional user, and a tag refuses changes without Redis. Fifty devices in one
// pipeline are cheaper. The list is read before the transaction, so a device may log in between. The transaction locks
// the user, as a log-in does, and lists the devices again. It drops unfenced keys after the commit, and also enqueues
// them in case this node dies.
//
// A well-formed token of an unknown session costs three commands of Redis (GET, a lease, its release) and a SELECT by
// primary key, which is one of the 64 concurrent loads of a process. It leaves nothing behind: there is no negative
// entry, and the lease ends with the load. A token of an existing session with another secret costs only the SELECT,
// and so does an unknown refresh token.
//
// Verify records the use of a session in memory. A job stores uses every five seconds: in Redis in one round trip, and
// in SQL (sessions.used, which selects the least used device) at most every ten minutes per session. A crash loses five
// seconds of uses. Lost entries of user:session return with the next use or list. An entry may outlive its session by
// at most a day if Redis was unavailable at its end.
//
// # Leaving
//
// A log-in restores a deleted account until it is due. Then a job anonymizes its row, and a message ([TopicErased])
// makes each domain erase the data of the user: see leaving.go. A deleted or banned account never gets a session:
// log-in, ban and deletion lock the row of the user, and the latter two end the existing sessions. Late writes for a
// deleted account are refused (lockLiving).
//
// Operators change only SQL ([Directory]). A message ([TopicChanged]) makes a server drop the cache entries and publish
// the events.
//
// # Subpackages
//
// Parts that need no account are packages: password creates and compares hashes, emails normalizes addresses, attempts
// counts tries of secrets, codes handles mailed codes, and trail records security events. Users are texts there, if
// anything. Code that uses the typed ids of users and devices is here.
// users and devices is here.
package accounts

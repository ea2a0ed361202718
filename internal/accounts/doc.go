// Package accounts knows who people are: registration, log-in by password or
// by mailed code, one session for each device, and the name and time zone that
// the rest of the program asks for.
//
// # What is truth
//
// SQL is: tables users, sessions, codes, avatars and cards. A session holds the hashes of one
// access and one refresh token; no token, code or password is stored in a form
// that could be used, and none is ever logged. Losing Redis logs nobody out.
//
// # What is derived
//
// auth:at holds what a check of an access token needs of its session, hash and
// expiry, and is kept by package cache in process and in Redis: see Sessions.
//
// user:session holds what is known of a device, for people who look into Redis, and its
// last use to the minute. The list comes from SQL.
//
// user:info holds users as everybody sees them ([Users]): name, address and
// calendar, kept by package cache in process and in Redis. Losing one costs a
// SELECT. What can happen to a user is an event ([InfoChanged] and the others),
// and every commit of one runs inside [aggregate.Caches.Change], so that no
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
// later than that, or after the pair it brought was itself rotated, has been
// stolen or replayed: its device's session ends. The ten seconds begin when the
// pair can have been told. Where a COMMIT takes longer, a request that came
// before its end gets the same pair, and where it is not answered, the first one
// after it: until then the token is what one in force is to a thief.
//
// # Sessions
//
// [Service.Verify] costs no I/O where this process has copies of session and user, and a
// GET for each of them that is in Redis only. A copy can only shorten a check, never
// refuse a good token: a token that does not match it is looked up in SQL, for
// another node may have issued it a millisecond ago. The caller's clock comes from
// [Users].
//
// A refresh, and every end of a session, commits inside [aggregate.Caches.Change]: every
// node refuses the old token within MaxStale, half a second, also when the node that
// committed dies at once, or a node receives no invalidation (the fence stands, then
// lapses). Ending must not depend on Redis, so it goes on without a fence
// ([cache.Proceed]). Then the transaction itself leaves a message with the keys to be
// dropped, which every node looks for five times a second (package drops); the first
// node that has Redis does it for all. A node that sees such a message and cannot do it
// uses no copy until it is done. So where the node that ends a session is cut off from
// Redis, the others accept it for a quarter of a second: 241 ms is the longest that was
// seen, the time between two looks and a busy machine. Should a node lose both Redis'
// news and SQL, what it has in Redis is good for an hour at most.
//
// To end all sessions of a user ([Service.RevokeAll]; a new password, a ban, a
// deletion) their devices are listed and fenced one by one. A cache tag for each user
// would drop them with one key, but costs two more commands for each session that a
// process has no copy of, at every request of an occasional user, and a tag refuses changes without Redis. Fifty devices in one pipeline are
// cheaper. The list is made before the transaction, so a device may log in between:
// the transaction locks the user, as a log-in does, lists again, and drops what was
// not fenced after the commit, by a message of its own if this node dies there.
//
// A token that is well formed and was made up costs three commands of Redis (GET, a
// lease, its end) and a SELECT by primary key, one of the 64 loads that a process runs
// at a time. It stays nowhere: there is no negative copy, and the lease goes with the
// load. One of a session that exists, with another secret, costs the SELECT alone, and
// so does a made-up refresh token: it touches no copy.
//
// Verify notes a session's use in memory. A job passes uses on every five seconds, to
// Redis in one round trip, to SQL (sessions.used, by which the least used device is
// found) at most once in ten minutes for each session. A crash loses five seconds of
// them. What Redis has lost of user:session comes back with the next use or list; it
// may survive its session, for a day at most, when Redis was away at its end.
//
// # Leaving
//
// A deleted account can be brought back by logging in until it is due; a job then
// anonymizes its row, and a message ([TopicErased]) has every domain erase what
// it holds of the user: see leaving.go. No session is ever opened for a deleted or banned
// account: log-in, ban and deletion lock the user's row, and the latter two end
// what sessions there are. Nothing is written for a deleted account either, however
// late it comes (lockLiving).
//
// Operators change SQL alone ([Directory]); a message ([TopicChanged]) has a server
// drop the copies and publish the events.
//
// # What is below
//
// Ideas that need no account are packages: password makes and compares hashes, emails knows which
// addresses are one, attempts counts tries of secrets, codes has what is mailed to prove an address,
// and trail keeps what happened. Users are texts there, if anything. What goes by the typed ids of
// users and devices is here.
package accounts

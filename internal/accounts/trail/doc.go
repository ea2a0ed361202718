// Package trail keeps what happened to the security of accounts: log-ins and failures,
// locks, changes of credentials, bans, what operators did. Owners and operators read it,
// and it tells from where an account is used, which decides whom a lock keeps out.
//
// What belongs to a change is written in its transaction ([Write]). What has none, such as a
// wrong password, is noted in memory ([Notes]) and written a second later, so that it
// takes the same time whether there is an account or not; a crash loses that second.
//
// An event names a household rather than an address, and lives for [Kept].
package trail

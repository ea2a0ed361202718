// Package trail records security events of accounts: log-ins and failures, locks, changes of credentials, bans, and
// actions of operators. Owners and operators read them. The events also show the client networks of an account, which
// decide who is locked out.
//
// Events of a change are written in its transaction ([Write]). Events without a transaction, such as a wrong password,
// are recorded in memory ([Notes]) and written a second later, so that the response takes the same time whether or not
// there is an account. A crash loses that second.
//
// An event contains a client network instead of an address, and is deleted after [Kept].
package trail

// Package codes has the six digits that are mailed to an address and typed in again. Whoever has
// them proves to read the mail of that address, for one purpose ([Proof]).
//
// # What is truth
//
// SQL is: the table codes has one code for each proof, and how often it was tried. A code is made
// of a seed and the server's secret. The row has a hash of it and the message of the outbox its
// seed: neither is worth anything without that secret.
//
// # What holds
//
//   - A try counts before it is looked at, in SQL in any case: a code outlives four wrong guesses.
//   - A code that was asked for from a household that the account knows keeps its place, and its
//     tries from there: strangers can neither have it replaced nor use it up.
//   - A code is consumed in the transaction of what it is for ([Code.Consume]), by one of many.
//   - For known and unknown addresses the same is written, and the same is answered. Only the mail
//     tells whether the address has an account.
//   - How many are mailed, and how many may be guessed wrong, is limited for an address, a
//     household, a network and the whole deployment ([Limits]).
//
// Counters live in Redis. Losing it costs limits that start anew; a code's own tries stay in SQL.
//
// What an address and a household have to do with accounts, package accounts says ([Config]). A
// user is the text of an id here, or empty where nobody is logged in. Errors of SQL are returned
// as they are.
package codes

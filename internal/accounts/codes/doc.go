// Package codes handles the six digits that are mailed to an address. A user who enters them proves to read the mail of
// that address, for one purpose ([Proof]).
//
// # Source of truth
//
// SQL is the source of truth: the table codes has one code per proof and the number of its tries. A code is derived
// from a seed and the server's secret. The row contains a hash of the code, and the outbox message contains the seed:
// both are worthless without the secret.
//
// # Guarantees
//
//   - A try counts before the code is checked, always in SQL: a code survives four wrong guesses.
//   - A code that was requested from a known client network of the account stays valid and keeps its own tries: strangers
//     can neither replace it nor use it up.
//   - A code is consumed in the transaction of its purpose ([Code.Consume]), by one of many callers.
//   - Known and unknown addresses cause the same writes and the same response. Only the mail differs.
//   - Mailed codes and wrong guesses are limited per address, client network, network and deployment ([Limits]).
//
// The counters are in Redis. Losing it resets the limits; the tries of a code stay in SQL.
//
// Package accounts provides the relation of addresses and client networks to accounts ([Config]). A user is the text of
// an id here, or empty without a log-in. Errors of SQL are returned unchanged.
package codes

// Package library has programs that use only the library. Each uses one package of it: people a cache, board a
// leaderboard, report a lease. docs/library explains them.
package library

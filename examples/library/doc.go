// Package library has programs that use the library alone, each with one package of it: people a cache, board a
// leaderboard, report a lease. docs/library explains them.
package library

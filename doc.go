// Package stoa documents the module and tests its shape; it holds no code.
//
// Start with ARCHITECTURE.md, then read internal/social, the domain to
// copy, and internal/app, which puts everything together. The library is a
// module of its own in lib, whose packages stand by themselves: keyspace,
// redis, cache, bus, groupcommit, leaderboard, ratelimit and lease.
package stoa

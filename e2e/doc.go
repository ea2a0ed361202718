// Package e2e tests whole servers from outside: the real binary on real redis-server and MariaDB, several nodes, and a
// real browser. It also checks the data after processes were killed.
package e2e

// Package e2e tests whole servers from outside: the real binary on real
// redis-server and MariaDB, several nodes, a real browser, and what is left
// after something was killed.
package e2e

// Package app is the composition root: the one place that knows every part of
// the server. A domain attaches in about five lines: its service in parts.go, its
// routes, its jobs, the messages it wants from the queue and its keys.
package app

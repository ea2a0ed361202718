// Package cli is the command line. It defines the commands, their output and their exit codes. Results are written to
// standard output, as text or with --json for programs. Logs, progress and errors are written to standard error. The
// commands work through package app, or through package client like any other client.
package cli

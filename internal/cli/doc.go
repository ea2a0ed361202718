// Package cli is the command line: what it says, to whom, and with which exit
// code. Results go to standard output, for people or with --json for programs;
// logs, progress and errors go to standard error. The commands do their work
// through package app or, like any other client, through package client.
package cli

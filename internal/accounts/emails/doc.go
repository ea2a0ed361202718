// Package emails knows the form of e-mail addresses, and which of them are one: an account has
// one address, and whoever types it need not spell it as its owner did. It does no I/O; whether
// mail arrives at an address only a code tells.
package emails

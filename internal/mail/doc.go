// Package mail sends plain-text mails: by SMTP, or during development into a
// box in the database that everybody with access to the machine can look into.
//
// Sending takes seconds and fails often, so it is no part of a request: write
// the message into the SQL outbox and let a worker hand it to a [Sender].
package mail

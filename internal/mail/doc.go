// Package mail sends plain-text mails by SMTP. During development it stores them in a box in the database that every
// user of the machine can read.
//
// Sending takes seconds and fails often, so it must not be part of a request: write the message into the SQL outbox,
// and let a worker pass it to a [Sender].
package mail

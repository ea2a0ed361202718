// Package emails checks the format of e-mail addresses and normalizes them: different spellings of an address name the
// same account. It does no I/O; only a mailed code proves that an address works.
package emails

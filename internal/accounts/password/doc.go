// Package password checks, hashes and compares passwords.
//
// [Check] refuses what is guessed first, by the rules of NIST SP 800-63B: a password has a
// least length and no rules about kinds of characters; it is neither common nor made of
// what everybody knows of its owner. [Hasher] bounds how many passwords are hashed and
// how many wait, so that a flood of log-ins costs neither memory nor other people's time.
package password

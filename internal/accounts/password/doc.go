// Package password checks, hashes and compares passwords.
//
// [Check] refuses common passwords by the rules of NIST SP 800-63B: a password has a minimum length and no rules about
// kinds of characters; it must be neither common nor made of public facts of its owner. [Hasher] bounds the passwords
// that are hashed and that wait, so that a flood of log-ins costs neither memory nor the time of other users.
package password

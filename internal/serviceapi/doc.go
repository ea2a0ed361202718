// Package serviceapi has the operations that an app's own backend calls with a service key (package
// servicekeys) and no user can: it opens accounts for users whom the app knows by itself, looks them up, bans and
// deletes them, logs their devices in, sends messages in anybody's name, makes groups of whom it
// likes. What users do themselves the backend does in their names, by the header Stoa-Act-As
// (docs/decisions/0023-service-keys.md says why there are both).
//
// It holds nothing of its own: each operation is a verb of accounts, groups or messaging. What it does to an account is
// in that account's trail, with the key's name.
package serviceapi

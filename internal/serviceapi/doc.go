// Package serviceapi implements the operations that only an app's own backend can call, with a service key (package
// servicekeys). The backend creates accounts for the app's users, reads, bans and deletes them, logs in their devices,
// sends messages as any user, and creates groups. For operations of users the backend acts as a user, with the header
// Stoa-Act-As (see docs/decisions/0023-service-keys.md).
//
// The package stores no data: each operation calls accounts, groups or messaging. The trail of an account records each
// change with the name of the key.
package serviceapi

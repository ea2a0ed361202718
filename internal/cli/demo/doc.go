// Package demo fills an empty database for somebody who wants to look around: some dozen people,
// a year of their days, their friendships, and the chats of one of them, as whom the visitor logs
// in. [Fill] writes what the domains write, by what they export for it. Package cli has the command.
package demo

// Package demo fills an empty database for a visitor who wants to see what Stoa does: a cast of some dozen people, a year of
// their check-ins, their friendships, chats, groups, files, notices, rooms and a live stream. The visitor signs in as Ada.
//
// [Fill] imports the check-ins, with the freezes that the rules of package streak spend on missed days. Everything else the
// cast does over the API of a node whose clock is in the past, so that each domain applies its own rules. [Play] lets some of
// the cast connect to a running server: they are on line, watch a room, and publish a stream. Package cli has the command.
package demo

// Package demo fills an empty database for visitors who want to see what Stoa does. The demo has a cast of some dozen
// users with a year of check-ins. It also has friendships, chats, groups, files, notices, rooms and a live stream. The
// visitor logs in as Ada.
//
// [Fill] imports the check-ins, with the freezes that the rules of package streak spend on missed days. The cast does
// everything else through the API of a node whose clock is in the past, so that each domain applies its own rules.
// [Play] connects some members of the cast to a running server. They are online, watch a room, and publish a stream.
// Package cli has the command.
package demo

// Package supervise runs the long-lived parts of a process: it starts them in
// order, each when the one before it is ready, and stops them in the reverse
// order. One part that fails brings the whole group down; a panic counts as a
// failure. [Group.States] is there for a readiness page.
package supervise

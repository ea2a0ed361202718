// Package supervise runs the long-lived parts of a process. It starts them in order, each one when the part before it
// is ready, and stops them in reverse order. If one part fails, the whole group stops; a panic counts as a failure.
// [Group.States] returns the states for a readiness page.
package supervise

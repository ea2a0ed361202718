// Package bus tells the nodes of a deployment what happened on one of them, so
// that none misses an event without knowing it.
package bus

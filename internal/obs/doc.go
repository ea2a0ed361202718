// Package obs is what a running process shows of itself: log lines without
// secrets in them, metrics in a registry of their own, and which build it is.
// Nothing in it is global: loggers and registries are passed to the parts that need them.
package obs

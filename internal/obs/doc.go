// Package obs provides the observability of a process: log lines without secrets, metrics in a registry of their own,
// and the build information. It has no globals: loggers and registries are passed to the components that need them.
package obs

// Package reference writes the pages of docs/reference from what the program declares: its
// commands, settings, operations, keys and metrics, and the descriptions of its API and of its
// events for machines. The same program gives the same text. Package cli has the command.
package reference

// Package reference writes the pages of docs/reference from the declarations of the program: its commands, settings,
// operations, keys and metrics. It also writes the descriptions of the API and of its events for machines. The same
// program always gives the same text. Package cli has the command.
package reference

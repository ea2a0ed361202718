// Package integration tests what an app that has users of its own makes of whole servers: service keys,
// webhooks, log-in by the app's tokens, and pushes to those who are off line, as docs/integration.md and
// docs/notices.md promise them. Beside package wholeserver, so that the two run at the same time. There is no code in it
// but tests.
package integration

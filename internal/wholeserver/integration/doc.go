// Package integration tests whole servers as an app with its own users integrates them: service keys, webhooks, log-in
// by the app's tokens, and pushes to offline users. docs/integration.md and docs/notices.md describe this behaviour.
// The package is separate from wholeserver so that the two run at the same time. It contains only tests.
package integration

// Package deploy has the files for production: settings for Redis and for proxies, alerts for Prometheus and a
// dashboard for Grafana. It contains no code except tests. They run the unchanged files with the real programs. Package
// e2e tests the files of the proxies.
package deploy
